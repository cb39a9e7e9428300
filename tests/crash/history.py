# SPDX-License-Identifier: Apache-2.0

"""What Nova, placement and hosts have of a server, to read after a failure."""

from collections.abc import Iterable, Iterator
from typing import Any

from nova_ext_resources.objects import assignment
from tests.crash import placement
from tests.crash import records
from tests.crash import site as site_mod


def describe(site: site_mod.Site, texts: Iterable[str]) -> Iterator[str]:
    """Yield lines about each server that one of the texts names."""
    reports = site.report()
    said = [
        f'{host}: {name} {subject}: {text}'
        for host, report in reports.items()
        for name, subject, text in report['problems']
    ]
    held = [
        (entry.server_uuid, f'{host} for {uuid}: {_describe(entry)}')
        for host, report in reports.items()
        for uuid, entry in report['entries'].items()
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
        for server_uuid, text in held:
            if server_uuid == one.uuid:
                yield f'  held: {text}'
        for text in said:
            if any(uuid in text for uuid in (one.uuid, *_uuids(moves))):
                yield f'  alarm: {text}'


def _describe(entry: assignment.Entry) -> str:
    units = ', '.join(
        f'{one.amount} {one.resource_class} of {one.rp_uuid}'
        for one in entry.assignments
    )
    return f'{entry.purpose}, {entry.state}, {units}'


def _uuids(moves: Iterable[Any]) -> list[str]:
    return [str(one.uuid) for one in moves]
