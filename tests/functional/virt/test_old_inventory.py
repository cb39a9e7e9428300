# SPDX-License-Identifier: Apache-2.0

"""What the compute node itself offers is moved below it, as it is used."""

import functools
from typing import Any

from nova_ext_resources import exception
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import planned_hold
from tests.functional.virt import old_inventory

WAYS = old_inventory.WAYS


class MoveTest(old_inventory.OldInventoryTestCase):
    """Two hosts, of which one is moved."""

    def test_a_host_with_servers(self) -> None:
        flavor = self.make_ways_flavor(4)
        servers = [self.boot(flavor, host='host1') for _ in range(3)]
        moved = servers[2]
        self.admin_api.post_server_action(
            moved['id'],
            {'resize': {'flavorRef': self.make_ways_flavor(5)}},
        )
        self._wait_for_state_change(moved, 'VERIFY_RESIZE')
        [move] = self._list_moves(moved)
        self.assertEqual({'host1': (8, 12)}, self.read_offers())
        self.stop('host1')
        self.path.unlink()
        watcher = self.useFixture(
            old_inventory.Watcher(self.client, self.get_root('host1'))
        )

        self.start_ours('host1')

        for server in servers[:2]:
            self.wait_until(functools.partial(self._is_applied, server['id']))
        watcher.stop()
        self.assertEqual('', watcher.error)
        # Nothing is free twice, nothing is lost.
        self.assertEqual(
            {(8, 12)},
            {
                tuple(map(sum, zip(*one.values(), strict=True)))
                for one in watcher.seen
            },
            watcher.seen,
        )
        self.assertIn('host1', watcher.seen[0])
        self.assertNotIn('host1', watcher.seen[-1])
        for consumer in (servers[0]['id'], servers[1]['id'], move):
            [(name, amount)] = self.list_held(consumer).items()
            self.assertIn('host1_L3_', name)
            self.assertEqual(4, amount)
        for server in servers[:2]:
            self._assert_units(server)
        self.assertEqual({}, self.list_alarms())
        # The way back is open.
        self.admin_api.post_server_action(moved['id'], {'revertResize': None})
        self._wait_for_state_change(moved, 'ACTIVE')
        self.wait_until(functools.partial(self._is_applied, moved['id']))
        self._assert_units(moved)
        self.assertEqual({}, self.list_held(move))
        self.assertEqual({}, self.list_alarms())

    def _is_applied(self, uuid: str) -> bool:
        entry = self.get_ext().host.find_entry(uuid)
        return entry is not None and entry.state is assignment.State.APPLIED

    def _list_moves(self, server: Any) -> list[str]:
        path = f'/os-migrations?instance_uuid={server["id"]}'
        found = self.admin_api.api_get(path).body['migrations']
        return [one['uuid'] for one in found]

    def _assert_units(self, server: Any) -> None:
        """Compare ledger and placement."""
        entry = self.get_ext().host.find_entry(server['id'])
        held = {
            f'host1_{one.rp_key}': one.amount
            for one in entry.assignments
            if one.resource_class == WAYS
        }
        self.assertEqual(self.list_held(server['id']), held)


class StayTest(old_inventory.OneHostTestCase):
    """What cannot be moved is offered where it is, and nowhere else."""

    def test_what_does_not_fit(self) -> None:
        servers = self.start_with_servers(7, 7, 5)
        self.path.unlink()

        service = self.start_ours('host1')

        self.assert_stays(1, 19, 'no provider has room')
        text = self.list_alarms()[alarm.OLD_INVENTORY, WAYS]
        self.assertIn(f'server {servers[2]["id"]} holds {WAYS} 5', text)
        # None is started without its resources.
        self.boot(self.make_ways_flavor(1), 'ERROR')
        # What is there goes on as before.
        self.act(servers[0], 'reboot', type='HARD')
        self._wait_for_state_change(servers[0], 'ACTIVE')
        self._delete_server(servers[2])
        self.assert_stays(6, 14, 'no provider has room')

        self.restart('host1')

        self.assert_moved(6, 14)
        host = self.get_ext().host
        self.wait_until(lambda: len(host.entries) == 2)
        self.assertIsNot(service, self.services['host1'])

    def test_what_the_file_still_names(self) -> None:
        self.start_with_servers(4)

        self.start_ours('host1')

        self.assert_stays(16, 4, f'{self.path}: remove {WAYS}')
        self.path.unlink()
        self.restart('host1')
        self.assert_moved(16, 4)

    def test_a_file_that_comes_later(self) -> None:
        """Nova adds the class again when it is below already."""
        self.start_with_servers(4)
        text = self.path.read_text()
        self.path.unlink()
        self.start_ours('host1')
        self.assert_moved(16, 4)
        self.path.write_text(text)
        watcher = self.useFixture(
            old_inventory.Watcher(self.client, self.get_root('host1'))
        )
        self.wait_until(lambda: watcher.seen)

        self.restart('host1')

        self.wait_until(lambda: 'host1' in self.read_offers())
        # It looks now and then: what is offered now it sees at its next look.
        self.wait_until(
            lambda: sum(f for f, _held in watcher.seen[-1].values()) == 20
        )
        watcher.stop()
        free = {sum(f for f, _held in one.values()) for one in watcher.seen}
        # Closed first, below, which is soon over; then offered by the compute
        # node. Never both.
        self.assertEqual({16, 20}, free - {0})
        self.assertIn(
            str(self.path), self.list_alarms()[alarm.OLD_INVENTORY, WAYS]
        )

    def test_a_user_that_may_not(self) -> None:
        self.start_with_servers(4)
        self.path.unlink()
        refusing = old_inventory.Refusing(
            lambda: old_inventory.make_answer(403, 'Access was denied')
        )
        with refusing:
            self.start_ours('host1')

        self.assertEqual(1, refusing.count)
        self.assert_stays(16, 4, 'the role "service"')
        self.restart('host1')
        self.assert_moved(16, 4)

    def test_an_answer_that_is_not_expected(self) -> None:
        self.start_with_servers(4)
        self.path.unlink()
        root = self.get_root()
        detail = f'{WAYS} of provider {root} cannot be allocated'
        with old_inventory.Refusing(
            lambda: old_inventory.make_answer(409, detail)
        ):
            self.start_ours('host1')

        self.assert_stays(16, 4, f'{WAYS} of provider host1 ({root}) cannot')
        text = self.list_alarms()[alarm.OLD_INVENTORY, WAYS]
        self.assertNotIn('role', text)

    def test_a_user_that_may_not_and_what_does_not_fit(self) -> None:
        """Nova sends the request all the same."""
        self.start_with_servers(7, 7, 5)
        self.path.unlink()
        with old_inventory.Refusing(
            lambda: old_inventory.make_answer(403, 'Access was denied')
        ) as refusing:
            self.start_ours('host1')

        self.assertEqual(1, refusing.count)
        self.assert_stays(1, 19, 'no provider has room')

    def test_a_class_that_no_plugin_reports(self) -> None:
        [server] = self.start_with_servers(4)
        self.path.unlink()
        self.host_options = old_inventory.NOTHING

        service = self.start_ours('host1')

        self.publish(service)
        self.assertEqual({'host1': (16, 4)}, self.read_offers())
        text = self.list_alarms()[alarm.OLD_INVENTORY, WAYS]
        self.assertIn(f'no plugin reports {WAYS}', text)
        self.host_options = ''
        self.restart('host1')
        self.assert_moved(16, 4)
        self.wait_until(lambda: server['id'] in self.get_ext().host.entries)

    def test_a_class_that_no_plugin_reports_and_no_server_holds(self) -> None:
        """Nova removes it, as without this package."""
        [server] = self.start_with_servers(4)
        self.path.unlink()
        self.host_options = old_inventory.NOTHING
        service = self.start_ours('host1')

        self._delete_server(server)

        self.publish(service)
        self.assertEqual({}, self.read_offers())
        self.assertEqual({}, self.list_alarms())

    def test_others_that_write_once(self) -> None:
        self.start_with_servers(4)
        self.path.unlink()
        writes = iter([self.write_by_others])
        with old_inventory.Refusing(
            lambda: next(writes, lambda: None)()
        ) as refusing:
            self.start_ours('host1')

        self.assertEqual(2, refusing.count)
        self.assert_moved(16, 4)

    def test_others_that_write_all_the_time(self) -> None:
        self.start_with_servers(4)
        self.path.unlink()
        with old_inventory.Refusing(self.write_by_others) as refusing:
            self.start_ours('host1')

        self.assertEqual(4, refusing.count)
        self.assert_stays(16, 4, 'other software wrote')
        self.restart('host1')
        self.assert_moved(16, 4)

    def test_room_that_is_held_below(self) -> None:
        """By consumers of which the ledger has nothing."""
        text = self.path.read_text()
        self.stop('host1')
        self.path.unlink()
        self.start_ours('host1')
        self.assert_moved(20, 0)
        below = {name: uuid for uuid, name in self.list_below().items()}
        held = self._hold(below['host1_L3_0'], 8)
        self.stop('host1')
        self.path.write_text(text)
        self.start_plain('host1')
        self.start_with_servers(4)
        self.path.unlink()

        self.start_ours('host1')

        self.assertEqual((16, 4), self.read_offers()['host1'])
        text = self.list_alarms()[alarm.OLD_INVENTORY, WAYS]
        self.assertIn('no provider has room', text)
        self.client.delete_allocations(held)
        self.restart('host1')
        self.assert_moved(16, 4)

    def _hold(self, rp_uuid: str, ways: int) -> str:
        consumer = planned_hold.make_consumer('lease')
        answer = self.placement.put(
            f'/allocations/{consumer}',
            {
                'allocations': {rp_uuid: {'resources': {WAYS: ways}}},
                'project_id': 'fake',
                'user_id': 'fake',
                'consumer_generation': None,
                'consumer_type': planned_hold.CONSUMER_TYPE,
            },
            version='1.38',
        )
        self.assertEqual(204, answer.status, answer.body)
        return consumer

    def test_a_first_publication_that_fails(self) -> None:
        """Nova lists its servers before it moves what they hold."""
        [server] = self.start_with_servers(4)
        self.path.unlink()
        faults = [exception.PlacementUnavailable(action='GET', detail='away')]
        root = self.get_root()
        seen: list[Any] = []

        def look() -> None:
            ext = starting.ext
            self.wait_until(lambda: ext._restore.problems)
            seen.extend(ext._restore.problems)
            seen.append(ext.is_old({root: {WAYS: 4}}))

        with (
            old_inventory.Refusing(look) as refusing,
            old_inventory.Unread(faults),
            old_inventory.Starting() as starting,
        ):
            self.start_ours('host1')
            faults.clear()
            self.get_ext().publisher.wake()

            self.assertEqual(1, refusing.count)
            [problem, is_old] = seen
            self.assertEqual(server['id'], problem.subject)
            self.assertIn('nothing was published', problem.text)
            # It could be rebooted without a claim.
            self.assertTrue(is_old)
            self.assert_moved(16, 4)
        self.wait_until(lambda: server['id'] in self.get_ext().host.entries)
        self.assertEqual({}, self.list_alarms())

    def test_a_plugin_that_fails(self) -> None:
        self.start_with_servers(4)
        self.path.unlink()
        failing = self.folder / 'failing'
        failing.touch()
        self.host_options = f'[ext_resources_fake]\nfailure_file = {failing}\n'
        self.start_ours('host1')
        self.assertEqual({'host1': (16, 4)}, self.read_offers())
        failing.unlink()
        self.publish(self.services['host1'])
        # The periodic update moves nothing.
        self.assert_stays(16, 4, 'Restart nova-compute')

        self.restart('host1')

        self.assert_moved(16, 4)

    def test_nothing_that_is_old(self) -> None:
        self.stop('host1')
        self.path.unlink()
        self.start_ours('host1')
        self.assert_moved(20, 0)

        with old_inventory.Refusing(lambda: None) as refusing:
            service = self.restart('host1')
            self.publish(service)

        self.assertEqual(0, refusing.count)
        self.assert_moved(20, 0)


_COUNTED = """
resources:
  - name: CUSTOM_LLC_WAYS
    type: count
    units: ways
    description: Counted, and applied by nothing.
    inventory: {total: 20}
"""


_BROKEN = """
  - name: CUSTOM_SEAT
    type: count
    units: seats
    description: More of them are reserved than there are.
    inventory: {total: 2, reserved: 3}
"""


class PlainTest(old_inventory.OneHostTestCase):
    """A host with Nova's own driver, and servers that float."""

    plain_driver = old_inventory.PlainDriver
    plugins = 'static'
    enforcers = ''

    def _write_conf(self) -> None:
        super()._write_conf()
        path = self.folder / 'definitions.yaml'
        path.write_text(_COUNTED)
        with (self.folder / 'ext.conf').open('a') as conf:
            conf.write(f'[ext_resources_static]\ndefinitions_file = {path}\n')

    def make_ways_flavor(self, ways: int) -> str:
        return self.make_flavor(resources__CUSTOM_LLC_WAYS=ways)

    def test_another_class_that_is_left_out(self) -> None:
        self.start_with_servers(4)
        self.path.unlink()
        (self.folder / 'definitions.yaml').write_text(_COUNTED + _BROKEN)

        self.start_ours('host1')

        self.assert_moved(16, 4)
        found = self.get_ext().host.found
        self.assertEqual({'CUSTOM_SEAT'}, found.left_out)

    def test_a_definition_that_goes_while_nova_compute_runs(self) -> None:
        self.start_with_servers(4)
        self.path.unlink()
        with old_inventory.Refusing(
            lambda: old_inventory.make_answer(403, 'Access was denied')
        ):
            service = self.start_ours('host1')
        self.assert_stays(16, 4, 'the role "service"')

        (self.folder / 'definitions.yaml').write_text(
            _COUNTED.replace(WAYS, 'CUSTOM_SEAT')
        )

        self.publish(service)
        self.publish(service)
        self.assertEqual((16, 4), self.read_offers()['host1'])
        text = self.list_alarms()[alarm.OLD_INVENTORY, WAYS]
        self.assertIn(f'no plugin reports {WAYS}', text)

    def test_a_host_gets_another_driver(self) -> None:
        servers = self.start_with_servers(4, 5)
        self.path.unlink()

        self.start_ours('host1')

        self.assert_moved(11, 9)
        self.assertEqual({}, self.list_alarms())
        host = self.get_ext().host
        self.wait_until(lambda: len(host.entries) == 2)
        for server in servers:
            self.assertEqual(['host1_STATIC'], [*self.list_held(server['id'])])
