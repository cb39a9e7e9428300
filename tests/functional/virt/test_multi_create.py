# SPDX-License-Identifier: Apache-2.0

"""Several servers of one request, on real Nova services."""

from typing import Any

import fixtures
from nova.compute import manager
from nova.compute import task_states
from nova.compute import vm_states
from nova import objects
from nova.scheduler.client import report
from nova.virt import fake

from nova_ext_resources.virt.facts import servers
from tests.functional.virt import base
from tests.functional.virt import moving

#: Ways of each cache that servers may have.
_WAYS = 8


class MultiCreateTest(base.NovaTestCase):
    def setUp(self) -> None:
        super().setUp()
        pools = {'os': 1, 'guarantee': _WAYS, 'besteffort': 1, 'shared': 1}
        self.services = {
            host: self.start_host(host, pools=pools)
            for host in ('host1', 'host2')
        }

    def boot_together(
        self, flavor: str, count: int, state: str = 'ACTIVE'
    ) -> list[Any]:
        """Boot servers in one request."""
        body = self._build_server(flavor_id=flavor, networks='none')
        body.update(min_count=count, max_count=count)
        self.api.post_server({'server': body})
        return [
            self._wait_for_state_change(server, state)
            for server in self.api.get_servers(detail=False)
        ]

    def test_servers_that_fill_every_cache_boot_in_one_request(self) -> None:
        servers = self.boot_together(self.make_pinned_flavor(4), 8)

        self.assertEqual(8, len(servers))
        for server in servers:
            service = self.services[server['OS-EXT-SRV-ATTR:host']]
            self.host = service.driver._ext.host
            self.assert_in_force(server, 4)
            self.assert_allocated_as_held(server)
        for service in self.services.values():
            held = [
                int(one.units['mask'], 16)
                for entry in service.driver._ext.host.entries.values()
                for one in entry.assignments
                if one.resource_class == 'CUSTOM_LLC_WAYS'
            ]
            self.assertEqual(4, len(held))

    def test_one_more_than_there_is_room_for_refuses_all(self) -> None:
        self.boot_together(self.make_pinned_flavor(4), 9, 'ERROR')

        for service in self.services.values():
            self.assertEqual({}, service.driver._ext.host.entries)


class FindBuildingTest(base.NovaTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.start_host('host1')
        uuid = self.boot(self.make_flavor())['id']
        self.instance = moving.find_instance(uuid)

    def is_building(self, **fields: Any) -> bool:
        given = {
            'vm_state': vm_states.BUILDING,
            'task_state': task_states.SPAWNING,
            'host': 'host1',
            'launched_on': 'host1',
        }
        self.instance.update({**given, **fields})
        self.instance.save()
        uuid = self.instance.uuid
        found = servers.find_building('host1', frozenset({uuid, 'other'}))
        self.assertLessEqual(found, {uuid})
        return bool(found)

    def test_one_that_is_built_here_or_may_be(self) -> None:
        self.assertTrue(self.is_building())
        # Nova has not claimed yet.
        self.assertTrue(self.is_building(host=None, launched_on=None))

    def test_one_that_is_not(self) -> None:
        for fields in (
            {'vm_state': vm_states.ACTIVE},
            {'vm_state': vm_states.ERROR, 'host': None},
            {'task_state': task_states.DELETING},
            {'host': 'host2'},
            # Nova has given its claim up.
            {'host': None},
            # It is about to delete its allocations.
            {'host': None, 'launched_on': None, 'availability_zone': None},
        ):
            with self.subTest(fields=fields):
                self.assertFalse(self.is_building(**fields))

    def test_one_that_is_deleted(self) -> None:
        self.assertTrue(self.is_building())
        self.instance.destroy()

        uuids = frozenset({self.instance.uuid})

        self.assertEqual(set(), servers.find_building('host1', uuids))


class RescheduledTest(base.NovaTestCase):
    """The first host that builds a server fails, and Nova tries the other."""

    def setUp(self) -> None:
        super().setUp()
        self.seen: list[tuple[str, bool]] = []
        for host in ('host1', 'host2'):
            self.start_host(host)
        for owner, name, step in (
            (manager.ComputeManager, '_build_and_run_instance', 'build'),
            (fake.FakeDriver, 'spawn', 'spawn'),
            (manager.ComputeManager, '_cleanup_allocated_networks', 'clean'),
            (
                report.SchedulerReportClient,
                'delete_allocation_for_instance',
                'delete',
            ),
        ):
            self.watch(owner, name, step)

    def watch(self, owner: Any, name: str, step: str) -> None:
        """Ask in each step of Nova. The first guest cannot be made."""
        call = getattr(owner, name)

        def ask(
            subject: Any, context: Any, one: Any, *args: Any, **kw: Any
        ) -> Any:
            uuid = getattr(one, 'uuid', one)
            host = objects.Instance.get_by_uuid(context, uuid).host or 'host1'
            found = servers.find_building(host, frozenset({uuid}))
            self.seen.append((step, bool(found)))
            if [one for one, _ in self.seen] == ['build', 'spawn']:
                raise OSError('no disk')
            return call(subject, context, one, *args, **kw)

        self.useFixture(fixtures.MockPatchObject(owner, name, ask))

    def test_from_its_failure_to_the_next_host_it_is_not_building(
        self,
    ) -> None:
        self.boot(self.make_flavor())

        self.assertEqual(
            [
                ('build', True),
                ('spawn', True),
                ('clean', False),
                ('delete', False),
                ('build', True),
                ('spawn', True),
            ],
            self.seen,
        )
