# SPDX-License-Identifier: Apache-2.0

"""What Nova has left to a consumer, with its own resources."""

from collections.abc import Iterable
from typing import Any, TYPE_CHECKING

from tests.crash import placement
from tests.crash import records
from tests.crash import seen as seen_mod

if TYPE_CHECKING:
    from tests.crash import site as site_mod

#: Statuses in which the former host keeps what the server had.
_KEEPING = ('finished', 'confirming', 'reverting')

#: Tasks of a server that Nova deletes.
_DELETING = ('deleting', 'soft-deleting')

#: Statuses in which it does as soon as the next host has the server.
ON_ITS_WAY = ('pre-migrating', 'migrating', 'post-migrating')


def is_novas(seen: seen_mod.Seen, uuid: str) -> bool:
    """Return whether Nova has left its own resources of a host to a consumer.

    Of a server that is not active there, or of a move for which the host has
    nothing to keep.
    """
    server = seen.found.get(uuid)
    if server is not None and (server.host, server.vm_state) == (
        seen.host,
        'active',
    ):
        return False
    move = None if server else records.find_move(uuid)
    if move is not None and _is_kept_for(seen, move):
        return False
    node = placement.find_node(seen.site, seen.host)
    return uuid in placement.read_provider(seen.site, node)


def _is_kept_for(seen: seen_mod.Seen, move: Any) -> bool:
    """Return whether a host has to keep what a server had before a move.

    One that was killed in a confirmation may have released that, and Nova
    not yet deleted the allocations; it never takes up the confirmation again.
    """
    server = seen.found.get(move.instance_uuid)
    # Nothing for one that is deleted, though its move keeps its status.
    if move.source_compute != seen.host or server is None:
        return False
    if is_being_confirmed(seen, move):
        return False
    if move.status in _KEEPING:
        return True
    # The task is of the last one.
    (last,) = records.list_moves(server.uuid)[-1:]
    return (
        move.status in ON_ITS_WAY
        and last.uuid == move.uuid
        and is_resizing(server)
        and server.host == move.dest_compute != seen.host
    )


def is_being_confirmed(seen: seen_mod.Seen, move: Any) -> bool:
    """Return whether a host was killed in the confirmation of a move.

    Nova confirms the move of a server that it deletes, and leaves it
    ``finished`` until then. It deletes the allocations of one that is
    ``confirmed``.
    """
    server = seen.found.get(move.instance_uuid)
    if seen.host not in seen.killed or move.source_compute != seen.host:
        return False
    is_deleting = server is not None and server.task_state in _DELETING
    return move.status in ('confirming', 'confirmed') or (
        move.status == 'finished' and is_deleting
    )


def is_resizing(server: Any) -> bool:
    """Return whether the task of a server is one of a cold move."""
    return (server.task_state or '').startswith('resize')


def find_blocking(
    seen: seen_mod.Seen, server_uuid: str, amount: int, rp_uuids: Iterable[str]
) -> str | None:
    """Return the consumer whose ways, left by Nova, a server cannot have.

    None of the providers has room for them, and one would have if Nova had
    not left what this consumer has.

    :param amount: how many ways the server is to have
    """
    blocking = None
    for rp_uuid in sorted(rp_uuids):
        ways = _list_ways(seen.site, rp_uuid)
        others = {u: n for u, n in ways.items() if u != server_uuid}
        room = placement.count_capacity(seen.site, rp_uuid, seen_mod.WAYS)
        room -= sum(others.values())
        # The host has these reserved for this very server.
        room += seen.said['withheld'].get(
            (server_uuid, rp_uuid, seen_mod.WAYS), 0
        )
        if room >= amount:
            return None
        left = {u: n for u, n in others.items() if is_left(seen, u)}
        if room + sum(left.values()) >= amount:
            blocking = max(left, key=lambda uuid: left[uuid])
    return blocking


def is_left(seen: seen_mod.Seen, uuid: str) -> bool:
    """Return whether Nova has left what a consumer has of a host.

    Its own resources as well; and the host neither holds it nor has to: it
    is of a server elsewhere, or of a move that keeps nothing there.
    """
    server = seen.found.get(uuid)
    if uuid in seen.entries or (server and server.host == seen.host):
        return False
    return is_novas(seen, uuid)


def _list_ways(site: 'site_mod.Site', rp_uuid: str) -> dict[str, int]:
    return {
        uuid: one['resources'][seen_mod.WAYS]
        for uuid, one in placement.read_provider(site, rp_uuid).items()
        if seen_mod.WAYS in one['resources']
    }
