# SPDX-License-Identifier: Apache-2.0

"""A cloud of three hosts and two pools, and the command that audits it."""

from collections.abc import Mapping
import dataclasses
import json
import pathlib
from typing import Any

from placement import db_api

from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.api import responses
from tests.functional.virt import commands
from tests.functional.virt import pools
from tests.unit.cmd.osc import shells

RACK1 = pools.POOL
RACK2 = dataclasses.replace(pools.POOL, name='rack2')

#: Units of either pool.
TOTAL = 100


class AuditTestCase(commands.Commands, pools.PoolTestCase):
    """host1 and host2 reach rack1, and host3 reaches rack2."""

    def setUp(self) -> None:
        super().setUp()
        self.flags(cores=-1, instances=-1, ram=-1, group='quota')
        self.set_pool(total=TOTAL)
        self.publish_when_read()
        self.client = placement_client.Client(self.make_placement())
        self.install()

    def migrate_live(self, server: Any, host: str | None = None) -> Any:
        return self.settle(super().migrate_live(server, host))

    def confirm(self, server: Any) -> Any:
        return self.settle(super().confirm(server))

    def revert(self, server: Any, state: str = 'ACTIVE') -> Any:
        return self.settle(super().revert(server, state))

    def find_pools_file(self, host: str) -> pathlib.Path:
        path = super().find_pools_file(host)
        if host == 'host3':
            path = self.folder / 'other.yaml'
            text = pools.POOLS.format(path=self.path)
            path.write_text(text.replace('name: rack1', 'name: rack2'))
        return path

    # -- what a test does --------------------------------------------------

    def audit(self, *arguments: str) -> tuple[int, list[Any]]:
        """Return the exit status and the rows of the command."""
        status, output, errors = shells.run(
            ['extended', 'resource', 'audit', '-f', 'json', *arguments]
        )
        self.assertNotIn('Traceback', errors)
        self.assertTrue(output, errors)
        return status, json.loads(output)

    def assert_left_alone(self) -> None:
        """The command finds nothing, and changes nothing."""
        before = self.read_records()
        self.assertNotEqual([], before['allocations'])

        self.assertEqual((0, []), self.audit())
        self.assertEqual((0, []), self.audit('--in-progress'))
        journal = self.folder / 'journal'
        self.assertEqual(
            (0, []), self.audit('--repair', '--journal', str(journal))
        )
        self.assertEqual('', journal.read_text())

        self.assertEqual(before, self.read_records())

    def find_node(self, host: str) -> str:
        return str(self.get_host(host).node.uuid)

    def find_provider(self, host: str, key: str) -> str:
        return host_provider.make_rp_uuid(self.find_node(host), key)

    def find_seats(self, host: str) -> str:
        """Return the provider of a host that has its seats."""
        [rp_uuid] = [
            rp_uuid
            for rp_uuid, name in self.get_host(host).view.tracked
            if name == pools.SEAT
        ]
        return str(rp_uuid)

    def allocate(
        self, consumer: str, resources: Mapping[str, Mapping[str, int]]
    ) -> None:
        """Set what a consumer has of some providers; what is 0 is deleted."""
        held = self.client.get_allocations(consumer)
        merged = {
            rp_uuid: {
                **held.resources.get(rp_uuid, {}),
                **resources.get(rp_uuid, {}),
            }
            for rp_uuid in {**held.resources, **resources}
        }
        left = {
            rp_uuid: {k: v for k, v in given.items() if v}
            for rp_uuid, given in merged.items()
        }
        self.client.put_allocations(
            responses.Allocations(
                consumer_uuid=consumer,
                resources={k: v for k, v in left.items() if v},
                project_id=held.project_id or 'project',
                user_id=held.user_id or 'user',
                generation=held.generation,
            )
        )

    def read_records(self) -> dict[str, list[Any]]:
        """Return table -> rows, of all that placement has."""
        engine = db_api.placement_context_manager.reader.get_engine()
        with engine.connect() as connection:
            tables = connection.exec_driver_sql(
                "SELECT name FROM sqlite_master WHERE type = 'table'"
            ).scalars()
            return {
                name: sorted(
                    connection.exec_driver_sql(f'SELECT * FROM {name}'),
                    key=repr,
                )
                for name in tables.all()
            }

    def read_placement(self) -> Any:
        """Return all that placement shows, without its locks."""
        found = {}
        for one in self._get_all_providers():
            path = f'/resource_providers/{one["uuid"]}'
            found[one['uuid']] = [
                one,
                *(
                    self.placement.get(f'{path}/{noun}', version='1.39').body
                    for noun in (
                        'inventories',
                        'traits',
                        'aggregates',
                        'allocations',
                        'usages',
                    )
                ),
            ]
        return _without_generations(found)


def _without_generations(found: Any) -> Any:
    """Return what placement has but for its locks."""
    if isinstance(found, dict):
        return {
            key: _without_generations(value)
            for key, value in found.items()
            if not key.endswith('generation')
        }
    if isinstance(found, list):
        return sorted(map(_without_generations, found), key=json.dumps)
    return found
