# SPDX-License-Identifier: Apache-2.0

"""Compares what the ledger records with what placement has allocated. Pure.

Of a consumer with an entry only: one without is :mod:`.restore`'s, which asks
Nova whether that server is here.
"""

from collections.abc import Container, Iterable, Mapping
import dataclasses
from typing import TypeAlias

from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import view as view_obj

#: rp_uuid -> resource class -> consumer uuid -> amount
Holders: TypeAlias = Mapping[str, Mapping[str, Mapping[str, int]]]

#: A resource class, and the providers from and to which it moves.
Move: TypeAlias = tuple[str, str, str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What the ledger and placement have of one consumer, and not alike.

    :ivar allocated: all that placement has for it on the providers compared
    :ivar moves: what placement has on another provider than the ledger
    :ivar missing: what the ledger has and placement has not, beyond
        ``moves``; each with the amount that is missing there
    :ivar surplus: place -> amount that placement has and the ledger has not,
        beyond ``moves``
    """

    entry: assignment.Entry
    allocated: view_obj.Amounts
    moves: tuple[Move, ...] = ()
    missing: tuple[assignment.Assignment, ...] = ()
    surplus: Mapping[view_obj.Place, int] = dataclasses.field(
        default_factory=dict
    )


def compare(
    entries: Iterable[assignment.Entry], holders: Holders
) -> dict[str, Difference]:
    """Return consumer uuid -> what differs, where anything does.

    :param entries: one for each consumer
    :param holders: of all providers that are compared
    """
    allocated = _by_consumer(holders)
    found = {}
    for entry in entries:
        own = allocated.get(entry.consumer_uuid, {})
        difference = _compare_one(entry, own, holders)
        if difference is not None:
            found[entry.consumer_uuid] = difference
    return found


def list_moved(
    allocated: view_obj.Amounts,
    entry: assignment.Entry,
    own: Container[str],
) -> list[Move]:
    """Return where the host has put what was allocated elsewhere.

    The same amount goes from one provider to the other.

    :param allocated: what placement has for the entry's consumer
    :param own: uuids of this host's providers; an evacuation's allocations
        also have those of the host that failed
    """
    asked = {
        (resource_class, amount, rp_uuid)
        for rp_uuid, resources in allocated.items()
        if rp_uuid in own
        for resource_class, amount in resources.items()
    }
    held = {
        (one.resource_class, one.amount, one.rp_uuid)
        for one in entry.assignments
        if one.is_allocated
    }
    classes = {one.resource_class for one in entry.assignments}
    return [
        (resource_class, source, target)
        for resource_class in sorted(classes)
        for (_name, _amount, source), (_, _, target) in zip(
            sorted(one for one in asked - held if one[0] == resource_class),
            sorted(one for one in held - asked if one[0] == resource_class),
            strict=False,
        )
    ]


def _by_consumer(holders: Holders) -> dict[str, dict[str, dict[str, int]]]:
    """Return consumer uuid -> rp_uuid -> resource class -> amount."""
    made: dict[str, dict[str, dict[str, int]]] = {}
    for rp_uuid, classes in holders.items():
        for resource_class, amounts in classes.items():
            for consumer_uuid, amount in amounts.items():
                here = made.setdefault(consumer_uuid, {})
                here.setdefault(rp_uuid, {})[resource_class] = amount
    return made


def _compare_one(
    entry: assignment.Entry, allocated: view_obj.Amounts, own: Container[str]
) -> Difference | None:
    held = _count_held(entry, own)
    given = {
        (rp_uuid, resource_class): amount
        for rp_uuid, resources in allocated.items()
        for resource_class, amount in resources.items()
    }
    if held == given:
        return None
    moves = tuple(
        (name, source, target)
        for name, source, target in list_moved(allocated, entry, own)
        if (source, name) not in held
        and (target, name) not in given
        and given[source, name] == held.get((target, name))
    )
    for name, source, target in moves:
        given[target, name] = given.pop((source, name))
    return Difference(
        entry=entry,
        allocated=allocated,
        moves=moves,
        missing=tuple(_list_missing(entry, held, given)),
        surplus=_subtract(given, held),
    )


def _count_held(
    entry: assignment.Entry, own: Container[str]
) -> dict[view_obj.Place, int]:
    """Return what placement should have for it on the providers compared."""
    held: dict[view_obj.Place, int] = {}
    for one in entry.assignments:
        if one.is_allocated and one.rp_uuid in own:
            place = one.rp_uuid, one.resource_class
            held[place] = held.get(place, 0) + one.amount
    return held


def _list_missing(
    entry: assignment.Entry,
    held: Mapping[view_obj.Place, int],
    given: Mapping[view_obj.Place, int],
) -> Iterable[assignment.Assignment]:
    keys = {one.rp_uuid: one.rp_key for one in entry.assignments}
    for (rp_uuid, name), amount in _subtract(held, given).items():
        yield assignment.Assignment(
            rp_uuid=rp_uuid,
            rp_key=keys[rp_uuid],
            resource_class=name,
            amount=amount,
            is_allocated=False,
        )


def _subtract(
    minuend: Mapping[view_obj.Place, int],
    subtrahend: Mapping[view_obj.Place, int],
) -> dict[view_obj.Place, int]:
    """Return what is left of the first, sorted, without what is not."""
    return {
        place: amount - subtrahend.get(place, 0)
        for place, amount in sorted(minuend.items())
        if amount > subtrahend.get(place, 0)
    }
