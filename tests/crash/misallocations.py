# SPDX-License-Identifier: Apache-2.0

"""What Nova has allocated, and otherwise than a host holds it.

For two moves at once, to a move, on another host, or twice.
"""

from typing import Any

from nova_ext_resources.objects import assignment
from tests.crash import novas
from tests.crash import placement
from tests.crash import records
from tests.crash import seen as seen_mod

Purpose = assignment.Purpose


def find_doubled(seen: seen_mod.Seen, server_uuid: str) -> str | None:
    """Return the server if Nova has allocated to it for two moves at once.

    A source that was killed in a move to here has taken the task away from
    the server when it started. Nova then accepted a second move to here, and
    its scheduler added what that was to get to what the first one has. The
    server is in ERROR on this host, or still on its former one, with all of
    the first.
    """
    if not _has_two_moves(seen, server_uuid):
        return None
    held = seen.list_own(seen.list_held(), server_uuid)
    allocated = seen.list_own(seen.list_allocated(), server_uuid)
    extra = allocated.keys() - held.keys()
    is_first_whole = bool(held) and held.items() <= allocated.items()
    is_beside = all(
        any(place[2] == other[2] for other in held) for place in extra
    )
    return server_uuid if extra and is_first_whole and is_beside else None


def find_taken_back(seen: seen_mod.Seen, server_uuid: str) -> str | None:
    """Return the server if Nova has taken back what its last move was to get.

    A source was killed in a move to here, and Nova accepted another one, which
    has failed on the source. It took back what that was to get here, and has
    the first one on its way for ever: this host keeps what it has claimed, and
    the server has what the first was to get.
    """
    entry = seen.entries.get(server_uuid)
    if entry is None or entry.purpose is not Purpose.MIGRATION_DEST:
        return None
    if not _has_two_moves(seen, server_uuid):
        return None
    last = records.list_moves(server_uuid)[-1]
    if (last.status, last.dest_compute) != ('error', seen.host):
        return None
    given = placement.read_allocations(seen.site, server_uuid)
    return server_uuid if set(given) & {*seen.said['providers']} else None


def _has_two_moves(seen: seen_mod.Seen, server_uuid: str) -> bool:
    """Return whether two moves of a server to here have come to nothing."""
    server = seen.found.get(server_uuid)
    entry = seen.entries.get(server_uuid)
    if server is None or entry is None:
        return False
    cold = [
        one
        for one in records.list_moves(server_uuid)
        if one.migration_type in records.COLD
    ]
    failed = [one for one in cold if one.status == 'error']
    if server.host == seen.host:
        here = [one for one in failed if one.dest_compute == seen.host]
        return server.vm_state == 'error' and len(here) >= 2
    left = [
        one
        for one in cold
        if one.status in (*novas.ON_ITS_WAY, 'error')
        and one.dest_compute == seen.host
    ]
    # Of a failed one, Nova has not always recorded where it went.
    return (
        entry.purpose is Purpose.MIGRATION_DEST
        and bool(left)
        and any(one.uuid != left[0].uuid for one in failed)
    )


def find_move_with_same(
    seen: seen_mod.Seen, entry: assignment.Entry
) -> str | None:
    """Return a move that Nova has left with exactly what an entry holds.

    A resize on this host that was killed gives the server a task for ever, and
    what it was to get in placement, while Nova leaves it its former flavor.
    When the task is gone, the host gives the guest that; and the next move
    that is killed keeps it under its uuid.
    """
    held = seen.list_own(seen.list_held(), entry.consumer_uuid)
    wanted = {(place[1], place[2]): amount for place, amount in held.items()}
    allocated = seen.list_allocated()
    for move in records.list_moves(entry.server_uuid):
        kept = {
            (place[1], place[2]): amount
            for place, amount in seen.list_own(allocated, move.uuid).items()
        }
        is_left = move.source_compute == seen.host and (
            move.status in (*novas.ON_ITS_WAY, 'error')
        )
        if is_left and kept and kept == wanted:
            return str(move.uuid)
    return None


def find_elsewhere(seen: seen_mod.Seen, server_uuid: str) -> str | None:
    """Return the server of this host that Nova has in placement elsewhere.

    Its own resources as well, of a live migration in which hosts were killed;
    and no migration has what the host holds, which the host would name.
    """
    server = seen.found.get(server_uuid)
    if server is None or server.host != seen.host:
        return None
    given = placement.read_allocations(seen.site, server_uuid).keys()
    nodes = {
        host: placement.find_node(seen.site, host)
        for host in seen.site.computes
    }
    if nodes.pop(seen.host) in given or not given & {*nodes.values()}:
        return None
    wanted = {
        place[1:]: amount
        for place, amount in seen.list_held().items()
        if place[0] == server_uuid
    }
    if not wanted:
        return None
    allocated = seen.list_allocated()
    for move in records.list_moves(server_uuid):
        if all(
            allocated.get((move.uuid, *place), 0) >= amount
            for place, amount in wanted.items()
        ):
            return None
    return server_uuid


def find_pinned_twice(seen: seen_mod.Seen, server_uuid: str) -> str | None:
    """Return the server that Nova has pinned to the same CPUs of the host.

    After a kill in a resize on its host and one in a shelve, Nova has given
    the CPUs of a server away that is there by its own record. Nothing can be
    applied for the second server, which Nova was killed in the build of.
    """
    server, entry = seen.found.get(server_uuid), seen.entries.get(server_uuid)
    if server is None or server.host != seen.host:
        return None
    if entry is None or entry.state is not assignment.State.CLAIMED:
        return None
    if seen.host not in seen.killed or server.vm_state == 'active':
        return None
    cpus = find_cpus(server)
    return next(
        (
            uuid
            for uuid, other in seen.found.items()
            if uuid != server_uuid
            and other.host == seen.host
            and cpus & find_cpus(other) & _find_applied(seen, uuid)
        ),
        None,
    )


def _find_applied(seen: seen_mod.Seen, server_uuid: str) -> frozenset[int]:
    """Return the CPUs for which the host has applied what a server holds."""
    entry = seen.entries.get(server_uuid)
    if entry is None or entry.state is not assignment.State.APPLIED:
        return frozenset()
    return entry.cpus or frozenset()


def find_cpus(server: Any) -> frozenset[int]:
    """Return the CPUs that Nova's record of a server has."""
    from nova_ext_resources.virt.driver import request

    return request.find_cpus(server) or frozenset()
