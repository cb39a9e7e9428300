# SPDX-License-Identifier: Apache-2.0

"""Tests of planned changes of capacity in a store."""

import contextlib
import random
from typing import Any

import fixtures

from nova_ext_resources import exception
from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import capacity_order
from nova_ext_resources.reservation import cause
from nova_ext_resources.reservation import errors
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import planner
from nova_ext_resources.reservation import promise_ledger
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import admission as admission_mod
from nova_ext_resources.reservation.store import capacity as capacity_mod
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import purge
from nova_ext_resources.reservation.store import reader as reader_mod
from nova_ext_resources.reservation.store import records
from nova_ext_resources.reservation.store import slots
from tests.unit.reservation import changes
from tests.unit.reservation import hosts
from tests.unit.reservation.hosts import span
from tests.unit.reservation.store import racing
from tests.unit.reservation.store import stores

State = state.State

Change = capacity_change.CapacityChange


class CapacityTestCase(stores.StoreTestCase):
    """Two hosts of eight CPUs; each server takes four."""

    def setUp(self) -> None:
        super().setUp()
        self.patch(admission_mod, 'FIXED_SECONDS', 0)
        self.database = databases.Database(self.url)
        self.admission = stores.make_admission(self.url)

    def plan(
        self,
        change: Change,
        now: int = 0,
        admission: admission_mod.Admission | None = None,
        **fields: Any,
    ) -> capacity_mod.Outcome:
        return (admission or self.admission).capacity.plan(
            change.key, lambda _fleet, _others: change, now=now, **fields
        )

    def withdraw(
        self, key: str, now: int = 0, **fields: Any
    ) -> capacity_mod.Outcome:
        return self.admission.capacity.withdraw(key, now=now, **fields)

    def refuse(self, call: Any, *args: Any) -> Any:
        before = stores.dump(self.url)
        err = self.assertRaises(errors.CapacityChangeRefused, call, *args)
        self.assertEqual(before, stores.dump(self.url))
        return err

    def get(self, key: str) -> records.Record:
        with self.database.transaction() as connection:
            (found,) = records.list_records(connection, 0, key=key)
        return found

    def list_hosts(self, key: str) -> list[str]:
        return [one.host for one in self.get(key).servers]


class CapacityTest(CapacityTestCase):
    def test_all_others_see_it(self) -> None:
        others = [stores.make_admission(self.url) for _one in range(2)]
        self.admit(others[0], 'before', span(5, 9), least=4)
        others[1].refresh(0)

        self.plan(changes.make_maintenance('x', span(9, 12)))
        self.plan(changes.make_change('y', span(12, 14), {'VCPU': -1}, 'b'))

        for number, other in enumerate(others):
            for start, end, fitting in ((9, 10, 2), (12, 13, 3), (14, 15, 4)):
                answer = self.admit(
                    other, f'{number}.{start}', span(start, end), least=5
                )
                assert isinstance(answer, planner.Refusal)
                assert answer.largest is not None
                self.assertEqual(fitting, len(answer.largest.servers))

    def test_an_upgrade_is_reserved_before_it_comes(self) -> None:
        self.plan(changes.make_change('x', span(10), {'VCPU': 8}))

        before = self.admit(self.admission, 'before', span(9, 12), least=5)
        after = self.admit(self.admission, 'after', span(10, 12), least=6)

        self.assertIsInstance(before, planner.Refusal)
        self.assertIsInstance(after, planner.Plan)
        # It should have come: what placement shows is eight.
        late = self.admit(self.admission, 'late', span(12), 11, least=5)
        self.assertIsInstance(late, planner.Refusal)

    def test_the_rows(self) -> None:
        change = changes.make_change(
            'x',
            span(9, 12),
            {'VCPU': -4, 'PCPU': 2},
            reason='ein Grund 🛑',
            created_by='me',
            created_at=3,
        )
        whole = changes.make_maintenance('y', span(5))

        self.plan(change)
        self.plan(whole)

        found = capacity_mod.list_changes(self.database, 0)
        self.assertEqual((whole, change), found)
        self.assertEqual(
            (whole,), capacity_mod.list_changes(self.database, 12)
        )
        self.assertEqual(
            (change,), capacity_mod.list_changes(self.database, 0, key='x')
        )

    def test_the_same_again(self) -> None:
        change = changes.make_maintenance('x', span(9, 12), created_at=1)
        self.plan(change)
        before = stores.dump(self.url)

        again = changes.make_maintenance('x', span(9, 12), created_at=2)
        outcome = self.plan(again)

        self.assertEqual(change, outcome.change)
        self.assertEqual(before, stores.dump(self.url))
        other = changes.make_maintenance('x', span(9, 13))
        self.assertRaises(errors.CapacityChangeExists, self.plan, other)
        self.assertEqual(before, stores.dump(self.url))

    def test_what_is_promised_refuses_it(self) -> None:
        self.admit(self.admission, 'lease', span(5, 9), least=2)
        self.admit(self.admission, 'large', span(5, 6), least=2)
        self.admit(self.admission, 'other', span(9, 12), least=2)

        err = self.refuse(self.plan, changes.make_maintenance('x', span(5, 9)))

        self.assertEqual(('lease',), err.degraded)
        self.assertEqual((), err.moved)
        self.assertIn('reservations lease would lack', str(err))
        err = self.refuse(self.plan, changes.make_maintenance('x', span(6, 9)))
        self.assertEqual(('lease',), err.degraded)
        err = self.refuse(
            self.plan, changes.make_maintenance('x', span(10, 11))
        )
        self.assertEqual(('other',), err.moved)
        self.assertIn('reservations other would have to be moved', str(err))
        self.assertEqual(
            [], [*capacity_mod.list_changes(self.database, interval.ALWAYS)]
        )

    def test_a_forced_one_moves_what_has_not_started(self) -> None:
        self.admit(self.admission, 'lease', span(5, 9), least=2)
        before = self.get('lease')

        outcome = self.plan(
            changes.make_maintenance('x', span(6, 7)), 4, is_forced=True
        )

        self.assertEqual(['lease'], [*outcome.way.moved])
        self.assertEqual(['b', 'b'], self.list_hosts('lease'))
        after = self.get('lease')
        self.assertEqual(before.during, after.during)
        self.assertEqual(State.PENDING, after.last.state)
        self.assertEqual(4, after.last.changed_at)
        self.assertEqual(
            'moved: host a is in maintenance from 1970-01-01T00:00:06Z to '
            '1970-01-01T00:00:07Z (capacity change x)',
            after.last.reason,
        )
        # Who follows the store has it there.
        refused = self.admit(self.admission, 'more', span(8, 9), least=3)
        assert isinstance(refused, planner.Refusal)
        assert refused.largest is not None
        self.assertEqual({'a'}, {one.host for one in refused.largest.servers})

    def test_a_forced_one_degrades_the_rest(self) -> None:
        self.admit(self.admission, 'running', span(5, 20))
        self.admit(self.admission, 'large', span(10, 20), least=2)
        self.admit(self.admission, 'small', span(10, 20))
        taken = slots.take(
            self.database, 'running', 'server', lambda held: held[0], now=6
        )
        assert taken is not None
        self.assertEqual(['a', 'b'], self.list_hosts('large'))
        self.assertEqual(['b'], self.list_hosts('small'))

        outcome = self.plan(
            changes.make_maintenance('x', span(8, 12)), 6, is_forced=True
        )

        self.assertEqual(('large', 'running'), outcome.way.degraded)
        for key in ('large', 'running'):
            last = self.get(key).last
            self.assertEqual(State.DEGRADED, last.state)
            self.assertIn('host a is in maintenance', last.reason)
        self.assertEqual(['a'], self.list_hosts('running'))
        self.assertEqual(State.PENDING, self.get('small').last.state)
        self.assertEqual(1, len(self.admission.list_changes('small')))

    def test_it_is_taken_back(self) -> None:
        self.plan(changes.make_maintenance('x', span(5, 9)))

        self.withdraw('x')

        self.assertEqual(
            (), capacity_mod.list_changes(self.database, interval.ALWAYS)
        )
        other = stores.make_admission(self.url)
        for admission in (self.admission, other):
            admission.refresh(0)
            fleet = admission._mirror.planner.fleet
            self.assertEqual(
                8, fleet.calendar.find_free(('a', 'VCPU'), span(0))
            )
        self.assertRaises(errors.CapacityChangeNotFound, self.withdraw, 'x')

    def test_more_that_others_count_on_is_not_taken_back(self) -> None:
        self.plan(changes.make_change('x', span(5), {'VCPU': 8}))
        self.admit(self.admission, 'lease', span(5, 9), least=6)

        err = self.refuse(self.withdraw, 'x')

        self.assertEqual(('lease',), err.hurt)
        self.withdraw('x', is_forced=True)
        last = self.get('lease').last
        self.assertEqual(State.DEGRADED, last.state)
        self.assertIn('capacity change x was withdrawn', last.reason)

    def test_rows_are_deleted_once_they_are_over(self) -> None:
        self.plan(changes.make_maintenance('x', span(5, 9)))
        self.plan(changes.make_maintenance('y', span(5, 10)))

        purge.purge(self.database, 9)

        (left,) = capacity_mod.list_changes(self.database, interval.ALWAYS)
        self.assertEqual('y', left.key)

    def test_a_host_that_is_not_there(self) -> None:
        admission = stores.make_admission(self.url, hosts.make_host('b'))
        self.plan(changes.make_maintenance('x', span(5, 9)))

        plan = self.admit(admission, 'lease', span(5, 9), least=2)
        admission.capacity.withdraw('x', now=0)

        self.assertIsInstance(plan, planner.Plan)

    def test_promises_follow(self) -> None:
        promises = promise_ledger.Promises()
        reader = reader_mod.Reader(promises)

        def read() -> None:
            with self.database.transaction() as connection:
                reader.refresh(connection, 0)

        self.admit(self.admission, 'lease', span(5, 9))
        read()
        (slot,) = promises.slots['lease']
        self.plan(changes.make_change('x', span(8, 20), {'VCPU': -2}))
        self.plan(
            changes.make_maintenance('y', span(8, 20)), 0, is_forced=True
        )
        self.withdraw('x')
        self.plan(changes.make_change('x', span(7, 20), {'VCPU': -3}, 'b'))

        read()

        (moved,) = promises.slots['lease']
        self.assertEqual('b', moved.host)
        self.assertIsNone(promises.cuts.find_maintenance(moved, 8))
        found = promises.cuts.find_maintenance(slot, 8)
        self.assertEqual('y', found and found.key)
        for now in (7, 20):
            self.assertIsNone(promises.cuts.find_maintenance(slot, now))
        place = 'b', 'VCPU'
        for now, end, peak in (
            (0, 7, 4),
            (0, 8, 7),
            (0, interval.FOREVER, 7),
            (9, interval.FOREVER, 0),
        ):
            self.assertEqual(peak, promises.find_peak(place, now, end))


class BaseTest(CapacityTestCase):
    """What there would be without any change follows what happens."""

    def make_order(
        self, key: str, amount: int, start: str, **fields: Any
    ) -> Any:
        plan = {
            'name': key,
            'host': 'a',
            'amounts': {'VCPU': amount},
            'starts_at': start,
            **fields,
        }

        def make(fleet: Any, others: Any) -> Change:
            during = capacity_order.read_during(plan, 0)
            return capacity_order.make_change(plan, during, fleet, others, 0)

        return make

    def count(self, start: int, shown: int, now: int = 0) -> int:
        """Return how many CPUs of a host can be reserved from a time on."""
        host = hosts.make_host('a', VCPU=shown)
        admission = stores.make_admission(self.url, host)
        admission.refresh(now)
        calendar = admission._mirror.planner.fleet.calendar
        return calendar.find_free(('a', 'VCPU'), span(start))

    def plan_order(self, key: str, *args: Any, **fields: Any) -> None:
        make = self.make_order(key, *args, **fields)
        self.admission.capacity.plan(key, make, now=0)

    def test_what_was_deleted_counts_nowhere(self) -> None:
        self.plan_order('x', 4, '+10s')
        self.plan_order('y', 4, '+20s')
        self.assertEqual(16, self.count(20, shown=8))

        self.withdraw('x')

        for shown, there in ((8, 12), (12, 12), (16, 16), (4, 8)):
            self.assertEqual(there, self.count(20, shown=shown))

    def test_a_cut_for_good_is_no_upgrade(self) -> None:
        """Planned upgrade, cut and deleted decrease: the upgrade is early."""
        self.plan_order('more', 4, '+99s')
        self.plan_order('less', -4, 'now')
        self.assertEqual(8, self.count(99, shown=4, now=50))
        other = stores.make_admission(self.url, hosts.make_host('a', VCPU=4))

        other.capacity.withdraw('less', now=50)

        for shown in (4, 8):
            self.assertEqual(8, self.count(99, shown=shown, now=60))

    def test_a_cut_that_never_came_leaves_the_upgrade(self) -> None:
        self.plan_order('more', 4, '+99s')
        self.plan_order('less', -4, 'now')

        self.withdraw('less', 50)

        self.assertEqual(12, self.count(99, shown=8, now=60))

    def test_an_upgrade_that_has_come_is_there_for_the_next_one(self) -> None:
        self.plan_order('x', 4, '+10s')
        self.plan_order('y', 4, '+99s')
        other = stores.make_admission(self.url, hosts.make_host('a', VCPU=12))

        other.capacity.withdraw('x', now=20)

        for shown, there in ((12, 16), (16, 16)):
            self.assertEqual(there, self.count(99, shown=shown, now=60))

    def test_what_is_lost_is_noted_with_the_next_plan(self) -> None:
        self.plan_order('x', 4, '+10s')
        other = stores.make_admission(self.url, hosts.make_host('a', VCPU=4))

        other.capacity.plan('y', self.make_order('y', 4, '+20s'), now=0)

        for shown in (4, 8, 12):
            self.assertEqual(12, self.count(20, shown=shown))

    def test_what_was_lost_stays_lost_when_that_plan_is_over(self) -> None:
        self.plan_order('x', 4, '+99s')
        other = stores.make_admission(self.url, hosts.make_host('a', VCPU=4))
        make = self.make_order('y', 4, '+20s', duration='5s')

        other.capacity.plan('y', make, now=0)

        for shown in (4, 8):
            self.assertEqual(8, self.count(99, shown=shown, now=30))


class LostHostTest(CapacityTestCase):
    """The host is disabled: nobody knows what it has."""

    def setUp(self) -> None:
        super().setUp()
        self.plan(changes.make_change('more', span(5), {'VCPU': 8}))
        self.admit(self.admission, 'lease', span(6, 9), least=3)
        self.admit(self.admission, 'before', span(1, 5), least=1)
        self.assertEqual({'a'}, {*self.list_hosts('lease')})
        self.other = stores.make_admission(self.url, hosts.make_host('b'))

    def test_more_is_not_taken_back(self) -> None:
        err = self.refuse(lambda: self.other.capacity.withdraw('more', now=0))

        self.assertEqual(('lease',), err.hurt)
        self.assertIn('reservations count on it', str(err))
        self.assertIn('force', str(err))

    def test_who_counts_on_it_is_degraded(self) -> None:
        outcome = self.other.capacity.withdraw('more', now=0, is_forced=True)

        self.assertEqual(('lease',), outcome.way.degraded)
        last = self.get('lease').last
        self.assertEqual(State.DEGRADED, last.state)
        self.assertIs(cause.Cause.WITHDRAWN, last.cause)

    def test_who_is_in_the_way_of_a_maintenance(self) -> None:
        change = changes.make_maintenance('x', span(2, 5))
        err = self.refuse(self.plan, change, 0, self.other)
        self.assertEqual(('before',), err.hurt)

        self.plan(change, 0, self.other, is_forced=True)

        self.assertEqual(State.DEGRADED, self.get('before').last.state)

    def test_what_is_over_hurts_nobody(self) -> None:
        self.plan(changes.make_change('y', span(1, 4), {'VCPU': 4}))

        outcome = self.other.capacity.withdraw('y', now=4)

        self.assertEqual((), outcome.way.hurt)


class LostAnswerTest(CapacityTestCase):
    """The database has done it, and nobody hears of it."""

    def lose(self) -> Any:
        """Lose the next answer to a write."""
        log = self.useFixture(fixtures.FakeLogger())
        capacity = self.admission.capacity
        write, lost = capacity._write, list[int]()

        def write_once(*args: Any, **kwargs: Any) -> None:
            write(*args, **kwargs)
            if not lost:
                lost.append(1)
                raise exception.RevisionMoved(reason='lost')

        self.patch(capacity, '_write', write_once)
        return log

    def test_a_plan(self) -> None:
        self.admit(self.admission, 'lease', span(5, 9), least=2)
        log = self.lose()

        outcome = self.plan(
            changes.make_maintenance(
                'x', span(6, 7), created_by='ada', reason='a disk'
            ),
            4,
            is_forced=True,
        )

        self.assertEqual(['lease'], [*outcome.way.moved])
        for words in ('by ada, forced', 'a disk', 'Moved: lease', 'none'):
            self.assertIn(words, log.output)

    def test_what_is_taken_back(self) -> None:
        self.plan(changes.make_change('x', span(5), {'VCPU': 8}))
        self.admit(self.admission, 'lease', span(5, 9), least=6)
        log = self.lose()

        outcome = self.withdraw('x', is_forced=True, deleted_by='bob')

        self.assertEqual(('lease',), outcome.way.degraded)
        self.assertIn('x was deleted by bob, forced', log.output)
        self.assertIn('degraded: lease', log.output)

    def test_another_one_of_the_name_is_none(self) -> None:
        change = changes.make_maintenance('x', span(9, 12))
        self.plan(change)
        log = self.lose()

        outcome = self.plan(change)

        self.assertEqual((), outcome.way.hurt)
        self.assertNotIn('was planned', log.output)


class RaceTest(CapacityTestCase):
    """A change and a reservation at the same time: one comes second."""

    #: Of :meth:`test_many_at_random`.
    STEPS = 150

    def interrupt(self, admission: Any, name: str, other: Any) -> None:
        """Let something happen between the plan and the first write."""
        target = admission if name == '_write' else admission.capacity
        write = target._write

        def come_second(*args: Any, **kwargs: Any) -> None:
            target._write = write
            other()
            write(*args, **kwargs)

        target._write = come_second

    def test_a_reservation_comes_second(self) -> None:
        slow = stores.make_admission(self.url, hosts.make_host('a'))
        self.interrupt(
            slow,
            '_write',
            lambda: self.plan(
                changes.make_change('x', span(6, 7), {'VCPU': -1})
            ),
        )

        answer = self.admit(slow, 'lease', span(5, 9), least=2)

        self.assertIsInstance(answer, planner.Refusal)
        self.assertEqual(0, stores.count_peak(self.url, 'a'))

    def test_a_change_comes_second(self) -> None:
        slow = stores.make_admission(self.url, hosts.make_host('a'))
        self.interrupt(
            slow,
            'capacity',
            lambda: self.admit(self.admission, 'lease', span(5, 9), least=2),
        )
        change = changes.make_change('x', span(6, 7), {'VCPU': -1})

        err = self.assertRaises(
            errors.CapacityChangeRefused, self.plan, change, 0, slow
        )

        self.assertEqual(('lease',), err.hurt)
        self.assertEqual(8, stores.count_peak(self.url, 'a'))

    def test_two_changes(self) -> None:
        slow = stores.make_admission(self.url)
        self.admit(self.admission, 'lease', span(5, 9))
        self.interrupt(
            slow,
            'capacity',
            lambda: self.plan(
                changes.make_change('x', span(6, 8), {'VCPU': -3})
            ),
        )
        change = changes.make_change('y', span(7, 9), {'VCPU': -3})

        self.assertRaises(
            errors.CapacityChangeRefused, self.plan, change, 0, slow
        )

    def test_who_dies_in_a_forced_change_leaves_all_or_nothing(self) -> None:
        self.admit(self.admission, 'lease', span(5, 9), least=2)
        self.admit(self.admission, 'large', span(20, 29), least=3)
        change = changes.make_maintenance('x', span(6, 25))

        def run(admission: admission_mod.Admission) -> None:
            self.plan(change, 1, admission, is_forced=True)

        before, step = stores.dump(self.url), 1
        while racing.die_after(self.url, step, run, 'ab'):
            self.assertEqual(before, stores.dump(self.url), f'step {step}')
            step += 1
        self.assertGreater(step, 5)
        self.assertEqual(['b', 'b'], self.list_hosts('lease'))
        self.assertEqual(State.DEGRADED, self.get('large').last.state)

    def test_many_at_random(self) -> None:
        dice = random.Random(7)
        others = [stores.make_admission(self.url) for _one in range(3)]
        seen = set()
        for number in range(self.STEPS):
            with contextlib.suppress(exception.ExtResourcesError):
                seen.add(self.act(dice.choice(others), f'k{number}', dice))
            self.check_all(others)
        self.assertEqual({'admit', 'cancel', 'plan', 'withdraw'}, seen)

    def act(
        self,
        admission: admission_mod.Admission,
        key: str,
        dice: random.Random,
    ) -> str:
        start = dice.randint(1, 12)
        during = span(start, start + dice.randint(1, 6))
        mirror, kind = admission._mirror, dice.random()
        if kind < 0.5:
            self.admit(admission, key, during, least=dice.choice([1, 2]))
            return 'admit'
        if kind < 0.6 and mirror.held:
            admission.change(
                dice.choice([*mirror.held]),
                State.CANCELLED,
                now=0,
                reason='not needed',
            )
            return 'cancel'
        if kind < 0.75 and mirror.changes:
            one = dice.choice(mirror.changes)
            admission.capacity.withdraw(one.key, now=0, is_forced=True)
            return 'withdraw'
        host, amount = dice.choice('ab'), dice.choice([-4, -2, 4, 0])
        change = changes.make_maintenance(key, during, host)
        if amount:
            change = changes.make_change(key, during, {'VCPU': amount}, host)
        self.plan(change, 0, admission, is_forced=dice.random() < 0.5)
        return 'plan'

    def check_all(self, others: list[admission_mod.Admission]) -> None:
        """Check that nobody has too much but who is degraded, in all eyes."""
        planned = capacity_mod.list_changes(self.database, 0)
        with self.database.transaction() as connection:
            found = records.list_records(connection, 0)
        well = [one for one in found if one.last.state is not State.DEGRADED]
        for name in 'ab':
            for second in range(20):
                left = 8
                for one in planned:
                    if one.host == name and one.during.overlaps(
                        span(second, second + 1)
                    ):
                        left += one.amounts.get('VCPU', -1000)
                used = sum(
                    4
                    for one in well
                    for server in one.servers
                    if server.host == name
                    and one.during.start <= second < one.during.end
                )
                self.assertLessEqual(used, max(left, 0), (name, second))
                for admission in others:
                    admission.refresh(0)
                    calendar = admission._mirror.planner.fleet.calendar
                    self.assertEqual(
                        max(left, 0),
                        next(
                            capacity
                            for _part, capacity, _used in calendar.list_steps(
                                (name, 'VCPU'), span(second, second + 1)
                            )
                        ),
                    )
