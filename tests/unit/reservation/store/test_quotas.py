# SPDX-License-Identifier: Apache-2.0

"""Tests of quotas: what is charged, kept and refused."""

import random
from typing import Any

from nova_ext_resources.reservation import errors
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import planner
from nova_ext_resources.reservation import quota
from nova_ext_resources.reservation import state as state_mod
from nova_ext_resources.reservation.store import admission
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import progress
from nova_ext_resources.reservation.store import purge
from nova_ext_resources.reservation.store import quotas
from nova_ext_resources.reservation.store import shrinking
from nova_ext_resources.reservation.store import slots
from nova_ext_resources.reservation.store import states
from tests.unit.reservation import hosts
from tests.unit.reservation.store import stores

State = state_mod.State


class QuotaTestCase(stores.StoreTestCase):
    """An hour has one second and a day ten; each server takes four VCPU."""

    def setUp(self) -> None:
        super().setUp()
        self.patch(admission, 'FIXED_SECONDS', 0)
        self.patch(quota, 'HOUR', 1)
        self.patch(quota, 'DAY', 10)
        self.now = 100
        self.database = databases.Database(self.url)
        self.quotas = quotas.Quotas(self.database, lambda: self.now)
        self.admission = stores.make_admission(self.url)

    def set_quota(self, unit_hours: int, **fields: Any) -> None:
        self.quotas.set_quota(
            'red', 'VCPU', unit_hours, **{'days': 1, **fields}
        )

    def reserve(
        self, key: str, start: int, end: int, **fields: Any
    ) -> planner.Plan:
        answer = self.admit(
            self.admission,
            key,
            hosts.span(start, end),
            self.now,
            **{'project': 'red', **fields},
        )
        assert isinstance(answer, planner.Plan), answer
        return answer

    def change(
        self, key: str, start: int, end: int, **fields: Any
    ) -> planner.Plan:
        answer = self.admission.replace(
            hosts.make_request(
                key, hosts.span(start, end), **{'project': 'red', **fields}
            ),
            now=self.now,
            reason='changed by a test',
        )
        assert isinstance(answer, planner.Plan), answer
        return answer

    def end(self, key: str, state: State = State.CANCELLED) -> None:
        self.admission.change(key, state, now=self.now, reason='not needed')

    def refuse(self, call: Any, *args: Any, **kwargs: Any) -> Any:
        before = stores.dump(self.url)
        err = self.assertRaises(errors.QuotaExceeded, call, *args, **kwargs)
        self.assertEqual(before, stores.dump(self.url))
        return err

    def find_used(self) -> int:
        (use,) = self.quotas.list_quotas('red')
        return use.used


class QuotasTest(QuotaTestCase):
    def test_a_project_gets_what_it_may_have(self) -> None:
        self.set_quota(60)
        self.reserve('first', 100, 110)

        self.refuse(self.reserve, 'second', 120, 126)
        self.reserve('second', 120, 125)

        self.assertEqual(60, self.find_used())
        self.refuse(self.reserve, 'third', 130, 131)

    def test_others_and_those_without_a_project(self) -> None:
        self.set_quota(0)

        self.reserve('blue', 100, 110, project='blue')
        self.reserve('none', 100, 110, project='')

        self.assertEqual(0, self.find_used())
        projects = {one.project for one in stores.dump(self.url)['charges']}
        self.assertEqual({'blue'}, projects)

    def test_what_was_reserved_before_the_quota_was_set(self) -> None:
        self.reserve('first', 100, 110)

        self.set_quota(40)

        self.assertEqual(40, self.find_used())
        self.refuse(self.reserve, 'second', 120, 121)

    def test_a_quota_that_is_lowered_refuses_what_is_new_only(self) -> None:
        self.set_quota(90)
        self.reserve('first', 110, 120, least=2)

        self.set_quota(10)

        self.assertEqual(80, self.find_used())
        self.refuse(self.reserve, 'second', 130, 131)
        self.refuse(self.change, 'first', 110, 121, least=2)
        self.change('first', 111, 121, least=2)
        self.change('first', 111, 121, least=1)
        self.assertEqual(40, self.find_used())

    def test_a_quota_that_is_deleted(self) -> None:
        self.set_quota(0)
        self.refuse(self.reserve, 'first', 100, 110)

        self.quotas.delete_quota('red', 'VCPU')

        self.reserve('first', 100, 110)
        self.assertEqual([], self.quotas.list_quotas())
        self.assertRaises(
            errors.QuotaNotFound, self.quotas.delete_quota, 'red', 'VCPU'
        )

    def test_what_is_cancelled_before_its_start_counts_no_more(self) -> None:
        self.set_quota(40)
        self.reserve('first', 110, 120)
        self.now = 110

        self.end('first')

        self.assertEqual(0, self.find_used())
        self.reserve('second', 110, 120)

    def test_what_is_released_counts_until_then(self) -> None:
        for state in (State.CANCELLED, State.EXPIRED):
            with self.subTest(state=state):
                self.set_quota(999)
                self.now += 1000
                self.reserve(state, self.now, self.now + 10)
                self.now += 3

                self.end(state, state)

                self.assertEqual(12, self.find_used())
                self.now += 9
                self.assertEqual(4, self.find_used())
                self.now += 1
                self.assertEqual(0, self.find_used())

    def test_what_ends_late_counts_until_its_end(self) -> None:
        self.set_quota(999)
        self.reserve('first', 100, 105)
        self.now = 107

        self.end('first', State.ENDED)

        self.assertEqual(20, self.find_used())

    def test_what_a_manager_releases(self) -> None:
        self.set_quota(999)
        self.reserve('first', 100, 110)
        self.now = 103
        with self.database.transaction() as connection:
            (one,) = progress.list_unfinished(connection)

        progress.advance(
            self.database,
            one,
            states.Change(
                state=State.EXPIRED, changed_at=self.now, reason='not claimed'
            ),
        )

        self.assertEqual(12, self.find_used())

    def test_servers_that_were_not_created_in_time(self) -> None:
        self.set_quota(999)
        self.reserve('first', 100, 110, least=2, expires_after=3)
        self.now = 101
        taken = slots.take(
            self.database,
            'first',
            'one',
            lambda held: held[0],
            now=self.now,
        )
        self.now = 104
        with self.database.transaction() as connection:
            (one,) = progress.list_unfinished(connection)

        shrinking.expire(self.database, one, self.now)

        self.assertTrue(taken)
        self.assertEqual(8 * 4 + 4 * 6, self.find_used())

    def test_another_end_of_what_has_started(self) -> None:
        self.set_quota(60)
        self.reserve('first', 100, 110)
        self.now = 105

        self.refuse(self.change, 'first', 100, 116)
        self.change('first', 100, 115)

        self.assertEqual(60, self.find_used())
        self.now = 107
        self.change('first', 100, 108)
        self.assertEqual(32, self.find_used())

    def test_servers_that_are_released_count_until_then(self) -> None:
        self.set_quota(999)
        self.reserve('first', 100, 110, least=2)
        self.now = 104

        self.change('first', 100, 110, least=1)

        self.assertEqual(8 * 4 + 4 * 6, self.find_used())

    def test_no_running_server_is_released_for_a_quota(self) -> None:
        self.set_quota(80)
        self.reserve('first', 100, 110, most=2)
        self.now = 105

        self.refuse(self.change, 'first', 100, 115, most=2)
        self.change('first', 100, 115, most=1)

    def test_fewer_servers_where_some_do(self) -> None:
        self.set_quota(80)

        plan = self.reserve('first', 100, 110, most=4)
        again = self.reserve('first', 100, 110, most=4)

        self.assertEqual(2, len(plan.servers))
        self.assertEqual(plan, again)
        self.assertEqual(80, self.find_used())

    def test_the_same_request_again_is_charged_once(self) -> None:
        self.set_quota(40)

        self.reserve('first', 100, 110)
        self.reserve('first', 100, 110)

        self.assertEqual(40, self.find_used())

    def test_what_is_deleted_counts_for_as_long_as_quotas_say(self) -> None:
        self.set_quota(999, days=4)
        self.reserve('first', 100, 110)
        self.now = 105
        self.end('first')
        self.now = 140

        self.assertEqual(1, purge.purge(self.database, self.now))

        self.assertEqual(20, self.find_used())
        # So may its name be used again.
        self.reserve('first', 140, 150)
        self.end('first')
        self.assertEqual(20, self.find_used())
        self.patch(quota, 'DEFAULT_DAYS', 1)
        self.now = 145
        purge.purge(self.database, self.now)
        self.assertEqual([], stores.dump(self.url)['charges'])

    def test_each_class_has_its_own(self) -> None:
        self.set_quota(999)
        self.quotas.set_quota('red', 'MEMORY_MB', 100, days=1)
        self.admission = stores.make_admission(
            self.url, hosts.make_host('a', VCPU=8, MEMORY_MB=64)
        )
        demand = hosts.make_demand(_={'VCPU': 1, 'MEMORY_MB': 10})

        self.reserve('first', 100, 110, demand=demand)
        err = self.refuse(self.reserve, 'second', 110, 111, demand=demand)

        (shortage,) = err.shortages
        self.assertEqual('MEMORY_MB', shortage.use.quota.resource_class)

    def test_what_cannot_be_set(self) -> None:
        for project, name, number, days in (
            ('', 'VCPU', 1, 1),
            (' red', 'VCPU', 1, 1),
            ('a\x00b', 'VCPU', 1, 1),
            ('\udcff', 'VCPU', 1, 1),
            ('x' * 256, 'VCPU', 1, 1),
            ('red', 'vcpu', 1, 1),
            ('red', '', 1, 1),
            ('red', 'VCPU', -1, 1),
            ('red', 'VCPU', 10**16, 1),
            ('red', 'VCPU', 1, 0),
        ):
            with self.subTest(project=project, name=name):
                self.assertRaises(
                    errors.InvalidQuota,
                    self.quotas.set_quota,
                    project,
                    name,
                    number,
                    days=days,
                )
        self.assertEqual([], stores.dump(self.url)['quotas'])

    def test_quotas_are_listed_by_project_and_class(self) -> None:
        for project, name in (
            ('red', 'VCPU'),
            ('blue', 'VCPU'),
            ('red', 'MEMORY_MB'),
            ('Red', 'VCPU'),
        ):
            self.quotas.set_quota(project, name, 1)

        found = [
            (one.quota.project, one.quota.resource_class)
            for one in self.quotas.list_quotas()
        ]

        self.assertEqual(
            [
                ('Red', 'VCPU'),
                ('blue', 'VCPU'),
                ('red', 'MEMORY_MB'),
                ('red', 'VCPU'),
            ],
            found,
        )

    def plan_first(self, meanwhile: Any) -> Any:
        """Return an admission of which others are faster once."""
        slow: Any = stores.make_admission(self.url, hosts.make_host('slow'))
        write, left = slow._write, [meanwhile]

        def write_later(*args: Any) -> None:
            if left:
                left.pop()()
            write(*args)

        slow._write = write_later
        return slow

    def test_of_two_at_once_one_is_refused(self) -> None:
        self.set_quota(40)
        fast = self.admission

        def take_all() -> None:
            slow, self.admission = self.admission, fast
            self.reserve('fast', 100, 110)
            self.admission = slow

        self.admission = self.plan_first(take_all)

        err = self.assertRaises(
            errors.QuotaExceeded, self.reserve, 'slow', 120, 121
        )

        self.assertIn('0 left', str(err))
        self.assertEqual(40, self.find_used())

    def test_a_quota_that_is_set_anew_is_not_taken_for_the_old_one(
        self,
    ) -> None:
        self.set_quota(40)
        fast = self.admission

        def take_all_and_set_anew() -> None:
            slow, self.admission = self.admission, fast
            self.reserve('fast', 100, 110)
            self.admission = slow
            self.quotas.delete_quota('red', 'VCPU')
            self.set_quota(40)

        self.admission = self.plan_first(take_all_and_set_anew)

        self.assertRaises(errors.QuotaExceeded, self.reserve, 'slow', 120, 121)

    def test_a_quota_that_is_lowered_meanwhile(self) -> None:
        self.set_quota(40)
        self.admission = self.plan_first(lambda: self.set_quota(39))

        self.assertRaises(errors.QuotaExceeded, self.reserve, 'slow', 120, 130)


class RandomQuotasTest(QuotaTestCase):
    """What counts, second by second, whatever is done."""

    def setUp(self) -> None:
        super().setUp()
        self.dice = random.Random(7)
        self.set_quota(300, days=2)
        #: Reservation -> second -> units, as it was promised at that second.
        self.past: dict[str, dict[int, int]] = {}
        #: Reservation -> its time and units from now on.
        self.held: dict[str, tuple[interval.Interval, int]] = {}

    def count(self) -> int:
        """Return what counts, second by second."""
        window, found = 20, 0
        for key, past in self.past.items():
            during, units = self.held.get(key, (None, 0))
            end = 0
            if during and during.is_open:
                end = max(during.start, self.now - window) + window
            elif during:
                end = during.end
            found += sum(
                past.get(at, 0) for at in range(self.now - window, self.now)
            )
            first = max(during.start, self.now) if during else 0
            found += units * max(0, end - first)
        return found

    def pass_time(self) -> None:
        step = self.dice.choice([0, 1, 1, 5, 20])
        for at in range(self.now, self.now + step):
            for key, (during, units) in self.held.items():
                if during.start <= at < during.end:
                    self.past[key][at] = units
        self.now += step

    def choose_time(self, start: int) -> interval.Interval:
        end = start + self.dice.randint(1, 15)
        return hosts.span(
            start, interval.FOREVER if self.dice.random() < 0.2 else end
        )

    def act(self, number: int) -> str:
        kind = self.dice.choice(['reserve', 'reserve', 'change', 'end'])
        going = [
            key for key, one in self.held.items() if one[0].end > self.now
        ]
        servers = self.dice.randint(1, 3)
        key, during = (
            f'r{number}',
            self.choose_time(self.now + self.dice.randint(0, 5)),
        )
        if kind != 'reserve':
            if not going:
                return 'nothing'
            key = self.dice.choice(going)
        if kind == 'end':
            self.end(key)
            del self.held[key]
            return kind
        call = self.reserve
        if kind == 'change':
            call = self.change
            start = self.held[key][0].start
            if start <= self.now:
                during = hosts.span(start, during.end)
        try:
            plan = call(key, during.start, during.end, least=1, most=servers)
        except (errors.QuotaExceeded, AssertionError, ValueError) as err:
            return type(err).__name__
        self.past.setdefault(key, {})
        self.held[key] = (plan.during, 4 * len(plan.servers))
        return kind

    def test_random_changes(self) -> None:
        self.admission = stores.make_admission(
            self.url, hosts.make_host('a', VCPU=64)
        )
        seen = set()
        for number in range(300):
            seen.add(self.act(number))

            used = self.find_used()

            self.assertEqual(self.count(), used, f'step {number}')
            self.assertLessEqual(used, 300)
            self.pass_time()
            self.assertLessEqual(self.find_used(), used)
        self.assertLess({'reserve', 'change', 'end', 'QuotaExceeded'}, seen)
