# SPDX-License-Identifier: Apache-2.0

"""Masks of cache ways and lists of CPUs, as the kernel writes them.

A mask is an int whose bit ``n`` stands for way ``n``; as text it is hex
without ``0x``, as in a resctrl schemata file. A list of CPUs is text like
``0-11,24-35`` (the kernel's *List format* of ``bitmap_parselist``).
"""

from collections.abc import Iterable, Iterator
import functools
import re

#: No host has more. It bounds the sets that text from outside produces.
MAX_NUMBER = 1 << 16

_RANGE = '[0-9]{1,5}(-[0-9]{1,5})?'
_LIST = re.compile(f'({_RANGE}(,{_RANGE})*)?')


def parse_mask(text: str) -> int:
    """Read a mask.

    :raises ValueError: the text is not a hex number
    """
    if not re.fullmatch(r'[0-9a-fA-F]{1,64}', text):
        raise ValueError(f'{text!r} is not a mask: hex digits are expected')
    return int(text, 16)


def format_mask(mask: int) -> str:
    return f'{mask:x}'


@functools.lru_cache(maxsize=4096)
def parse_list(text: str) -> frozenset[int]:
    """Read a list of CPUs or ways; '' is the empty one.

    :raises ValueError: the text is not such a list
    """
    text = text.strip()
    if not _LIST.fullmatch(text):
        raise ValueError(f'{text!r} is not a list like 0-3,8')
    numbers: set[int] = set()
    for part in filter(None, text.split(',')):
        start, _dash, end = part.partition('-')
        first, last = int(start), int(end or start)
        if not first <= last < MAX_NUMBER:
            raise ValueError(
                f'{part} in {text!r} runs backwards, or goes beyond '
                f'{MAX_NUMBER - 1}'
            )
        numbers.update(range(first, last + 1))
    return frozenset(numbers)


def format_list(numbers: Iterable[int]) -> str:
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ','.join(f'{a}-{b}' if a != b else f'{a}' for a, b in runs)


def from_numbers(numbers: Iterable[int]) -> int:
    """Make the mask that has these bits."""
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask


def make_run(start: int, length: int) -> int:
    """Make the mask of ``length`` bits from bit ``start`` upwards."""
    return ((1 << length) - 1) << start


def unite(masks: Iterable[int]) -> int:
    """Return all bits that are set in any of these masks."""
    together = 0
    for mask in masks:
        together |= mask
    return together


def split(mask: int) -> list[int]:
    """Return the contiguous runs of a mask, each as a mask, lowest first."""
    runs = []
    while mask:
        # Adding its lowest bit carries over the lowest run.
        runs.append(mask & ~(mask + (mask & -mask)))
        mask &= ~runs[-1]
    return runs


def find_longest(mask: int) -> int:
    """Return the longest run of a mask, the lowest of these, or 0."""
    return max(split(mask), key=int.bit_count, default=0)


def find_lowest(mask: int, count: int) -> int:
    """Return the ``count`` lowest bits of a mask, all if it has fewer."""
    while mask.bit_count() > count:
        mask ^= 1 << mask.bit_length() - 1
    return mask


def find_run_of(mask: int, part: int) -> int:
    """Return the run of a mask in which a part of it lies, or 0."""
    return next((run for run in split(mask) if run & part), 0)


def list_runs(mask: int) -> Iterator[tuple[int, int]]:
    """Return (start, length) of each contiguous run, lowest first."""
    for run in split(mask):
        yield (run & -run).bit_length() - 1, run.bit_count()


def count_from(mask: int, start: int) -> int:
    """Count the contiguous set bits from bit ``start`` upwards."""
    mask >>= start
    return (mask ^ (mask + 1)).bit_length() - 1


def count_below(mask: int, end: int) -> int:
    """Count the contiguous set bits from below bit ``end`` downwards."""
    return end - (~mask & make_run(0, end)).bit_length()


def has_run(mask: int, length: int) -> bool:
    """Return whether ``length`` contiguous bits are set somewhere."""
    # Each step leaves the bits from which a run twice as long starts.
    reach = 1
    while reach < length and mask:
        step = min(reach, length - reach)
        mask &= mask >> step
        reach += step
    return bool(mask)


def is_contiguous(mask: int) -> bool:
    low = mask & -mask
    return bool(mask) and (mask + low) & mask == 0
