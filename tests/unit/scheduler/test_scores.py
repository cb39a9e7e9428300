# SPDX-License-Identifier: Apache-2.0

"""Tests of the scores of hosts."""

from collections.abc import Mapping
import math
from typing import Any

from nova_ext_resources.reservation import interval
from nova_ext_resources.scheduler import scores
from tests import base

WAYS = 'CUSTOM_LLC_WAYS'
SEATS = 'CUSTOM_LICENCE_SEAT'
CLOS = 'CUSTOM_RDT_CLOS'


def score(
    totals: Mapping[str, Any],
    *asked: str,
    scarce: tuple[str, ...] = ('*',),
    policies: Mapping[str, str] | None = None,
) -> float | None:
    preference = scores.Preference(
        asked=frozenset(asked),
        policies=policies or {},
        scarce=frozenset(scarce),
    )
    return preference.score(totals)


class ScoreTestCase(base.TestCase):
    def test_spreading_prefers_the_larger_free_share(self) -> None:
        self.assertEqual(0.75, score({WAYS: [6, 2]}, WAYS))
        self.assertEqual(0.25, score({WAYS: [2, 6]}, WAYS))

    def test_packing_prefers_the_smaller_free_share(self) -> None:
        self.assertEqual(
            -0.75, score({WAYS: [6, 2]}, WAYS, policies={WAYS: 'pack'})
        )

    def test_a_star_is_the_policy_of_all_others(self) -> None:
        totals = {WAYS: [1, 1], SEATS: [1, 3]}
        policies = {'*': 'pack', WAYS: 'spread'}

        self.assertEqual(
            (0.5 - 0.25) / 2, score(totals, WAYS, SEATS, policies=policies)
        )

    def test_scarce_hosts_are_kept_from_those_who_do_not_ask(self) -> None:
        self.assertEqual(0.0, score({}))
        self.assertEqual(-0.5, score({WAYS: [1, 1]}))
        self.assertEqual(-1.5, score({WAYS: [1, 1], SEATS: [3, 0]}))

    def test_a_host_that_has_none_left_is_not_kept(self) -> None:
        self.assertEqual(0.0, score({WAYS: [0, 8]}))

    def test_what_is_not_scarce_keeps_nobody_away(self) -> None:
        totals = {WAYS: [1, 1], SEATS: [1, 1]}

        self.assertEqual(-0.5, score(totals, scarce=(SEATS,)))
        self.assertEqual(0.0, score(totals, scarce=()))

    def test_who_asks_for_one_is_kept_from_another_that_is_named(
        self,
    ) -> None:
        self.assertEqual(
            0.5 - 0.25,
            score({WAYS: [1, 1], SEATS: [1, 3]}, WAYS, scarce=(SEATS,)),
        )

    def test_what_comes_with_what_is_asked_does_not_count_against_it(
        self,
    ) -> None:
        empty = {WAYS: [6, 0], CLOS: [6, 0]}
        half = {WAYS: [3, 3], CLOS: [3, 3]}

        self.assertGreater(score(empty, WAYS) or 0, score(half, WAYS) or 0)

    def test_a_host_that_does_not_have_what_is_asked_says_nothing(
        self,
    ) -> None:
        self.assertIsNone(score({SEATS: [1, 1]}, WAYS))

    def test_nonsense_from_a_host_upsets_nobody(self) -> None:
        for total in (
            None,
            5,
            'ab',
            [],
            [1],
            [-1, 4],
            [5, -1],
            ['1', '1'],
            [math.nan, 1],
            [math.inf, 1],
            [10**400, 0.5],
        ):
            with self.subTest(total=total):
                self.assertIsNone(score({WAYS: total}, WAYS))

    def test_nothing_free_of_nothing_is_as_a_full_host(self) -> None:
        self.assertEqual(0.0, score({WAYS: [0, 0]}, WAYS))

    def test_hosts_that_say_nothing_are_in_the_middle(self) -> None:
        self.assertEqual([0.2, 0.4, 0.6], scores.fill_gaps([0.2, None, 0.6]))
        self.assertEqual([0.0], scores.fill_gaps([None]))


class GapTest(base.TestCase):
    def test_the_share_of_the_time_that_is_used(self) -> None:
        for now, end, begin, score in (
            (0, 4, 4, 1.0),
            (0, 4, 8, 0.5),
            (100, 104, 116, 0.25),
            # Nothing of it is ever needed.
            (0, 4, interval.FOREVER, 0.0),
            # It has ended, and its units are needed now.
            (4, 4, 4, 0.0),
        ):
            self.assertEqual(score, scores.score_gap(now, end, begin))
