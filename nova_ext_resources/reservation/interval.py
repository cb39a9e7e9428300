# SPDX-License-Identifier: Apache-2.0

"""Half-open intervals of time, exact to the second.

The end does not belong to an interval: of two leases, one may start in the
second in which the other ends. Times are whole seconds since 1970-01-01 UTC,
as ``time.time`` counts them, so that time zones and leap days are a matter of
the conversion alone.
"""

from collections.abc import Iterator
import dataclasses
import datetime
from typing import Generic, Protocol, TypeVar

#: The end of an interval that has none. Later than any date that Python's
#: ``datetime`` knows, and smaller than a signed 64-bit column allows.
FOREVER: int = 1 << 62

#: Before any date.
ALWAYS: int = -FOREVER

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_SECOND = datetime.timedelta(seconds=1)


@dataclasses.dataclass(frozen=True, slots=True)
class Interval:
    """The seconds from ``start`` to before ``end``.

    :ivar start: seconds since the epoch; ``ALWAYS`` where it has no start
    :ivar end: seconds since the epoch; ``FOREVER`` where it has no end
    :raises ValueError: a time is not a whole number of seconds, or the end is
        not after the start
    """

    start: int
    end: int = FOREVER

    def __post_init__(self) -> None:
        for name in ('start', 'end'):
            value = getattr(self, name)
            if type(value) is not int or not ALWAYS <= value <= FOREVER:
                raise ValueError(
                    f'the {name} {value!r} is not a whole number of seconds '
                    'since 1970-01-01 UTC'
                )
        if self.end <= self.start:
            raise ValueError(
                f'the end {format_time(self.end)} is not after the start '
                f'{format_time(self.start)}'
            )

    def __str__(self) -> str:
        return f'{format_time(self.start)} to {format_time(self.end)}'

    @property
    def is_open(self) -> bool:
        """Whether it has no end."""
        return self.end == FOREVER

    @property
    def seconds(self) -> int:
        """Its length; ``FOREVER`` where it has no end."""
        return FOREVER if self.is_open else self.end - self.start

    def overlaps(self, other: 'Interval') -> bool:
        """Return whether there is a second that belongs to both."""
        return self.start < other.end and other.start < self.end

    def shift(self, start: int) -> 'Interval':
        """Return an interval of the same length from another start."""
        return Interval(start, add_seconds(start, self.seconds))


class Timed(Protocol):
    """Something with a key of its own, for a time."""

    @property
    def key(self) -> str: ...

    @property
    def during(self) -> Interval: ...


_T = TypeVar('_T', bound=Timed)


class Table(Generic[_T]):
    """Finds what meets an interval without a look at all the rest.

    What is about equally long is in a row of cells that are a little longer:
    each is in the one or two cells that it touches. There are 64 rows at most.
    """

    def __init__(self) -> None:
        self._rows: dict[int, dict[int, dict[str, _T]]] = {}

    def put(self, one: _T) -> None:
        """Add it, or put it in the place of what has its key and time."""
        length, numbers = _find_cells(one.during)
        for number in numbers:
            row = self._rows.setdefault(length, {})
            row.setdefault(number, {})[one.key] = one

    def drop(self, one: _T) -> None:
        """Take it out, if it is there."""
        length, numbers = _find_cells(one.during)
        for number in numbers:
            cell = self._rows.get(length, {}).get(number, {})
            if cell.pop(one.key, None) and not cell:
                del self._rows[length][number]

    def list_overlapping(self, during: Interval) -> Iterator[_T]:
        """Return all that has a second of an interval, each once."""
        for length, row in self._rows.items():
            first, last = during.start >> length, (during.end - 1) >> length
            numbers = range(first, last + 1)
            for number in numbers if len(row) > last - first else [*row]:
                for one in row.get(number, {}).values():
                    # In the first of its cells that are looked at.
                    begin = max(one.during.start >> length, first)
                    if begin == number and one.during.overlaps(during):
                        yield one


def _find_cells(during: Interval) -> tuple[int, set[int]]:
    """Return the length of a row, as a power of two, and cells in it."""
    length = (during.end - during.start).bit_length()
    return length, {during.start >> length, (during.end - 1) >> length}


def add_seconds(start: int, seconds: int) -> int:
    """Return the end of so many seconds, ``FOREVER`` at most."""
    return min(start + seconds, FOREVER)


def from_datetimes(
    starts_at: datetime.datetime, ends_at: datetime.datetime | None = None
) -> Interval:
    """Make the shortest interval that covers two dates.

    Fractions of a second are rounded outwards.

    :param ends_at: None where there is no end
    :raises ValueError: a date has no time zone, or the end is not after the
        start
    """
    start = _count_seconds(starts_at)[0]
    end = FOREVER if ends_at is None else _count_seconds(ends_at)[1]
    return Interval(start, end)


def _count_seconds(date: datetime.datetime) -> tuple[int, int]:
    """Return the last full second before a date and the first one after."""
    if date.tzinfo is None:
        raise ValueError(
            f'the date {date.isoformat()} has no time zone; add one, such as '
            '+00:00'
        )
    passed = date - _EPOCH
    return passed // _SECOND, -(-passed // _SECOND)


def format_time(seconds: int) -> str:
    """Return a time as ISO 8601 in UTC, or in words."""
    if seconds >= FOREVER:
        return 'forever'
    try:
        date = _EPOCH + seconds * _SECOND
    except OverflowError:
        return f'second {seconds}'
    return date.isoformat().replace('+00:00', 'Z')
