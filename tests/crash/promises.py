# SPDX-License-Identifier: Apache-2.0

"""What hosts have promised, where no rule says how Nova came to its state.

Kills one after the other leave more states in Nova than rules can list. Then
this counts: no unit is given to two, what is held is allocated to the server
or a move of it, or the host has an alarm about that.
"""

from collections.abc import Iterator

from nova_ext_resources.objects import alarm
from tests.crash import records
from tests.crash import seen as seen_mod


def list_shared(seen: seen_mod.Seen) -> Iterator[str]:
    """Yield each two consumers that have the same ways."""
    owners: dict[str, list[tuple[str, int]]] = {}
    for uuid, entry in seen.entries.items():
        for one in entry.assignments:
            if 'mask' not in one.units:
                continue
            mask = int(one.units['mask'], 16)
            before = owners.setdefault(one.rp_key, [])
            for other, taken in before:
                if mask & taken:
                    yield f'{uuid} and {other} have ways of {one.rp_key}'
            before.append((uuid, mask))


def is_kept(seen: seen_mod.Seen, place: seen_mod.Place) -> bool:
    """Return whether nobody loses by what a host holds of a place.

    As much is allocated to the server and all of its moves as the host holds
    for them; or the host has an alarm about what differs.
    """
    server_uuid = find_server_uuid(seen, place[0])
    moves = records.list_moves(server_uuid)
    consumers = {server_uuid, *(one.uuid for one in moves)}
    held = _sum(seen.list_held(), consumers, place)
    allocated = _sum(seen.list_allocated(), consumers, place)
    if held == allocated:
        return True
    names = (
        (alarm.NOT_IN_PLACEMENT,)
        if held > allocated
        else (alarm.NOT_RECORDED, alarm.STALE_ALLOCATION)
    )
    return any(
        name in names and find_server_uuid(seen, subject) == server_uuid
        for name, subject, _text in seen.said['problems']
    )


def differs(seen: seen_mod.Seen, uuid: str) -> bool:
    """Return whether placement has other than a host holds for a server.

    :param uuid: the server, or a move of it
    """
    server_uuid = find_server_uuid(seen, uuid)
    held, allocated = seen.list_held(), seen.list_allocated()
    return any(
        held.get(place) != allocated.get(place)
        for place in held.keys() | allocated.keys()
        if find_server_uuid(seen, place[0]) == server_uuid
    )


def find_server_uuid(seen: seen_mod.Seen, uuid: str) -> str:
    """Return the server of a consumer, also where it has no entry."""
    move = records.find_move(uuid)
    return seen.find_server_uuid(uuid if move is None else move.instance_uuid)


def _sum(
    held: seen_mod.Held, consumers: set[str], place: seen_mod.Place
) -> int:
    return sum(
        amount
        for (uuid, *rest), amount in held.items()
        if uuid in consumers and (*rest,) == place[1:]
    )
