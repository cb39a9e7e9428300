# SPDX-License-Identifier: Apache-2.0

"""Draws the entry table for the page of the contributors."""

from collections.abc import Iterator

from nova_ext_resources.host.claims import entry_table

_HEAD = """\
.. list-table::
   :header-rows: 1
   :widths: 16 28 22 34

   * - Event
     - Before
     - After
     - Actions
"""


def draw() -> str:
    """Return the table: a row for each event, and what it leads to."""
    rows: dict[
        tuple[entry_table.EntryEvent, str, entry_table.EntryStep], list[str]
    ] = {}
    for (state, purpose, event), step in entry_table.ENTRY_TABLE.items():
        # The purpose of most entries stays as it is.
        is_same = step.purpose is purpose and purpose is not None
        after = f'{step.state}, the same' if is_same else _name(step)
        key = event, after, _without_kind(step)
        rows.setdefault(key, []).append(_name_kind(state, purpose))
    lines = [
        line
        for event in entry_table.EntryEvent
        for (one, after, step), before in rows.items()
        if one is event
        for line in _draw_row(event, before, after, step)
    ]
    return _HEAD + '\n'.join(lines) + '\n'


def _without_kind(step: entry_table.EntryStep) -> entry_table.EntryStep:
    return entry_table.EntryStep(None, None, step.actions, step.compensation)


def _name(step: entry_table.EntryStep) -> str:
    return _name_kind(step.state, step.purpose)


def _name_kind(
    state: entry_table.State | None, purpose: entry_table.Purpose | None
) -> str:
    return f'{state}, *{purpose}*' if state else 'none'


def _draw_row(
    event: entry_table.EntryEvent,
    before: list[str],
    after: str,
    step: entry_table.EntryStep,
) -> Iterator[str]:
    yield f'   * - {event}'
    yield from _draw_cell(before, ';')
    yield f'     - {after}'
    last = [f'if that fails, {one}' for one in step.compensation]
    yield from _draw_cell([*step.actions, *last], ',')


def _draw_cell(words: list[str], separator: str) -> Iterator[str]:
    for number, word in enumerate(words):
        end = separator if number + 1 < len(words) else ''
        yield f'{"       " if number else "     - "}{word}{end}'
