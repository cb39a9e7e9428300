# SPDX-License-Identifier: Apache-2.0

"""A chart in the letters of a terminal.

Plain letters, which every terminal, log and mail shows alike.
"""

from collections.abc import Iterator
import datetime

from nova_ext_resources.reservation import chart as chart_mod
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import state

#: What a bar is filled with.
_FILLS = {
    state.State.PENDING: '-',
    state.State.ACTIVE: '=',
    state.State.DEGRADED: '!',
}
_OVER = '.'
_CHANGE = '#'

LEGEND = (
    '[ begins, ] ends, < and > go on; - pending, = active, ! degraded, . over'
)

#: Added where there are any.
CHANGES_LEGEND = '# planned changes of capacity'

#: Seconds between two marks of the axis; the first that leaves room is taken.
STEPS = (
    *(60 * one for one in (1, 5, 15, 30)),
    *(3600 * one for one in (1, 2, 6, 12)),
    *(86400 * one for one in (1, 2, 7, 14, 28, 91, 182, 364)),
    *(86400 * one for one in (3640, 36400, 364000)),
)

_LABEL = 12
MIN_COLUMNS = 24
MAX_WIDTH = 10_000
MAX_NAME = 24


def draw(chart: chart_mod.Chart, width: int) -> Iterator[str]:
    """Return the lines of a chart.

    :param width: letters in a line, as far as ``MIN_COLUMNS`` allows
    """
    names = max((len(one.name) for one in chart.rows), default=0)
    names = min(names, MAX_NAME)
    columns = max(width - names - 1, MIN_COLUMNS)
    scale = _Scale(chart.during, columns)
    yield f'{chart.during} (UTC)'
    yield f'{"":{names}} {scale.draw_axis()}'.rstrip()
    for row in chart.rows:
        name = row.name if len(row.name) <= names else row.name[: names - 1]
        name += '~' if len(row.name) > names else ''
        for lane in row.lanes:
            yield f'{name:{names}} {scale.draw_lane(lane)}'.rstrip()
            name = ''
    yield LEGEND if chart.rows else 'No reservations in this time.'
    if any(bar.state is None for bar in chart.bars):
        yield CHANGES_LEGEND


def choose_step(seconds: int, most: int) -> int:
    """Return the seconds between marks of an axis, of which some fit."""
    fitting = (one for one in STEPS if seconds / one <= most)
    return next(fitting, STEPS[-1])


def format_mark(seconds: int, step: int) -> str:
    """Return the text at a mark; '' after the last date."""
    try:
        date = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (OverflowError, ValueError):
        return ''
    if step < 86400:
        return date.strftime('%d. %H:%M')
    return date.strftime('%Y-%m-%d')


class _Scale:
    """From times to columns."""

    def __init__(self, during: interval.Interval, columns: int) -> None:
        self._during = during
        self._columns = columns

    def _find(self, time: int) -> int:
        """Return the column that a time is in, within the chart or not."""
        passed = time - self._during.start
        return passed * self._columns // self._during.seconds

    def draw_axis(self) -> str:
        step = choose_step(
            self._during.seconds, max(self._columns // _LABEL, 1)
        )
        line = [' '] * (self._columns + _LABEL)
        first = -(-self._during.start // step) * step
        for time in range(first, self._during.end, step):
            column = self._find(time)
            label = f'|{format_mark(time, step)}'
            line[column : column + len(label)] = label
        return ''.join(line)[: self._columns].rstrip()

    def draw_lane(self, lane: tuple[chart_mod.Bar, ...]) -> str:
        line = [' '] * self._columns
        for bar in lane:
            first = max(self._find(bar.during.start), 0)
            last = self._columns
            if bar.during.end < self._during.end:
                last = max(self._find(bar.during.end), first + 1)
            line[first:last] = self._draw_bar(bar, last - first)
        return ''.join(line)

    def _draw_bar(self, bar: chart_mod.Bar, length: int) -> str:
        fill = _CHANGE if bar.state is None else _FILLS.get(bar.state, _OVER)
        if length < 2:
            return fill
        left = '<' if bar.during.start < self._during.start else '['
        right = '>' if bar.during.end > self._during.end else ']'
        inner = bar.label[: length - 2]
        return f'{left}{inner:{fill}<{length - 2}}{right}'
