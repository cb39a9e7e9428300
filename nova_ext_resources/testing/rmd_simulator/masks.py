# SPDX-License-Identifier: Apache-2.0

"""Way masks and lists of CPUs. Pure; bit n stands for way n."""

from collections.abc import Iterable, Iterator


def full(ways: int) -> int:
    """Return the mask of all ways."""
    return (1 << ways) - 1


def runs(mask: int, ways: int) -> Iterator[tuple[int, int, bool]]:
    """Return (lowest bit, length, whether set) of each run, lowest first."""
    start = 0
    for bit in range(1, ways + 1):
        if bit == ways or (mask >> bit & 1) != (mask >> start & 1):
            yield start, bit - start, bool(mask >> start & 1)
            start = bit


def longest_run(mask: int, ways: int) -> int:
    """Return the length of the longest run of set bits."""
    return max(
        (length for _bit, length, is_set in runs(mask, ways) if is_set),
        default=0,
    )


def highest_run(mask: int, wanted: int, ways: int) -> int:
    """Take ``wanted`` adjacent bits, from the high end; 0 when none fit."""
    for low in range(ways - wanted, -1, -1):
        candidate = full(wanted) << low
        if mask & candidate == candidate:
            return candidate
    return 0


def lowest_run(mask: int, wanted: int, ways: int) -> int:
    """Take ``wanted`` adjacent bits, from the low end; 0 when none fit."""
    for low in range(ways - wanted + 1):
        candidate = full(wanted) << low
        if mask & candidate == candidate:
            return candidate
    return 0


def os_mask(free: int, os_ways: int, ways: int) -> int:
    """Return the ways of the default group: all up to the first taken one.

    RMD looks at the first run only, whether it is free or not.
    """
    _low, length, _is_set = next(runs(free | full(os_ways), ways))
    return full(length)


def format_ranges(numbers: Iterable[int]) -> str:
    """Write numbers as ``0-3,5``; nothing as ''."""
    parts: list[str] = []
    ordered = sorted(numbers)
    start = 0
    for index, number in enumerate(ordered):
        if index + 1 < len(ordered) and ordered[index + 1] == number + 1:
            continue
        first = ordered[start]
        parts.append(str(first) if first == number else f'{first}-{number}')
        start = index + 1
    return ','.join(parts)


def format_mask(mask: int) -> str:
    """Write the set bits as ranges."""
    return format_ranges(
        bit for bit in range(mask.bit_length()) if mask >> bit & 1
    )


def parse_ranges(text: str) -> frozenset[int]:
    """Read ``0-3,5``.

    :raises ValueError: it is no list of ranges
    """
    numbers: set[int] = set()
    for part in filter(None, text.split(',')):
        low, _, high = part.partition('-')
        numbers.update(range(int(low), int(high or low) + 1))
    return frozenset(numbers)
