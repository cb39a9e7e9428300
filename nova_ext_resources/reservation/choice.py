# SPDX-License-Identifier: Apache-2.0

"""Which slot of its reservation a server gets, and which candidates.

Pure. The best slot is one whose places are those of a candidate: then what is
promised there is what is used. Where another server has taken just these, any
candidate of the host does that breaks no promise.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses
from typing import Any, TypeAlias

from nova_ext_resources.reservation import planned_server

#: An allocation request as in ``GET /allocation_candidates``.
Candidate: TypeAlias = Mapping[str, Any]

#: Returns whether a candidate breaks no promise but that of a slot.
Fits: TypeAlias = Callable[[planned_server.PlannedServer, Candidate], bool]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A slot for a server.

    :ivar candidates: of the slot's host, those that the server may have
    """

    slot: planned_server.PlannedServer
    candidates: Sequence[Candidate]


def choose(
    held: Iterable[planned_server.PlannedServer],
    consumer: str,
    candidates: Mapping[str, Sequence[Candidate]],
    fits: Fits,
) -> Choice | None:
    """Return a slot that is free, or the one that the server has.

    :param held: all slots of the reservation
    :param consumer: uuid of the server
    :param candidates: host -> its candidates, of the hosts that may be used
    """
    usable = [
        one
        for one in held
        if one.consumer in (None, consumer)
        and candidates.get(one.host)
        and not list_excess(one, candidates[one.host][0])
    ]
    mine = [one for one in usable if one.consumer is not None]
    for slots in (mine, usable):
        for one in slots:
            if found := list_exact(one, candidates[one.host]):
                return Choice(slot=one, candidates=found)
        for one in slots:
            found = [each for each in candidates[one.host] if fits(one, each)]
            if found:
                return Choice(slot=one, candidates=found)
    return None


def list_exact(
    slot: planned_server.PlannedServer, candidates: Iterable[Candidate]
) -> list[Candidate]:
    """Return the candidates that take of a slot's places alone."""
    places = slot.places
    return [
        one
        for one in candidates
        if all(
            places.get((rp_uuid, name), 0) >= amount
            for rp_uuid, allocation in one['allocations'].items()
            for name, amount in allocation['resources'].items()
        )
    ]


def find_besides(
    slot: planned_server.PlannedServer, candidate: Candidate
) -> Candidate:
    """Return the part of a candidate of classes that the slot has not.

    Nothing of it is promised to the server, so that the end of its slot is no
    end of what it takes there.
    """
    promised = {name for _rp_uuid, name in slot.places}
    allocations = {
        rp_uuid: {
            'resources': {
                name: amount
                for name, amount in allocation['resources'].items()
                if name not in promised
            }
        }
        for rp_uuid, allocation in candidate['allocations'].items()
    }
    return {
        'allocations': {
            rp_uuid: one
            for rp_uuid, one in allocations.items()
            if one['resources']
        }
    }


def list_excess(
    slot: planned_server.PlannedServer, candidate: Candidate
) -> list[tuple[str, int, int]]:
    """Return each class of which a server needs more than its slot has.

    Classes that the slot has nothing of are not the flavor's, such as those of
    ports: a server may have these besides.

    :returns: (resource class, what the server needs, what the slot has)
    """
    had: dict[str, int] = {}
    for (_rp_uuid, name), amount in slot.places.items():
        had[name] = had.get(name, 0) + amount
    needed: dict[str, int] = {}
    for allocation in candidate['allocations'].values():
        for name, amount in allocation['resources'].items():
            needed[name] = needed.get(name, 0) + amount
    return [
        (name, amount, had[name])
        for name, amount in sorted(needed.items())
        if name in had and amount > had[name]
    ]
