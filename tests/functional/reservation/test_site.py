# SPDX-License-Identifier: Apache-2.0

"""Reservations of hosts that a real placement has, from the command line."""

import io
import json
import os
import pathlib
import shlex
from typing import Any

import fixtures
from openstackclient import shell
from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import responses
from nova_ext_resources.reservation import host as host_mod
from nova_ext_resources.reservation.site import hosts
from tests.functional import base

SEATS = 'CUSTOM_LICENCE_SEAT'


class SiteTestCase(base.PlacementTestCase):
    """Two hosts: ``one`` with a device, ``two`` in the zone ``south``.

    A third provider shares its disk with ``two``.
    """

    def setUp(self) -> None:
        super().setUp()
        self.client.ensure_resource_class(SEATS)
        self.client.ensure_trait('CUSTOM_FAST')
        for name, rp_uuid in (
            ('one', uuids.one),
            ('two', uuids.two),
            ('pool', uuids.pool),
        ):
            self.make_root(rp_uuid, name)
        self.client.ensure_provider(uuids.device, 'one_device', uuids.one)
        ratio = class_inventory.Inventory(
            total=4, reserved=1, allocation_ratio=2.0, max_unit=4
        )
        self.set_inventories(uuids.one, VCPU=ratio)
        self.set_inventories(
            uuids.two, VCPU=class_inventory.Inventory(total=8)
        )
        self.set_inventories(
            uuids.device, **{SEATS: class_inventory.Inventory(total=3)}
        )
        self.set_inventories(
            uuids.pool, DISK_GB=class_inventory.Inventory(total=9)
        )
        self.set('traits', uuids.device, ['CUSTOM_FAST'])
        self.set('traits', uuids.pool, [host_provider.SHARING_TRAIT])
        for rp_uuid in (uuids.two, uuids.pool):
            self.set('aggregates', rp_uuid, [uuids.south])

    def set(self, noun: str, rp_uuid: str, content: list[str]) -> None:
        generation = self.client.get_provider(rp_uuid).generation or 0
        getattr(self.client, f'set_{noun}')(rp_uuid, content, generation)

    def set_inventories(
        self, rp_uuid: str, **inventories: class_inventory.Inventory
    ) -> None:
        generation = self.client.get_provider(rp_uuid).generation or 0
        self.client.set_inventories(rp_uuid, inventories, generation)

    def allocate(self, consumer: str, **resources: Any) -> None:
        self.client.put_allocations(
            responses.Allocations(
                consumer_uuid=consumer,
                project_id=uuids.project,
                user_id=uuids.user,
                **resources,
            )
        )


class HostsTest(SiteTestCase):
    def read(
        self, taken: hosts.Taken | None = None
    ) -> dict[str, host_mod.Host]:
        found = hosts.list_hosts(
            self.client, {uuids.south: 'south'}, 'nova', taken
        )
        return {one.name: one for one in found}

    def list_states(self, host: host_mod.Host) -> dict[str, tuple[int, int]]:
        return {
            name: (one.state.free, one.state.used)
            for (_rp_uuid, name), one in host.view.tracked.items()
        }

    def test_each_tree_is_a_host_in_its_zone(self) -> None:
        found = self.read()

        self.assertEqual(
            {'one': 'nova', 'two': 'south'},
            {name: one.zone for name, one in found.items()},
        )
        self.assertEqual(
            ['one', 'one_device'],
            [one.name for one in found['one'].providers],
        )
        self.assertIn('CUSTOM_FAST', found['one'].providers[1].traits)

    def test_capacity_has_ratio_and_reserve(self) -> None:
        found = self.read()

        self.assertEqual(
            {'VCPU': (6, 0), SEATS: (3, 0)}, self.list_states(found['one'])
        )

    def test_a_sharing_provider_belongs_to_its_aggregate(self) -> None:
        found = self.read()

        self.assertEqual(
            {'VCPU': (8, 0), 'DISK_GB': (9, 0)},
            self.list_states(found['two']),
        )

    def test_a_sharing_provider_is_no_host(self) -> None:
        self.assertEqual(
            {'one': True, 'two': True}, hosts.list_enabled(self.client)
        )

    def test_what_a_server_holds_of_its_slot_is_not_used(self) -> None:
        self.allocate(
            uuids.first,
            resources={uuids.one: {'VCPU': 3}, uuids.device: {SEATS: 1}},
        )
        self.allocate(uuids.second, resources={uuids.one: {'VCPU': 1}})
        slot = {(uuids.one, 'VCPU'): 2, (uuids.device, SEATS): 2}

        found = self.read({uuids.first: slot, uuids.third: slot})

        self.assertEqual(
            {'VCPU': (4, 2), SEATS: (3, 0)}, self.list_states(found['one'])
        )

    def test_what_consumers_hold_is_used(self) -> None:
        for number, consumer in enumerate((uuids.first, uuids.second), 1):
            self.allocate(
                consumer,
                resources={
                    uuids.one: {'VCPU': number},
                    uuids.device: {SEATS: 1},
                },
            )

        found = self.read()

        self.assertEqual(
            {'VCPU': (3, 3), SEATS: (1, 2)}, self.list_states(found['one'])
        )

    def test_a_host_that_is_disabled_is_left_out(self) -> None:
        self.set('traits', uuids.one, [hosts.DISABLED_TRAIT])

        self.assertEqual(['two'], [*self.read()])

    def test_a_provider_that_goes_meanwhile_has_nothing(self) -> None:
        (one, _two) = self.read().values()
        assert one.read_inventories is not None
        self.client.delete_provider(uuids.device)

        found = one.read_inventories({uuids.one, uuids.device})

        self.assertEqual([uuids.one], [*found])

    def test_placement_that_is_away_for_a_moment(self) -> None:
        self.app.fail('GET', '/traits', 2)

        self.assertEqual(['one', 'two'], [*self.read()])


class CommandLineTest(SiteTestCase):
    """The ``openstack`` program itself, in this process."""

    def setUp(self) -> None:
        super().setUp()
        folder = self.make_folder()
        self.config = os.path.join(folder, 'nova.conf')
        pathlib.Path(self.config).write_text(
            f'[DEFAULT]\nstate_path = {folder}\n'
            '[placement]\nauth_type = admin_token\ntoken = admin\n'
            f'endpoint = {self.endpoint}\n'
        )
        self.useFixture(fixtures.EnvironmentVariable('HOME', folder))
        for name in [one for one in os.environ if one.startswith('OS_')]:
            self.useFixture(fixtures.EnvironmentVariable(name))

    def ask(self, line: str) -> Any:
        """Run a command that must succeed; return what it prints as JSON."""
        status, output, errors = self.run_command(f'{line} -f json')
        self.assertEqual(0, status, errors)
        return json.loads(output)

    def run_command(self, line: str) -> tuple[int, str, str]:
        arguments = [*shlex.split(line), '--config-file', self.config]
        output, errors = io.StringIO(), io.StringIO()
        with (
            fixtures.MonkeyPatch('sys.stdout', output),
            fixtures.MonkeyPatch('sys.stderr', errors),
        ):
            status = shell.main(['extended', 'reservation', *arguments])
        return int(status), output.getvalue(), errors.getvalue()

    def test_from_the_order_to_the_end(self) -> None:
        self.allocate(uuids.server, resources={uuids.two: {'VCPU': 2}})

        made = self.ask(
            f'create lease --resource VCPU=2 --resource {SEATS}=1 '
            '--property trait:CUSTOM_FAST=required --servers 3 '
            '--start +1h --duration 2h'
        )
        status, _output, errors = self.run_command(
            f'create more --resource {SEATS}=1 --start +2h --duration 1h'
        )
        (listed,) = self.ask('list')
        amounts = self.ask('capacity --from +1h --duration 1h')
        changed = self.ask('update lease --servers 1')
        again = self.ask(
            f'create more --resource {SEATS}=2 --start +2h --duration 1h'
        )
        gone = self.ask('cancel lease')

        self.assertEqual({'one': 3}, made['hosts'])
        self.assertNotEqual(0, status)
        self.assertIn('None can be had in that time', errors)
        self.assertIn('lease', listed['Name'])
        self.assertEqual(
            {('VCPU', 14, 2, 6), (SEATS, 3, 0, 3), ('DISK_GB', 9, 0, 0)},
            {
                (
                    one['Resource Class'],
                    one['Total'],
                    one['Used'],
                    one['Reserved'],
                )
                for one in amounts
            },
        )
        self.assertEqual({'one': 1}, changed['hosts'])
        self.assertEqual({'one': 1}, again['hosts'])
        self.assertEqual('cancelled', gone['state'])

    def test_what_one_server_may_have_of_a_provider(self) -> None:
        few = class_inventory.Inventory(total=8, max_unit=2)
        self.set_inventories(uuids.two, VCPU=few)

        status, _output, errors = self.run_command(
            'create x --resource VCPU=3 --servers 3 --start +1h --duration 1h'
        )
        found = self.ask('capacity --resource VCPU=3 --from +1h --duration 1h')

        self.assertNotEqual(0, status)
        self.assertIn('2 can be had in that time', errors)
        self.assertIn('one server can request at most 2', errors)
        self.assertEqual([2], [one['Servers'] for one in found])

    def test_requests_are_as_many_however_many_hosts_there_are(self) -> None:
        for command in (
            'create {} --resource VCPU=1 --start +1h --duration 1h',
            'create {} --resource VCPU=400 --start +1h --duration 1h',
            'capacity --from +1h --duration 1h',
        ):
            few = self.count_requests(command.format(f'few-{self.hosts}'))
            self.make_hosts(15)
            many = self.count_requests(command.format(f'many-{self.hosts}'))

            self.assertEqual(few, many, command)
            self.assertLessEqual(many, 20, command)

    hosts = 0

    def make_hosts(self, number: int) -> None:
        """Make hosts with two devices each, and servers on them."""
        for _number in range(number):
            self.hosts += 1
            name = f'more-{self.hosts}'
            root = getattr(uuids, name)
            self.make_root(root, name)
            self.set_inventories(root, VCPU=class_inventory.Inventory(total=8))
            self.allocate(
                getattr(uuids, f'server {name}'),
                resources={root: {'VCPU': 1}},
            )
            for device in ('a', 'b'):
                rp_uuid = getattr(uuids, f'{name} {device}')
                self.client.ensure_provider(rp_uuid, f'{name}_{device}', root)
                self.set_inventories(
                    rp_uuid, **{SEATS: class_inventory.Inventory(total=3)}
                )

    def count_requests(self, line: str) -> int:
        self.forget_requests()
        self.run_command(line)
        return len(self.app.requests)

    def test_a_flavor_needs_nova(self) -> None:
        status, _output, errors = self.run_command('create x --flavor large')

        self.assertNotEqual(0, status)
        self.assertIn('name amounts in place of a flavor', errors)

    def test_a_zone_needs_nova(self) -> None:
        status, _output, errors = self.run_command(
            'create x --resource VCPU=1 --zone south'
        )

        self.assertNotEqual(0, status)
        self.assertIn('The Compute API did not', errors)
        self.assertIn('and no zone', errors)
