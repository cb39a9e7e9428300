# SPDX-License-Identifier: Apache-2.0

"""Tests of admissions, one at a time."""

from collections.abc import Iterator
import contextlib
import itertools
import threading
import time
from typing import Any

import sqlalchemy as sa

from nova_ext_resources import exception
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import planner
from nova_ext_resources.reservation import state as state_mod
from nova_ext_resources.reservation.store import admission as admission_mod
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import purge
from nova_ext_resources.reservation.store import retry
from nova_ext_resources.reservation.store import tables
from tests.unit.reservation import hosts
from tests.unit.reservation.store import racing
from tests.unit.reservation.store import stores

State = state_mod.State


class LosesAnswers(databases.Database):
    """Commits, and then the connection breaks: the first so many times."""

    def __init__(self, url: str, lost: int = 1) -> None:
        super().__init__(url)
        self.lost = lost

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        with super().transaction() as connection:
            sqlite: Any = connection.connection.dbapi_connection
            before = sqlite.total_changes
            yield connection
            after = sqlite.total_changes
        if after > before and self.lost:
            self.lost -= 1
            raise exception.StoreUnavailable(reason='the connection broke')


class AdmitTest(stores.StoreTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.admission = stores.make_admission(self.url)

    def test_a_plan_is_stored_as_it_is(self) -> None:
        request = hosts.make_request(
            'lease',
            hosts.span(0, 9),
            hosts.make_demand(_={'PCPU': 2}, _1={hosts.WAYS: 3}, cells=(2,)),
            least=2,
        )
        fleet = hosts.make_cached_host('a')
        plan = self.ask(stores.make_admission(self.url, fleet), request)

        again = self.ask(stores.make_admission(self.url, fleet), request)

        assert isinstance(plan, planner.Plan)
        self.assertTrue(all(one.cpus for one in plan.servers))
        self.assertEqual(plan, again)

    def test_other_processes_see_what_is_promised(self) -> None:
        self.admit(self.admission, 'first', hosts.span(0, 9), least=3)
        other = stores.make_admission(self.url)

        refused = self.admit(other, 'second', hosts.span(8, 12), least=2)
        admitted = self.admit(other, 'third', hosts.span(9, 12), least=4)

        assert isinstance(refused, planner.Refusal)
        assert refused.largest and refused.earliest
        self.assertEqual(1, len(refused.largest.servers))
        self.assertEqual(9, refused.earliest.during.start)
        self.assertIsInstance(admitted, planner.Plan)

    def test_a_refusal_writes_nothing(self) -> None:
        before = stores.dump(self.url)

        self.admit(self.admission, 'much', hosts.span(0), least=5)

        self.assertEqual(before, stores.dump(self.url))

    def test_the_same_request_again_gets_the_same_plan(self) -> None:
        first = self.admit(self.admission, 'lease', hosts.span(0, 9))
        before = stores.dump(self.url)

        again = self.admit(self.admission, 'lease', hosts.span(0, 9))

        self.assertEqual(first, again)
        self.assertEqual(before, stores.dump(self.url))

    def test_what_an_admission_asks_of_the_database(self) -> None:
        self.admit(self.admission, 'before', hosts.span(0, 9))
        seen: list[str] = []
        sa.event.listen(
            self.admission._database.engine,
            'before_cursor_execute',
            lambda *args: seen.append(args[2].split()[0]),
        )

        self.admit(self.admission, 'lease', hosts.span(0, 9))

        reads, writes = 'BEGIN SELECT SELECT', 'BEGIN UPDATE' + 4 * ' INSERT'
        self.assertEqual(f'{reads} {writes}', ' '.join(seen))

    def test_a_project_costs_two_statements_more(self) -> None:
        self.admit(self.admission, 'before', hosts.span(0, 9))
        seen: list[str] = []
        sa.event.listen(
            self.admission._database.engine,
            'before_cursor_execute',
            lambda *args: seen.append(args[2].split()[0]),
        )

        self.admit(self.admission, 'lease', hosts.span(0, 9), project='red')

        reads, writes = 'BEGIN' + 3 * ' SELECT', 'BEGIN UPDATE' + 5 * ' INSERT'
        self.assertEqual(f'{reads} {writes}', ' '.join(seen))

    def test_what_takes_the_same_of_a_host_is_one_object(self) -> None:
        for number in range(2):
            span = hosts.span(number, number + 1)
            self.admit(self.admission, f'lease {number}', span)
        other = stores.make_admission(self.url)

        other.refresh(0)

        (one,), (two,) = other._mirror.held.values()
        self.assertEqual(('a', 'a'), (one.host, two.host))
        self.assertIs(one.assignments, two.assignments)

    def test_another_request_of_the_same_key_is_refused(self) -> None:
        self.admit(self.admission, 'lease', hosts.span(0, 9))

        self.assertRaises(
            exception.ReservationExists,
            self.admit,
            stores.make_admission(self.url),
            'lease',
            hosts.span(0, 8),
        )

    def test_nothing_is_admitted_without_a_reason(self) -> None:
        before = stores.dump(self.url)

        self.assertRaises(
            ValueError,
            self.admission.admit,
            hosts.make_request('lease', hosts.span(0)),
            now=0,
            reason=' ',
        )

        self.assertEqual(before, stores.dump(self.url))

    def test_an_answer_that_is_lost_books_once(self) -> None:
        database = LosesAnswers(self.url)
        admission = admission_mod.Admission(
            database, hosts.make_planner(hosts.make_host('a'))
        )

        plan = self.admit(admission, 'lease', hosts.span(0, 9), least=2)

        self.assertIsInstance(plan, planner.Plan)
        self.assertEqual(0, database.lost)
        self.assertEqual(8, stores.count_peak(self.url, 'a'))

    def test_nobody_waits_for_the_pauses_of_another_thread(self) -> None:
        self.patch(retry, 'MAX_ATTEMPTS', 1_000_000)
        tried, done = threading.Event(), threading.Event()
        read = self.admission._read

        def refuse_slow(key: str, now: int, project: str) -> Any:
            if key == 'slow':
                tried.set()
                if done.is_set():
                    raise exception.StoreError(reason='it is gone')
                raise exception.StoreUnavailable(reason='it is away')
            return read(key, now, project)

        self.patch(self.admission, '_read', refuse_slow)
        slow = threading.Thread(
            target=racing.admit, args=(self.admission, 'slow')
        )
        slow.start()
        tried.wait(racing.WAIT_SECONDS)

        self.admit(self.admission, 'quick', hosts.span(0))

        self.assertTrue(slow.is_alive())
        done.set()
        slow.join()

    def test_to_read_many_inventories_may_take_long(self) -> None:
        self.patch(retry, 'MAX_SECONDS', 0.2)
        known, read = set[str](), self.admission._read

        def read_inventories() -> None:
            time.sleep(0.1)
            known.add(f'host {len(known)}')

        def lack(*args: Any) -> Any:
            if len(known) < 4:
                raise exception.InventoriesUnread(read=read_inventories)
            return read(*args)

        self.patch(self.admission, '_read', lack)

        plan = self.admit(self.admission, 'lease', hosts.span(0))

        self.assertIsInstance(plan, planner.Plan)

    def test_a_database_that_does_not_come_back_is_told(self) -> None:
        self.patch(retry, 'MAX_ATTEMPTS', 3)
        admission = stores.make_admission(self.url)
        attempts = []

        def refuse(*_args: object) -> None:
            attempts.append(1)
            raise exception.StoreUnavailable(reason='it is away')

        self.patch(admission, '_read', refuse)

        self.assertRaises(
            exception.StoreUnavailable,
            self.admit,
            admission,
            'lease',
            hosts.span(0),
        )
        self.assertEqual(3, len(attempts))

    def test_a_clock_that_is_behind_promises_nothing_twice(self) -> None:
        start, later = 8000, 8000 + admission_mod.KEPT_SECONDS
        during = hosts.span(start, start + 9)
        self.admit(self.admission, 'lease', during, least=4)
        for now in (start + 9, later):
            key, then = f'at {now}', hosts.span(now, now + 1)
            self.admit(self.admission, key, then, now)

            refused = self.admit(
                self.admission, 'late', during, start, least=1
            )

            self.assertIsInstance(refused, planner.Refusal)

    def test_a_clock_that_was_far_ahead_changes_nothing(self) -> None:
        during, ahead = hosts.span(5, 9), 10 * admission_mod.KEPT_SECONDS
        self.admit(self.admission, 'lease', during, least=4)
        self.admit(self.admission, 'ahead', hosts.span(ahead), ahead)

        refused = self.admit(self.admission, 'late', during)
        admitted = self.admit(self.admission, 'next', hosts.span(9, 10))

        self.assertIsInstance(refused, planner.Refusal)
        self.assertIsInstance(admitted, planner.Plan)

    def leave_half_of_two_hosts(self, during: interval.Interval) -> None:
        """Book half of each of them, by reservations that could share one."""
        for key in ('first', 'gone', 'second'):
            self.admit(self.admission, key, during)
        self.admission.change(
            'gone', State.CANCELLED, now=1, reason='not needed'
        )

    def ask_for_a_whole_host(
        self, during: interval.Interval
    ) -> planner.Plan | planner.Refusal:
        whole = hosts.make_demand(_={'VCPU': 8})
        return self.admit(self.admission, 'whole', during, 1, demand=whole)

    def test_reservations_that_make_room_are_stored_as_moved(self) -> None:
        during = hosts.span(1000, 1010)
        self.leave_half_of_two_hosts(during)

        plan = self.ask_for_a_whole_host(during)

        assert isinstance(plan, planner.Plan)
        (moved,) = plan.moved
        owner = moved.key.partition('/')[0]
        self.assertEqual(
            'moved to make room for reservation whole',
            self.admission.list_changes(owner)[-1].reason,
        )
        for host in ('a', 'b'):
            self.assertEqual(8, stores.count_peak(self.url, host))
        other = stores.make_admission(self.url)
        refused = self.admit(other, 'more', during, 1)
        self.assertIsInstance(refused, planner.Refusal)

    def test_what_starts_before_the_plan_is_stored_is_not_moved(self) -> None:
        during = hosts.span(60, 70)
        self.leave_half_of_two_hosts(during)

        self.assertIsInstance(
            self.ask_for_a_whole_host(during), planner.Refusal
        )

    def test_what_is_to_be_moved_may_be_deleted_meanwhile(self) -> None:
        during = hosts.span(1000, 1010)
        self.leave_half_of_two_hosts(during)
        other, write = stores.make_admission(self.url), self.admission._write

        def delete_and_write(*args: Any) -> None:
            self.patch(self.admission, '_write', write)
            for key in ('first', 'second'):
                other.change(key, State.CANCELLED, now=1, reason='not needed')
            purge.purge(other._database, 1)
            write(*args)

        self.patch(self.admission, '_write', delete_and_write)

        plan = self.ask_for_a_whole_host(during)

        assert isinstance(plan, planner.Plan)
        self.assertEqual((), plan.moved)

    def test_a_host_that_is_gone_stops_nobody(self) -> None:
        self.admit(self.admission, 'lease', hosts.span(0, 9), least=3)
        smaller = stores.make_admission(self.url, hosts.make_host('b'))

        plan = self.admit(smaller, 'other', hosts.span(0, 9))
        smaller.change('lease', State.CANCELLED, now=1, reason='host is gone')
        rest = self.admit(smaller, 'rest', hosts.span(1, 9), 1)

        self.assertIsInstance(plan, planner.Plan)
        self.assertIsInstance(rest, planner.Plan)
        self.assertEqual(8, stores.count_peak(self.url, 'b'))
        self.assertEqual(0, stores.count_peak(self.url, 'a'))

    def test_a_class_that_is_gone_leaves_the_others_taken(self) -> None:
        whole = hosts.make_host('a', VCPU=8, DISK_GB=9)
        both = hosts.make_demand(_={'VCPU': 8, 'DISK_GB': 1})
        lease = stores.make_admission(self.url, whole)
        self.admit(lease, 'lease', hosts.span(0, 9), demand=both)
        smaller = stores.make_admission(self.url, hosts.make_host('a'))

        refused = self.admit(smaller, 'more', hosts.span(0, 9))
        smaller.change('lease', State.CANCELLED, now=0, reason='not needed')
        admitted = self.admit(smaller, 'more', hosts.span(0, 9), least=2)

        self.assertIsInstance(refused, planner.Refusal)
        self.assertIsInstance(admitted, planner.Plan)

    def test_a_request_that_cannot_be_read_is_named(self) -> None:
        self.admit(self.admission, 'lease', hosts.span(0, 9))
        database = databases.Database(self.url)
        with database.transaction() as connection:
            connection.execute(
                sa.update(tables.RESERVATIONS).values(request='{"new": 1}')
            )

        err = self.assertRaises(
            exception.StoreError,
            self.admit,
            stores.make_admission(self.url),
            'other',
            hosts.span(0, 9),
        )

        self.assertIn('reservation lease', str(err))
        self.assertIn('newer release', str(err))

    def test_what_has_ended_is_dropped(self) -> None:
        self.patch(admission_mod, 'KEPT_SECONDS', 0)
        for number in itertools.count():
            during = hosts.span(number, number + 1)
            plan = self.admit(
                self.admission, f'{number}', during, number, least=4
            )
            self.assertIsInstance(plan, planner.Plan)
            if number == 4:
                break

        self.assertEqual(['4'], [*self.admission._mirror.held])


class ChangeTest(stores.StoreTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.admission = stores.make_admission(self.url)
        self.admit(self.admission, 'lease', hosts.span(5, 9), least=4)

    def change(self, state: State, reason: str = stores.REASON) -> None:
        self.admission.change('lease', state, now=6, reason=reason)

    def test_each_change_is_a_row_with_its_reason(self) -> None:
        self.change(State.ACTIVE, 'its start has come')
        self.change(State.DEGRADED, 'host a failed')
        self.change(State.CANCELLED, 'the owner asked for it')

        found = self.admission.list_changes('lease')

        self.assertEqual(
            [
                (State.PENDING, 0, stores.REASON),
                (State.ACTIVE, 6, 'its start has come'),
                (State.DEGRADED, 6, 'host a failed'),
                (State.CANCELLED, 6, 'the owner asked for it'),
            ],
            [(one.state, one.changed_at, one.reason) for one in found],
        )

    def test_a_change_without_a_reason_is_refused(self) -> None:
        before = stores.dump(self.url)

        for reason in ('', ' \n'):
            with self.subTest(reason=reason):
                self.assertRaises(
                    ValueError, self.change, State.CANCELLED, reason
                )

        self.assertEqual(before, stores.dump(self.url))

    def test_what_is_cancelled_is_free_for_others(self) -> None:
        other = stores.make_admission(self.url)
        before = self.admit(other, 'other', hosts.span(7, 8), 6)

        self.change(State.CANCELLED)

        self.assertIsInstance(before, planner.Refusal)
        after = self.admit(other, 'other', hosts.span(7, 8), 6, least=4)
        self.assertIsInstance(after, planner.Plan)

    def test_what_is_over_cannot_be_changed(self) -> None:
        self.change(State.ENDED)

        self.assertRaises(exception.StateRefused, self.change, State.ACTIVE)
        self.assertRaises(
            exception.ReservationExists,
            self.admit,
            self.admission,
            'lease',
            hosts.span(5, 9),
            0,
            least=4,
        )

    def test_a_change_of_which_the_answer_is_lost_is_made_once(self) -> None:
        admission = admission_mod.Admission(
            LosesAnswers(self.url), hosts.make_planner(hosts.make_host('a'))
        )

        admission.change('lease', State.CANCELLED, now=6, reason='not needed')

        self.assertEqual(2, len(admission.list_changes('lease')))

    def test_a_reservation_that_there_is_not(self) -> None:
        for call in (
            lambda: self.admission.list_changes('x'),
            lambda: self.admission.change(
                'x', State.ENDED, now=0, reason='over'
            ),
        ):
            self.assertRaises(exception.ReservationNotFound, call)
