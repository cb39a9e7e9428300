# SPDX-License-Identifier: Apache-2.0

"""The text of a ``schemata`` file, and what it means. Pure.

One line per control, ``L3:0=7ff;1=7ff`` or ``MB:0=100;1= 50``; masks are hex
and bandwidths decimal (kernel documentation, *User Interface for Resource
Control feature*, "Schemata files"). The kernel pads names and values.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from nova_ext_resources.objects import bitmask

#: Control, such as ``L3`` or ``MB`` -> domain -> mask or bandwidth.
Schemata: TypeAlias = Mapping[str, Mapping[int, int]]

BANDWIDTH = 'MB'

#: Level of the cache to which memory bandwidth belongs.
LAST_LEVEL = 3

#: Level of a cache -> names of its controls: the first one, or the two that
#: code/data prioritization makes of it.
CONTROLS: Mapping[int, tuple[str, str, str]] = {
    3: ('L3', 'L3CODE', 'L3DATA'),
    2: ('L2', 'L2CODE', 'L2DATA'),
}

#: Names of all controls of ways.
WAYS = tuple(name for names in CONTROLS.values() for name in names)

_CODES = tuple(names[1] for names in CONTROLS.values())
_DATAS = tuple(names[2] for names in CONTROLS.values())

#: As much as the kernel takes in a write, in bytes.
MAX_TEXT = 4096

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
        low = (self.mask & -self.mask).bit_length() - 1
        code = self.mask & bitmask.make_run(low, self.code)
        return code if control in _CODES else self.mask & ~code


def parse(text: str) -> dict[str, dict[int, int]]:
    """Read a whole file; controls without values are left out.

    :raises ValueError: it is something else, or half of a file
    """
    found: dict[str, dict[int, int]] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        name, colon, values = line.partition(':')
        name = name.strip()
        if not colon or not name or name in found:
            raise ValueError(f'{line!r} is no line of a schemata file')
        if values.strip() != _UNINITIALIZED:
            found[name] = _parse_values(name, values)
    if text and not text.endswith('\n'):
        raise ValueError('the last line of the schemata file is cut off')
    return found


def _parse_values(name: str, text: str) -> dict[int, int]:
    values = {}
    for part in text.split(';'):
        domain, equals, value = part.partition('=')
        if not equals or not domain.strip().isdecimal():
            raise ValueError(f'{part!r} of {name} is not DOMAIN=VALUE')
        if name != BANDWIDTH:
            values[int(domain)] = bitmask.parse_mask(value.strip())
        elif value.strip().isdecimal():
            values[int(domain)] = int(value)
        else:
            raise ValueError(f'{value!r} is no memory bandwidth')
    return values


def format_lines(schemata: Schemata) -> str:
    """Make what is written to the kernel; the last line ends too.

    The kernel refuses a write that does not end with a line feed.
    """
    return ''.join(
        f'{name}:{_format_values(name, values)}\n'
        for name, values in schemata.items()
        if values
    )


def list_texts(schemata: Schemata) -> list[str]:
    """Make what is written to the kernel, each text in a write of its own.

    One is enough but for hundreds of caches: kernfs takes no write that is
    longer than a page (``atomic_write_len`` of resctrl's files).
    """
    text = format_lines(schemata)
    parts = [
        {name: {domain: value}}
        for name, values in schemata.items()
        for domain, value in sorted(values.items())
    ]
    if len(text) <= MAX_TEXT or len(parts) < 2:
        return [text]
    half = len(parts) // 2
    return [
        *list_texts(merge(parts[:half])),
        *list_texts(merge(parts[half:])),
    ]


def _format_values(name: str, values: Mapping[int, int]) -> str:
    write = str if name == BANDWIDTH else bitmask.format_mask
    return ';'.join(f'{i}={write(v)}' for i, v in sorted(values.items()))


def make_difference(
    before: Schemata, wanted: Schemata
) -> dict[str, dict[int, int]]:
    """Return what must be written to come from one to the other."""
    changed = {
        name: {
            domain: value
            for domain, value in values.items()
            if before.get(name, {}).get(domain) != value
        }
        for name, values in wanted.items()
    }
    return {name: values for name, values in changed.items() if values}


def find_deviation(wanted: Schemata, found: Schemata) -> str:
    """Explain where the kernel shows other values than written, or ''."""
    for name, values in wanted.items():
        for domain, value in sorted(values.items()):
            real = found.get(name, {}).get(domain)
            if real == value:
                continue
            wrote = _format_values(name, {domain: value})
            shown = (
                'nothing'
                if real is None
                else _format_values(name, {domain: real})
            )
            return f'{name}:{wrote} is wanted and {shown} is shown'
    return ''


def find_controls(schemata: Schemata, level: int) -> tuple[str, ...]:
    """Return the controls of a level: none, one, or those of code and data."""
    return tuple(name for name in CONTROLS[level] if name in schemata)


def has_cdp(schemata: Schemata, level: int) -> bool:
    """Return whether code and data have masks of their own."""
    return len(find_controls(schemata, level)) > 1


def get_masks(schemata: Schemata) -> dict[Cache, int]:
    """Return the ways of a group in each cache that is controlled.

    With code/data prioritization, those of either kind.
    """
    found: dict[Cache, int] = {}
    for level, names in CONTROLS.items():
        for name in names:
            for number, mask in schemata.get(name, {}).items():
                cache = Cache(level, number)
                found[cache] = found.get(cache, 0) | mask
    return found


def select(
    schemata: Schemata, caches: Iterable[Cache]
) -> dict[str, dict[int, int]]:
    """Return the values of some caches alone."""
    found: dict[str, dict[int, int]] = {}
    for cache in caches:
        for name in CONTROLS[cache.level]:
            if cache.number in schemata.get(name, {}):
                value = schemata[name][cache.number]
                found.setdefault(name, {})[cache.number] = value
    return found


def make_values(
    known: Schemata,
    ways: Mapping[Cache, Ways],
    limits: Mapping[int, int] | None = None,
) -> dict[str, dict[int, int]]:
    """Make what is written so that a group has these ways and limits.

    :param known: of any group; the controls that there are. Caches of which
        all CPUs are offline are not among them, and are left out
    """
    values: dict[str, dict[int, int]] = {}
    for cache, has in ways.items():
        for name in CONTROLS[cache.level]:
            if cache.number in known.get(name, ()):
                part = has.get_part(name)
                values.setdefault(name, {})[cache.number] = part
    for number, limit in (limits or {}).items():
        if number in known.get(BANDWIDTH, ()):
            values.setdefault(BANDWIDTH, {})[number] = limit
    return values


def merge(parts: Iterable[Schemata]) -> dict[str, dict[int, int]]:
    """Put several together; the later ones win."""
    whole: dict[str, dict[int, int]] = {}
    for part in parts:
        for name, values in part.items():
            whole.setdefault(name, {}).update(values)
    return whole
