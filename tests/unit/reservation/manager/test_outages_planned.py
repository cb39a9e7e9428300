# SPDX-License-Identifier: Apache-2.0

"""Tests of what a manager does about planned changes of capacity."""

from typing import Any

import fixtures

from nova_ext_resources import exception
from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import cause as cause_mod
from nova_ext_resources.reservation import forecast
from nova_ext_resources.reservation.manager import outages
from nova_ext_resources.reservation.manager import supplies
from nova_ext_resources.reservation import outage
from nova_ext_resources.reservation import planner
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import capacity_changes
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import slots
from tests.unit.reservation import changes
from tests.unit.reservation import hosts
from tests.unit.reservation.manager import managers
from tests.unit.reservation.manager import test_outages
from tests.unit.reservation.store import stores

Cause = cause_mod.Cause
State = state.State

START, END = test_outages.START, test_outages.END


class CapacityTest(test_outages.OutagesTestCase):
    """Two hosts of two servers each; the reservation is on the first."""

    def plan(
        self, change: capacity_change.CapacityChange, now: int = 0
    ) -> Any:
        return self.admission.capacity.plan(
            change.key, lambda _fleet, _others: change, now=now, is_forced=True
        )

    def withdraw(self, key: str, now: int = 0) -> Any:
        return self.admission.capacity.withdraw(key, now=now, is_forced=True)

    def maintain(self, start: int, end: int, **fields: Any) -> Any:
        return changes.make_maintenance(
            'night', hosts.span(start, end), **fields
        )

    def test_what_is_moved_stays_where_it_is(self) -> None:
        self.plan(self.maintain(START + 1, END))
        before = stores.dump(self.url)

        self.assertTrue(self.run_at(5))

        self.assertEqual(before, stores.dump(self.url))
        self.assertEqual(['b', 'b'], self.list_hosts())

    def test_what_is_degraded_stays_so_until_there_is_room(self) -> None:
        self.fill()
        self.plan(self.maintain(START + 1, END))
        self.assertEqual(['pending', 'degraded'], self.list_states())

        self.assertTrue(self.run_at(5))
        self.assertEqual(['pending', 'degraded'], self.list_states())
        self.admission.change(
            'other', State.CANCELLED, now=6, reason='not needed'
        )
        self.assertTrue(self.run_at(6 + outages.RETRY_SECONDS))

        self.assertEqual(['b', 'b'], self.list_hosts())
        self.assertEqual(
            ['pending', 'degraded', 'pending'], self.list_states()
        )
        self.assertIn(
            'moved: host a is in maintenance', self.get().last.reason
        )

    def test_what_is_degraded_by_a_cut_finds_room(self) -> None:
        self.fill()
        self.plan(changes.make_change('cut', hosts.span(START), {'VCPU': -1}))
        self.assertTrue(self.run_at(5))
        self.assertEqual(['pending', 'degraded'], self.list_states())

        self.admission.change(
            'other', State.CANCELLED, now=6, reason='not needed'
        )
        self.assertTrue(self.run_at(6 + outages.RETRY_SECONDS))

        self.assertEqual(State.PENDING, self.get().last.state)
        self.assertIn('b', self.list_hosts())

    def test_all_is_well_when_it_is_taken_back_or_over(self) -> None:
        for name, change in (
            (
                'cut',
                changes.make_change(
                    'cut', hosts.span(START, START + 9), {'VCPU': -8}
                ),
            ),
            ('night', self.maintain(START, START + 9)),
        ):
            with self.subTest(name=name):
                self.fill_again()
                self.plan(change)
                self.withdraw(name)
                self.assertEqual(State.DEGRADED, self.get().last.state)

                self.assertTrue(self.run_at(5))

                self.assertEqual(State.PENDING, self.get().last.state)
        self.plan(change)
        self.assertTrue(self.run_at(START + 8))
        self.assertEqual(State.DEGRADED, self.get().last.state)
        self.assertTrue(self.run_at(START + 9))
        self.assertEqual(State.ACTIVE, self.get().last.state)

    def fill_again(self) -> None:
        if 'other' not in self.admission._mirror.held:
            self.fill()

    def test_who_counted_on_more_stays_degraded(self) -> None:
        more = changes.make_change('more', hosts.span(START), {'VCPU': 4})
        self.fill()
        self.plan(more)
        self.admit(self.admission, 'third', test_outages.DURING)
        self.withdraw('more')
        key = next(
            one
            for one in ('third', 'lease')
            if self.get(one).last.state is State.DEGRADED
        )

        self.assertTrue(self.run_at(5))
        self.assertEqual(State.DEGRADED, self.get(key).last.state)
        self.assertIs(Cause.WITHDRAWN, self.get(key).last.cause)
        self.admission.change(
            'other', State.CANCELLED, now=6, reason='not needed'
        )
        self.assertTrue(self.run_at(6 + outages.RETRY_SECONDS))

        self.assertEqual(State.PENDING, self.get(key).last.state)

    def test_what_nobody_told_of_a_maintenance_is_moved(self) -> None:
        with self.database.transaction() as connection:
            capacity_changes.add_change(
                connection, self.maintain(START + 1, END)
            )
        # Nothing raises a revision: only who reads all anew sees it.
        self.assertTrue(self.run_at(5))

        self.assertEqual(['b', 'b'], self.list_hosts())

    def test_a_host_that_is_back_in_time_keeps_its_promises(self) -> None:
        self.plan(self.maintain(START - 100, START))
        self.cloud.enabled['a'] = False
        before = stores.dump(self.url)

        # It is disabled before, for its servers have to leave it.
        for clock in (100 + outage.DRAIN_SECONDS, 500, 100, 1):
            self.assertTrue(self.run_at(START - clock))
        self.assertEqual(before, stores.dump(self.url))

        # It takes longer than planned.
        self.cloud.enabled['b'] = False
        self.cloud.enabled['c'] = True
        self.assertTrue(self.run_at(START))
        self.assertIn('host a is disabled', self.get().last.reason)

    def test_before_a_maintenance_a_lost_host_is_lost(self) -> None:
        self.plan(self.maintain(START - 100, START))
        self.cloud.enabled['a'] = False

        begin = START - 100 - outage.DRAIN_SECONDS
        for clock in (-outages.LOSS_SECONDS - 1, -1):
            self.assertTrue(self.run_at(begin + clock))

        self.assertEqual(['b', 'b'], self.list_hosts())

    def test_what_has_started_is_active_after_the_maintenance(self) -> None:
        self.assertTrue(self.run_at(START))
        slots.take(
            self.database, 'lease', 'server', lambda held: held[0], now=START
        )
        self.plan(self.maintain(START + 10, START + 20), START + 1)
        self.assertTrue(self.run_at(START + 5))
        self.assertEqual(State.DEGRADED, self.get().last.state)

        self.assertTrue(self.run_at(START + 20))

        last = self.get().last
        self.assertEqual(State.ACTIVE, last.state)
        self.assertIn('available again', last.reason)
        self.assertEqual(['a', 'a'], self.list_hosts())

    def test_causes_name_no_hosts(self) -> None:
        for name, change, cause in (
            ('moved', self.maintain(START + 1, END), Cause.MOVED),
            (
                'degraded',
                changes.make_change(
                    'cut', hosts.span(START + 1), {'VCPU': -1}, 'b'
                ),
                Cause.CAPACITY,
            ),
        ):
            with self.subTest(name=name):
                self.plan(change)

                last = self.get().last
                self.assertIs(cause, last.cause)
                self.assertIn('host', last.reason)
                self.assertNotIn('host b', last.words)
                self.assertNotIn('host a', last.words)
                self.assertNotIn(change.key, last.words)

    def test_a_loss_beside_a_cut_is_said_too(self) -> None:
        self.fill()
        self.plan(self.maintain(START + 1, END))
        self.run_at(START)
        self.lose()
        for clock in (5, 20):
            self.assertTrue(self.run_at(START + clock))

        last = self.get().last
        self.assertIs(Cause.OUTAGE, last.cause)
        self.assertIn('not in placement', last.reason)
        self.assertIn('capacity change night', last.reason)
        self.assertEqual(
            ['pending', 'degraded', 'degraded'], self.list_states()
        )

    def test_what_people_write_is_no_change(self) -> None:
        more = changes.make_change('more', hosts.span(START), {'VCPU': 4})
        self.plan(more)
        self.admission.change(
            'lease', State.DEGRADED, now=1, reason=more.describe()
        )

        self.assertTrue(self.run_at(5))

        self.assertEqual(['a', 'a'], self.list_hosts())
        self.assertEqual(['pending', 'degraded'], self.list_states())

    def upgrade(self, start: int, **fields: Any) -> Any:
        """Reserve all of eight that come to the first host beside eight."""
        change = changes.make_change(
            'more', hosts.span(start), {'VCPU': 8}, **fields
        )
        self.plan(change)
        answer = self.admit(
            stores.make_admission(self.url, hosts.make_host('a')),
            'more',
            test_outages.DURING,
            least=2,
        )
        self.assertIsInstance(answer, planner.Plan)

    def test_who_counts_on_what_is_late_is_moved_at_once(self) -> None:
        log = self.useFixture(fixtures.FakeLogger())
        self.upgrade(1000)
        for clock in (0, 999):
            self.assertTrue(self.run_at(clock))
        before = [self.list_hosts('more'), self.list_hosts('lease')]
        self.assertEqual([['a', 'a']] * 2, before)

        self.assertTrue(self.run_at(1000 + supplies.CHECK_SECONDS))

        after = sorted([self.list_hosts('more'), self.list_hosts('lease')])
        self.assertEqual([['a', 'a'], ['b', 'b']], after)
        key = 'more' if self.list_hosts('more') == ['b', 'b'] else 'lease'
        last = self.get(key).last
        self.assertIs(Cause.MOVED, last.cause)
        self.assertIn('host a does not have 8 VCPU more yet', last.reason)
        self.assertTrue(self.run_at(1000 + 2 * supplies.CHECK_SECONDS))
        self.assertEqual(1, log.output.count('change more is late'))

    def test_who_counts_on_what_is_late_is_degraded_until_it_comes(
        self,
    ) -> None:
        self.fill()
        self.upgrade(1000)
        self.assertTrue(self.run_at(1000))
        for _pass in range(2):
            self.assertTrue(self.run_at(1010))
        keys = [
            one
            for one in ('lease', 'more')
            if self.get(one).last.state is State.DEGRADED
        ]
        self.assertEqual(1, len(keys))
        self.assertEqual(
            1, managers.list_states(self.url, keys[0]).count('degraded')
        )
        self.assertIs(Cause.CAPACITY, self.get(keys[0]).last.cause)

        self.cloud.capacities['a', 'VCPU'] = 16
        self.assertTrue(self.run_at(1010 + supplies.CHECK_SECONDS))

        self.assertEqual(State.PENDING, self.get(keys[0]).last.state)

    def test_an_upgrade_that_comes_early_is_no_lack(self) -> None:
        self.upgrade(1000)
        self.cloud.capacities['a', 'VCPU'] = 16
        before = stores.dump(self.url)

        for clock in (0, 999, 1000, 5000):
            self.assertTrue(self.run_at(clock))

        self.assertEqual(before, stores.dump(self.url))

    def test_who_is_made_to_fit_is_well_again(self) -> None:
        self.fill()
        self.plan(changes.make_change('cut', hosts.span(START), {'VCPU': -4}))
        self.assertTrue(self.run_at(5))
        self.assertEqual(State.DEGRADED, self.get().last.state)
        self.admission.replace(
            hosts.make_request('lease', test_outages.DURING), now=6, reason='y'
        )

        self.assertTrue(self.run_at(10))

        self.assertEqual(State.PENDING, self.get().last.state)
        self.assertEqual(['a'], self.list_hosts())

    def test_what_was_withdrawn_and_comes_is_no_lack(self) -> None:
        self.fill()
        self.upgrade(1000)
        self.withdraw('more', 5)
        key = next(
            one
            for one in ('more', 'lease')
            if self.get(one).last.state is State.DEGRADED
        )
        self.assertTrue(self.run_at(10))
        self.assertEqual(State.DEGRADED, self.get(key).last.state)

        self.cloud.capacities['a', 'VCPU'] = 16
        self.assertTrue(self.run_at(10 + supplies.CHECK_SECONDS))

        self.assertEqual(State.PENDING, self.get(key).last.state)

    def test_servers_beside_a_cut_keep_it_degraded(self) -> None:
        """What they hold is not there, whatever placement has in all."""
        self.fill()
        self.plan(
            changes.make_change('cut', hosts.span(START, END), {'VCPU': -4})
        )
        self.admission.replace(
            hosts.make_request('lease', test_outages.DURING), now=6, reason='y'
        )
        self.cloud.hosts.clear()
        self.cloud.holders.add('server')
        self.cloud.held['server'] = {('a', 'VCPU'): 4}

        self.assertTrue(self.run_at(10))
        self.assertEqual(State.DEGRADED, self.get().last.state)
        self.cloud.holders.clear()
        self.assertTrue(self.run_at(10 + supplies.CHECK_SECONDS))

        self.assertEqual(State.PENDING, self.get().last.state)

    def test_what_does_not_come_back_after_a_cut_is_a_lack(self) -> None:
        self.plan(changes.make_change('cut', hosts.span(9, 99), {'VCPU': -8}))
        self.cloud.capacities['a', 'VCPU'] = 0
        self.cloud.hosts = [hosts.make_host('b')]
        self.assertTrue(self.run_at(98))
        self.assertEqual(['a', 'a'], self.list_hosts())

        self.assertTrue(self.run_at(98 + supplies.CHECK_SECONDS))

        self.assertEqual(['b', 'b'], self.list_hosts())
        self.assertIn('a has less VCPU than is', self.get().last.reason)

    def test_servers_are_read_once_a_minute_while_all_is_well(self) -> None:
        self.plan(changes.make_change('more', hosts.span(5000), {'VCPU': 8}))
        reads, read_servers = list[float](), servers.read_servers

        def read(_connection: Any, keys: Any, now: int) -> Any:
            if keys:
                reads.append(now)
            return read_servers(_connection, keys, now)

        self.patch(servers, 'read_servers', read)
        for clock in range(0, 3 * supplies.CHECK_SECONDS, 15):
            self.assertTrue(self.run_at(clock))

        self.assertEqual([0, 60, 120], reads)

    def test_servers_that_stay_after_a_maintenance_degrade_nobody(
        self,
    ) -> None:
        self.fill()
        self.plan(self.maintain(START, START + 9))
        self.assertEqual(State.DEGRADED, self.get().last.state)
        self.cloud.holders.add('server')
        self.cloud.held['server'] = {('a', 'VCPU'): 1}

        self.withdraw('night')
        self.assertTrue(self.run_at(10))

        self.assertEqual(State.PENDING, self.get().last.state)

    def read_bases(self) -> list[int]:
        with self.database.transaction() as connection:
            found = capacity_changes.read_changes(connection)
        return [one.before['VCPU'] for one in found]

    def test_what_is_lost_beside_an_upgrade_is_noted(self) -> None:
        self.plan(changes.make_change('more', hosts.span(5000), {'VCPU': 4}))
        self.plan(changes.make_change('next', hosts.span(6000), {'VCPU': 4}))
        self.cloud.capacities['a', 'VCPU'] = 4

        for clock, bases in (
            (0, [8, 8]),
            (supplies.LOSS_SECONDS - supplies.CHECK_SECONDS, [8, 8]),
            (supplies.LOSS_SECONDS, [4, 4]),
        ):
            self.assertTrue(self.run_at(clock))
            self.assertEqual(bases, self.read_bases())
        # It comes early: others have eight from then on, and no more.
        self.cloud.capacities['a', 'VCPU'] = 8
        fleet = self.admission._mirror.planner.fleet
        self.admission.refresh(200)
        found = forecast.make(self.admission._mirror.changes, 'VCPU', 8, 200)
        self.assertEqual(8, found.count().lowest(hosts.span(5000, 6000)))
        self.assertIsNotNone(fleet)

    def test_what_cannot_be_noted_is_noted_later(self) -> None:
        self.plan(changes.make_change('more', hosts.span(5000), {'VCPU': 4}))
        self.cloud.capacities['a', 'VCPU'] = 4
        self.assertTrue(self.run_at(0))
        change_bases = capacity_changes.change_bases

        def fail(*_args: Any) -> None:
            raise exception.RevisionMoved(reason='others were faster')

        self.patch(capacity_changes, 'change_bases', fail)
        self.assertTrue(self.run_at(supplies.LOSS_SECONDS))
        self.assertEqual([8], self.read_bases())
        self.patch(capacity_changes, 'change_bases', change_bases)
        self.assertTrue(
            self.run_at(supplies.LOSS_SECONDS + supplies.CHECK_SECONDS)
        )

        self.assertEqual([4], self.read_bases())

    def test_what_is_lost_for_a_moment_is_not(self) -> None:
        self.plan(changes.make_change('more', hosts.span(5000), {'VCPU': 4}))
        for clock, capacity in ((0, 4), (60, 8), (120, 4), (180, 4)):
            self.cloud.capacities['a', 'VCPU'] = capacity
            self.assertTrue(self.run_at(clock))

        self.assertEqual([8], self.read_bases())

    def test_placement_that_does_not_say_what_there_is(self) -> None:
        self.fill()
        self.plan(changes.make_change('cut', hosts.span(START), {'VCPU': -4}))

        def read_uses(_uuids: Any) -> Any:
            raise exception.PlacementUnavailable(action='list', detail='away')

        self.patch(self.cloud, 'read_uses', read_uses)
        self.run_at(5)

        self.assertEqual(['pending', 'degraded'], self.list_states())

    def test_two_managers(self) -> None:
        self.fill()
        self.plan(self.maintain(START + 1, END))
        other = managers.make_turn(self.url, self.time, cloud=self.cloud)

        for _pass in range(2):
            self.assertTrue(self.run_at(5))
            self.assertTrue(other.run())

        self.assertEqual(['pending', 'degraded'], self.list_states())
