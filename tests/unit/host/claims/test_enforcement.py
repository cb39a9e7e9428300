# SPDX-License-Identifier: Apache-2.0

from collections.abc import Sequence
import dataclasses
import threading
from typing import Any, ClassVar, cast

import fixtures
from oslo_config import cfg

from nova_ext_resources.claims.trackers import count
from nova_ext_resources.drivers import base as plugins_base
from nova_ext_resources import exception
from nova_ext_resources.host.claims import enforcement
from nova_ext_resources.host.claims import locks
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import tunable_units
from nova_ext_resources import plugins
from tests import base
from tests.unit import builders
from tests.unit.host.ledger import test_ledger

WAYS = builders.WAYS
SEATS = builders.SEATS

WAIT = 60.0


class Recorder(plugins_base.Enforcer):
    """Writes down what is asked of it, and fails when told to."""

    RESOURCE_CLASSES: ClassVar[frozenset[str] | None] = None
    NAME = 'recorder'

    def __init__(
        self, options: cfg.ConfigOpts.GroupAttr, calls: list[str]
    ) -> None:
        super().__init__(options, 'host1')
        self.calls = calls
        self.failing: set[str] = set()
        self.bug: Exception | None = None
        self.answer: Any = 'as asked'
        self.obstacle = ''
        self.applied: frozenset[str] | None = frozenset()
        self.tunables: tuple[tunable_units.Tunable, ...] = ()
        self.was_set: list[tunable_units.Tunable] = []

    def act(self, what: str, entry: assignment.Entry | None = None) -> None:
        self.calls.append(f'{self.NAME} {what}')
        if self.bug is not None:
            raise self.bug
        if what in self.failing:
            raise exception.EnforcementFailed(
                host=self.host,
                enforcer=self.NAME,
                consumer_uuid=entry.consumer_uuid if entry else '',
                reason=f'{what} does not work',
            )

    def apply(
        self, entry: assignment.Entry
    ) -> tuple[assignment.Assignment, ...]:
        self.act('apply', entry)
        answer = (
            entry.assignments if self.answer == 'as asked' else self.answer
        )
        return cast(tuple[assignment.Assignment, ...], answer)

    def release(self, entry: assignment.Entry) -> None:
        self.act('release', entry)

    def list_applied(self) -> frozenset[str] | None:
        self.act('list')
        return self.applied

    def is_applied(self, entry: assignment.Entry) -> bool:
        self.act('look', entry)
        return True

    def check_ready(self) -> None:
        self.act('ready')

    def find_host_problem(self) -> str:
        self.act('find')
        return self.obstacle

    def list_tunables(self) -> tuple[tunable_units.Tunable, ...]:
        self.act('list tunables')
        return self.tunables

    def set_tunables(self, tunables: Sequence[tunable_units.Tunable]) -> None:
        self.act('set tunables')
        self.was_set += tunables


class Ways(Recorder):
    RESOURCE_CLASSES: ClassVar[frozenset[str] | None] = frozenset({WAYS})
    NAME = 'ways'


class Seats(Recorder):
    RESOURCE_CLASSES: ClassVar[frozenset[str] | None] = frozenset({SEATS})
    NAME = 'seats'


class EnforcementTestCase(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.calls: list[str] = []
        options = plugins.register_opts(self.conf, 'recorder', ())
        self.ways = Ways(options, self.calls)
        self.all = Recorder(options, self.calls)
        self.seats = Seats(options, self.calls)
        self.enforcement = enforcement.Enforcement(
            'host1', {'ways': self.ways, 'all': self.all, 'seats': self.seats}
        )
        self.entry = make_entry('server')
        self.claimed = make_entry('server', state=assignment.State.CLAIMED)


def make_entry(
    uuid: str,
    mask: str = 'f',
    state: assignment.State = assignment.State.APPLIED,
) -> assignment.Entry:
    return test_ledger.make_entry(
        uuid,
        assignments=(builders.make_assignment(units={'mask': mask}),),
        state=state,
    )


class ApplyTest(EnforcementTestCase):
    def test_those_that_serve_a_class_run_in_order(self) -> None:
        self.enforcement.apply(self.entry)

        self.assertEqual(['ways apply', 'recorder apply'], self.calls)

    def test_release_runs_in_the_opposite_order(self) -> None:
        done, failures = self.enforcement.release_all([self.entry])

        self.assertEqual(['recorder release', 'ways release'], self.calls)
        self.assertEqual(([self.entry], []), (done, failures))

    def test_what_was_done_before_a_failure_is_undone(self) -> None:
        self.all.failing = {'apply'}

        err = self.assertRaises(
            exception.EnforcementFailed, self.enforcement.apply, self.claimed
        )

        self.assertIn('apply does not work', str(err))
        self.assertEqual(
            ['ways apply', 'recorder apply', 'ways release'], self.calls
        )

    def test_a_server_that_runs_on_it_keeps_what_works(self) -> None:
        self.all.failing = {'apply'}

        self.assertRaises(
            exception.EnforcementFailed, self.enforcement.apply, self.entry
        )

        self.assertEqual(['ways apply', 'recorder apply'], self.calls)

    def test_the_last_one_is_undone_first(self) -> None:
        options = plugins.register_opts(self.conf, 'recorder', ())
        last = Ways(options, self.calls)
        last.failing = {'apply'}
        chain = enforcement.Enforcement(
            'host1', {'ways': self.ways, 'all': self.all, 'last': last}
        )

        self.assertRaises(
            exception.EnforcementFailed, chain.apply, self.claimed
        )

        self.assertEqual(['recorder release', 'ways release'], self.calls[-2:])

    def test_an_undo_that_fails_hides_no_reason(self) -> None:
        self.all.failing = {'apply'}
        self.ways.failing = {'release'}

        err = self.assertRaises(
            exception.EnforcementFailed, self.enforcement.apply, self.claimed
        )

        self.assertIn('apply does not work', str(err))
        self.assertIn('could not undo', self.log.output)
        self.assertIn('release does not work', self.log.output)

    def test_one_that_cannot_release_stops_no_other(self) -> None:
        self.all.failing = {'release'}
        other = make_entry('other')

        done, failures = self.enforcement.release_all([self.entry, other])

        self.assertEqual(2, self.calls.count('ways release'))
        self.assertEqual([], done)
        self.assertEqual(2, len(failures))

    def test_units_that_one_changed_are_what_the_next_one_gets(self) -> None:
        real = (builders.make_assignment(units={'mask': 'f0'}),)

        class Changing(Ways):
            def apply(
                self, entry: assignment.Entry
            ) -> tuple[assignment.Assignment, ...]:
                return real

        class Watching(Ways):
            def apply(
                self, entry: assignment.Entry
            ) -> tuple[assignment.Assignment, ...]:
                self.calls.append(str(entry.assignments == real))
                return entry.assignments

        options = plugins.register_opts(self.conf, 'recorder', ())
        chain = enforcement.Enforcement(
            'host1',
            {
                'first': Changing(options, self.calls),
                'second': Watching(options, self.calls),
            },
        )

        self.assertEqual(real, chain.apply(self.entry))
        self.assertEqual(['True'], self.calls)


class ReadyTest(EnforcementTestCase):
    def test_only_those_that_would_apply_it_are_asked(self) -> None:
        self.enforcement.check_ready({SEATS})

        self.assertEqual(['recorder ready', 'seats ready'], self.calls)

    def test_the_first_that_is_not_ready_has_its_name(self) -> None:
        self.all.bug = KeyError('no such tool')

        err = self.assertRaises(
            exception.EnforcementFailed, self.enforcement.check_ready, {WAYS}
        )

        self.assertIn('Enforcer all on host host1 failed: KeyError', str(err))


class RefusedTest(EnforcementTestCase):
    """The classes of which a new claim would fail."""

    def find(self, *problems: alarm.Problem) -> dict[str, str]:
        return self.enforcement.find_refused({WAYS, SEATS}, problems)

    def test_what_is_not_ready_until_it_is(self) -> None:
        self.assertEqual({}, self.find())
        self.seats.failing.add('ready')

        self.assertRaises(
            exception.EnforcementFailed, self.enforcement.check_ready, {SEATS}
        )
        # Another plugin has nothing for it.
        self.enforcement.check_ready({WAYS})

        self.assertEqual({SEATS: alarm.DISCOVERY_FAILED}, self.find())
        self.seats.failing.clear()
        self.enforcement.check_ready({SEATS})
        self.assertEqual({}, self.find())

    def test_each_is_asked_whether_or_not_others_are_ready(self) -> None:
        for failing in ((self.ways, self.seats), (self.ways,)):
            for one in (self.ways, self.seats):
                one.failing = {'ready'} if one in failing else set()

            self.assertRaises(
                exception.EnforcementFailed,
                self.enforcement.check_ready,
                {WAYS, SEATS},
            )

            self.assertEqual(
                {SEATS, WAYS} if self.seats in failing else {WAYS},
                self.find().keys(),
            )

    def test_only_alarms_about_an_enforcer_stop_its_classes(self) -> None:
        for name, kind in alarm.KINDS.items():
            for subject, served in (('ways', {WAYS}), ('other', set())):
                problem = alarm.Problem(alarm=name, subject=subject, text='x')

                found = self.find(problem)

                is_stopped = kind.subject == 'enforcer'
                self.assertEqual(
                    dict.fromkeys(served, name) if is_stopped else {}, found
                )
        stopping = {
            name
            for name, one in alarm.KINDS.items()
            if one.subject == 'enforcer'
        }
        self.assertEqual(
            {alarm.ENFORCER_FAILED, alarm.RESCTRL_MISSING}, stopping
        )


class UnchangedTest(EnforcementTestCase):
    """What is found without changing the host."""

    def test_one_that_can_apply_is_only_read(self) -> None:
        self.enforcement.check_unchanged('seats')

        self.assertEqual(['seats list', 'seats find'], self.calls)

    def test_an_obstacle_is_a_failure_with_its_reason(self) -> None:
        self.seats.obstacle = 'the seats are locked; unlock them'

        err = self.assertRaises(
            exception.EnforcementFailed,
            self.enforcement.check_unchanged,
            'seats',
        )

        self.assertIn('seats on host host1 failed: the seats are', str(err))

    def test_whatever_it_raises_is_a_failure(self) -> None:
        self.seats.bug = KeyError('no such tool')

        err = self.assertRaises(
            exception.EnforcementFailed,
            self.enforcement.check_unchanged,
            'seats',
        )

        self.assertIn('KeyError', str(err))


class BugTest(EnforcementTestCase):
    """An enforcer raises what no enforcer should."""

    def setUp(self) -> None:
        super().setUp()
        self.all.bug = KeyError('L3_7')

    def test_it_is_named_with_what_it_raised(self) -> None:
        err = self.assertRaises(
            exception.EnforcementFailed, self.enforcement.apply, self.claimed
        )

        for words in ('Enforcer all', 'host1', 'server', "KeyError: 'L3_7'"):
            self.assertIn(words, str(err))
        self.assertEqual('ways release', self.calls[-1])

    def test_a_release_goes_on_with_the_others(self) -> None:
        done, (failure,) = self.enforcement.release_all([self.entry])

        self.assertEqual([], done)
        self.assertIn('KeyError', str(failure))
        self.assertEqual('ways release', self.calls[-1])

    def test_it_cannot_tell_what_is_in_force(self) -> None:
        applied, (problem,) = self.enforcement.list_applied()

        self.assertEqual({'ways', 'seats'}, set(applied))
        self.assertIn('KeyError', str(problem))

    def test_an_answer_that_is_none_never_reaches_the_ledger(self) -> None:
        self.all.bug = None
        for answer in (None, (), ('f',)):
            with self.subTest(answer=answer):
                self.all.answer = answer

                err = self.assertRaises(
                    exception.EnforcementFailed,
                    self.enforcement.apply,
                    self.entry,
                )

                self.assertIn('all', str(err))

    def test_what_cannot_be_looked_at_closer_is_applied_again(self) -> None:
        lost = self.enforcement.list_lost(
            [self.entry], {'all': frozenset({'server'})}
        )

        self.assertEqual({'server'}, lost)
        self.assertIn("KeyError: 'L3_7'", self.log.output)


class HealingTest(EnforcementTestCase):
    def plan(
        self, *entries: assignment.Entry, **applied: frozenset[str]
    ) -> list[str]:
        return sorted(self.enforcement.list_lost(entries, applied))

    def test_nothing_is_done_where_all_is_in_force(self) -> None:
        names = frozenset({'server'})

        self.assertEqual([], self.plan(self.entry, ways=names, all=names))

    def test_what_one_enforcer_has_lost_is_restored(self) -> None:
        names = frozenset({'server'})

        self.assertEqual(
            ['server'], self.plan(self.entry, ways=frozenset(), all=names)
        )

    def test_an_enforcer_that_does_not_serve_it_has_lost_nothing(
        self,
    ) -> None:
        names = frozenset({'server'})

        self.assertEqual(
            [], self.plan(self.entry, ways=names, seats=frozenset())
        )

    def test_an_enforcer_that_cannot_tell_has_lost_nothing(self) -> None:
        self.assertEqual([], self.plan(self.entry))

    def test_what_is_under_way_is_left_alone(self) -> None:
        for state in (assignment.State.CLAIMED, assignment.State.RELEASING):
            entry = make_entry('server', state=state)

            self.assertEqual([], self.plan(entry, ways=frozenset()))

    def test_one_that_cannot_tell_is_a_problem(self) -> None:
        self.ways.failing = {'list'}
        self.seats.applied = None

        applied, problems = self.enforcement.list_applied()

        self.assertEqual({'all': frozenset()}, applied)
        (problem,) = problems
        self.assertIn('list does not work', str(problem))
        self.assertEqual(
            (alarm.ENFORCER_FAILED, 'ways'), (problem.alarm, problem.subject)
        )

    def test_a_class_must_be_served_by_somebody(self) -> None:
        only = enforcement.Enforcement('host1', {'ways': self.ways})
        only.check_served(WAYS)

        err = self.assertRaises(
            exception.InvalidConfiguration, only.check_served, SEATS
        )

        self.assertIn('enforcers = ways', str(err))
        self.assertIn(SEATS, str(err))
        self.enforcement.check_served('CUSTOM_ANYTHING')


class ReleasedTest(EnforcementTestCase):
    def test_who_was_released_is_remembered(self) -> None:
        self.enforcement.release_all([self.entry])

        self.assertEqual(['server'], list(self.enforcement.released))

    def test_one_whose_release_failed_is_not(self) -> None:
        self.ways.failing = {'release'}
        self.enforcement.release_all([self.entry])

        self.assertEqual([], list(self.enforcement.released))

    def test_only_the_last_ones_are_remembered(self) -> None:
        many = [make_entry(f'{number}') for number in range(1030)]
        self.enforcement.release_all(many)
        self.enforcement.release_all(many[6:7])

        released = self.enforcement.released
        self.assertNotIn('0', released)
        self.assertNotIn('5', released)
        self.assertEqual(['1029', '6'], list(released)[-2:])

    def test_only_who_is_named_is_asked_to_release_it(self) -> None:
        self.enforcement.release_orphan('x', ['ways'])

        self.assertEqual(['ways release'], self.calls)
        self.assertIn('server x, which has no claim', self.log.output)


class ServerLocksTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.locks = locks.ServerLocks()

    def try_to_hold(
        self, uuid: str
    ) -> tuple[threading.Thread, threading.Event]:
        got = threading.Event()

        def hold() -> None:
            with self.locks.hold(uuid):
                got.set()

        thread = threading.Thread(target=hold)
        thread.start()
        self.addCleanup(thread.join)
        return thread, got

    def test_one_server_waits_and_another_does_not(self) -> None:
        with self.locks.hold('a'):
            _, same = self.try_to_hold('a')
            _, other = self.try_to_hold('b')

            self.assertTrue(other.wait(WAIT))
            self.assertFalse(same.wait(0.05))

        self.assertTrue(same.wait(WAIT))

    def test_whoever_waits_for_rest_is_woken_by_the_last_one(self) -> None:
        done = threading.Event()

        def wait() -> None:
            self.locks.wait_until_free(WAIT)
            done.set()

        with self.locks.hold('a'):
            self.assertTrue(self.locks.is_any_locked)
            with self.locks.hold('b'):
                thread = threading.Thread(target=wait)
                thread.start()
                self.addCleanup(thread.join)
            self.assertFalse(done.wait(0.05))

        self.assertTrue(done.wait(WAIT / 2))
        self.assertFalse(self.locks.is_any_locked)

    def test_nobody_waits_for_rest_for_ever(self) -> None:
        with self.locks.hold('a'):
            self.locks.wait_until_free(0.01)

            self.assertTrue(self.locks.is_any_locked)

    def test_no_lock_is_kept_when_nobody_wants_it(self) -> None:
        with self.locks.hold('a'):
            thread, _ = self.try_to_hold('a')
        thread.join(WAIT)
        try:
            with self.locks.hold('a'):
                raise ValueError
        except ValueError:
            pass

        self.assertEqual({}, self.locks._locks)


class SharesTest(EnforcementTestCase):
    """What enforcers may move between servers."""

    def setUp(self) -> None:
        super().setUp()
        self.mine = tunable_units.Tunable(
            consumer_uuid='server',
            rp_key='L3_0',
            resource_class=WAYS,
            minimum=1,
            maximum=4,
            amount=2,
        )
        self.ways.tunables = (self.mine,)
        self.seats.tunables = (
            dataclasses.replace(self.mine, resource_class=SEATS),
        )

    def test_those_of_all_enforcers_are_given(self) -> None:
        self.assertEqual(
            self.ways.tunables + self.seats.tunables,
            self.enforcement.list_tunables(),
        )

    def test_each_enforcer_is_told_of_its_own(self) -> None:
        more = dataclasses.replace(self.mine, amount=3)

        self.enforcement.set_tunables([more])

        self.assertEqual([more], self.ways.was_set)
        self.assertEqual([], self.seats.was_set)

    def test_a_bug_of_an_enforcer_has_its_name(self) -> None:
        self.ways.bug = KeyError('L3_0')

        err = self.assertRaises(
            exception.EnforcementFailed, self.enforcement.list_tunables
        )

        self.assertIn('Enforcer ways', str(err))


class NamedTracker(count.CountTracker):
    UNITS = frozenset({'names'})


class ReleaseWithoutEnforcerTest(base.TestCase):
    """An enforcer, or the plugin of a resource, was taken out of options."""

    def release(self, **units: Any) -> None:
        trackers = {**builders.make_trackers(), 'named': NamedTracker()}
        made = enforcement.Enforcement('host1', {}, trackers)
        made.release(builders.make_entry('one', units=units))

    def test_what_an_enforcer_has_applied_is_kept(self) -> None:
        error = self.assertRaises(
            exception.EnforcementFailed, self.release, mask='f'
        )

        self.assertIn('no enabled enforcer can release', str(error))

    def test_what_is_only_recorded_is_released(self) -> None:
        self.release()
        self.release(names=['0000:3b:02.0'])

    def test_both_together_are_kept(self) -> None:
        self.assertRaises(
            exception.EnforcementFailed, self.release, names=['a'], mask='f'
        )
