# SPDX-License-Identifier: Apache-2.0

"""Guests that a live migration has brought to a host that Nova does not know.

A nova-compute was killed before the former host told the next one: Nova has
the server on the former host.
"""

from typing import Any

from tests.crash import records
from tests.crash import seen as seen_mod

#: Statuses of migrations that Nova has ended well.
_ENDED_WELL = ('completed', 'confirmed', 'done', 'finished', 'reverted')


def find_arrived(seen: seen_mod.Seen, server_uuid: str) -> str | None:
    """Return the server if its guest is here, and Nova has it elsewhere.

    Or on no host, if it was shelved since.
    """
    server = seen.found.get(server_uuid)
    if server is None or server.host == seen.host:
        return None
    if server_uuid not in seen.said['guests']:
        return None
    hosts = {*seen.site.computes}
    return server_uuid if _is_unknown(seen, server_uuid, hosts) else None


def find_departed(seen: seen_mod.Seen, server_uuid: str) -> str | None:
    """Return the server if Nova has it here, and its guest is elsewhere."""
    server = seen.found.get(server_uuid)
    if server is None or server.host != seen.host:
        return None
    if server_uuid in seen.said['guests'] or server_uuid in seen.entries:
        return None
    hosts = {*seen.site.computes}
    return server_uuid if _is_unknown(seen, server_uuid, hosts) else None


def _is_unknown(
    seen: seen_mod.Seen, server_uuid: str, hosts: set[str]
) -> bool:
    """Return whether a live migration between both hosts has not ended well.

    That is, the last move that has brought the server anywhere, and one of
    the hosts has died.
    """
    moves = [*filter(_has_gone, records.list_moves(server_uuid))]
    return bool(hosts & seen.killed and moves) and (
        moves[-1].migration_type == records.LIVE
        and {moves[-1].source_compute, moves[-1].dest_compute} == hosts
        and moves[-1].status not in _ENDED_WELL
    )


def _has_gone(move: Any) -> bool:
    """Return whether a move may have brought its server anywhere.

    A cold one that has failed before Nova had the server on its next host
    leaves it where it was, and so does a live one for which Nova has found no
    host.
    """
    if move.source_compute == move.dest_compute:
        return False
    if move.migration_type == records.LIVE:
        return not (move.status == 'error' and move.dest_compute is None)
    return move.status in (*_ENDED_WELL, 'post-migrating')
