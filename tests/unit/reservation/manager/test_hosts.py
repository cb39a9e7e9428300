# SPDX-License-Identifier: Apache-2.0

"""Tests of borrowers on several hosts, of which some make trouble."""

import dataclasses
from typing import Any

import fixtures

from nova_ext_resources import exception
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import host as host_mod
from nova_ext_resources.reservation import lending
from nova_ext_resources.reservation.manager import borrowers
from nova_ext_resources.reservation.manager import draining
from nova_ext_resources.reservation.manager import outages
from nova_ext_resources.reservation.manager import time_budget
from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import notices
from nova_ext_resources.reservation.store import records
from nova_ext_resources.reservation.store import slots
from tests.unit.reservation import hosts
from tests.unit.reservation.manager import clouds
from tests.unit.reservation.manager import managers
from tests.unit.reservation.store import stores

State = state.State

START, END = 100_000, 200_000

#: When borrowers are told that have 300 s.
NOTICE = START - 300 - lending.LEAVE_SECONDS

DURING = hosts.span(START, END)


def make_sharing_host(name: str) -> host_mod.Host:
    """Make a host that uses a pool of disk together with others."""
    return host_mod.make_host(
        name,
        [
            hosts.make_provider(name, VCPU=8),
            hosts.make_provider('pool', DISK_GB=100),
        ],
        host_view.HostView(),
    )


class HostsTests(stores.StoreTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.database = databases.Database(self.url)
        self.time = managers.Time()
        self.use(hosts.make_host('a'), hosts.make_host('b'))
        self.log = self.useFixture(fixtures.FakeLogger())

    def use(self, *found: host_mod.Host) -> None:
        self.admission = stores.make_admission(self.url, *found)
        self.cloud = clouds.FakeCloud(found)
        self.turn = self.make_turn()

    def make_turn(self) -> Any:
        return managers.make_turn(self.url, self.time, cloud=self.cloud)

    def borrow(self, uuid: str, host: str, amount: int, **specs: str) -> None:
        self.cloud.hold(
            uuid,
            host,
            amount,
            extra_specs={
                f'resource:lease:{key}': value
                for key, value in {'preemptible': 'true', **specs}.items()
            },
        )

    def run_at(self, clock: float) -> bool:
        self.time.clock = clock
        return bool(self.turn.run())

    def run_from(self, begin: int, end: int, step: int = 60) -> None:
        for clock in range(begin, end, step):
            self.run_at(clock)

    def get(self, key: str) -> records.Record:
        with self.database.transaction() as connection:
            (found,) = records.list_records(connection, 0, key=key)
        return found

    def get_state(self, key: str) -> State:
        return self.get(key).last.state

    def list_notices(self, key: str) -> list[str]:
        return [
            one.reason
            for one in managers.list_changes(self.url, key)
            if 'told to leave' in one.reason
        ]

    def list_gone(self) -> set[str]:
        return {uuid for uuid, _action in self.cloud.asked}

    def break_uses(self, rp_uuid: str, error: Exception) -> None:
        """Let what a provider has not be read."""
        read_uses = self.cloud.read_uses

        def read(rp_uuids: Any) -> Any:
            if rp_uuid in rp_uuids:
                raise error
            return read_uses(rp_uuids)

        self.cloud.read_uses = read  # type: ignore[method-assign]

    def break_server(self, broken: str, error: Exception) -> list[str]:
        """Let a server not be shown; return which ones were asked for."""
        find_server, asked = self.cloud.find_server, list[str]()

        def find(uuid: str) -> Any:
            asked.append(uuid)
            if uuid == broken:
                raise error
            return find_server(uuid)

        self.cloud.find_server = find  # type: ignore[method-assign]
        return asked


class TroubleTest(HostsTests):
    """A reservation on each host, and a borrower in the way of each."""

    def setUp(self) -> None:
        super().setUp()
        for key in ('one', 'two'):
            self.admit(self.admission, key, DURING, least=2)
        self.assertEqual(['a'], self.get('one').hosts)
        self.assertEqual(['b'], self.get('two').hosts)
        self.borrow('x', 'a', 8)
        self.borrow('y', 'b', 8)

    def test_a_host_that_cannot_be_read_stops_no_other(self) -> None:
        for error in (
            exception.PlacementRefused(action='get', detail='odd'),
            KeyError('odd'),
        ):
            with self.subTest(error=error):
                self.use(hosts.make_host('a'), hosts.make_host('b'))
                self.borrow('y', 'b', 8)
                self.break_uses('a', error)

                self.assertFalse(self.run_at(NOTICE))
                self.run_from(NOTICE + 300, NOTICE + 1200)

                self.assertEqual({'y'}, self.list_gone())

    def test_a_host_that_cannot_be_read_is_not_known_to_have_room(
        self,
    ) -> None:
        self.cloud.servers.clear()
        self.run_at(START)
        self.assertEqual(State.DEGRADED, self.get_state('one'))
        self.break_uses('a', KeyError('odd'))
        self.cloud.holders.clear()

        self.run_from(START + 60, START + 300)

        self.assertEqual(State.DEGRADED, self.get_state('one'))
        self.assertEqual(State.ACTIVE, self.get_state('two'))

    def test_a_server_that_cannot_be_read_stops_no_other(self) -> None:
        self.borrow('w', 'a', 4)
        self.borrow('x', 'a', 4)
        self.break_server(
            'w', exception.ComputeUnavailable(action='show', reason='odd')
        )

        self.assertFalse(self.run_at(NOTICE))
        self.assertEqual([], self.list_notices('one'), 'w may be shown yet')
        self.run_from(NOTICE + 300, START + 120)

        self.assertEqual({'x', 'y'}, self.list_gone())
        self.assertIn('server w: The Compute API', self.log.output)

    def test_a_service_that_is_away_is_asked_once_in_a_pass(self) -> None:
        asked = self.break_server(
            'x',
            exception.ComputeUnavailable(
                action='show', reason='away', is_away=True
            ),
        )
        for clock, wanted in ((0, ['x']), (15, ['y', 'x']), (30, ['y', 'x'])):
            asked.clear()

            self.assertFalse(self.run_at(NOTICE + clock))

            self.assertEqual(wanted, asked, 'those come first next time')

    def test_nova_that_is_away_hides_no_shortage(self) -> None:
        self.cloud.is_nova_away = True

        self.assertFalse(self.run_at(START))

        for one in ('one', 'two'):
            self.assertEqual(State.DEGRADED, self.get_state(one))
        self.assertNotIn('can be told to leave', self.log.output)

    def test_time_that_is_over(self) -> None:
        self.run_at(START)
        for one in ('one', 'two'):
            self.assertEqual(State.DEGRADED, self.get_state(one))
        self.cloud.holders.clear()
        self.patch(time_budget, 'MAX_SECONDS', 0)

        self.assertFalse(self.run_at(START + 60))
        self.assertEqual(State.DEGRADED, self.get_state('one'))

        self.patch(time_budget, 'MAX_SECONDS', 300)
        self.run_at(START + 75)
        self.assertEqual(State.ACTIVE, self.get_state('one'))

    def test_where_nothing_can_be_done_nova_is_not_asked_each_time(
        self,
    ) -> None:
        self.cloud.hold('x', 'a', 8)
        self.cloud.hold('y', 'b', 8)
        asked = self.break_server('', KeyError())

        self.run_from(START, START + 2 * draining.CHECK_SECONDS, 15)

        self.assertEqual(['x', 'y'] * 2, asked)

    def test_a_borrower_is_told_in_the_second_in_which_it_is_due(self) -> None:
        self.run_from(NOTICE - 50, NOTICE, 49)
        self.assertEqual([], self.list_notices('one'))

        self.run_at(NOTICE)

        self.assertEqual(1, len(self.list_notices('one')))

    def test_more_holders_than_are_asked_about_at_once(self) -> None:
        self.patch(borrowers, 'MOST', 2)
        for number in range(5):
            self.cloud.hold(f'own {number}', 'a', 1)
        self.borrow('x', 'a', 3)

        self.run_from(NOTICE, NOTICE + 60, 15)

        self.assertEqual(1, len(self.list_notices('one')))

    def test_servers_that_were_told_are_asked_about_first(self) -> None:
        self.patch(borrowers, 'MOST', 2)
        self.borrow('x', 'a', 3)
        self.run_at(NOTICE)
        for number in range(5):
            self.cloud.hold(f'own {number}', 'a', 1)

        self.run_from(NOTICE + 300, NOTICE + 330, 15)

        self.assertIn('x', self.list_gone())


class LeavingTest(HostsTests):
    def test_who_leaves_by_itself_is_not_in_the_way(self) -> None:
        """Nor is it in the last look before a server is removed."""
        self.admit(
            self.admission,
            'before',
            hosts.span(50_000, START),
            least=1,
            at_end=plan_request.AtEnd.SHELVE,
        )
        self.admit(self.admission, 'one', DURING, least=1)
        self.assertEqual(['a'], self.get('one').hosts)
        slots.take(
            self.database, 'before', 'mine', lambda held: held[0], now=60_000
        )
        self.cloud.hold('mine', 'a', 4)
        self.cloud.hold('own', 'a', 2)
        self.borrow('x', 'a', 4, on_drain='delete')
        self.cloud.capacities['a', 'VCPU'] = 8
        self.run_at(NOTICE)
        self.assertEqual(1, len(self.list_notices('one')))
        find_server = self.cloud.find_server

        def find(uuid: str) -> Any:
            if uuid == 'x':
                self.cloud.holders.discard('own')
            return find_server(uuid)

        self.cloud.find_server = find  # type: ignore[method-assign]
        self.run_at(NOTICE + 300)

        self.assertEqual([], self.cloud.asked)


class PriorityTest(HostsTests):
    """One of two borrowers has to go."""

    def setUp(self) -> None:
        super().setUp()
        self.admit(self.admission, 'one', DURING, least=2)
        self.cloud.capacities['a', 'VCPU'] = 12
        self.borrow('high', 'a', 4, priority='5', on_drain='delete')
        self.borrow('low', 'a', 4, priority='-5')

    def test_one_failure_changes_no_choice(self) -> None:
        find_server = self.cloud.find_server
        self.break_server(
            'low',
            exception.ComputeUnavailable(
                action='show', reason='500', status=500
            ),
        )
        self.run_at(NOTICE)
        self.assertEqual([], self.list_notices('one'))
        self.cloud.find_server = find_server  # type: ignore[method-assign]

        self.run_from(NOTICE + 15, START, 15)

        self.assertEqual({'low'}, self.list_gone())

    def test_many_holders_change_no_choice(self) -> None:
        self.patch(borrowers, 'MOST', 1)
        self.cloud.capacities['a', 'VCPU'] = 13
        self.cloud.hold('own', 'a', 1)

        self.run_from(NOTICE, START, 15)

        self.assertEqual(
            [('low', 'shelve'), ('low', 'shelveOffload')], self.cloud.asked
        )

    def test_who_is_slow_to_leave_costs_no_other(self) -> None:
        """Unless it takes more than an hour."""
        act = self.cloud.act

        def shelve_slowly(uuid: str, action: nova_server.Action) -> None:
            if uuid != 'low':
                act(uuid, action)
                return
            self.cloud.servers[uuid] = dataclasses.replace(
                self.cloud.servers[uuid],
                task_state='shelving_image_uploading',
            )

        self.cloud.act = shelve_slowly  # type: ignore[method-assign]
        gone = NOTICE + 300 + lending.LEAVE_SECONDS
        self.run_from(NOTICE, gone + lending.LEAVING_SECONDS)
        self.assertEqual(
            (1, []), (len(self.list_notices('one')), self.cloud.asked)
        )

        self.run_from(
            gone + lending.LEAVING_SECONDS, gone + 2 * lending.LEAVING_SECONDS
        )
        self.assertEqual({'high'}, self.list_gone())

    def test_old_notices_keep_no_turn_from_others(self) -> None:
        self.patch(borrowers, 'MOST', 2)
        told = [f'old {number}' for number in range(3)]
        with self.database.transaction() as connection:
            notices.add_notices(
                connection, key='one', hosts=dict.fromkeys(told, 'a'), now=50
            )
        self.cloud.capacities['a', 'VCPU'] = 15
        for uuid in told:
            self.cloud.hold(uuid, 'a', 1)

        self.run_from(NOTICE, START, 15)

        self.assertEqual({'low'}, self.list_gone())

    def test_an_owner_that_cannot_be_told_holds_up_no_other(self) -> None:
        self.cloud.capacities['a', 'VCPU'] = 8
        self.borrow('high', 'a', 4, drain_seconds='3600')

        def fail(uuid: str, metadata: object) -> None:
            raise exception.ComputeUnavailable(
                action='tell', reason='504', status=504, is_away=True
            )

        self.cloud.set_metadata = fail  # type: ignore[method-assign]
        self.run_from(START, START + 400, 15)

        self.assertEqual({'low'}, self.list_gone())

    def test_what_is_not_known_in_time_is_not_waited_for(self) -> None:
        self.break_server(
            'low',
            exception.ComputeUnavailable(
                action='show', reason='500', status=500
            ),
        )

        self.run_from(NOTICE, START + 60, 15)

        self.assertEqual({'high'}, self.list_gone())


class RowsTest(HostsTests):
    """A reservation on two hosts that lacks room on both."""

    def setUp(self) -> None:
        super().setUp()
        self.admit(self.admission, 'one', DURING, least=3)
        self.assertEqual(['a', 'b'], self.get('one').hosts)

    def count_rows(self) -> int:
        return len(managers.list_changes(self.url, 'one'))

    def test_hosts_that_are_looked_at_in_turn(self) -> None:
        """Each pass sees one of them; the rows say the same of both."""
        self.cloud.hold('own', 'a', 8)
        self.borrow('x', 'b', 8, drain_seconds='3600')

        self.run_from(START, START + 1200, 15)

        self.assertEqual(4, self.count_rows())
        self.assertIn('host b', self.get('one').last.reason)

    def test_nova_that_is_away(self) -> None:
        self.borrow('x', 'a', 8)
        self.borrow('y', 'b', 8)
        self.cloud.is_nova_away = True

        self.run_from(START, START + 1200, 15)

        self.assertEqual(3, self.count_rows())

    def test_a_host_that_cannot_be_read_at_times(self) -> None:
        self.cloud.hold('own', 'a', 8)
        self.cloud.hold('other', 'b', 8)
        self.run_at(START)
        before = self.count_rows()
        read_uses = self.cloud.read_uses
        self.break_uses('a', KeyError('odd'))

        self.run_from(START + 60, START + 240)
        self.cloud.read_uses = read_uses  # type: ignore[method-assign]
        self.run_from(START + 240, START + 400)

        self.assertEqual(before, self.count_rows())


class UsableTest(HostsTests):
    """Room on a host that is disabled is of no use to a reservation."""

    def setUp(self) -> None:
        super().setUp()
        self.admit(self.admission, 'one', DURING, least=2)
        self.run_at(START)
        self.borrow('x', 'a', 8, on_drain='delete', drain_seconds='0')

    def test_nobody_leaves_a_host_that_is_disabled(self) -> None:
        self.cloud.enabled['a'] = False

        self.run_from(START + 60, START + 900)

        self.assertEqual(
            ([], []), (self.list_notices('one'), self.cloud.asked)
        )
        self.assertEqual(State.DEGRADED, self.get_state('one'))
        self.cloud.enabled['a'] = True
        self.run_from(START + 900, START + 1200)
        self.assertEqual({'x'}, self.list_gone())

    def test_nobody_leaves_while_most_hosts_are_lost(self) -> None:
        lost = [hosts.make_host(one) for one in 'cdef']
        for one in lost:
            admission = stores.make_admission(self.url, one)
            self.admit(admission, f'on {one.name}', DURING, least=2)

        self.run_from(START + 15, START + outages.BELIEVED_SECONDS)
        self.assertEqual([], self.cloud.asked)
        self.assertIn('4 of 5 hosts', self.log.output)
        self.run_at(START + 15 + outages.BELIEVED_SECONDS)
        self.run_at(START + 30 + outages.BELIEVED_SECONDS)

        self.assertEqual({'x'}, self.list_gone())


class StrayTest(HostsTests):
    """A server that was evacuated to another host."""

    def setUp(self) -> None:
        super().setUp()
        self.admit(self.admission, 'one', DURING, least=2)
        self.borrow('x', 'b', 4, on_drain='delete')
        self.cloud.held['x'] = {('a', 'VCPU'): 4, ('b', 'VCPU'): 4}

    def test_it_does_not_go_for_what_it_holds_still(self) -> None:
        self.run_from(NOTICE, START + 60)

        self.assertEqual(
            ([], []), (self.list_notices('one'), self.cloud.asked)
        )
        self.assertEqual(State.DEGRADED, self.get_state('one'))
        self.assertIn('heal their allocations', self.log.output)

    def test_whoever_is_on_the_host_goes(self) -> None:
        self.cloud.capacities['a', 'VCPU'] = 12
        self.borrow('y', 'a', 4, priority='5')

        self.run_from(NOTICE, START)

        self.assertEqual({'y'}, self.list_gone())


class StartsTest(HostsTests):
    def test_what_is_short_for_good_hides_nothing_later(self) -> None:
        self.admit(
            self.admission, 'first', hosts.span(START - 3000, END), least=1
        )
        self.admit(self.admission, 'later', DURING, least=1)
        self.assertEqual(['a'], self.get('later').hosts)
        self.cloud.hold('own', 'a', 5)
        self.borrow('x', 'a', 3)
        # It has gone, and what is left holds the room for good.
        self.cloud.capacities['a', 'VCPU'] = 8
        self.borrow('y', 'a', 3, drain_seconds='60')
        self.run_from(START - 3000, START, 60)

        self.assertEqual({'x', 'y'}, self.list_gone())

    def test_two_reservations_on_one_host_take_their_sum(self) -> None:
        self.admit(self.admission, 'one', DURING, least=1)
        self.admit(self.admission, 'two', DURING, least=1)
        self.assertEqual(['a'], self.get('two').hosts)
        self.borrow('x', 'a', 4)

        self.run_from(NOTICE, START + 60)

        self.assertEqual({'x'}, self.list_gone())
        self.assertEqual(1, self.cloud.asked.count(('x', 'shelve')))

    def test_a_notice_for_what_is_cancelled_is_none_for_later(self) -> None:
        """A server stays as long as what it was told for needs it not."""
        self.admit(
            self.admission, 'first', hosts.span(START, START + 600), least=2
        )
        self.admit(
            self.admission, 'later', hosts.span(START + 3600, END), least=2
        )
        self.assertEqual(['a'], self.get('later').hosts)
        self.borrow('x', 'a', 8, drain_seconds='60', on_drain='delete')
        told = START - 60 - lending.LEAVE_SECONDS
        self.run_at(told)
        self.assertEqual(1, len(self.list_notices('first')))
        self.admission.change(
            'first', State.CANCELLED, now=told + 10, reason='not needed'
        )

        self.run_from(told + 15, told + 3600, 15)
        self.assertEqual([], self.cloud.asked)
        self.run_from(told + 3600, told + 3720, 15)

        self.assertEqual([('x', 'delete')], self.cloud.asked)

    def test_what_begins_later_has_its_notice_in_time(self) -> None:
        """While a first promise cannot be kept."""
        self.admit(
            self.admission, 'first', hosts.span(START - 3000, END), least=1
        )
        self.cloud.hold('own', 'a', 5)
        self.run_at(START - 3000)
        self.assertEqual(State.DEGRADED, self.get_state('first'))
        demand = hosts.make_demand(_={'MEMORY_MB': 100})
        self.use(
            host_mod.make_host(
                'a',
                [hosts.make_provider('a', VCPU=8, MEMORY_MB=100)],
                host_view.HostView(),
            )
        )
        self.ask(
            self.admission, hosts.make_request('later', DURING, demand), 9
        )
        self.cloud.hold('own', 'a', 5)
        self.borrow('x', 'a', 1)
        self.cloud.capacities['a', 'MEMORY_MB'] = 100
        self.cloud.held['x'] = {('a', 'MEMORY_MB'): 50}

        self.run_from(NOTICE, START)

        self.assertEqual({'x'}, self.list_gone())


class SharedTest(HostsTests):
    """Each of two hosts has a server, of half of a pool that both use."""

    def setUp(self) -> None:
        super().setUp()
        self.use(make_sharing_host('a'), make_sharing_host('b'))
        self.cloud.capacities['pool', 'DISK_GB'] = 100
        request = hosts.make_request(
            'lease',
            DURING,
            hosts.make_demand(_={'VCPU': 8, 'DISK_GB': 50}),
            least=2,
        )
        self.ask(self.admission, request)
        self.assertEqual(['a', 'b'], self.get('lease').hosts)
        self.borrow('x', 'a', 0)
        self.cloud.held['x'] = {('pool', 'DISK_GB'): 20}

    def test_what_all_hosts_take_is_counted(self) -> None:
        self.run_from(NOTICE, START + 60)

        self.assertEqual({'x'}, self.list_gone())
        self.assertEqual(State.ACTIVE, self.get_state('lease'))

    def test_what_is_short_of_it_is_said_once(self) -> None:
        self.cloud.hold('x', 'a', 0)
        self.cloud.held['x'] = {('pool', 'DISK_GB'): 20}

        self.run_at(START)

        self.assertEqual(1, self.get('lease').last.reason.count('DISK_GB'))

    def test_who_shares_it_goes_from_another_host(self) -> None:
        self.borrow('x', 'elsewhere', 0)
        self.cloud.held['x'] = {('pool', 'DISK_GB'): 20}

        self.run_from(NOTICE, START + 60)

        self.assertEqual({'x'}, self.list_gone())

    def test_each_server_is_told_and_asked_once(self) -> None:
        """In a pass, whichever of the two hosts it is looked at for."""
        self.run_at(NOTICE)
        self.run_at(NOTICE + 300)
        self.assertEqual([('x', 'shelve')], self.cloud.asked)

        self.run_from(NOTICE, START + 60)

        self.assertEqual(
            [('x', 'shelve'), ('x', 'shelveOffload')], self.cloud.asked
        )
        self.assertEqual(1, len(self.list_notices('lease')))


class RequestTest(HostsTests):
    def test_one_that_cannot_be_read_stops_no_other(self) -> None:
        for key in ('bad', 'good'):
            self.admit(
                self.admission,
                key,
                DURING,
                least=2,
                at_end=plan_request.AtEnd.SHELVE,
                expires_after=600,
            )
        with self.database.transaction() as connection:
            connection.exec_driver_sql(
                "UPDATE reservations SET request = '{}' "
                "WHERE reservation = 'bad'"
            )
        self.run_at(START - 60)
        self.borrow('y', 'b', 8)

        self.run_from(START, START + 1500)
        self.assertEqual({'y'}, self.list_gone())
        self.assertEqual(State.EXPIRED, self.get_state('good'))
        self.assertIn('Reservation bad is left unchanged', self.log.output)
