# SPDX-License-Identifier: Apache-2.0

"""Reservations over time as rows of bars: a Gantt chart without its paper.

With the planned changes of capacity beside them.
"""

from collections.abc import Iterable, Iterator
import dataclasses

from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import state as state_mod


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """What one reservation, or one change of capacity, has in one row.

    :ivar during: its whole time, which may be longer than the chart's
    :ivar servers: how many of its servers are in the row
    :ivar state: that of a reservation; None for a change of capacity
    """

    key: str
    during: interval.Interval
    servers: int = 0
    state: state_mod.State | None = None

    @property
    def label(self) -> str:
        """What is written on it."""
        return self.key if self.state is None else f'{self.key} {self.servers}'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A host or a zone.

    :ivar lanes: bars, so that those in one lane do not overlap; one at least
    """

    name: str
    lanes: tuple[tuple[Bar, ...], ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """All rows of one time, which has an end."""

    during: interval.Interval
    rows: tuple[Row, ...]

    @property
    def bars(self) -> Iterator[Bar]:
        """Those of all rows."""
        for row in self.rows:
            for lane in row.lanes:
                yield from lane


def make_row(name: str, bars: Iterable[Bar]) -> Row:
    """Put bars into as few lanes as they need, the first to start first."""
    lanes: list[list[Bar]] = [[]]
    for bar in sorted(bars, key=lambda one: (one.during.start, one.key)):
        for lane in lanes:
            if not lane or lane[-1].during.end <= bar.during.start:
                lane.append(bar)
                break
        else:
            lanes.append([bar])
    return Row(name=name, lanes=tuple(map(tuple, lanes)))


def make_chart(
    during: interval.Interval, bars: Iterable[tuple[str, Bar]]
) -> Chart:
    """Put bars into rows, by the names of these.

    :param bars: each with the name of its row
    """
    rows: dict[str, list[Bar]] = {}
    for name, bar in bars:
        rows.setdefault(name, []).append(bar)
    return Chart(
        during=during,
        rows=tuple(
            make_row(name, ones) for name, ones in sorted(rows.items())
        ),
    )
