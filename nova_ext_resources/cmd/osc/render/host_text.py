# SPDX-License-Identifier: Apache-2.0

"""A host in the letters of a terminal: who has which part of what.

Plain letters, which every terminal, log and mail shows alike, in 80 columns.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
import itertools
import string
import textwrap

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.inspection import legend
from nova_ext_resources.inspection import names as names_mod
from nova_ext_resources.inspection import rows as rows_mod
from nova_ext_resources.objects.documents import host_tree
from nova_ext_resources.objects import host_provider

WIDTH = 79

_REST = '+'

#: Of servers, in the order in which they are drawn.
_LETTERS = string.ascii_uppercase + string.ascii_lowercase + string.digits

#: Ways in one line: three letters each.
_WAYS = 20

#: Letters of a line of amounts.
_BAR = 50

_LEGENDS = {
    _REST: 'more servers',
    **{mark: legend.TEXTS[kind] for kind, mark in legend.MARKS.items()},
}

_NOTES = {
    rows_mod.RowSource.AMOUNTS: (
        'amounts only: the positions of the ways were not read'
    ),
    rows_mod.RowSource.OUTDATED: (
        "amounts only: the host's published state is older or newer than the "
        'allocations; try again in a minute'
    ),
}

_UNEXPLAINED = (
    '# marks unknown units: the host has not published its units recently'
)


def draw(
    tree: host_tree.HostTree,
    rows: Iterable[rows_mod.ResourceRow],
    names: names_mod.Names,
) -> Iterator[str]:
    """Return the lines of a host."""
    by_uuid: dict[str, list[rows_mod.ResourceRow]] = {}
    for row in rows:
        by_uuid.setdefault(row.rp_uuid, []).append(row)
    letters = _choose_letters(tree, by_uuid, names)
    used: set[str] = set()
    for one in tree.providers:
        indent = '  ' * tree.find_depth(one)
        yield f'{indent}{tree.make_key(one)}'
        yield from _draw_traits(one, indent)
        for row in by_uuid.get(one.rp_uuid, ()):
            yield from _count(row, f'{indent}  ')
            if one.is_ours:
                yield from _draw_row(row, letters, f'{indent}    ', used)
    yield from _explain(letters, used, names)


def _choose_letters(
    tree: host_tree.HostTree,
    rows: Mapping[str, Sequence[rows_mod.ResourceRow]],
    names: names_mod.Names,
) -> dict[str, str]:
    """Return consumer -> its letter, for those that are drawn, by name."""
    consumers = sorted(
        {
            part.consumer
            for one in tree.providers
            if one.is_ours
            for row in rows.get(one.rp_uuid, ())
            for part in row.parts
            if part.consumer
        },
        key=lambda one: (host_tree.sort_name(names.describe(one)), one),
    )
    letters = itertools.chain(_LETTERS, itertools.repeat(_REST))
    return dict(zip(consumers, letters, strict=False))


def _draw_traits(one: host_tree.TreeProvider, indent: str) -> Iterator[str]:
    """Return the traits, of Nova's providers those of operators alone."""
    shown = sorted(
        trait
        for trait in one.traits - {host_provider.OWNER_TRAIT}
        if one.is_ours or trait.startswith('CUSTOM_')
    )
    if shown:
        yield from textwrap.wrap(
            f'traits: {", ".join(shown)}',
            WIDTH,
            initial_indent=f'{indent}  ',
            subsequent_indent=f'{indent}    ',
            break_long_words=False,
        )


def _count(row: rows_mod.ResourceRow, indent: str) -> Iterator[str]:
    inventory = row.amount.inventory
    ratio = inventory.allocation_ratio if inventory else 1.0
    yield from textwrap.wrap(
        row.describe()
        + (f', ratio {ratio:g}' if ratio != 1.0 else '')
        + (f', takes none now: {row.refused}' if row.refused else ''),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=f'{indent}  ',
        break_long_words=False,
    )


def _draw_row(
    row: rows_mod.ResourceRow,
    letters: Mapping[str, str],
    indent: str,
    used: set[str],
) -> Iterator[str]:
    marks = [
        legend.MARKS.get(one.kind) or letters[one.consumer]
        for one in row.parts
    ]
    used.update(marks)
    if row.ways is not None:
        yield from _draw_ways([marks[one] for one in row.ways], indent)
        if (
            legend.MARKS[rows_mod.PartKind.RESERVED] in marks
            and not row.is_explained
        ):
            yield f'{indent}({_UNEXPLAINED})'
        return
    amounts = [*zip(marks, (one.amount for one in row.parts), strict=True)]
    line, each = _draw_amounts(_limit(sorted(amounts, key=_order), row))
    if line:
        yield f'{indent}{line}{each}'
    if row.resource_class in (classes.WAYS, classes.L2_WAYS):
        yield f'{indent}({_NOTES[row.source]})'


def _limit(
    parts: Sequence[tuple[str, int]], row: rows_mod.ResourceRow
) -> list[tuple[str, int]]:
    """Leave out what is reserved of what servers hold, as where all is."""
    most = max(row.total, row.reserved + row.amount.capacity)
    excess = sum(amount for _mark, amount in parts) - most
    limited: list[tuple[str, int]] = []
    for mark, amount in reversed(parts):
        less = min(max(excess, 0), amount) if mark in _LEGENDS else 0
        less = 0 if mark == _REST else less
        excess -= less
        limited.append((mark, amount - less))
    return limited[::-1]


def _order(one: tuple[str, int]) -> int:
    """Sort servers by their letters, before what is reserved and free."""
    return [*_LETTERS, *_LEGENDS].index(one[0])


def _draw_ways(marks: Sequence[str], indent: str) -> Iterator[str]:
    """Return the ways, the highest at the left, as in a mask."""
    for end in range(len(marks), 0, -_WAYS):
        some = range(end - 1, max(end - _WAYS, 0) - 1, -1)
        yield f'{indent}way{"".join(f"{one:3}" for one in some)}'
        yield f'{indent}   {"".join(f"{marks[one]:>3}" for one in some)}'


def _draw_amounts(parts: Sequence[tuple[str, int]]) -> tuple[str, str]:
    """Return a line of letters, and what each stands for if it is not one."""
    total = sum(amount for _mark, amount in parts)
    if total <= _BAR:
        return ''.join(mark * amount for mark, amount in parts), ''
    line, done = '', 0
    for mark, amount in parts:
        done += amount
        # What is there has one letter at least, and the others give way.
        length = max(round(done * _BAR / total) - len(line), 1)
        line += mark * length
    return line[:_BAR], f' each {total / _BAR:.3g}'


def _explain(
    letters: Mapping[str, str], used: set[str], names: names_mod.Names
) -> Iterator[str]:
    if not used:
        return
    yield ''
    for consumer, letter in letters.items():
        if letter != _REST:
            yield f'{letter}  {names.describe(consumer)}'
    for mark, text in _LEGENDS.items():
        if mark in used:
            yield f'{mark}  {text}'
