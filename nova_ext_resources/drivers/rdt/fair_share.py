# SPDX-License-Identifier: Apache-2.0

"""Division of what is left among servers, beyond their minimums.

Burst ways and memory bandwidth are allocated with a minimum and a maximum.
This decides how much each server has where nothing else does. Pure.
"""

from collections.abc import Sequence
from typing import TypeAlias

#: (minimum, maximum) of one server, in the unit of the resource class.
Demand: TypeAlias = tuple[int, int]


def divide(
    capacity: int, demands: Sequence[Demand], step: int = 1
) -> tuple[int, ...]:
    """Return every minimum, with the rest divided evenly.

    What one cannot take for its maximum goes to the others. The same
    demands in the same order always give the same amounts.

    :param step: what the hardware counts in: amounts differ from their
        minimums by multiples of it. What is less than one step stays free;
        steps that do not go round go to the first ones.
    :return: an amount for each demand
    :raises ValueError: the minimums alone are more than the capacity, a
        maximum is below its minimum, or the step is below 1
    """
    _check(capacity, demands, step)
    spare = capacity - sum(least for least, _most in demands)
    rooms = [(most - least) // step for least, most in demands]
    level, rest = _find_level(rooms, spare // step)
    amounts = []
    for (least, _most), room in zip(demands, rooms, strict=True):
        is_first = level < room and rest > 0
        rest -= is_first
        amounts.append(least + step * (min(level, room) + is_first))
    return tuple(amounts)


def _check(capacity: int, demands: Sequence[Demand], step: int) -> None:
    if step < 1:
        raise ValueError(f'the step is {step}; it must be 1 or more')
    for least, most in demands:
        if not 0 <= least <= most:
            raise ValueError(f'{least} to {most} is not a range of amounts')
    least_sum = sum(least for least, _most in demands)
    if least_sum > capacity:
        raise ValueError(
            f'the minimums add up to {least_sum}, but only {capacity} units '
            'exist'
        )


def _find_level(rooms: Sequence[int], steps: int) -> tuple[int, int]:
    """Return how many steps each with room gets, and how many are left.

    The one with the least room is full first; the others share what it
    leaves.
    """
    level = 0
    for number, room in enumerate(sorted(rooms)):
        level, rest = divmod(steps, len(rooms) - number)
        if level < room:
            return level, rest
        steps -= room
    return level, 0
