# SPDX-License-Identifier: Apache-2.0

"""Tests of reservations that are planned anew."""

from concurrent import futures
import random
from typing import Any

from nova_ext_resources import exception
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import planner
from nova_ext_resources.reservation import state as state_mod
from nova_ext_resources.reservation.store import admission as admission_mod
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import purge
from nova_ext_resources.reservation.store import records
from tests.unit.reservation import hosts
from tests.unit.reservation.store import stores
from tests.unit.reservation.store import test_admission

State = state_mod.State

#: Processes of which each makes so many changes.
WORKERS = 4
CHANGES = 12


class ReplaceTest(stores.StoreTestCase):
    """Two hosts of eight CPUs; each server takes four."""

    def setUp(self) -> None:
        super().setUp()
        # So that a test can do with small numbers.
        self.patch(admission_mod, 'FIXED_SECONDS', 0)
        self.admission = stores.make_admission(self.url)

    def replace(
        self,
        key: str,
        during: interval.Interval,
        now: int = 0,
        admission: admission_mod.Admission | None = None,
        **fields: Any,
    ) -> planner.Plan | planner.Refusal:
        answer = (admission or self.admission).replace(
            hosts.make_request(key, during, **fields),
            now=now,
            reason='changed by a test',
        )
        assert answer is not None
        return answer

    def find_places(self) -> dict[str, str]:
        """Return the keys of the servers that are held, and their hosts."""
        return {
            row.server: row.host
            for row in stores.dump(self.url)['servers']
            if row.is_held
        }

    def test_its_own_capacity_counts_for_the_new_plan(self) -> None:
        self.admit(self.admission, 'lease', hosts.span(5, 9), least=4)

        plan = self.replace('lease', hosts.span(7, 12), least=4)

        assert isinstance(plan, planner.Plan)
        other = stores.make_admission(self.url)
        for during, is_free in (
            (hosts.span(5, 7), True),
            (hosts.span(7, 8), False),
            (hosts.span(11, 12), False),
        ):
            found = self.admit(other, f'at {during}', during)
            self.assertEqual(is_free, isinstance(found, planner.Plan))

    def test_the_change_is_a_row_with_its_reason(self) -> None:
        self.admit(self.admission, 'lease', hosts.span(5, 9))

        self.replace('lease', hosts.span(6, 9), 3)

        last = self.admission.list_changes('lease')[-1]
        self.assertEqual(
            (State.PENDING, 3, 'changed by a test'),
            (last.state, last.changed_at, last.reason),
        )

    def test_what_does_not_fit_changes_nothing(self) -> None:
        self.admit(self.admission, 'lease', hosts.span(5, 9), least=2)
        self.admit(self.admission, 'other', hosts.span(9, 12), least=3)
        before = stores.dump(self.url)

        refused = self.replace('lease', hosts.span(5, 10), least=2)

        assert isinstance(refused, planner.Refusal)
        assert refused.largest and refused.earliest
        self.assertEqual(1, len(refused.largest.servers))
        self.assertEqual(12, refused.earliest.during.start)
        self.assertEqual(before, stores.dump(self.url))
        again = self.replace('lease', hosts.span(5, 10), least=1)
        self.assertIsInstance(again, planner.Plan)

    def test_servers_go_and_come_again(self) -> None:
        self.admit(self.admission, 'lease', hosts.span(5, 9), least=4)

        self.replace('lease', hosts.span(5, 9), least=1)
        fewer = self.find_places()
        self.replace('lease', hosts.span(5, 9), least=3)

        self.assertEqual({'lease/0'}, fewer.keys())
        self.assertEqual(
            {'lease/0', 'lease/1', 'lease/2'}, self.find_places().keys()
        )
        self.assertEqual(8, stores.count_peak(self.url, 'a'))
        self.assertEqual(4, stores.count_peak(self.url, 'b'))

    def test_others_are_moved_for_it(self) -> None:
        during, later = hosts.span(1000, 1010), hosts.span(2000, 2010)
        self.admit(self.admission, 'first', during)
        self.admit(self.admission, 'gone', during)
        self.admit(self.admission, 'second', during)
        self.admission.change('gone', State.CANCELLED, now=0, reason='x')
        whole = hosts.make_demand(_={'VCPU': 8})
        self.admit(self.admission, 'whole', later, demand=whole)

        plan = self.replace('whole', during, demand=whole)

        assert isinstance(plan, planner.Plan)
        (moved,) = plan.moved
        owner = moved.key.partition('/')[0]
        self.assertEqual(
            'moved to make room for reservation whole',
            self.admission.list_changes(owner)[-1].reason,
        )
        for host in ('a', 'b'):
            self.assertEqual(8, stores.count_peak(self.url, host))

    def test_what_has_started_gets_another_end(self) -> None:
        self.admit(self.admission, 'lease', hosts.span(5, 9), least=3)
        before = self.find_places()

        later = self.replace('lease', hosts.span(5, 12), 6, least=3)
        sooner = self.replace('lease', hosts.span(5, 8), 7, least=3)

        self.assertIsInstance(later, planner.Plan)
        self.assertIsInstance(sooner, planner.Plan)
        self.assertEqual(before, self.find_places())
        rest = self.admit(self.admission, 'rest', hosts.span(8, 9), 7, least=4)
        self.assertIsInstance(rest, planner.Plan)

    def test_what_has_started_releases_servers(self) -> None:
        self.admit(self.admission, 'lease', hosts.span(5, 9), least=4)

        self.replace('lease', hosts.span(5, 9), 6, least=1)

        self.assertEqual({'lease/0'}, self.find_places().keys())
        rest = self.admit(self.admission, 'rest', hosts.span(6, 9), 6, least=3)
        self.assertIsInstance(rest, planner.Plan)

    def test_other_processes_see_what_is_free_again(self) -> None:
        self.admit(self.admission, 'lease', hosts.span(5, 9), least=4)
        other = stores.make_admission(self.url)
        refused = self.admit(other, 'other', hosts.span(5, 9))

        self.replace('lease', hosts.span(5, 9), least=2)

        self.assertIsInstance(refused, planner.Refusal)
        self.assertEqual({'a'}, set(self.find_places().values()))
        plan = self.admit(other, 'other', hosts.span(5, 9), least=2)
        self.assertIsInstance(plan, planner.Plan)

    def test_all_that_has_started_must_fit_together(self) -> None:
        self.admit(self.admission, 'lease', hosts.span(5, 9), least=2)
        self.admit(self.admission, 'next', hosts.span(9, 12))

        refused = self.replace('lease', hosts.span(5, 10), 6, least=2)
        one = self.replace('lease', hosts.span(5, 10), 6, least=1)

        self.assertEqual({'a'}, set(self.find_places().values()))
        assert isinstance(refused, planner.Refusal) and refused.largest
        self.assertEqual(1, len(refused.largest.servers))
        self.assertIsInstance(one, planner.Plan)

    def test_many_change_at_once_and_nothing_is_promised_twice(self) -> None:
        def change(seed: int) -> None:
            admission = stores.make_admission(self.url)
            chance = random.Random(seed)
            for number in range(CHANGES):
                key = f'{seed} {chance.randrange(3)}'
                start = chance.randrange(5, 9)
                during = hosts.span(start, start + chance.randrange(1, 5))
                least = chance.randrange(1, 4)
                try:
                    self.admit(admission, key, during, least=least)
                except exception.ReservationExists:
                    self.replace(key, during, 0, admission, least=least)
                finally:
                    done.append(number)

        done: list[int] = []
        with futures.ThreadPoolExecutor(WORKERS) as pool:
            for one in [pool.submit(change, seed) for seed in range(WORKERS)]:
                one.result()

        self.assertEqual(WORKERS * CHANGES, len(done))
        for host in ('a', 'b'):
            self.assertLessEqual(stores.count_peak(self.url, host), 8)
            self.assertGreater(stores.count_peak(self.url, host), 0)
        self.assert_whole()

    def assert_whole(self) -> None:
        """Check that each reservation holds what its request says."""
        with databases.Database(self.url).transaction() as connection:
            for one in records.list_records(connection, 0):
                self.assertEqual(one.request.least, len(one.servers))
                self.assertEqual(one.request.during, one.during)
                for server in one.servers:
                    self.assertEqual(one.during, server.during)

    def test_what_has_started_keeps_its_units_or_is_refused(self) -> None:
        ways = hosts.make_demand(_1={hosts.WAYS: 8})
        host = hosts.make_cached_host('a', clos=1, follows_tasks=True)
        admission = stores.make_admission(self.url, host)
        other = stores.make_admission(self.url, host)
        during = hosts.span(5, 9)
        self.admit(admission, 'lease', during, demand=ways)
        self.admit(other, 'next', hosts.span(9, 12), 5, demand=ways)

        refused = self.replace(
            'lease', hosts.span(5, 10), 6, admission, demand=ways
        )

        assert isinstance(refused, planner.Refusal)
        self.assertIn(
            'promised to other reservations later',
            str(refused.shortfalls['a'][0]),
        )
        self.assertIsNone(refused.largest)

    def test_what_runs_is_not_moved(self) -> None:
        self.admit(self.admission, 'lease', hosts.span(5, 9), least=2)

        for during, fields in (
            (hosts.span(7, 9), {'least': 2}),
            (hosts.span(5, 9), {'least': 2, 'delay': 1}),
            (hosts.span(5, 9), {'least': 3}),
        ):
            with self.subTest(during=str(during), **fields):
                err = self.assertRaises(
                    ValueError, self.replace, 'lease', during, 6, **fields
                )
                self.assertIn('has started', str(err))

    def test_what_starts_in_a_moment_is_not_moved(self) -> None:
        self.patch(admission_mod, 'FIXED_SECONDS', 300)
        during = hosts.span(1000, 2000)
        self.admit(self.admission, 'gone', during)
        self.admit(self.admission, 'lease', during)
        whole = hosts.make_demand(_={'VCPU': 8})
        self.admit(self.admission, 'other', hosts.span(2000), demand=whole)
        self.admission.change('gone', State.CANCELLED, now=0, reason='x')
        before = self.find_places()
        self.assertEqual({'lease/0': 'a', 'other/0': 'a'}, before)

        # There is room on the other host, and it may have been read already.
        later = hosts.span(1000, 2500)
        refused = self.replace('lease', later, 700)
        self.assertIsInstance(refused, planner.Refusal)
        for changed, fields in (
            (hosts.span(1500, 2000), {}),
            (during, {'delay': 1}),
            (during, {'least': 2}),
        ):
            err = self.assertRaises(
                ValueError, self.replace, 'lease', changed, 700, **fields
            )
            self.assertIn('is about to', str(err))
        self.assertEqual(before, self.find_places())
        sooner = self.replace('lease', hosts.span(1000, 1900), 700)
        self.assertIsInstance(sooner, planner.Plan)
        self.assertEqual(before, self.find_places())

    def test_what_starts_later_is_moved(self) -> None:
        self.patch(admission_mod, 'FIXED_SECONDS', 300)
        self.admit(self.admission, 'lease', hosts.span(1000, 2000))
        whole = hosts.make_demand(_={'VCPU': 8})
        self.admit(self.admission, 'other', hosts.span(2000), demand=whole)

        plan = self.replace('lease', hosts.span(1000, 2500), 699)

        self.assertIsInstance(plan, planner.Plan)
        self.assertEqual('b', self.find_places()['lease/0'])

    def test_what_is_over_is_not_changed(self) -> None:
        self.admit(self.admission, 'ended', hosts.span(5, 9))
        self.admit(self.admission, 'gone', hosts.span(5, 9))
        self.admission.change('gone', State.CANCELLED, now=5, reason='x')

        for key, state in (('ended', State.ENDED), ('gone', State.CANCELLED)):
            err = self.assertRaises(
                exception.StateRefused, self.replace, key, hosts.span(20), 9
            )
            self.assertEqual(state, getattr(err, 'state', None))

    def test_a_reservation_that_there_is_not(self) -> None:
        self.assertRaises(
            exception.ReservationNotFound, self.replace, 'x', hosts.span(5)
        )

    def test_one_that_is_cancelled_and_deleted_meanwhile(self) -> None:
        self.admit(self.admission, 'lease', hosts.span(5, 9))
        other = stores.make_admission(self.url)
        rewrite = self.admission._rewrite

        def delete_and_rewrite(*args: Any) -> None:
            other.change('lease', State.CANCELLED, now=0, reason='x')
            purge.purge(other._database, 0)
            rewrite(*args)

        self.patch(self.admission, '_rewrite', delete_and_rewrite)

        self.assertRaises(
            exception.ReservationNotFound,
            self.replace,
            'lease',
            hosts.span(6, 9),
        )

    def test_one_that_is_cancelled_meanwhile_holds_nothing(self) -> None:
        self.admit(self.admission, 'lease', hosts.span(5, 9), least=2)
        self.admit(self.admission, 'block', hosts.span(9, 12), least=2)
        other = stores.make_admission(self.url)
        rewrite = self.admission._rewrite

        def cancel_and_rewrite(*args: Any) -> None:
            # The new plan is for the other host.
            self.assertEqual({'b'}, {one.host for one in args[2].servers})
            other.change('lease', State.CANCELLED, now=0, reason='x')
            rewrite(*args)

        self.patch(self.admission, '_rewrite', cancel_and_rewrite)

        self.assertRaises(
            exception.StateRefused,
            self.replace,
            'lease',
            hosts.span(9, 12),
            least=2,
        )
        self.assertEqual({'block/0', 'block/1'}, self.find_places().keys())

    def test_a_plan_of_another_process_in_between_is_seen(self) -> None:
        self.admit(self.admission, 'lease', hosts.span(5, 9), least=2)
        other = stores.make_admission(self.url)
        rewrite = self.admission._rewrite

        def book_and_rewrite(*args: Any) -> None:
            self.patch(self.admission, '_rewrite', rewrite)
            self.admit(other, 'other', hosts.span(9, 12), least=3)
            rewrite(*args)

        self.patch(self.admission, '_rewrite', book_and_rewrite)

        refused = self.replace('lease', hosts.span(5, 10), least=2)

        self.assertIsInstance(refused, planner.Refusal)
        self.assertEqual(8, stores.count_peak(self.url, 'a'))

    def test_what_it_was_made_of_has_changed_in_between(self) -> None:
        during = hosts.span(5, 9)
        self.admit(self.admission, 'lease', during)
        other = stores.make_admission(self.url)
        rewrite = self.admission._rewrite

        def change_and_rewrite(*args: Any) -> None:
            self.patch(self.admission, '_rewrite', rewrite)
            self.replace('lease', hosts.span(5, 12), 0, other)
            rewrite(*args)

        self.patch(self.admission, '_rewrite', change_and_rewrite)

        answer = self.admission.replace(
            hosts.make_request('lease', during, least=2),
            now=0,
            reason=stores.REASON,
            expected=(hosts.make_request('lease', during), during),
        )

        self.assertIsNone(answer)
        self.assertEqual({'lease/0'}, self.find_places().keys())
        self.assertEqual(2, len(self.admission.list_changes('lease')))


class LostAnswerTest(stores.StoreTestCase):
    def test_an_answer_that_is_lost_changes_it_once(self) -> None:
        self.admit(stores.make_admission(self.url), 'lease', hosts.span(5, 9))
        fleet = hosts.make_host('a'), hosts.make_host('b')
        admission = admission_mod.Admission(
            test_admission.LosesAnswers(self.url), hosts.make_planner(*fleet)
        )

        admission.replace(
            hosts.make_request('lease', hosts.span(5, 10)),
            now=0,
            reason=stores.REASON,
        )

        self.assertEqual(2, len(admission.list_changes('lease')))
