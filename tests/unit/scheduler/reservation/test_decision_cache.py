# SPDX-License-Identifier: Apache-2.0

"""Tests of how long a decision about units side by side holds."""

from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import promise_ledger
from nova_ext_resources.scheduler.reservation import decision_cache
from tests import base
from tests.unit.reservation import hosts
from tests.unit.reservation import test_promise_ledger


class VerdictsTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.decisions = decision_cache.DecisionCache()
        self.asked = 0
        self.until = 100
        during = hosts.span(5, 100)
        self.broken = promise_ledger.Promise(
            request=hosts.make_request('x', during),
            slot=test_promise_ledger.make_slot(
                'x/0', during, {('a', 'VCPU'): 1}
            ),
            during=during,
        )

    def decide(self) -> decision_cache.Verdict:
        self.asked += 1
        return self.broken, self.until

    def check(
        self,
        asked: int,
        *,
        host: str = 'a',
        text: str = 'published',
        version: int = 1,
        kind: str = 'kind',
        now: int = 10,
    ) -> None:
        self.asked = 0
        found = self.decisions.find(
            (host, text, version), kind, now, self.decide
        )
        self.assertIs(self.broken, found)
        self.assertEqual(asked, self.asked)

    def test_it_is_the_same_for_the_same(self) -> None:
        self.check(1)
        self.check(0)
        self.check(0, now=99)

    def test_something_else_is_decided_anew(self) -> None:
        for fields in (
            {'host': 'b'},
            {'kind': 'other'},
            {'text': 'other'},
            {'version': 2},
        ):
            with self.subTest(fields=fields):
                self.check(1, **fields)
                self.check(0, **fields)
        # What it published before is forgotten.
        self.check(1)

    def test_what_has_ended_is_no_reason_any_more(self) -> None:
        self.check(1)
        self.check(1, now=100)

    def test_a_clock_that_goes_back(self) -> None:
        self.check(1)
        self.check(1, now=9)

    def test_all_hosts_together_do_not_grow_without_bound(self) -> None:
        self.patch(decision_cache, 'MAX_VERDICTS', 6)
        for kind in ('one', 'two'):
            for host in 'abc':
                self.check(1, host=host, kind=kind)
        self.check(0, host='a', kind='one')
        # It is not counted twice.
        self.check(1, host='a', kind='one', now=100)

        self.check(1, host='d')

        # Of those that were not asked about for longest.
        self.assertEqual(['c', 'a', 'd'], [*self.decisions._hosts])
        self.check(0, host='c', kind='two')

    def test_what_is_forgotten_counts_no_more(self) -> None:
        self.patch(decision_cache, 'MAX_VERDICTS', 3)
        self.patch(decision_cache, 'MAX_KINDS', 2)
        self.check(1, host='b')
        for number in range(9):
            self.check(1, kind=str(number))
            self.check(1, text=str(number))

        self.check(0, host='b')

    def test_no_host_grows_without_bound(self) -> None:
        self.until = interval.FOREVER
        for number in range(3 * decision_cache.MAX_KINDS):
            self.check(1, kind=str(number))

        self.assertLessEqual(
            len(self.decisions._hosts['a'].known), decision_cache.MAX_KINDS
        )
