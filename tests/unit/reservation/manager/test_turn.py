# SPDX-License-Identifier: Apache-2.0

"""Tests of one pass of the manager of reservations."""

import dataclasses
import itertools
import threading
from typing import Any

import fixtures
import sqlalchemy as sa

from nova_ext_resources import exception
from nova_ext_resources.reservation.manager import freeing
from nova_ext_resources.reservation.manager import systemd
from nova_ext_resources.reservation.manager import turn as turn_mod
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import admission as admission_mod
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import progress
from nova_ext_resources.reservation.store import purge
from nova_ext_resources.reservation.store import retry
from nova_ext_resources.reservation.store import states
from tests.unit.reservation import hosts
from tests.unit.reservation.manager import breaking
from tests.unit.reservation.manager import managers
from tests.unit.reservation.store import racing
from tests.unit.reservation.store import stores

State = state.State

DAY = 86400


class TurnTests(stores.StoreTestCase):
    """With three reservations of a day, one after the other.

    :ivar time: of the managers
    """

    def setUp(self) -> None:
        super().setUp()
        self.admission = stores.make_admission(self.url)
        self.time = managers.Time()
        for number in range(3):
            during = hosts.span((number + 1) * DAY, (number + 2) * DAY)
            self.admit(self.admission, f'lease {number}', during, least=2)

    def list_states(self) -> list[list[str]]:
        return [
            managers.list_states(self.url, f'lease {number}')
            for number in range(3)
        ]


class TurnTest(TurnTests):
    def test_what_starts_and_what_ends(self) -> None:
        turn = managers.make_turn(self.url, self.time)
        seen = []
        for clock in (DAY - 1, DAY, 2 * DAY, 3 * DAY):
            self.time.clock = clock
            self.assertTrue(turn.run())
            seen.append([one[-1] for one in self.list_states()])

        self.assertEqual(
            [
                ['pending', 'pending', 'pending'],
                ['active', 'pending', 'pending'],
                ['ended', 'active', 'pending'],
                ['ended', 'ended', 'active'],
            ],
            seen,
        )
        changes = managers.list_changes(self.url, 'lease 0')
        self.assertEqual(
            [0, DAY, 2 * DAY], [one.changed_at for one in changes]
        )
        self.assertIn('its end, 1970-01-03', changes[-1].reason)

    def test_what_has_ended_is_not_held(self) -> None:
        self.time.clock = 2 * DAY

        managers.make_turn(self.url, self.time).run()

        held = {
            (one.reservation, one.is_held)
            for one in stores.dump(self.url)['servers']
        }
        self.assertEqual(
            {('lease 0', False), ('lease 1', True), ('lease 2', True)}, held
        )

    def test_who_follows_the_store_sees_that_it_has_ended(self) -> None:
        other = stores.make_admission(self.url)
        other.refresh(0)
        self.assertEqual(6, len(other._mirror.owners))
        self.time.clock = 2 * DAY

        managers.make_turn(self.url, self.time).run()
        other.refresh(1)

        self.assertEqual(4, len(other._mirror.owners))

    def test_a_pass_without_anything_due_writes_nothing(self) -> None:
        turn = managers.make_turn(self.url, self.time)
        self.time.clock = 2 * DAY
        turn.run()
        before = stores.dump(self.url)
        self.time.clock += 100

        self.assertTrue(turn.run())

        self.assertEqual(before, stores.dump(self.url))

    def test_a_pass_that_comes_very_late(self) -> None:
        self.time.clock = 30 * DAY

        managers.make_turn(self.url, self.time).run()

        self.assertEqual([['pending', 'ended']] * 3, self.list_states())

    def test_what_is_cancelled_stays_so(self) -> None:
        self.admission.change(
            'lease 0', State.CANCELLED, now=0, reason='not needed'
        )
        self.time.clock = 2 * DAY

        managers.make_turn(self.url, self.time).run()

        self.assertEqual(['pending', 'cancelled'], self.list_states()[0])

    def test_tables_of_another_release(self) -> None:
        url = self.make_url()
        turn = managers.make_turn(url, self.time)

        err = self.assertRaises(exception.StoreError, turn.run)

        self.assertIn('version none', str(err))

    def test_one_that_fails_stops_no_other(self) -> None:
        advance = progress.advance

        def fail(*args: Any, **fields: Any) -> bool:
            if args[1].key == 'lease 0':
                raise exception.StoreError(reason='it is odd')
            return advance(*args, **fields)

        self.patch(progress, 'advance', fail)
        self.time.clock = 2 * DAY

        self.assertFalse(managers.make_turn(self.url, self.time).run())

        self.assertEqual(
            ['pending', 'active', 'pending'],
            [one[-1] for one in self.list_states()],
        )

    def test_a_bug_in_one_part_stops_no_other(self) -> None:
        def fail(*_args: object) -> bool:
            raise KeyError('odd')

        self.patch(freeing.Freeing, 'run', fail)
        log = self.useFixture(fixtures.FakeLogger())
        self.time.clock = 2 * DAY

        self.assertFalse(managers.make_turn(self.url, self.time).run())

        self.assertEqual('ended', self.list_states()[0][-1])
        self.assertIn('freeing: the step failed', log.output)
        self.assertIn("KeyError: 'odd'", log.output)

    def test_each_part_reports_that_it_is_alive(self) -> None:
        """One of them may take minutes."""
        events = list[str]()

        def notify(*lines: str) -> None:
            events.extend(lines)

        def run(_chore: object, _reading: object) -> bool:
            events.append('freeing')
            return True

        self.patch(systemd, 'notify', notify)
        self.patch(turn_mod, 'ALIVE_SECONDS', 0)
        self.patch(freeing.Freeing, 'run', run)

        managers.make_turn(self.url, self.time).run()

        index = events.index('freeing')
        self.assertEqual(
            [systemd.ALIVE] * 2, [events[index - 1], events[index + 1]]
        )
        self.patch(turn_mod, 'ALIVE_SECONDS', 60)
        events.clear()
        managers.make_turn(self.url, self.time).run()
        self.assertEqual(['freeing'], events, 'short passes say nothing')


class ClockTest(TurnTests):
    def test_a_part_has_the_time_of_its_begin(self) -> None:
        """Those before may take minutes."""
        turn = managers.make_turn(self.url, self.time)

        def run(_chore: object, _reading: object) -> bool:
            self.time.pass_by(2 * DAY)
            return True

        self.patch(freeing.Freeing, 'run', run)
        turn.run()

        self.assertEqual('ended', self.list_states()[0][-1])

    def test_a_clock_that_jumps_in_a_pass_ends_nothing(self) -> None:
        turn = managers.make_turn(self.url, self.time, wait=300)
        turn.run()
        self.time.pass_by(300)

        def run(_chore: object, _reading: object) -> bool:
            self.time.clock += 2 * DAY
            return True

        self.patch(freeing.Freeing, 'run', run)
        turn.run()

        self.assertEqual(6, managers.count_held(self.url))

    def test_a_clock_that_jumps_ends_nothing(self) -> None:
        turn = managers.make_turn(self.url, self.time, wait=300, keep_ended=0)
        self.time.clock = DAY
        turn.run()
        self.time.pass_by(300)
        self.time.clock += 10 * DAY

        turn.run()
        self.time.clock -= 10 * DAY
        for _pass in range(3):
            self.time.pass_by(15)
            turn.run()

        self.assertEqual(
            [
                ['pending', 'active'],
                ['pending'],
                ['pending'],
            ],
            self.list_states(),
        )
        self.assertEqual(6, managers.count_held(self.url))

    def test_a_step_is_logged_where_it_matters(self) -> None:
        for wait, wanted in ((300, 1), (0, 0)):
            with self.subTest(wait=wait):
                log = self.useFixture(fixtures.FakeLogger())
                turn = managers.make_turn(self.url, self.time, wait=wait)
                turn.run()
                self.time.clock += 3600
                turn.run()

                self.assertEqual(wanted, log.output.count('set by 3600 s'))

    def test_a_clock_that_stays_ahead_is_trusted_in_the_end(self) -> None:
        turn = managers.make_turn(self.url, self.time, wait=300)
        turn.run()
        self.time.clock += 10 * DAY
        turn.run()
        self.assertEqual(6, managers.count_held(self.url))

        self.time.pass_by(300)
        turn.run()

        self.assertEqual(0, managers.count_held(self.url))

    def test_a_start_that_came_too_early_is_undone(self) -> None:
        turn = managers.make_turn(self.url, self.time, wait=300)
        self.time.clock = DAY + 10
        turn.run()
        self.time.clock = 100

        turn.run()
        self.time.clock = DAY
        turn.run()

        self.assertEqual(
            ['pending', 'active', 'pending', 'active'], self.list_states()[0]
        )

    def test_a_clock_that_the_database_does_not_share(self) -> None:
        turn = managers.make_turn(self.url, self.time, keep_ended=0)
        self.time.clock = 30 * DAY
        before = stores.dump(self.url)
        for skew in (61, -61, 40 * DAY):
            with self.subTest(skew=skew):
                self.time.skew = skew

                self.assertFalse(turn.run())

                self.assertEqual(before, stores.dump(self.url))
        self.time.skew = 60
        self.assertTrue(turn.run())
        self.assertNotEqual(before, stores.dump(self.url))


class PurgeTest(TurnTests):
    def test_nothing_is_deleted_by_default(self) -> None:
        self.time.clock = 1000 * DAY
        turn = managers.make_turn(self.url, self.time)
        turn.run()
        self.time.clock += 1000 * DAY
        turn.run()

        self.assertEqual(3, len(stores.dump(self.url)['reservations']))

    def test_what_has_been_over_for_long_is_deleted(self) -> None:
        turn = managers.make_turn(self.url, self.time, keep_ended=100)
        self.time.clock = 2 * DAY
        for seconds, left in ((0, 3), (99, 3), (1, 2)):
            self.time.clock += seconds
            turn.run()
            found = stores.dump(self.url)['reservations']
            self.assertEqual(left, len(found), f'after {seconds}')

    def test_a_clock_that_is_not_steady_deletes_nothing(self) -> None:
        self.time.clock = 2 * DAY
        managers.make_turn(self.url, self.time).run()
        self.time.clock = 100 * DAY

        turn = managers.make_turn(self.url, self.time, wait=9, keep_ended=0)
        turn.run()

        self.assertEqual(3, len(stores.dump(self.url)['reservations']))


class FaultsTest(TurnTests):
    def setUp(self) -> None:
        super().setUp()
        self.time.clock = 2 * DAY

    def check_done(self) -> None:
        """Check that each row was written once, by whatever manager."""
        self.assertEqual(
            [['pending', 'ended'], ['pending', 'active'], ['pending']],
            self.list_states(),
        )
        self.assertEqual(4, managers.count_held(self.url))

    def test_many_managers_at_once(self) -> None:
        barrier, answers = threading.Barrier(6), list[bool]()

        read = progress.list_unfinished

        def read_and_wait(connection: sa.Connection) -> Any:
            found = read(connection)
            barrier.wait(60)
            return found

        def run() -> None:
            answers.append(managers.make_turn(self.url, self.time).run())

        self.patch(progress, 'list_unfinished', read_and_wait)

        threads = [threading.Thread(target=run) for _one in range(6)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()

        self.assertEqual([True] * 6, answers)
        self.check_done()

    def test_a_manager_that_is_killed_at_any_step(self) -> None:
        def run(admission: admission_mod.Admission) -> None:
            managers.make_turn(
                self.url, self.time, database=admission._database
            ).run()

        # What was done before the kill stays, so that later steps come first.
        for step in itertools.count(1):
            if not racing.die_after(self.url, step, run):
                break
            held = managers.count_held(self.url)
            is_ended = self.list_states()[0] == ['pending', 'ended']
            self.assertEqual(4 if is_ended else 6, held, f'step {step}')

        self.assertGreater(step, 5)
        self.check_done()

    def test_two_that_read_the_same(self) -> None:
        database = databases.Database(self.url)
        with database.transaction() as connection:
            found = progress.list_unfinished(connection)[0]
        change = states.Change(
            state=State.ACTIVE, changed_at=5, reason='the first'
        )
        other = states.Change(
            state=State.ACTIVE, changed_at=6, reason='the second'
        )

        first = progress.advance(database, found, change)
        second = progress.advance(database, found, other)

        self.assertEqual((True, False), (first, second))
        self.assertEqual(['pending', 'active'], self.list_states()[0])

    def test_a_number_that_is_not_of_what_was_read(self) -> None:
        database = databases.Database(self.url)
        with database.transaction() as connection:
            found = progress.list_unfinished(connection)[0]
        self.admission.change(
            'lease 0', State.CANCELLED, now=0, reason='not needed'
        )
        later = dataclasses.replace(found, number=found.number + 1)
        change = states.Change(state=State.ACTIVE, changed_at=5, reason='no')

        self.assertRaises(
            exception.StateRefused, progress.advance, database, later, change
        )

        self.assertEqual(['pending', 'cancelled'], self.list_states()[0])

    def test_what_is_deleted_meanwhile_is_no_error(self) -> None:
        database = databases.Database(self.url)
        with database.transaction() as connection:
            found = progress.list_unfinished(connection)[0]
        self.admission.change(
            'lease 0', State.CANCELLED, now=0, reason='not needed'
        )
        self.assertEqual(1, purge.purge(database, 1))
        change = states.Change(state=State.ENDED, changed_at=5, reason='over')

        self.assertFalse(progress.advance(database, found, change))

    def test_an_answer_that_is_lost(self) -> None:
        self.patch(retry, 'FIRST_PAUSE', 0)
        database = breaking.LosesAnswers(self.url)
        turn = managers.make_turn(self.url, self.time, database=database)

        self.assertTrue(turn.run())

        self.assertTrue(database.is_lost)
        self.check_done()

    def test_an_answer_that_is_lost_is_found_again(self) -> None:
        self.patch(retry, 'FIRST_PAUSE', 0)
        database = breaking.LosesAnswers(self.url)
        with database.transaction() as connection:
            found = progress.list_unfinished(connection)[0]
        change = states.Change(
            state=State.ENDED, changed_at=5, reason='it is over'
        )

        self.assertTrue(progress.advance(database, found, change))

        self.assertTrue(database.is_lost)
        self.assertEqual(['pending', 'ended'], self.list_states()[0])

    def test_a_database_that_goes_away_in_a_commit(self) -> None:
        self.patch(retry, 'MAX_ATTEMPTS', 2)
        self.patch(retry, 'FIRST_PAUSE', 0)
        before = stores.dump(self.url)
        database = breaking.BreaksInWrites(self.url)
        turn = managers.make_turn(self.url, self.time, database=database)

        self.assertRaises(exception.StoreUnavailable, turn.run)
        self.assertEqual(before, stores.dump(self.url))

        database.is_broken = False
        turn.run()
        self.check_done()

    def test_an_admission_beside_a_manager(self) -> None:
        """Both raise the revisions of the same shards."""
        admissions = stores.make_admission(self.url)
        barrier = threading.Barrier(2)

        def run() -> None:
            barrier.wait(60)
            managers.make_turn(self.url, self.time).run()

        thread = threading.Thread(target=run)
        thread.start()
        barrier.wait(60)
        for number in range(20):
            self.admit(
                admissions,
                f'other {number}',
                hosts.span(9 * DAY + number, 9 * DAY + number + 1),
                now=2 * DAY,
            )
        thread.join()

        self.assertEqual(4 + 20, managers.count_held(self.url))
        self.assertEqual('ended', self.list_states()[0][-1])
