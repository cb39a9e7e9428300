# SPDX-License-Identifier: Apache-2.0

"""Which ways a server has, judged by what is remembered and read. Pure."""

from typing import Any

from nova_ext_resources.drivers.rmd.api import difference
from nova_ext_resources.drivers.rmd.api import values
from nova_ext_resources.drivers.rmd import grants
from nova_ext_resources.objects import assignment
from tests import base
from tests.unit import builders


def make_entry(uuid: str, units: Any) -> assignment.Entry:
    return assignment.Entry(
        consumer_uuid=uuid,
        state=assignment.State.APPLIED,
        cpus=frozenset({1, 2}),
        assignments=(
            builders.make_assignment(rp_key='L3_0', units=units, amount=2),
        ),
    )


def make_caches(
    free: int = 0, idle: frozenset[int] = frozenset()
) -> dict[int, values.RmdCache]:
    return {
        0: values.RmdCache(
            cache_id=0,
            ways=11,
            cpus=frozenset(range(8)),
            free={values.GUARANTEED: free},
            idle_cpus=idle,
        )
    }


A = make_entry('a', {'mask': '60'})
B = make_entry('b', {'mask': '60'})


class GrantsTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.grants = grants.Grants()

    def find(
        self, *others: assignment.Entry, **caches: Any
    ) -> grants.Masks | None:
        made = make_caches(**caches)
        return self.grants.find(A, others, made)

    def test_the_ledger_is_right_while_nothing_contradicts_it(self) -> None:
        self.assertEqual({0: 0x60}, self.find(free=0x1E, idle=frozenset({3})))

    def test_one_free_way_is_enough(self) -> None:
        self.assertIsNone(self.find(free=0x20))

    def test_one_idle_cpu_is_enough(self) -> None:
        self.assertIsNone(self.find(idle=frozenset({2})))

    def test_of_two_with_the_same_ways_neither_is_certain(self) -> None:
        self.assertIsNone(self.find(B))

    def test_the_latest_grant_is(self) -> None:
        self.grants.add('b', {0: 0x60})
        self.grants.add('a', {0: 0x40})

        self.assertEqual({0: 0x40}, self.find(B))
        self.grants.add('b', {0: 0x60})
        self.assertIsNone(self.find(B))

    def test_what_was_released_is_no_grant(self) -> None:
        self.grants.add('a', {0: 0x6})
        self.grants.drop('a')
        self.grants.drop('a')

        self.assertEqual({0: 0x60}, self.find())

    def test_ways_of_another_cache_are_others(self) -> None:
        self.grants.add('a', {1: 0x60})

        self.assertEqual({1: 0x60}, self.find(B, free=0x60))

    def test_units_of_another_tracker_are_no_ways(self) -> None:
        for units in ({}, {'mask': 'zz'}, {'mask': 7}, {'mask': None}):
            entry = make_entry('a', units)

            self.assertEqual({}, grants.read(entry))

    def test_ways_are_named_for_the_operator(self) -> None:
        self.assertEqual(
            '0x60 of L3_0, 0x6 of L3_1', difference.describe({1: 0x6, 0: 0x60})
        )
