# SPDX-License-Identifier: Apache-2.0

"""Tests of the rules that the allocator is compared with, by hand."""

import random
import statistics

from dev.bench import allocator
from dev.bench.harness import arrivals
from dev.bench.harness import optimum
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
            arrivals.make_trace(
                7, 11, arrivals.Kind(mix={1: 1, 2: 3}), 0.9, 20
            )
            for _ in range(2)
        ]

        self.assertEqual(made[0], made[1])
        self.assertEqual(20, len(made[0]))

    def test_a_life_is_one_on_average(self) -> None:
        for draw in (
            arrivals.draw_exponential,
            arrivals.draw_bimodal,
            arrivals.draw_pareto,
            arrivals.draw_constant,
        ):
            rng = random.Random(1)
            lives = [draw(rng) for _ in range(100000)]

            self.assertAlmostEqual(1, statistics.fmean(lives), delta=0.05)

    def test_as_many_ways_are_asked_for_as_the_load_says(self) -> None:
        kinds = arrivals.list_kinds(20)
        for name in ('long-lived large', 'long-lived small', 'bursts'):
            for kind in kinds[name]:
                trace = arrivals.make_trace(3, 20, kind, 0.9, 20000)
                asked = sum(
                    (one.ends_at - one.starts_at) * one.amount for one in trace
                )

                per_time = asked / trace[-1].starts_at
                self.assertAlmostEqual(0.9 * 20, per_time, delta=1.5)

    def test_long_lived_servers_are_the_large_ones(self) -> None:
        (kind, *_others) = arrivals.list_kinds(20)['long-lived large']

        self.assertEqual({1, 2, 3, 6, 7, 8, 9, 10}, {*kind.mix})
        self.assertEqual(
            {6, 7, 8, 9, 10}, {n for n in kind.mix if kind.lives[n] == 10}
        )
        self.assertAlmostEqual(0.1, sum(kind.mix[n] for n in range(6, 11)))

    def test_servers_of_a_burst_arrive_at_the_same_time(self) -> None:
        kind = arrivals.Kind(mix={1: 1, 2: 1}, burst=5.0, is_equal=True)

        trace = arrivals.make_trace(1, 11, kind, 0.9, 5000)

        bursts: dict[float, set[int]] = {}
        for one in trace:
            bursts.setdefault(one.starts_at, set()).add(one.amount)
        self.assertAlmostEqual(1000, len(bursts), delta=60)
        self.assertEqual({1}, {len(found) for found in bursts.values()})

    def test_first_and_best_fit_are_what_their_names_say(self) -> None:
        taken = 0b0001_1000

        self.assertEqual(0, arrivals.make_first_fit(7)(taken, 1))
        self.assertEqual(5, arrivals.make_best_fit(7)(taken, 1))
        self.assertIsNone(arrivals.make_best_fit(7)(taken, 4))
        self.assertIsNone(arrivals.make_first_fit(7)(taken, 4))

    def test_servers_that_end_make_room(self) -> None:
        trace = make_trace((0, 2, 3), (1, 9, 1), (2, 9, 3))

        self.assertEqual((2, 6), arrivals.play(trace, arrivals.make_ours(3)))

    def test_ours_is_the_tracker(self) -> None:
        self.assertEqual(5, arrivals.make_ours(6)(0b1111, 1))
        self.assertIsNone(arrivals.make_ours(6)(0b1111, 3))


class OptimumTest(base.TestCase):
    def test_the_known_future_gets_its_room(self) -> None:
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
        for name, lead in (
            ('amounts 2, 3, 4, 6', 0.0),
            ('amounts 3 and 5', 0.0),
            ('bimodal lives', 0.0),
            ('Pareto lives', 0.0),
            ('long-lived large', -0.002),
            ('bursts', -0.006),
        ):
            sums = allocator.play_kind(name, 144)
            for peer in allocator.PEERS:
                with self.subTest(name=name, peer=peer):
                    self.assertGreater(
                        sums['requests', 'ours'],
                        sums['requests', peer] * (1 + lead),
                    )

    def test_the_same_arrivals_are_played_by_all_rules(self) -> None:
        sums = allocator.play_kind('equal lives', 2)

        self.assertEqual(6, len(sums))
        self.assertLess(0, min(sums.values()))
        self.assertEqual(sums, allocator.play_kind('equal lives', 2))
