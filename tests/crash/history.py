# SPDX-License-Identifier: Apache-2.0

"""What Nova and placement have of a server: for the reader of a failure."""

from collections.abc import Iterable, Iterator
from typing import Any

from tests.crash import placement
from tests.crash import records
from tests.crash import site as site_mod


def describe(site: site_mod.Site, texts: Iterable[str]) -> Iterator[str]:
    """Yield lines about each server that one of the texts names."""
    said = [
        f'{host}: {name} {subject}: {text}'
        for host, report in site.report().items()
        for name, subject, text in report['problems']
    ]
    whole = '\n'.join(texts)
    for one in records.list_all_servers():
        moves = [*records.list_moves(one.uuid)]
        if not any(uuid in whole for uuid in (one.uuid, *_uuids(moves))):
            continue
        actions = records.list_actions(one.uuid)
        names = [found.action for found in reversed([*actions])]
        yield f'{one.uuid} on {one.host}: {one.vm_state}, {one.task_state}'
        yield f'  actions: {", ".join(names)}'
        yield f'  allocated: {placement.read_allocations(site, one.uuid)}'
        for move in moves:
            yield (
                f'  {move.migration_type} {move.uuid}: {move.source_compute} '
                f'to {move.dest_compute}, {move.status}, allocated: '
                f'{placement.read_allocations(site, move.uuid)}'
            )
        for text in said:
            if any(uuid in text for uuid in (one.uuid, *_uuids(moves))):
                yield f'  alarm: {text}'


def _uuids(moves: Iterable[Any]) -> list[str]:
    return [str(one.uuid) for one in moves]
