# SPDX-License-Identifier: Apache-2.0

"""The text of a ``schemata`` file, and what it means. Pure.

One line per control, ``L3:0=7ff;1=7ff`` or ``MB:0=100;1= 50``; masks are hex
and bandwidths decimal (kernel documentation, *User Interface for Resource
Control feature*, "Schemata files"). The kernel pads names and values.
"""

from collections.abc import Iterator, Mapping
import re
from typing import NamedTuple, TypeAlias

from nova_ext_resources.objects import bitmask

#: Control and domain, such as ``('L3', 0)`` -> mask or bandwidth.
Schemata: TypeAlias = Mapping[tuple[str, int], int]

BANDWIDTH = 'MB'

#: Level of the cache to which memory bandwidth belongs.
LAST_LEVEL = 3

#: Level of a cache -> names of its controls: the first one, or the two that
#: code/data prioritization makes of it.
CONTROLS: Mapping[int, tuple[str, str, str]] = {
    3: ('L3', 'L3CODE', 'L3DATA'),
    2: ('L2', 'L2CODE', 'L2DATA'),
}

#: Control of ways -> level of its caches.
LEVELS = {name: level for level, names in CONTROLS.items() for name in names}

_CODES = tuple(names[1] for names in CONTROLS.values())
_DATAS = tuple(names[2] for names in CONTROLS.values())

#: As much as the kernel takes in a write, in bytes.
MAX_TEXT = 4096

_VALUE = re.compile(r'\s*([0-9]{1,20})\s*=\s*([0-9a-fA-F]{1,64})\s*')

#: In a group that is set up for pseudo-locking.
_UNINITIALIZED = 'uninitialized'


class Cache(NamedTuple):
    """One cache: its level, and its id as the kernel has it."""

    level: int
    number: int

    @property
    def key(self) -> str:
        """Return the key of its provider."""
        return f'L{self.level}_{self.number}'


def parse_key(key: str) -> Cache:
    """Return the cache of a provider.

    :raises ValueError: it is the provider of no cache
    """
    level, _line, number = key.removeprefix('L').partition('_')
    return Cache(int(level), int(number))


class Ways(NamedTuple):
    """Ways of one cache.

    :ivar code: how many of the lowest are for code alone, the others then
        for data alone; 0: all are for both
    """

    mask: int
    code: int = 0

    def get_part(self, control: str) -> int:
        """Return the ways of one control."""
        if not self.code or control not in (*_CODES, *_DATAS):
            return self.mask
        code = bitmask.find_lowest(self.mask, self.code)
        return code if control in _CODES else self.mask & ~code


def parse(text: str) -> dict[tuple[str, int], int]:
    """Read a whole file.

    Controls without values are left out, and those that only later kernels
    have: their values may be anything.

    :raises ValueError: it is something else, or half of a file
    """
    names: set[str] = set()
    found: dict[tuple[str, int], int] = {}
    for line in filter(str.strip, text.splitlines()):
        name, colon, values = (part.strip() for part in line.partition(':'))
        if not colon or not name or name in names:
            raise ValueError(f'{line!r} is not a line of a schemata file')
        names.add(name)
        is_known = name in LEVELS or name == BANDWIDTH
        if is_known and values != _UNINITIALIZED:
            found.update(_parse_values(name, values))
    if text and not text.endswith('\n'):
        raise ValueError('the last line of the schemata file is cut off')
    return found


def _parse_values(
    name: str, text: str
) -> Iterator[tuple[tuple[str, int], int]]:
    base = 10 if name == BANDWIDTH else 16
    for part in text.split(';'):
        match = _VALUE.fullmatch(part)
        if not match:
            raise ValueError(f'{part!r} of {name} is not DOMAIN=VALUE')
        yield (name, int(match[1])), int(match[2], base)


def format_lines(schemata: Schemata) -> str:
    """Make what is written to the kernel; the last line ends too.

    The kernel refuses a write that does not end with a line feed.
    """
    lines: dict[str, list[str]] = {}
    for (name, domain), value in sorted(schemata.items()):
        lines.setdefault(name, []).append(_format_value(name, domain, value))
    return ''.join(
        f'{name}:{";".join(parts)}\n' for name, parts in lines.items()
    )


def _format_value(name: str, domain: int, value: int) -> str:
    return f'{domain}={value}' if name == BANDWIDTH else f'{domain}={value:x}'


def list_texts(schemata: Schemata) -> list[str]:
    """Make what is written to the kernel, each text in a write of its own.

    One is enough but for hundreds of caches: kernfs takes no write that is
    longer than a page (``atomic_write_len`` of resctrl's files).
    """
    text = format_lines(schemata)
    if len(text) <= MAX_TEXT or len(schemata) < 2:
        return [text]
    parts, half = sorted(schemata.items()), len(schemata) // 2
    return [*list_texts(dict(parts[:half])), *list_texts(dict(parts[half:]))]


def find_deviation(wanted: Schemata, found: Schemata) -> str:
    """Explain where the kernel shows other values than written, or ''."""
    for (name, domain), value in sorted(wanted.items()):
        real = found.get((name, domain))
        if real == value:
            continue
        wrote = _format_value(name, domain, value)
        shown = 'nothing'
        if real is not None:
            shown = _format_value(name, domain, real)
        return f'{name}:{wrote} is expected, but the kernel shows {shown}'
    return ''


def get_masks(schemata: Schemata) -> dict[Cache, int]:
    """Return the ways of a group in each cache that is controlled.

    With code/data prioritization, those of either kind.
    """
    found: dict[Cache, int] = {}
    for (name, number), mask in schemata.items():
        if name in LEVELS:
            cache = Cache(LEVELS[name], number)
            found[cache] = found.get(cache, 0) | mask
    return found


def get_limits(schemata: Schemata) -> dict[int, int]:
    """Return last-level cache -> memory bandwidth, in the kernel's unit."""
    return {
        number: limit
        for (name, number), limit in schemata.items()
        if name == BANDWIDTH
    }


def make_values(
    known: Schemata,
    ways: Mapping[Cache, Ways],
    limits: Mapping[int, int],
) -> dict[tuple[str, int], int]:
    """Make what is written so that a group has these ways and limits.

    :param known: of any group; the controls that there are. Caches of which
        all CPUs are offline are not among them, and are left out
    """
    values = {}
    for name, number in known:
        if name == BANDWIDTH:
            if number in limits:
                values[name, number] = limits[number]
        elif one := ways.get(Cache(LEVELS[name], number)):
            values[name, number] = one.get_part(name)
    return values
