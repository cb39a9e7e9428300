# SPDX-License-Identifier: Apache-2.0

"""The oracle of the benchmark of tuning, and its goals."""

import itertools

from dev.bench.harness import oracle
from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.testing import mixes
from nova_ext_resources.testing import workloads
from tests import base

ROUNDS = 40


class OracleTest(base.TestCase):
    def play(self, mix: workloads.Mix, ways: tuple[int, ...]) -> float:
        """Return the slowdown of the worst server with these ways."""
        percents = (30, 30)
        machine = workloads.Machine(
            mix,
            mix.list_tunables(
                {classes.BURST: ways, classes.PERCENT: percents}
            ),
        )
        workloads.play(machine, ROUNDS)
        return max(machine.slowdowns.values())

    def test_no_fixed_division_is_better(self) -> None:
        for seed in range(3):
            mix = mixes.make_mix(seed, mixes.KINDS['two servers'])
            capacity = mix.capacities[classes.BURST]
            ranges = [
                range(least, most + 1)
                for least, most in mix.allocated[classes.BURST]
            ]
            found = oracle.find_fixed(mix, ROUNDS)

            for ways in itertools.product(*ranges):
                if sum(ways) <= capacity:
                    self.assertLessEqual(found, self.play(mix, ways) + 1e-9)

    def test_with_one_phase_there_is_nothing_to_follow(self) -> None:
        mix = mixes.make_mix(4, mixes.STEADY)

        self.assertAlmostEqual(
            oracle.find_fixed(mix, ROUNDS), oracle.find_following(mix, ROUNDS)
        )

    def test_it_is_at_least_as_good_as_even_division(self) -> None:
        for name, kind in mixes.KINDS.items():
            with self.subTest(name=name):
                mix = mixes.make_mix(2, kind)
                machine = workloads.Machine(mix, workloads.divide_evenly(mix))
                workloads.play(machine, 240)

                self.assertLessEqual(
                    oracle.find_fixed(mix, 240),
                    max(machine.slowdowns.values()) * 1.03,
                )
