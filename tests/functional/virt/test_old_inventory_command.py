# SPDX-License-Identifier: Apache-2.0

"""The command that lists what is to be moved, and moves it back."""

import json
from typing import Any

from nova_ext_resources.cmd.osc.resource import migrate
from nova_ext_resources.objects import alarm
from tests.functional.virt import old_inventory
from tests.unit.cmd.osc import shells
from tests.unit.cmd.osc import test_pages

PAGE = 'admin/old_inventory.rst'

WAYS, TOTAL = old_inventory.WAYS, old_inventory.TOTAL


class CommandTest(old_inventory.OneHostTestCase):
    def run_migrate(self, *words: str) -> tuple[int, str, str]:
        """Run the command; return status, output and errors."""
        return shells.run(['extended', 'resource', 'migrate', *words])

    def list_rows(self, *words: str) -> list[dict[str, Any]]:
        """Return what the command lists."""
        _status, output, errors = self.run_migrate(*words, '-f', 'json')
        self.assertEqual('', errors)
        return list(json.loads(output))

    def assert_row(self, state: str, *words: str, **fields: Any) -> None:
        [row] = self.list_rows('--resource-class', WAYS, *words)
        self.assertEqual(state, row['State'])
        self.assertEqual(fields, {name: row[name] for name in fields})

    def test_there_and_back(self) -> None:
        [server] = self.start_with_servers(4)
        uuid, name = server['id'], server['name']
        self.assert_row('not moved', **{'Held There': {name: 4}})
        status, _output, _errors = self.run_migrate(
            '--check', '--resource-class', WAYS
        )
        self.assertEqual(1, status)
        self.start_ours('host1')
        self.assert_row('blocked', **{'Compute Node': 20, 'Below': 0})
        self.path.unlink()
        self.restart('host1')
        self.assert_moved(16, 4)
        self.wait_until(lambda: self.get_ext().host.entries)
        entry = self.get_ext().host.find_entry(uuid)
        # All classes of this package.
        self.assertIn(
            WAYS, [one['Resource Class'] for one in self.list_rows()]
        )
        self.assertEqual(0, self.run_migrate('--check')[0])
        back = '--revert', '--host', 'host1', '--resource-class', WAYS

        status, _output, errors = self.run_migrate(*back)

        self.assertEqual(1, status)
        self.assertIn('nova-compute of host host1 is up', errors)
        self.force_down('host1')
        status, _output, errors = self.run_migrate(*back)
        self.assertEqual(1, status)
        self.assertIn('nova-compute of host host1 is forced down', errors)
        self.force_down('host1', is_down=False)
        self.assert_moved(16, 4)
        self.stop('host1')
        self.set_down('host1')
        self.assertEqual((0, ''), self.run_migrate(*back)[::2])
        self.assertEqual({'host1': (16, 4)}, self.read_offers())
        self.assertEqual({'host1': 4}, self.list_held(uuid))
        status, _output, errors = self.run_migrate(*back)
        self.assertEqual(1, status)
        self.assertIn('nothing was changed', errors)
        # As without this package, for a while.
        self.path.write_text(old_inventory.FILE.format(total=TOTAL))
        self.set_down('host1', is_down=False)
        self.start_plain('host1')
        other = self.boot(self.make_ways_flavor(5))
        self.assertEqual({'host1': 5}, self.list_held(other['id']))
        self.stop('host1')
        self.path.unlink()

        self.start_ours('host1')

        self.assert_moved(11, 9)
        host = self.get_ext().host
        self.wait_until(lambda: len(host.entries) == 2)
        self.assertEqual(entry.assignments, host.find_entry(uuid).assignments)
        self.assertEqual({}, self.list_alarms())

    def test_who_publishes_all_the_same(self) -> None:
        """A unit is offered once, whatever runs after the command."""
        self.start_with_servers(4)
        self.path.unlink()
        self.start_ours('host1')
        self.assert_moved(16, 4)
        self.set_down('host1')

        migrate.revert(self.client, self.make_nova(), 'host1', [WAYS])

        for _ in range(2):
            self.publish(self.services['host1'])
            offers = self.read_offers()
            self.assertEqual((16, 4), offers.pop('host1'))
            self.assertEqual({(0, 0)}, {*offers.values()})
        self.assertIn((alarm.OLD_INVENTORY, WAYS), self.list_alarms())

    def test_who_writes_meanwhile(self) -> None:
        self.start_with_servers(4)
        self.path.unlink()
        self.start_ours('host1')
        self.assert_moved(16, 4)
        self.stop('host1')
        self.set_down('host1')
        original = self.client.reshape
        attempts = []

        def reshape(*args: Any) -> None:
            attempts.append(args)
            if len(attempts) == 1:
                self.write_by_others()
            original(*args)

        self.client.reshape = reshape  # type: ignore[assignment,method-assign]
        migrate.revert(self.client, self.make_nova(), 'host1', [WAYS])

        self.assertEqual(2, len(attempts))
        self.assertEqual({'host1': (16, 4)}, self.read_offers())


class HalfMovedTest(old_inventory.OldInventoryTestCase):
    """One host is moved, the other one has not got this package yet."""

    def setUp(self) -> None:
        super().setUp()
        self.db = self.boot(self.make_ways_flavor(4), host='host1', name='db')
        self.web = self.boot(
            self.make_ways_flavor(5), host='host2', name='web'
        )
        self.stop('host1')
        self.path.unlink()
        self.start_ours('host1')
        self.wait_until(lambda: 'host1' not in self.read_offers())
        self.wait_until(lambda: self.get_ext().host.entries)
        self.publish(self.services['host1'])

    def run_command(self, *words: str) -> str:
        status, output, errors = shells.run(['extended', 'resource', *words])
        self.assertEqual((0, ''), (status, errors))
        return output

    def test_both_hosts_are_counted(self) -> None:
        flavor = self.make_ways_flavor(6)

        explained = self.run_command('explain', '--flavor', flavor)
        simulated = self.run_command('simulate', '--flavor', flavor)

        for host in self.HOSTS:
            self.assertIn(f'{host}: fits', explained)
            self.assertIn(f'{host}: 2, by amounts alone', simulated)
        self.assertIn('4 more servers', simulated)

    def test_servers_start_on_both_hosts(self) -> None:
        flavor = self.make_ways_flavor(6)

        below, above = (self.boot(flavor, host=one) for one in self.HOSTS)

        [name] = self.list_held(below['id'])
        self.assertIn('host1_L3_', name)
        self.assertEqual({'host2': 6}, self.list_held(above['id']))
        held = [self._show_ways(one['id']) for one in (below, above)]
        self.assertEqual([6, 6], held)

    def _show_ways(self, server: str) -> int:
        output = self.run_command('usage', 'show', server, '-f', 'json')
        return sum(
            one['Amount']
            for one in json.loads(output)
            if one['Resource Class'] == WAYS
        )

    def test_the_page(self) -> None:
        seen = 0
        for command, expected in test_pages.read_page(PAGE):
            words = command.split()
            if words[:4] != ['openstack', 'extended', 'resource', 'migrate']:
                continue
            if '--revert' not in words:
                seen += 1
                output = self.run_command(*words[3:])
                self.assertEqual(expected.split(), output.split())
        self.assertEqual(1, seen)
