# SPDX-License-Identifier: Apache-2.0

"""Lists of cores as RMD reads them, including where it falls over."""

from collections.abc import Iterable
import re

#: RMD's test for what is no list of CPUs.
_BAD_EXPRESSION = re.compile(
    r'([^\^\d\-,]+)|([^\d]+-.*(,|$))|([^,]*-[^\d]+)|(\^[^\d]+)'
    r'|((\,\s)?\^$)'
)

#: Beyond it the daemon's allocation of a bitmap fails.
_TOO_LARGE = 2**31


class Panic(Exception):
    """The daemon's handler dies; the connection closes unanswered."""


class BadCores(Exception):
    """RMD refuses to read the list; its words."""


def read(core_ids: Iterable[str]) -> frozenset[int]:
    """Read lists such as ``['1', '4-6,^5']``.

    :raises Panic: nothing in it is a number
    :raises BadCores: RMD complains
    """
    items = list(core_ids)
    numbers = re.findall(r'\d+', ','.join(items))
    if not numbers or max(map(int, numbers)) >= _TOO_LARGE:
        raise Panic('index out of range')
    cores: set[int] = set()
    for item in items:
        if _BAD_EXPRESSION.search(item):
            raise BadCores(f'wrong expression : {item}')
        for part in item.split(','):
            span = _span(part.lstrip('^'))
            if part.startswith('^'):
                cores.difference_update(span)
            else:
                cores.update(span)
    return frozenset(cores)


def _span(text: str) -> range:
    low, dash, high = text.partition('-')
    first = _number(low)
    last = _number(high) if dash else first
    if last - first > 1_000_000:
        raise Panic('out of memory')
    return range(first, last + 1)


def _number(text: str) -> int:
    if not text.isdecimal():
        raise BadCores(f'strconv.Atoi: parsing "{text}": invalid syntax')
    return int(text)


def read_on_host(core_ids: Iterable[str], cpu_words: int) -> frozenset[int]:
    """Read cores into a bitmap of the host's size.

    A core behind the last CPU, but within its 32-bit word, passes.

    :raises Panic: a core lies behind the bitmap
    """
    items = list(core_ids)
    if not items:
        return frozenset()
    cores = read(items)
    if any(core >= 32 * cpu_words for core in cores):
        raise Panic('index out of range')
    return cores


def release_ids(core_ids: Iterable[str]) -> list[int]:
    """Read cores as DELETE does: what is no number counts as core 0."""
    return [int(item) if item.isdecimal() else 0 for item in core_ids]
