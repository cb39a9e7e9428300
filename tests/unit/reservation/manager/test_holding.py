# SPDX-License-Identifier: Apache-2.0

"""Room that is held in placement for servers that are planned."""

from typing import Any
from unittest import mock

import fixtures

from nova_ext_resources.claims import extra_specs
from nova_ext_resources import exception
from nova_ext_resources.objects import planned_hold
from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation.manager import holding
from nova_ext_resources.reservation.manager import turn as turn_mod
from nova_ext_resources.reservation import state as state_mod
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import purge
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import slots
from tests.unit.reservation import hosts
from tests.unit.reservation.manager import clouds
from tests.unit.reservation.manager import managers
from tests.unit.reservation.store import stores

START, END, LEAD = 100_000, 200_000, 1000

#: When slots are held from.
HELD = START - LEAD

State = state_mod.State


def make_blocking(lead: int = LEAD) -> turn_mod.Blocking:
    return turn_mod.Blocking(lead=lead, grammar=extra_specs.Grammar())


class BlockingTestCase(stores.StoreTestCase):
    """Two hosts of eight CPUs, and slots of four."""

    lead: int | None = LEAD

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.database = databases.Database(self.url)
        self.admission = stores.make_admission(self.url)
        self.time = managers.Time(0)
        self.cloud = clouds.FakeCloud()
        self.turn = self.make_turn(self.lead)

    def make_turn(self, lead: int | None = LEAD, **fields: Any) -> Any:
        blocking = None if lead is None else make_blocking(lead)
        return managers.make_turn(
            self.url, self.time, cloud=self.cloud, blocking=blocking, **fields
        )

    def reserve(
        self,
        key: str = 'lease',
        start: int = START,
        end: int = END,
        **fields: Any,
    ) -> None:
        fields = {'least': 2, 'project': 'p', **fields}
        self.admit(self.admission, key, hosts.span(start, end), **fields)

    def run_at(self, clock: float, turn: Any = None) -> bool:
        self.time.clock = clock
        return bool((turn or self.turn).run())

    def get_slots(self, key: str = 'lease') -> servers.PlannedServers:
        with self.database.transaction() as connection:
            found = servers.read_servers(connection, [key], interval.ALWAYS)
        return found.get(key, ())

    def plan(
        self, change: capacity_change.CapacityChange, now: int = 0
    ) -> None:
        """Plan a change of capacity, whatever it takes."""
        self.admission.capacity.plan(
            change.key, lambda _fleet, _others: change, now=now, is_forced=True
        )

    def list_holds(self) -> list[str]:
        """Return the slots whose room is held, of all reservations."""
        with self.database.transaction() as connection:
            keys = servers.list_unfinished(connection, interval.ALWAYS)
            found = servers.read_servers(connection, keys, interval.ALWAYS)
        names = {
            planned_hold.make_consumer(one.key): one.key
            for ones in found.values()
            for one in ones
        }
        return sorted(names.get(one, one) for one in self.cloud.holds)

    def list_reasons(self, key: str = 'lease') -> list[str]:
        return [one.reason for one in managers.list_changes(self.url, key)]

    def change(self, key: str, state: State, now: int) -> None:
        self.admission.change(key, state, now=now, reason='test')


class HoldingTest(BlockingTestCase):
    def test_slots_are_held_in_time(self) -> None:
        self.reserve()
        self.run_at(HELD - 1)
        self.assertEqual([], self.list_holds())

        self.assertTrue(self.run_at(HELD))

        self.assertEqual(['lease/0', 'lease/1'], self.list_holds())
        for one in self.get_slots():
            consumer = planned_hold.make_consumer(one.key)
            self.assertEqual(one.places, self.cloud.held[consumer])
            self.assertEqual('p', self.cloud.holds[consumer])

    def test_they_are_held_until_the_end(self) -> None:
        self.reserve()
        for clock in (HELD, START, END - 1):
            self.run_at(clock)
            self.assertEqual(['lease/0', 'lease/1'], self.list_holds())

        self.run_at(END)

        self.assertEqual([], self.list_holds())

    def test_they_may_be_held_from_the_moment_of_the_reservation(
        self,
    ) -> None:
        self.reserve()

        self.run_at(1, self.make_turn(interval.FOREVER))

        self.assertEqual(['lease/0', 'lease/1'], self.list_holds())

    def test_nothing_is_short_for_what_is_held(self) -> None:
        self.reserve(least=4)
        self.run_at(HELD)
        self.assertEqual(4, len(self.cloud.holds))

        self.run_at(START)

        self.assertEqual(
            ['pending', 'active'], managers.list_states(self.url, 'lease')
        )

    def test_the_planner_does_not_count_it_twice(self) -> None:
        self.reserve()
        self.run_at(HELD)

        found = slots.list_places(self.database, HELD)

        self.assertEqual(
            {
                planned_hold.make_consumer(one.key): one.places
                for one in self.get_slots()
            },
            found,
        )

    def test_a_slot_that_is_taken_is_not_held(self) -> None:
        self.reserve()
        self.run_at(HELD)
        slots.take(
            self.database, 'lease', 'one', lambda held: held[0], now=HELD
        )
        self.run_at(HELD + 1)
        # Until its server has what it needs.
        self.assertEqual(['lease/0', 'lease/1'], self.list_holds())

        self.cloud.hold('one', 'a', 4)
        self.run_at(HELD + 2)

        self.assertEqual(['lease/1'], self.list_holds())
        self.assertIn('one', self.cloud.held)

    def test_nothing_is_held_by_what_was_read_before(self) -> None:
        """A server takes a slot while the manager works."""
        self.reserve()
        take_hold = self.cloud.take_hold

        def take_first(*args: Any) -> None:
            slots.take(
                self.database, 'lease', 'one', lambda held: held[1], now=HELD
            )
            take_hold(*args)

        with mock.patch.object(self.cloud, 'take_hold', take_first):
            self.run_at(HELD)

        self.assertEqual(['lease/0'], self.list_holds())

    def test_what_is_released_is_not_held(self) -> None:
        self.reserve()
        self.reserve('other')
        self.run_at(HELD)

        self.change('lease', State.CANCELLED, HELD)
        self.run_at(HELD + 1)

        self.assertEqual(['other/0', 'other/1'], self.list_holds())

    def test_what_is_moved_is_held_on_its_new_host(self) -> None:
        self.reserve(least=1)
        self.run_at(HELD)
        (before,) = self.get_slots()
        self.cloud.enabled[before.host] = False

        self.run_at(HELD + 1)
        self.run_at(HELD + 200)

        (after,) = self.get_slots()
        self.assertNotEqual(before.host, after.host)
        (places,) = self.cloud.held.values()
        self.assertEqual(after.places, places)

    def test_nothing_is_released_by_a_clock_that_is_not_trusted(
        self,
    ) -> None:
        self.reserve()
        turn = self.make_turn(wait=300)
        self.run_at(HELD, turn)
        self.assertEqual(2, len(self.cloud.holds))

        self.run_at(END, turn)
        self.run_at(END, self.make_turn(wait=300))

        self.assertEqual(2, len(self.cloud.holds))

    def test_placement_is_asked_of_some_holds_in_each_pass(self) -> None:
        self.useFixture(fixtures.MockPatchObject(holding, 'VERIFIED', 1))
        self.reserve(least=4)
        self.run_at(HELD)
        asked = []
        take_hold = self.cloud.take_hold

        def take(consumer: str, *args: Any) -> None:
            asked.append(consumer)
            take_hold(consumer, *args)

        with mock.patch.object(self.cloud, 'take_hold', take):
            for second in range(1, 9):
                self.run_at(HELD + second)

        each = [planned_hold.make_consumer(f'lease/{one}') for one in range(4)]
        self.assertEqual(each * 2, asked)
        self.assertEqual(0, self.cloud.searched)

    def test_the_first_come_first_if_there_are_many(self) -> None:
        self.useFixture(fixtures.MockPatchObject(holding, 'MOST', 3))
        self.useFixture(fixtures.MockPatchObject(holding, 'VERIFIED', 0))
        self.reserve('second', START + 1)
        self.reserve('first')

        self.assertTrue(self.run_at(HELD + 1))
        self.assertEqual(['first/0', 'first/1', 'second/0'], self.list_holds())
        self.run_at(HELD + 2)

        self.assertEqual(4, len(self.cloud.holds))

    def test_what_is_not_known_yet_is_not_searched(self) -> None:
        self.useFixture(fixtures.MockPatchObject(holding, 'MOST', 1))
        self.useFixture(fixtures.MockPatchObject(holding, 'VERIFIED', 0))
        self.reserve()
        self.run_at(HELD)
        self.run_at(HELD + 1)
        self.assertEqual(2, len(self.cloud.holds))

        self.run_at(HELD + 2, self.make_turn())

        self.assertEqual(0, self.cloud.searched)

    def test_what_was_deleted_is_held_again(self) -> None:
        self.useFixture(fixtures.MockPatchObject(holding, 'VERIFIED', 0))
        self.reserve()
        self.run_at(HELD)
        self.cloud.release_hold(planned_hold.make_consumer('lease/0'))

        self.run_at(HELD + 1)
        self.run_at(HELD + 2)

        self.assertEqual(['lease/0', 'lease/1'], self.list_holds())
        self.assertIn('do not delete', self.log.output)


class NoRoomTest(BlockingTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.MockPatchObject(holding, 'VERIFIED', 0))

    def test_it_is_tried_again_after_pauses_that_grow(self) -> None:
        self.reserve(least=4)
        self.cloud.hold('plain', 'a', 1)
        tries = []

        for second in range(0, LEAD, 5):
            take = mock.Mock(wraps=self.cloud.take_hold)
            with mock.patch.object(self.cloud, 'take_hold', take):
                self.run_at(HELD + second)
            tries += [second] * (take.call_count > 0)

        self.assertEqual([0, 15, 45, 105, 225, 465, 765], tries)
        self.assertEqual(3, len(self.cloud.holds))
        self.assertEqual(1, self.log.output.count('Could not hold the room'))
        self.cloud.holders.discard('plain')
        self.run_at(START)
        self.assertEqual(4, len(self.cloud.holds))

    def test_a_clock_that_was_ahead_puts_off_no_try(self) -> None:
        self.turn = self.make_turn(interval.FOREVER)
        self.reserve(least=4)
        self.cloud.hold('plain', 'a', 1)
        self.run_at(5000)
        self.assertEqual(3, len(self.cloud.holds))
        self.cloud.holders.discard('plain')

        self.run_at(1)

        self.assertEqual(4, len(self.cloud.holds))

    def test_at_the_start_it_is_tried_and_the_promise_is_broken(self) -> None:
        self.reserve(least=4)
        self.cloud.hold('plain', 'a', 1)
        self.run_at(HELD)

        self.run_at(START)

        self.assertEqual(
            'degraded', managers.list_states(self.url, 'lease')[-1]
        )
        self.assertIn(
            'room is missing on host a: 1 VCPU', self.list_reasons()[-1]
        )

    def test_and_kept_once_there_is_room(self) -> None:
        self.reserve(least=4)
        self.cloud.hold('plain', 'a', 1)
        self.run_at(HELD)
        self.run_at(START)
        self.cloud.holders.discard('plain')

        self.run_at(START + 600)

        self.assertEqual(4, len(self.cloud.holds))
        self.assertEqual('active', managers.list_states(self.url, 'lease')[-1])

    def test_who_begins_earlier_comes_first(self) -> None:
        """The later one was reserved first, and is held for long."""
        self.turn = self.make_turn(interval.FOREVER)
        self.reserve('later', START, END, least=4)
        self.run_at(1)
        self.assertEqual(4, len(self.list_holds()))

        self.reserve('early', 1000, START, least=4)
        self.run_at(2)

        self.assertEqual(
            [f'early/{number}' for number in range(4)], self.list_holds()
        )
        self.run_at(START)
        self.run_at(START + 1)
        self.assertEqual(
            [f'later/{number}' for number in range(4)], self.list_holds()
        )

    def test_it_takes_nothing_from_others_in_vain(self) -> None:
        self.turn = self.make_turn(interval.FOREVER)
        self.reserve('later', START, END, least=1)
        self.run_at(1)
        self.cloud.hold('plain', 'a', 5)

        self.reserve('early', 1000, START, least=1)
        self.run_at(2)

        self.assertEqual(['later/0'], self.list_holds())

    def test_nothing_later_is_held_where_a_server_is_about_to_claim(
        self,
    ) -> None:
        self.turn = self.make_turn(interval.FOREVER)
        self.reserve('early', 1000, START, least=4)
        self.reserve('later', START, END, least=4)
        self.run_at(1)
        self.run_at(1000)
        slots.take(
            self.database, 'early', 'one', lambda held: held[0], now=1000
        )
        self.cloud.release_hold(planned_hold.make_consumer('early/0'))

        self.run_at(1020)
        self.run_at(1100)
        self.assertNotIn('later', ' '.join(self.list_holds()))
        self.cloud.hold('one', 'a', 4)
        self.run_at(1400)

        self.assertNotIn('later', ' '.join(self.list_holds()))


class LeftoversTest(BlockingTestCase):
    def leave(self) -> None:
        """Have a manager die after all is held, and all rows go."""
        self.reserve()
        self.run_at(HELD)
        self.change('lease', State.CANCELLED, HELD)
        self.assertEqual(1, purge.purge(self.database, END))
        self.assertEqual(2, len(self.cloud.holds))

    def test_what_a_manager_has_left_is_found(self) -> None:
        self.leave()

        self.run_at(HELD + 1, self.make_turn())

        self.assertEqual({}, self.cloud.holds)
        self.assertEqual(1, self.cloud.searched)

    def test_also_where_nothing_is_held_any_more(self) -> None:
        self.leave()

        self.run_at(HELD + 1, self.make_turn(None))

        self.assertEqual({}, self.cloud.holds)

    def test_also_in_one_pass(self) -> None:
        self.leave()

        self.run_at(HELD + 1, self.make_turn(is_once=True))

        self.assertEqual({}, self.cloud.holds)

    def test_what_others_have_reserved_meanwhile_is_kept(self) -> None:
        """While a manager reads all providers, another one holds more."""
        self.leave()
        find = self.cloud.list_holds
        turn = self.make_turn()

        def reserve_first() -> Any:
            self.reserve('new', least=1)
            self.cloud.take_hold(
                planned_hold.make_consumer('new/0'), 'p', {('b', 'VCPU'): 4}
            )
            return find()

        with mock.patch.object(self.cloud, 'list_holds', reserve_first):
            self.run_at(HELD + 1, turn)

        self.assertIn('new/0', self.list_holds())

    def test_two_managers_hold_one_thing_each_once(self) -> None:
        self.reserve()
        other = self.make_turn()
        self.run_at(HELD)
        self.run_at(HELD, other)

        self.change('lease', State.CANCELLED, HELD)
        self.run_at(HELD + 1, other)
        self.run_at(HELD + 2)

        self.assertEqual({}, self.cloud.holds)
        self.assertEqual(0, self.cloud.searched)

    def test_placement_is_searched_now_and_then(self) -> None:
        self.cloud.holds['unknown'] = ''
        with mock.patch.object(
            self.cloud,
            'release_hold',
            side_effect=exception.PlacementUnavailable(
                action='delete', detail='away', status=500
            ),
        ):
            self.assertFalse(self.run_at(1000))
            self.run_at(1010)
            self.assertEqual(1, self.cloud.searched)

            self.run_at(1000 + holding.SEARCH_SECONDS)

        self.assertEqual(2, self.cloud.searched)
