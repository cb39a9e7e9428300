# SPDX-License-Identifier: Apache-2.0

"""A picture of the host as an HTML page: who has which part of what. Pure.

SVG in the page itself, without scripts, and nothing is loaded from elsewhere.
"""

from collections.abc import Iterator, Mapping, Sequence
import dataclasses
import itertools
import string

from nova_ext_resources.facts import server as server_obj
from nova_ext_resources.inspection import legend
from nova_ext_resources.inspection import markup
from nova_ext_resources.inspection import rows as rows_mod
from nova_ext_resources.monitoring.exporter import series
from nova_ext_resources.objects import host_health

#: The most alarms that are shown, the most severe first.
MAX_ALARMS = 200

#: All in pixels: a line of units, one way, and the height of a line.
_WIDTH = 640
_WAY = 30
_HEIGHT = 26
_LABELS = 14

#: Light enough for the letters on them, and told apart by these.
_COLOURS = (
    '#a6cee3',
    '#b2df8a',
    '#fdbf6f',
    '#cab2d6',
    '#fb9a99',
    '#ffff99',
    '#b3e2cd',
    '#f4cae4',
)

#: As wide as a letter, and not left out at the ends.
_BLANK = '\u00a0'

_LETTERS = string.ascii_uppercase + string.ascii_lowercase + string.digits

#: Of what no server has; darker, and apart in brightness, too.
_KINDS = {
    rows_mod.PartKind.HOST: '#bdbdbd',
    rows_mod.PartKind.OTHER: '#d6604d',
    rows_mod.PartKind.POOL: '#d8c49b',
    rows_mod.PartKind.RESERVED: '#8c8c8c',
    rows_mod.PartKind.FREE: '#ffffff',
}

_STYLE = """
body { font: 14px sans-serif; margin: 1.5em; max-width: 60em; }
h2 { font-size: 1.1em; margin: 1.2em 0 0.3em; }
p, ul { margin: 0.3em 0; }
.ok { color: #1b7837; } .degraded { color: #b35806; }
.failing { color: #b2182b; font-weight: bold; }
svg { display: block; margin: 0.2em 0 0.6em; }
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Mark:
    """How the parts of one consumer look.

    :ivar letter: a sign for what no server has, '' for what is free
    """

    colour: str
    letter: str
    text: str


_Marks = Mapping[str, _Mark]

#: Of what no server has.
_REST = {
    kind: _Mark(
        colour=colour,
        letter='' if kind is rows_mod.PartKind.FREE else legend.MARKS[kind],
        text=legend.TEXTS[kind],
    )
    for kind, colour in _KINDS.items()
}


def make_page(snapshot: series.HostSnapshot) -> str:
    """Return the text of the page, which shows a host as it knows itself."""
    host = markup.escape(snapshot.health.host)
    rows = [*rows_mod.list_own(snapshot.view, snapshot.entries)]
    marks = _choose_marks(snapshot)
    lines = [
        '<!DOCTYPE html>',
        '<html lang="en"><head><meta charset="utf-8"/>',
        f'<title>Extended resources of {host}</title>',
        f'<style>{_STYLE}</style></head><body>',
        f'<h1>Extended resources of {host}</h1>',
        *_describe_health(snapshot.health),
        *_draw_rows(rows, marks),
        *_explain(marks),
        '</body></html>',
    ]
    return '\n'.join([*lines, ''])


def _choose_marks(snapshot: series.HostSnapshot) -> _Marks:
    letters = itertools.chain(_LETTERS, itertools.repeat('+'))
    colours = itertools.cycle(_COLOURS)
    return {
        consumer: _Mark(
            colour=colour,
            letter=letter,
            text=_name(consumer, snapshot.servers.get(entry.server_uuid)),
        )
        for (consumer, entry), letter, colour in zip(
            sorted(snapshot.entries.items()), letters, colours, strict=False
        )
    }


def _name(consumer: str, server: server_obj.NovaServer | None) -> str:
    if server is None:
        return consumer
    more = [
        f'{what} {value}'
        for what, value in (
            ('flavor', server.flavor),
            ('project', server.project_id),
        )
        if value
    ]
    return ', '.join([consumer, *more])


def _describe_health(health: host_health.HostHealth) -> Iterator[str]:
    status = health.status.value
    at = health.at.isoformat(timespec='seconds')
    yield (
        f'<p>At {markup.escape(at)}, the host is '
        f'<span class="{status}">{status}</span>.</p>'
    )
    if not health.alarms:
        return
    yield '<ul>'
    for one in health.alarms[:MAX_ALARMS]:
        text = ' '.join(filter(None, (f'{one.name}:', one.text)))
        yield f'<li>{one.severity.value}: {markup.escape(text)}</li>'
    left = len(health.alarms) - MAX_ALARMS
    if left > 0:
        yield f'<li>and {left} more</li>'
    yield '</ul>'


def _draw_rows(
    rows: list[rows_mod.ResourceRow], marks: _Marks
) -> Iterator[str]:
    if not rows:
        yield '<p>The host offers no resources.</p>'
    for provider, some in itertools.groupby(rows, lambda one: one.provider):
        yield f'<h2>{markup.escape(provider)}</h2>'
        for row in some:
            yield f'<p>{markup.escape(row.describe())}</p>'
            yield from _draw_row(row, marks)


def _draw_row(row: rows_mod.ResourceRow, marks: _Marks) -> Iterator[str]:
    """Return the SVG of a resource: its ways, or a bar of amounts."""
    boxes = _list_amounts(row)
    width, top = _WIDTH, 0
    if row.ways is not None:
        boxes = _list_ways(row, row.ways)
        width, top = len(row.ways) * _WAY, _LABELS
    name = markup.escape(f'{row.resource_class} of {row.provider}')
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'width="{width + 2}" height="{top + _HEIGHT + 2}" '
        'font-family="sans-serif" font-size="12" text-anchor="middle">'
        f'<title>{name}</title>'
    )
    if row.ways is not None:
        for number in range(len(row.ways)):
            x = number * _WAY + _WAY // 2
            label = len(row.ways) - 1 - number
            yield f'<text x="{x}" y="10" fill="#525252">{label}</text>'
    for left, box, part in boxes:
        yield from _draw_box(left + 1, top + 1, box, part, marks)
    yield '</svg>'


def _list_ways(
    row: rows_mod.ResourceRow, ways: Sequence[int]
) -> Iterator[tuple[float, float, rows_mod.ResourcePart]]:
    """Yield each way: where it begins, its width, and whose it is.

    The highest one is at the left, as in a mask.
    """
    for number, one in enumerate(reversed(ways)):
        yield number * _WAY, _WAY, row.parts[one]


def _list_amounts(
    row: rows_mod.ResourceRow,
) -> Iterator[tuple[float, float, rows_mod.ResourcePart]]:
    """Yield where each part begins, its width, and the part."""
    total = sum(one.amount for one in row.parts)
    x = 0.0
    for one in row.parts:
        width = one.amount * _WIDTH / total
        yield round(x, 1), round(width, 1), one
        x += width


def _draw_box(
    x: float, y: int, width: float, part: rows_mod.ResourcePart, marks: _Marks
) -> Iterator[str]:
    mark = marks.get(part.consumer) or _REST[part.kind]
    text = markup.escape(f'{part.amount}: {mark.text}')
    yield (
        f'<g><title>{text}</title><rect x="{x:g}" y="{y}" width="{width:g}" '
        f'height="{_HEIGHT - 2}" fill="{mark.colour}" stroke="#525252"/>'
    )
    if mark.letter and width > _LABELS:
        yield (
            f'<text x="{x + width / 2:g}" y="{y + _HEIGHT - 9}">'
            f'{mark.letter}</text>'
        )
    yield '</g>'


def _explain(marks: _Marks) -> Iterator[str]:
    yield '<h2>Who has the units</h2><ul>'
    for one in (*marks.values(), *_REST.values()):
        yield (
            f'<li><span style="background: {one.colour}; border: 1px solid">'
            f'{one.letter.center(3, _BLANK)}</span> '
            f'{markup.escape(one.text)}</li>'
        )
    yield '</ul>'
