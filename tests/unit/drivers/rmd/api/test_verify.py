# SPDX-License-Identifier: Apache-2.0

"""Judging what a workload took. Pure."""

import dataclasses

from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.drivers.resctrl.kernel import schemata
from nova_ext_resources.drivers.rmd.api import difference
from nova_ext_resources.drivers.rmd.api import request
from nova_ext_resources.drivers.rmd.api import values
from nova_ext_resources.drivers.rmd.api import verify
from tests import base
from tests.unit.drivers.rmd.api import with_simulator


def make_cache(
    cache_id: int, guaranteed: int, besteffort: int = 0
) -> values.RmdCache:
    return values.RmdCache(
        cache_id=cache_id,
        ways=11,
        cpus=frozenset({cache_id}),
        free={
            values.GUARANTEED: guaranteed,
            values.BESTEFFORT: besteffort,
            values.OS: 1,
        },
    )


def make_caches(*guaranteed: int) -> dict[int, values.RmdCache]:
    return {
        cache_id: make_cache(cache_id, mask, 0b1110000000)
        for cache_id, mask in enumerate(guaranteed)
    }


def make_request(maximum: int, minimum: int) -> request.WorkloadRequest:
    return with_simulator.make_request(
        'x', 1, max_ways=maximum, min_ways=minimum
    )


SHARED = make_request(0, 0)


class TakenWaysTest(base.TestCase):
    def test_what_a_cache_lost_was_taken(self) -> None:
        taken = difference.taken_ways(
            make_caches(0b1111110, 0b111), make_caches(0b0011110, 0b111)
        )

        self.assertEqual({0: 0b1100000, 1: 0}, taken)

    def test_what_a_cache_gained_was_not(self) -> None:
        taken = difference.taken_ways(make_caches(0b0110), make_caches(0b1110))

        self.assertEqual({0: 0}, taken)


class FindFaultTest(base.TestCase):
    def find_problem(
        self,
        *taken: int,
        maximum: int = 2,
        minimum: int = 2,
        wanted: tuple[int, ...] = (0,),
    ) -> str:
        return verify.find_problem(
            make_caches(0b1111110, 0b1111110),
            dict(enumerate(taken)),
            wanted=wanted,
            request=make_request(maximum, minimum),
        )

    def test_the_asked_run_on_the_right_cache_is_well(self) -> None:
        self.assertEqual('', self.find_problem(0b1100000, 0))

    def test_other_ways_are_a_fault(self) -> None:
        for taken in (
            (0, 0),
            (0, 0b11),
            (0b1100000, 0b10),
            (0b1000000, 0),
            (0b1110000, 0),
            (0b1010000, 0),
            (0b0110000000, 0),
        ):
            with self.subTest(taken=taken):
                self.assertNotEqual('', self.find_problem(*taken))

    def test_a_cache_behind_one_of_others_is_checked_too(self) -> None:
        self.assertEqual('', self.find_problem(0, 0b1100000, wanted=(1,)))

        for taken in ((0, 0), (0, 0b1000000), (0b11, 0b1110000)):
            with self.subTest(taken=taken):
                self.assertIn(
                    f'cache 1 gave ways {taken[1]:#x}',
                    self.find_problem(*taken, wanted=(1,)),
                )

    def test_best_effort_may_be_shorter(self) -> None:
        self.assertEqual(
            '', self.find_problem(0b0100000000, 0, maximum=3, minimum=1)
        )
        self.assertNotEqual(
            '', self.find_problem(0b0100000000, 0, maximum=3, minimum=2)
        )

    def test_shared_ways_are_all_of_the_pool_on_every_cache(self) -> None:
        before = {
            cache_id: dataclasses.replace(
                cache, free={**cache.free, values.SHARED: 0x400 >> cache_id}
            )
            for cache_id, cache in make_caches(0b1110, 0b1110).items()
        }
        for taken, is_well in (
            ({0: 0x400, 1: 0x200}, True),
            ({0: 0x200, 1: 0x200}, False),
            ({0: 0x400, 1: 0}, False),
            ({0: 0x600, 1: 0x200}, False),
            ({0: 0, 1: 0}, False),
        ):
            with self.subTest(taken=taken):
                problem = verify.find_problem(
                    before, taken, wanted=[0, 1], request=SHARED
                )

                self.assertEqual(is_well, not problem)

    def test_a_shared_pool_that_others_use_is_a_fault(self) -> None:
        problem = verify.find_problem(
            make_caches(0b1110), {0: 0}, wanted=[0], request=SHARED
        )

        self.assertNotEqual('', problem)


class LimitsTest(base.TestCase):
    def test_a_cache_that_rmd_leaves_out_is_not_compared(self) -> None:
        found = values.RmdWorkload(
            workload_id='1',
            uuid='',
            core_ids=frozenset({0}),
            max_ways=None,
            min_ways=None,
            mba=values.MbaLimit(unit='percentage', value=30),
            cos_name='COS1',
            plugins={},
        )
        has = {(schemata.BANDWIDTH, 0): 100, (schemata.BANDWIDTH, 1): 100}
        group = groups.Group(name='COS1', schemata=has)

        wrong = difference.find_wrong_limit(
            {'COS1': group}, found, {0: make_cache(0, 1)}
        )

        self.assertEqual('memory bandwidth by cache is {0: 100}', wrong)
