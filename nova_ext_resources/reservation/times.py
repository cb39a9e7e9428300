# SPDX-License-Identifier: Apache-2.0

"""Times and durations as people write them."""

import datetime
import re

from nova_ext_resources.reservation import interval

#: Unit -> seconds. Months and years are left out: they differ in length.
_UNITS = {'s': 1, 'm': 60, 'h': 3600, 'd': 86400, 'w': 604800}

_DURATION = re.compile(r'(?:[0-9]{1,9}[smhdw])+')

#: A hundred years: more is a mistake.
MAX_SECONDS = 36525 * 86400

#: No date of Python is so late.
YEAR_10000 = 253402300800


def parse_seconds(text: str) -> int:
    """Read a duration, such as ``90m``, ``2h30m``, ``7d`` or ``1w``.

    :raises ValueError: it is none, or zero, or beyond a hundred years
    """
    text = text.strip()
    if not _DURATION.fullmatch(text):
        raise ValueError(
            f'{text!r} is not a duration; write numbers with a unit each, of '
            's, m, h, d and w, such as 90m, 2h30m or 7d'
        )
    parts = re.findall('([0-9]+)([smhdw])', text)
    seconds = sum(int(number) * _UNITS[unit] for number, unit in parts)
    if not 1 <= seconds <= MAX_SECONDS:
        raise ValueError(
            f'{text} is not between one second and a hundred years'
        )
    return seconds


def parse_time(text: str, now: int) -> int:
    """Read a time: ``now``, ``+2h`` from now, or ISO 8601 with a time zone.

    Fractions of a second are cut off.

    :param now: seconds since the epoch
    :returns: seconds since the epoch
    :raises ValueError: it is none of these, or before 1970 or after 9999
    """
    text = text.strip()
    if text == 'now':
        return now
    if text.startswith('+'):
        return now + parse_seconds(text[1:])
    try:
        date = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f'{text!r} is not a time; write now, a duration from now such as '
            '+2h, or a date such as 2030-01-31T08:00Z'
        ) from None
    found = interval.from_datetimes(date).start
    if not 0 <= found < YEAR_10000:
        raise ValueError(f'{text} is before 1970 or after 9999, in UTC')
    return found


def format_seconds(seconds: int) -> str:
    """Return a duration as :func:`parse_seconds` reads it."""
    if seconds >= interval.FOREVER:
        return 'forever'
    parts = []
    for unit, length in sorted(_UNITS.items(), key=lambda one: -one[1]):
        number, seconds = divmod(seconds, length)
        if number:
            parts.append(f'{number}{unit}')
    return ''.join(parts) or '0s'
