# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Tests of what the allocator is compared with, on cases worked by hand."""

from bench import allocator
from bench.harness import arrivals
from bench.harness import optimum
from tests import base


def make_trace(*given: tuple[int, int, int]) -> list[arrivals.Arrival]:
    return [
        arrivals.Arrival(starts_at=start, ends_at=end, amount=amount)
        for start, end, amount in given
    ]


#: Of five ways: the one that stays must leave pairs, or one pair is refused.
TRACE = make_trace((0, 2, 2), (1, 9, 1), (3, 9, 2), (4, 9, 2))


class ArrivalsTest(base.TestCase):
    def test_a_trace_is_the_same_every_time(self) -> None:
        made = [
            arrivals.make_trace(7, 11, {1: 1, 2: 3}, 0.9, 20) for _ in range(2)
        ]

        self.assertEqual(made[0], made[1])
        self.assertEqual(20, len(made[0]))

    def test_first_and_best_fit_are_what_their_names_say(self) -> None:
        taken = 0b0001_1000

        self.assertEqual(0, arrivals.make_first_fit(7)(taken, 1))
        self.assertEqual(5, arrivals.make_best_fit(7)(taken, 1))
        self.assertIsNone(arrivals.make_best_fit(7)(taken, 4))
        self.assertIsNone(arrivals.make_first_fit(7)(taken, 4))

    def test_who_leaves_makes_room(self) -> None:
        trace = make_trace((0, 2, 3), (1, 9, 1), (2, 9, 3))

        self.assertEqual((2, 6), arrivals.play(trace, arrivals.make_ours(3)))

    def test_ours_is_the_tracker(self) -> None:
        self.assertEqual(5, arrivals.make_ours(6)(0b1111, 1))
        self.assertIsNone(arrivals.make_ours(6)(0b1111, 3))


class OptimumTest(base.TestCase):
    def test_who_knows_the_future_leaves_room_for_it(self) -> None:
        found = optimum.search(TRACE, 5, lambda amount: 1, may_refuse=False)

        self.assertEqual(4, found)

    def test_to_refuse_may_be_better(self) -> None:
        trace = make_trace((0, 9, 3), (1, 9, 2), (2, 9, 2))
        worth = allocator.WORTHS['requests']

        self.assertEqual(
            [1, 2],
            [
                optimum.search(trace, 4, worth, may_refuse=may_refuse)
                for may_refuse in (False, True)
            ],
        )

    def test_one_size_that_fills_the_domain_is_erlangs_loss(self) -> None:
        # One place, as much asked for as there is: half is turned away.
        model = optimum.make_model(3, [3])

        rate = optimum.find_rate(model, {3: 1}, 1.0, lambda amount: 1)

        self.assertAlmostEqual(0.5, rate, places=3)

    def test_no_rule_is_better_than_the_best(self) -> None:
        mix = {1: 1, 2: 2, 3: 1}
        model = optimum.make_model(6, mix)
        for worth in allocator.WORTHS.values():
            best = optimum.find_rate(model, mix, 0.9, worth)
            for make in allocator.RULES.values():
                own = optimum.find_rate(model, mix, 0.9, worth, make(6))
                self.assertLess(own, best + 1e-4)

    def test_every_layout_is_found(self) -> None:
        # Two ways, amounts 1 and 2: none, low, high, both, or the two.
        self.assertEqual(5, len(optimum.make_model(2, [1, 2]).layouts))


class AllocatorTest(base.TestCase):
    def test_ours_accepts_more_than_either_peer(self) -> None:
        sums = dict.fromkeys(allocator.RULES, 0)
        for seed in range(60):
            trace = arrivals.make_trace(
                seed, 11, arrivals.MIXES['2, 3, 4, 6'], 0.9, 100
            )
            for rule, make in allocator.RULES.items():
                sums[rule] += arrivals.play(trace, make(11))[1]

        self.assertGreater(sums['ours'], sums['first fit'])
        self.assertGreater(sums['ours'], sums['best fit'])
