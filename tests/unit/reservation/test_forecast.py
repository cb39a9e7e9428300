# SPDX-License-Identifier: Apache-2.0

"""Tests of what there will be, against all that may have happened."""

from collections.abc import Iterator
import itertools
import random

from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import forecast
from nova_ext_resources.reservation import interval
from tests import base
from tests.unit.reservation import changes
from tests.unit.reservation.hosts import span

LAST = 16


def make(
    amount: int, start: int, end: int = interval.FOREVER, key: str = ''
) -> capacity_change.CapacityChange:
    key = key or f'{amount}.{start}'
    return changes.make_change(key, span(start, end), {'VCPU': amount})


def foresee(
    planned: list[capacity_change.CapacityChange], shown: int | None, now: int
) -> forecast.Forecast:
    return forecast.make(planned, 'VCPU', shown, now)


class ForecastTest(base.TestCase):
    """Of a base of eight."""

    def check(
        self,
        planned: list[capacity_change.CapacityChange],
        cases: tuple[tuple[int, int | None, list[int]], ...],
        *,
        is_sure: bool = False,
    ) -> None:
        """Compare what there is from now on until 30, each ten seconds."""
        for now, shown, wanted in cases:
            with self.subTest(now=now, shown=shown):
                found = foresee(planned, shown, now).count(is_sure=is_sure)
                times = [now, *(one for one in (10, 20, 30) if one > now)]
                self.assertEqual(
                    wanted, [found.lowest(span(one, one + 1)) for one in times]
                )

    def test_without_changes_placement_says_it(self) -> None:
        self.check([], ((0, 5, [5] * 4), (0, None, [0] * 4)))
        self.check([make(4, 0, 10)], ((10, 5, [5] * 3),))
        other = changes.make_change('x', span(10), {'PCPU': 4})
        self.check([other], ((0, 5, [5] * 4),))

    def test_more_to_come(self) -> None:
        self.check(
            [make(4, 10)],
            (
                (5, 8, [8, 12, 12, 12]),
                (5, 12, [12, 12, 12, 12]),
                (5, 10, [10, 12, 12, 12]),
                # What was taken away beside it does not come back with it.
                (5, 4, [4, 8, 8, 8]),
                # What came beside it stays.
                (5, 20, [20, 20, 20, 20]),
                (5, None, [8, 12, 12, 12]),
                # It is late, and there when placement shows it.
                (10, 8, [8, 8, 8]),
                (15, 10, [10, 10, 10]),
                (15, 12, [12, 12, 12]),
                (15, 13, [13, 13, 13]),
            ),
        )

    def test_more_for_a_time(self) -> None:
        self.check(
            [make(4, 10, 20)],
            (
                (5, 8, [8, 12, 8, 8]),
                (5, 12, [12, 12, 8, 8]),
                (5, 4, [4, 8, 4, 4]),
                (15, 8, [8, 8, 8]),
                (15, 10, [10, 8, 8]),
                (15, 12, [12, 8, 8]),
                (15, 6, [6, 6, 6]),
            ),
        )

    def test_less(self) -> None:
        self.check(
            [make(-4, 10, 20)],
            (
                (5, 8, [8, 4, 8, 8]),
                # It has come early: once is enough.
                (5, 4, [4, 4, 8, 8]),
                (5, 6, [6, 4, 8, 8]),
                (5, 3, [3, 3, 7, 7]),
                (5, 12, [12, 8, 12, 12]),
                # It counts also where placement never shows it.
                (15, 8, [4, 8, 8]),
                (15, 4, [4, 8, 8]),
                (15, 6, [4, 8, 8]),
                (15, 3, [3, 7, 7]),
                (15, 12, [8, 12, 12]),
                (15, None, [4, 8, 8]),
            ),
        )

    def test_never_less_than_nothing(self) -> None:
        self.check([make(-9, 10)], ((5, 8, [8, 0, 0, 0]),))

    def test_two_upgrades_of_which_one_came_early(self) -> None:
        self.check(
            [make(4, 10), make(4, 20)],
            ((5, 12, [12, 12, 16, 16]), (15, 12, [12, 16, 16])),
        )

    def test_a_late_upgrade_is_no_early_cut(self) -> None:
        self.check(
            [make(4, 10), make(-4, 20)],
            ((15, 8, [8, 4, 4]), (15, 12, [12, 8, 8])),
        )

    def test_a_late_cut_is_no_early_upgrade(self) -> None:
        self.check(
            [make(-4, 10), make(4, 20)],
            ((15, 4, [4, 8, 8]), (15, 8, [4, 8, 8]), (15, 12, [8, 8, 8])),
        )

    def test_of_two_that_may_be_late_it_is_the_one_that_stays(self) -> None:
        self.check(
            [make(4, 10), make(4, 10, 20, 'x')], ((15, 12, [12, 8, 8]),)
        )

    def test_of_two_that_may_be_early_the_later_cut_has_come(self) -> None:
        self.check(
            [make(-2, 10), make(-4, 20)],
            ((5, 4, [4, 2, 2, 2]), (5, 6, [6, 4, 2, 2])),
        )

    def test_what_is_sure(self) -> None:
        self.check(
            [make(4, 10)],
            ((5, 8, [8] * 4), (5, 12, [12] * 4), (15, 8, [8] * 3)),
            is_sure=True,
        )
        self.check(
            [make(4, 10, 20)],
            ((5, 8, [8] * 4), (5, 10, [10, 10, 8, 8]), (15, 12, [12, 8, 8])),
            is_sure=True,
        )
        self.check(
            [make(-4, 10, 20)],
            (
                (5, 8, [8, 4, 8, 8]),
                (5, 4, [4, 4, 4, 4]),
                (5, 6, [6, 4, 6, 6]),
                (15, 4, [4, 4, 4]),
            ),
            is_sure=True,
        )

    def test_who_is_late(self) -> None:
        for shown, now, late in (
            (8, 5, set()),
            (8, 10, {'4.10'}),
            (11, 15, {'4.10'}),
            (12, 15, set()),
            (12, 25, {'4.10'}),
            (16, 25, set()),
        ):
            found = foresee([make(4, 10), make(4, 20, 30)], shown, now)
            self.assertEqual(late, found.late)

    def test_what_was_lost_beside_all_changes(self) -> None:
        for planned, shown, now, lost in (
            ([make(4, 10)], 8, 5, 0),
            ([make(4, 10)], 5, 5, 3),
            ([make(4, 10)], 8, 15, 0),
            ([make(4, 10)], 5, 15, 3),
            ([make(4, 10)], 20, 15, 0),
            ([make(-4, 10)], 5, 5, 0),
            ([make(-4, 10)], 3, 5, 1),
            ([make(-4, 10)], 3, 15, 1),
            ([make(-4, 10), make(2, 9)], 1, 15, 3),
        ):
            with self.subTest(planned=planned, shown=shown, now=now):
                self.assertEqual(lost, foresee(planned, shown, now).lost)

    def test_the_lowest_base_counts(self) -> None:
        planned = [
            make(4, 10),
            changes.make_change('x', span(20), {'VCPU': 4}, before=6),
        ]

        self.check(planned, ((5, 8, [8, 10, 14, 14]),))


class HappeningsTest(base.TestCase):
    """Whatever has come of changes, no more is promised than there will be."""

    def test_every_way(self) -> None:
        dice = random.Random(5)
        for _round in range(300):
            planned = [
                self.draw(dice, str(one)) for one in range(dice.randint(1, 3))
            ]
            now = dice.randrange(LAST)
            for come in self.list_ways(planned, now):
                self.check(planned, come, now)

    def draw(
        self, dice: random.Random, key: str
    ) -> capacity_change.CapacityChange:
        start = dice.randrange(LAST - 1)
        end = dice.choice([interval.FOREVER, dice.randint(start + 1, LAST)])
        return make(dice.choice([-3, -2, 2, 3]), start, end, key)

    def list_ways(
        self, planned: list[capacity_change.CapacityChange], now: int
    ) -> Iterator[dict[str, bool]]:
        """Return which of the changes may have come.

        Left out are those that nobody can tell from others: what is late of
        one and early or late of another may add up to nothing. And cuts that
        have come early: it is believed that they have.
        """
        for ways in itertools.product((False, True), repeat=len(planned)):
            found = dict(zip((one.key for one in planned), ways, strict=True))
            signs = {
                one.amounts['VCPU'] > 0
                if found[one.key]
                else one.amounts['VCPU'] < 0
                for one in planned
                if found[one.key] != (one.during.start <= now)
            }
            is_cut_early = any(
                found[one.key]
                and one.amounts['VCPU'] < 0
                and one.during.start > now
                for one in planned
            )
            if len(signs) < 2 and not is_cut_early:
                yield found

    def check(
        self,
        planned: list[capacity_change.CapacityChange],
        come: dict[str, bool],
        now: int,
    ) -> None:
        going_on = [one for one in planned if one.during.end > now]
        shown = 8 + sum(
            one.amounts['VCPU'] for one in going_on if come[one.key]
        )
        if shown < 0:
            return
        found = foresee(planned, shown, now)
        full, sure = found.count(), found.count(is_sure=True)
        for second in range(now, LAST + 1):
            moment = span(second, second + 1)
            there = self.count_there(going_on, come, now, second)
            self.assertLessEqual(
                full.lowest(moment),
                max(there, 0),
                f'{second} of {now}, shown {shown}, {come}, {planned}',
            )
            self.assertLessEqual(sure.lowest(moment), full.lowest(moment))

    def count_there(
        self,
        planned: list[capacity_change.CapacityChange],
        come: dict[str, bool],
        now: int,
        second: int,
    ) -> int:
        """Return what there is if all that is due comes in time from now on.

        Increases that are late do not come; decreases that are late may.
        """
        there = 8
        for one in planned:
            amount, during = one.amounts['VCPU'], one.during
            is_then = during.start <= second < during.end
            is_late = during.start <= now and not come[one.key]
            if is_late and amount > 0:
                continue
            is_early = come[one.key] and second < during.start
            if is_then or is_early:
                there += amount
        return there
