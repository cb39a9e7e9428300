# SPDX-License-Identifier: Apache-2.0

"""Compares what the ledger records with what placement has allocated. Pure.

Of a consumer with an entry only: :mod:`.rebuild_entries` asks Nova whether the
server of another one is here.
"""

from collections.abc import Container, Iterable, Mapping
import dataclasses
from typing import TypeAlias

from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_view

#: rp_uuid -> resource class -> consumer uuid -> amount
Holders: TypeAlias = Mapping[str, Mapping[str, Mapping[str, int]]]

#: A resource class, and the providers from and to which it moves.
Move: TypeAlias = tuple[str, str, str]

_Amounts: TypeAlias = Mapping[host_view.Place, int]

_GIVEN_UP = (
    'Nova has not restored the allocations after the migration (for example '
    'because a service of Nova was killed). The server keeps its units, and '
    'no other server gets them. Make sure that the guest is on this host. '
    'Then give the allocations of the migration to the server, see '
    '"nova-compute was killed" on the page of troubleshooting'
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What the ledger and placement have of one consumer, and not alike.

    :ivar moves: what placement has on another provider than the ledger
    :ivar further: place -> amount of classes that the server has on several
        providers, and placement on fewer of them; nothing on a host that does
        not spread pinned servers
    :ivar missing: what the ledger has and placement has not, beyond
        ``moves`` and ``further``; each with the amount that is missing there,
        without units
    :ivar surplus: the same of what placement has and the ledger has not
    :ivar others: uuids of consumers without an entry that have all that the
        server holds, and may be a migration of the server
    :ivar migration_uuid: one of them with which Nova does not go on; '' where
        none is known
    :ivar is_elsewhere: whether placement has the server on other hosts, and
        nothing at all of this one
    """

    entry: assignment.Entry
    moves: tuple[Move, ...] = ()
    further: _Amounts = dataclasses.field(default_factory=dict)
    missing: tuple[assignment.Assignment, ...] = ()
    surplus: tuple[assignment.Assignment, ...] = ()
    others: frozenset[str] = frozenset()
    migration_uuid: str = ''
    is_elsewhere: bool = False

    @property
    def is_in_doubt(self) -> bool:
        """Whether Nova may go on with a migration that has what is held.

        Nova gives it the allocations before any host knows, and back when all
        hosts refuse.
        """
        return bool(self.others)


def compare(
    entries: Iterable[assignment.Entry],
    holders: Holders,
    keys: Mapping[str, str],
    *,
    recorded: Container[str],
    spreads: bool = False,
) -> dict[str, Difference]:
    """Return consumer uuid -> what differs, where anything does.

    :param entries: one for each consumer
    :param holders: of all providers that are compared
    :param keys: rp_uuid -> the key of a provider on this host, of all
    :param recorded: uuids of all consumers that have an entry
    :param spreads: whether the host gives a pinned server its amount in each
        cache domain. Otherwise nobody had to allocate more than placement did
        itself: what it lacks was deleted, and is missing
    """
    allocated = _by_consumer(holders)
    others = {
        uuid: count_allocated(amounts)
        for uuid, amounts in allocated.items()
        if uuid not in recorded
    }
    found = {}
    for entry in entries:
        amounts = allocated.get(entry.consumer_uuid, {})
        difference = _compare_one(
            entry, amounts, holders, keys, others, spreads=spreads
        )
        if difference is not None:
            found[entry.consumer_uuid] = difference
    return found


def blame(
    difference: Difference, migrations: Mapping[str, bool]
) -> Difference:
    """Return it with the migration that it comes from, if any.

    Of the others, those with which Nova may still go on stay.

    :param migrations: of the server -> whether Nova may still go on with it
    """
    # A revert gives the server itself what the host keeps for the migration.
    known = {difference.entry.server_uuid: True, **migrations}
    own = sorted(difference.others & known.keys())
    return dataclasses.replace(
        difference,
        others=frozenset(uuid for uuid in own if known[uuid]),
        migration_uuid=next((uuid for uuid in own if not known[uuid]), ''),
    )


def list_providers(
    entries: Iterable[assignment.Entry], places: Iterable[host_view.Place]
) -> set[str]:
    """Return the uuids of providers that can show a difference.

    All that have a class that an entry holds, because placement may have it
    on any of these. Generations do not tell which of them have changed:
    ``DELETE /allocations/{consumer_uuid}`` raises none.

    :param places: what the host offers
    """
    assigned = {
        (one.rp_uuid, one.resource_class)
        for entry in entries
        for one in entry.assignments
        if one.is_allocated
    }
    classes = {resource_class for _, resource_class in assigned}
    offered = {place for place in places if place[1] in classes}
    return {rp_uuid for rp_uuid, _ in assigned | offered}


def list_moved(
    allocated: host_view.Amounts,
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
    assigned = {
        (one.resource_class, one.amount, one.rp_uuid)
        for one in entry.assignments
        if one.is_allocated
    }
    classes = {one.resource_class for one in entry.assignments}
    return [
        (resource_class, source, target)
        for resource_class in sorted(classes)
        for (_name, _amount, source), (_, _, target) in zip(
            sorted(
                one for one in asked - assigned if one[0] == resource_class
            ),
            sorted(
                one for one in assigned - asked if one[0] == resource_class
            ),
            strict=False,
        )
    ]


def list_further(
    allocated: _Amounts, assigned: _Amounts
) -> dict[host_view.Place, int]:
    """Return all that is held of classes on more, fewer, or other providers.

    Of classes of which placement has the same amount on some provider. Not of
    one provider instead of another: that is a move.

    :param allocated: what placement has, of this host's providers
    :param assigned: what an entry has of these
    """
    found = {}
    for name in {name for _, name in assigned}:
        here = {place: n for place, n in assigned.items() if place[1] == name}
        there = {
            place: n for place, n in allocated.items() if place[1] == name
        }
        is_alike = len({*there.values(), *here.values()}) == 1
        is_move = len(there) == len(here) == 1
        if there and there.keys() != here.keys() and is_alike and not is_move:
            found.update(here)
    return found


def list_problems(
    difference: Difference, host: str, reason: str = ''
) -> list[alarm.Problem]:
    """Report what an operator should know of one server.

    :param reason: why ``moves`` and ``further`` could not be carried out; ''
        where they were
    """
    uuid = difference.entry.consumer_uuid
    found = {
        alarm.NOT_RECORDED: _explain_surplus(difference, host),
        alarm.NOT_IN_PLACEMENT: (
            _explain_missing(difference, host)
            or (_explain_moves(difference, host, reason) if reason else '')
        ),
    }
    return [
        alarm.Problem(alarm=name, subject=uuid, text=f'server {uuid} {text}')
        for name, text in found.items()
        if text
    ]


def _explain_surplus(difference: Difference, host: str) -> str:
    if not difference.surplus:
        return ''
    if difference.migration_uuid:
        return (
            f'does not have {_describe(difference.surplus)} of host {host}, '
            'although placement has allocated these units to it for its '
            f'migration {difference.migration_uuid}: {_GIVEN_UP}'
        )
    return (
        f'does not have {_describe(difference.surplus)} of host {host}: '
        'placement has allocated these units to the server, but the ledger '
        'does not record them. Shelve and unshelve the server'
    )


def _explain_missing(difference: Difference, host: str) -> str:
    if not difference.missing:
        return ''
    if difference.migration_uuid:
        return (
            f'holds {_describe(difference.missing)} of host {host}, which '
            'placement has allocated to its migration '
            f'{difference.migration_uuid}: {_GIVEN_UP}'
        )
    if difference.is_elsewhere:
        return (
            f'holds {_describe(difference.missing)} of host {host}, but has '
            'allocations only on other hosts (for example after a live '
            'migration, or a resize to this cell, in which a service of Nova '
            'was killed). The server keeps its units here, and no other '
            'server gets them. If the guest belongs to another host, remove '
            'it from this host. Otherwise, make sure that no other host has '
            'the guest. Then shelve and unshelve the server, so that Nova '
            'allocates again; if the move was a resize, set its allocations '
            'by hand, see not_in_placement in the documentation'
        )
    return (
        f'holds {_describe(difference.missing)} of host {host} without an '
        'allocation in placement (for example after a failed rebuild). The '
        'server keeps these units, and no other server gets them. If Nova has '
        'the server on no host, end its guest on this host, see '
        'guest_here_server_elsewhere in the documentation. If the server '
        'is in ERROR, rebuild it again. Then shelve and unshelve it, so that '
        'Nova allocates again'
    )


def _explain_moves(difference: Difference, host: str, reason: str) -> str:
    places = {(target, name) for name, _, target in difference.moves}
    assigned = (
        one
        for one in difference.entry.assignments
        if (one.rp_uuid, one.resource_class) in places | {*difference.further}
    )
    where = (
        'on another provider of this host'
        if difference.moves
        else 'on some of these providers only'
    )
    if difference.migration_uuid:
        return (
            f'holds {_describe(assigned)} of host {host}, but the allocation '
            f'of its migration {difference.migration_uuid} in placement is '
            f'{where}: {_GIVEN_UP}'
        )
    return (
        f'holds {_describe(assigned)} of host {host}, but the allocation in '
        f'placement is {where}. The allocation could not be corrected, and '
        f'this will be retried: {reason}. If the alarm stays, shelve and '
        'unshelve the server'
    )


def _describe(assigned: Iterable[assignment.Assignment]) -> str:
    return ' and '.join(
        f'{one.amount} {one.resource_class} of {one.rp_key}'
        for one in assigned
    )


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
    entry: assignment.Entry,
    amounts: host_view.Amounts,
    own: Container[str],
    keys: Mapping[str, str],
    others: Mapping[str, _Amounts],
    *,
    spreads: bool,
) -> Difference | None:
    assigned, allocated = count_assigned(entry, own), count_allocated(amounts)
    if assigned == allocated:
        return None
    moves = tuple(
        (name, source, target)
        for name, source, target in list_moved(amounts, entry, own)
        if (source, name) not in assigned
        and (target, name) not in allocated
        and allocated[source, name] == assigned.get((target, name))
    )
    for name, source, target in moves:
        allocated[target, name] = allocated.pop((source, name))
    further = {
        place: amount
        for place, amount in list_further(allocated, assigned).items()
        # Or it has some that are not the server's.
        if spreads
        and {p for p in allocated if p[1] == place[1]} <= assigned.keys()
    }
    allocated |= further
    return Difference(
        entry=entry,
        moves=moves,
        further=further,
        missing=_subtract(assigned, allocated, keys, is_allocated=False),
        surplus=_subtract(allocated, assigned, keys, is_allocated=True),
        others=frozenset(
            uuid
            for uuid, other in others.items()
            if assigned
            and all(other.get(place, 0) >= n for place, n in assigned.items())
        ),
    )


def count_allocated(
    allocated: host_view.Amounts,
) -> dict[host_view.Place, int]:
    """Return the amount of each class of each provider."""
    return {
        (rp_uuid, resource_class): amount
        for rp_uuid, resources in allocated.items()
        for resource_class, amount in resources.items()
    }


def count_assigned(
    entry: assignment.Entry, own: Container[str] | None = None
) -> dict[host_view.Place, int]:
    """Return what placement should have for an entry.

    :param own: uuids of the providers that are compared; None: all
    """
    assigned: dict[host_view.Place, int] = {}
    for one in entry.assignments:
        if one.is_allocated and (own is None or one.rp_uuid in own):
            place = one.rp_uuid, one.resource_class
            assigned[place] = assigned.get(place, 0) + one.amount
    return assigned


def _subtract(
    minuend: Mapping[host_view.Place, int],
    subtrahend: Mapping[host_view.Place, int],
    keys: Mapping[str, str],
    *,
    is_allocated: bool,
) -> tuple[assignment.Assignment, ...]:
    """Return how much more the first has, where it has more, sorted."""
    return tuple(
        assignment.Assignment(
            rp_uuid=place[0],
            rp_key=keys[place[0]],
            resource_class=place[1],
            amount=amount - subtrahend.get(place, 0),
            is_allocated=is_allocated,
        )
        for place, amount in sorted(minuend.items())
        if amount > subtrahend.get(place, 0)
    )
