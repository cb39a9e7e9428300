# SPDX-License-Identifier: Apache-2.0

"""Who has how much of each resource of a host, and which units.

Placement knows amounts, and consumers. Which ways of a cache a consumer has,
only the host knows; it publishes that beside its stats, and some time later.
So it is believed of a provider and a class only while it agrees with what
placement shows there. If not, the amounts are all that is known.

An example of two servers in a cache of twelve ways, the lowest first, of which
the host keeps four (``cache_ways`` has the rules)::

    one one one one . . two two host host host host
"""

from collections.abc import Iterable, Iterator, Mapping
import dataclasses
import enum
from typing import Any, TypeAlias

from nova_ext_resources.claims.trackers import cache_ways
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects.documents import foreign_data
from nova_ext_resources.objects.documents import holders as holders_obj
from nova_ext_resources.objects.documents import host_tree
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import planned_hold
from nova_ext_resources.objects import reserved_units
from nova_ext_resources.reservation import publication


class PartKind(enum.StrEnum):
    """What a part of a resource is.

    ``SERVER``: a consumer of placement has it, usually a server.
    ``HOST``: the host keeps it for itself, or fills it by I/O devices.
    ``OTHER``: other software has it.
    ``POOL``: it belongs to a pool, which servers request by another class.
    ``RESERVED``: one of these three has it; it is not known which.
    ``FREE``: a server can have it.
    """

    SERVER = 'server'
    HOST = 'host'
    OTHER = 'other'
    POOL = 'pool'
    RESERVED = 'reserved'
    FREE = 'free'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ResourcePart:
    """A part of a resource.

    :ivar consumer: uuid in placement; '' unless it is a server's
    :ivar units: which units, such as ``{'mask': 'f0'}``; empty where that is
        not known, or where all are alike
    """

    kind: PartKind
    amount: int
    consumer: str = ''
    units: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class RowSource(enum.StrEnum):
    """How much is known of a row.

    ``UNITS``: which units each server has, as the host has published.
    ``OUTDATED``: amounts; what the host has published does not agree with
    placement, because it is older or newer.
    ``AMOUNTS``: amounts; nothing that the host has published was read.
    """

    UNITS = 'units'
    OUTDATED = 'outdated'
    AMOUNTS = 'amounts'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRow:
    """One resource class of one provider.

    :ivar provider: its name without that of the host, such as ``L3_0``
    :ivar total: all units of the inventory; the capacity where the inventory
        was not read
    :ivar parts: servers in the order of their units, then what is reserved,
        in the order of :class:`PartKind`, then what is free; together
        ``total``, unless more is sold than there is
    :ivar ways: owner of each unit, the lowest first, as indexes of
        ``parts``; None where positions do not matter, or are not known
    :ivar is_explained: whether the host has published what has the reserved
        units, as far as it knows
    :ivar refused: the alarm for which the host takes none of it now; '' when
        it does, or nothing was read
    """

    rp_uuid: str
    provider: str
    resource_class: str
    amount: host_tree.Amount
    parts: tuple[ResourcePart, ...]
    source: RowSource
    ways: tuple[int, ...] | None = None
    is_explained: bool = False
    refused: str = ''

    @property
    def total(self) -> int:
        inventory = self.amount.inventory
        return inventory.total if inventory else self.amount.capacity

    @property
    def reserved(self) -> int:
        inventory = self.amount.inventory
        return inventory.reserved if inventory else 0

    def describe(self) -> str:
        """Return its amounts in words, the same of the host and of placement.

        What servers have without an allocation counts as used, although
        placement has it reserved.
        """
        servers = [one for one in self.parts if one.kind is PartKind.SERVER]
        used = sum(one.amount for one in servers)
        reserved = _count_reserved(self, servers)
        return (
            f'{self.resource_class}: {self.total} total, {reserved} reserved, '
            f'{used} used, {self.amount.free} free'
        )


#: Consumer -> what it holds, as the host has published it.
_Holders: TypeAlias = Mapping[str, holders_obj.Holder]


def list_rows(
    tree: host_tree.HostTree,
    published: publication.Publication | None,
    trackers: Mapping[str, host_view.StateReader],
) -> Iterator[ResourceRow]:
    """Return a row for each class of each provider, in the tree's order.

    :param tree: with inventories and holders
    :param published: by this host; None where nothing was read
    :param trackers: all that are installed, by name
    """
    document = stats.decode(published.document) if published else None
    holders = holders_obj.decode(published.holders) if published else None
    reserved = holders_obj.decode_reserved(
        published.holders if published else None
    )
    refused = published.refused if published else {}
    tracked: Mapping[host_view.Place, host_view.Tracked] = {}
    if document is not None:
        tracked = stats.make_view(document, trackers).tracked
    for provider in tree.providers:
        for name, amount in sorted(provider.amounts.items()):
            place = provider.rp_uuid, name
            one = tracked.get(place)
            if one is not None:
                one = dataclasses.replace(one, reserved=reserved.get(place))
            row = _make_row(tree, provider, name, amount, one, holders)
            yield dataclasses.replace(row, refused=refused.get(name, ''))


def list_own(
    view: host_view.HostView, entries: Mapping[str, assignment.Entry]
) -> Iterator[ResourceRow]:
    """Return the rows of a host as it knows itself, sorted by provider.

    :param entries: consumer -> what it holds
    """
    for (rp_uuid, name), tracked in sorted(
        view.tracked.items(),
        key=lambda one: (
            host_tree.sort_name(view.keys.get(one[0][0], '')),
            one[0][1],
        ),
    ):
        servers = _list_allocated((rp_uuid, name), entries, [])
        state, inventory = tracked.state, tracked.inventory
        row = ResourceRow(
            rp_uuid=rp_uuid,
            provider=view.keys.get(rp_uuid, rp_uuid),
            resource_class=name,
            amount=host_tree.Amount(
                capacity=state.used + state.free,
                used=state.used,
                inventory=inventory,
            ),
            parts=(),
            source=RowSource.UNITS,
        )
        if isinstance(state, cache_ways.CacheWaysState):
            yield _place(row, servers, state, tracked.reserved)
        else:
            yield _complete(row, servers, tracked.reserved)


def _make_row(
    tree: host_tree.HostTree,
    provider: host_tree.TreeProvider,
    name: str,
    amount: host_tree.Amount,
    tracked: host_view.Tracked | None,
    holders: _Holders | None,
) -> ResourceRow:
    allocated = provider.holders.get(name, {})
    source = RowSource.AMOUNTS
    servers = [
        ResourcePart(kind=PartKind.SERVER, consumer=consumer, amount=held)
        for consumer, held in sorted(allocated.items())
    ]
    if tracked is not None and holders is not None:
        place = provider.rp_uuid, name
        source = RowSource.OUTDATED
        if _agree(place, tracked, amount, allocated, holders):
            source = RowSource.UNITS
            servers = _list_allocated(place, holders, servers)
    row = ResourceRow(
        rp_uuid=provider.rp_uuid,
        provider=tree.make_key(provider),
        resource_class=name,
        amount=amount,
        parts=(),
        source=source,
    )
    if source is RowSource.UNITS and tracked is not None:
        state = tracked.state
        if isinstance(state, cache_ways.CacheWaysState):
            known = tracked.reserved
            if not _is_reserved_alike(row, servers, state):
                known = None
            return _place(row, servers, state, known)
        return _complete(row, servers, tracked.reserved)
    return _complete(row, servers)


def _agree(
    place: host_view.Place,
    tracked: host_view.Tracked,
    amount: host_tree.Amount,
    allocated: Mapping[str, int],
    holders: _Holders,
) -> bool:
    """Return whether placement shows what the host says of a place.

    Room that is held for planned servers is not known to the host.
    """
    real = planned_hold.leave_out(allocated)
    said = {
        consumer: held
        for consumer, one in holders.items()
        if (held := one.find_allocated(place))
    }
    left = amount.capacity - sum(real.values())
    return real == said and tracked.state.free == max(left, 0)


def _is_reserved_alike(
    row: ResourceRow,
    servers: list[ResourcePart],
    state: cache_ways.CacheWaysState,
) -> bool:
    """Return whether placement has reserved as many ways as the host says."""
    ours = state.free_mask | bitmask.unite(_read_mask(one) for one in servers)
    said = row.total - ours.bit_count()
    return said == _count_reserved(row, servers)


def _list_allocated(
    place: host_view.Place,
    holders: Mapping[str, holders_obj.Holder | assignment.Entry],
    allocated: list[ResourcePart],
) -> list[ResourcePart]:
    """Return what servers have, also what placement does not know of.

    A server with ways has a class of service, too, without an allocation.
    """
    said = [
        ResourcePart(
            kind=PartKind.SERVER,
            consumer=consumer,
            amount=one.amount,
            units=one.units,
        )
        for consumer, holder in sorted(holders.items())
        for one in holder.assignments
        if (one.rp_uuid, one.resource_class) == place
    ]
    known = {one.consumer for one in said}
    return [*said, *(one for one in allocated if one.consumer not in known)]


def _complete(
    row: ResourceRow,
    servers: list[ResourcePart],
    known: reserved_units.Reserved | None = None,
) -> ResourceRow:
    """Return a row with the parts of servers, and what is left beside them.

    :param known: what has the reserved units, as the host has published it
    """
    kinds: list[tuple[PartKind, int]] = []
    left = _count_reserved(row, servers)
    if known and known.host + known.other + known.pools <= left:
        kinds = _list_kinds(known)
        left -= sum(amount for _kind, amount in kinds)
    rest = (
        *kinds,
        (PartKind.RESERVED, left),
        (PartKind.FREE, row.amount.free),
    )
    parts = [
        ResourcePart(kind=kind, amount=amount)
        for kind, amount in rest
        if amount
    ]
    return dataclasses.replace(
        row, parts=(*servers, *parts), is_explained=bool(kinds)
    )


def _count_reserved(row: ResourceRow, servers: Iterable[ResourcePart]) -> int:
    """Count what placement has reserved for others than these servers.

    What servers have without an allocation is reserved in placement, too.
    """
    held = sum(one.amount for one in servers)
    return max(row.reserved - max(held - row.amount.used, 0), 0)


def _list_kinds(known: reserved_units.Reserved) -> list[tuple[PartKind, int]]:
    return [
        (PartKind.HOST, known.host),
        (PartKind.OTHER, known.other),
        (PartKind.POOL, known.pools),
    ]


def _place(
    row: ResourceRow,
    servers: list[ResourcePart],
    state: cache_ways.CacheWaysState,
    known: reserved_units.Reserved | None,
) -> ResourceRow:
    """Return a row with the owner of each way.

    :param known: what has the reserved ways; None where that is not known
    """
    masks = [_read_mask(one) for one in servers]
    length = max(row.total, state.ways.bit_length(), *_lengths(masks))
    taken = bitmask.unite(masks)
    free = state.free_mask & ~taken
    reserved = bitmask.make_run(0, length) & ~free & ~taken
    rest = [
        ResourcePart(kind=kind, amount=mask.bit_count(), units=_units(mask))
        for kind, mask in (*_split(reserved, known), (PartKind.FREE, free))
        if mask
    ]
    order = sorted(range(len(servers)), key=lambda one: masks[one])
    parts = (*(servers[one] for one in order), *rest)
    owners = [*(masks[one] for one in order)]
    owners += [_read_mask(one) for one in rest]
    return dataclasses.replace(
        row,
        parts=parts,
        ways=_list_owners(owners, length),
        is_explained=known is not None,
    )


def _split(
    mask: int, known: reserved_units.Reserved | None
) -> Iterator[tuple[PartKind, int]]:
    """Yield what has these reserved ways, each once, and which they are.

    Of a way that the host keeps and other software fills, it is the host; of
    one of a pool, other software, because the pool cannot use it.
    """
    for kind, one in _list_kinds(known) if known else ():
        yield kind, mask & one
        mask &= ~one
    yield PartKind.RESERVED, mask


def _list_owners(masks: list[int], length: int) -> tuple[int, ...]:
    return tuple(
        next(one for one, mask in enumerate(masks) if mask >> way & 1)
        for way in range(length)
    )


def _lengths(masks: list[int]) -> list[int]:
    return [one.bit_length() for one in masks]


def _units(mask: int) -> Mapping[str, Any]:
    return {'mask': bitmask.format_mask(mask)}


def _read_mask(part: ResourcePart) -> int:
    try:
        return bitmask.parse_mask(part.units['mask'])
    except foreign_data.UNREADABLE:
        return 0
