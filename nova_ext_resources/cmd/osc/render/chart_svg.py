# SPDX-License-Identifier: Apache-2.0

"""A chart as a picture: an SVG file without scripts, fonts or links."""

from collections.abc import Iterator

from nova_ext_resources.cmd.osc.render import chart_text
from nova_ext_resources.inspection import markup
from nova_ext_resources.reservation import chart as chart_mod
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import state

#: All in pixels.
WIDTH = 1200
_NAMES = 180
_TOP = 44
_LANE = 24
_GAP = 6

#: Marks of the axis, at most.
_MARKS = 10

#: Colours that differ in brightness, too.
_COLOURS = {
    state.State.PENDING: '#9ecae1',
    state.State.ACTIVE: '#31a354',
    state.State.DEGRADED: '#de2d26',
}
_OVER = '#bdbdbd'
_CHANGE = '#fd8d3c'


def draw(chart: chart_mod.Chart) -> str:
    """Return the text of a file."""
    lanes = sum(len(row.lanes) for row in chart.rows)
    height = _TOP + lanes * _LANE + (len(chart.rows) + 1) * _GAP
    title = markup.escape(f'Reservations from {chart.during} (UTC)')
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<title>{title}</title>',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="8" y="16" font-weight="bold">{title}</text>',
    )
    lines = [*head, *_draw_axis(chart, height), *_draw_rows(chart), '</svg>']
    return '\n'.join([*lines, ''])


def _draw_axis(chart: chart_mod.Chart, height: int) -> Iterator[str]:
    during = chart.during
    step = chart_text.choose_step(during.seconds, _MARKS)
    first = -(-during.start // step) * step
    for time in range(first, during.end, step):
        x = _find_x(during, time)
        label = chart_text.format_mark(time, step)
        yield (
            f'<line x1="{x}" y1="{_TOP - 8}" x2="{x}" y2="{height}" '
            'stroke="#d9d9d9"/>'
        )
        yield (
            f'<text x="{x + 3:g}" y="{_TOP - 10}" fill="#525252">'
            f'{label}</text>'
        )


def _draw_rows(chart: chart_mod.Chart) -> Iterator[str]:
    y = _TOP + _GAP
    for row in chart.rows:
        yield _draw_text(row.name, 8, y, _NAMES - 12, 'font-weight="bold"')
        for lane in row.lanes:
            for bar in lane:
                yield from _draw_bar(chart.during, bar, y)
            y += _LANE
        yield (
            f'<line x1="0" y1="{y + _GAP // 2}" x2="{WIDTH}" '
            f'y2="{y + _GAP // 2}" stroke="#d9d9d9"/>'
        )
        y += _GAP


def _draw_bar(
    during: interval.Interval, bar: chart_mod.Bar, y: int
) -> Iterator[str]:
    left = _find_x(during, max(bar.during.start, during.start))
    right = _find_x(during, min(bar.during.end, during.end))
    width = round(max(right - left, 1), 1)
    if bar.state is None:
        colour, what = _CHANGE, f'{bar.label}, {bar.during}'
    else:
        colour = _COLOURS.get(bar.state, _OVER)
        what = f'{bar.key}: {bar.servers} servers, {bar.state}, {bar.during}'
    yield f'<g><title>{markup.escape(what)}</title>'
    yield (
        f'<rect x="{left}" y="{y + 1}" width="{width}" height="{_LANE - 3}" '
        f'rx="3" fill="{colour}" stroke="#525252" stroke-width="0.5"/>'
    )
    yield _draw_text(bar.label, left + 4, y, width - 6) + '</g>'


def _draw_text(
    label: str, x: float, y: int, width: float, more: str = ''
) -> str:
    """Return a text that is cut off at a width."""
    if width <= 0:
        return ''
    return (
        f'<svg x="{x:g}" y="{y}" width="{width:g}" height="{_LANE}">'
        f'<text y="16" {more}>{markup.escape(label)}</text></svg>'
    )


def _find_x(during: interval.Interval, time: int) -> float:
    passed = (time - during.start) / during.seconds
    return round(_NAMES + passed * (WIDTH - _NAMES), 1)
