# SPDX-License-Identifier: Apache-2.0

"""What is reserved for later is lent, and given back in time.

A server borrows if its flavor says when it ends, or that it may be told to go;
or if it says itself when it ends, by a scheduler hint.
It counts as being there until then, so that the scheduler lets it in where
nothing is promised before. When what is promised comes near, and placement
does not show the room, borrowers are told to go: as many as are needed, the
lowest priority first. After them go servers that have stayed when their
reservation was over, which the scheduler takes to stay for good.
"""

from collections.abc import (
    Collection,
    Container,
    Iterable,
    Mapping,
    Sequence,
    Set,
)
import dataclasses
import re
import types
from typing import TypeAlias

from nova_ext_resources.claims import lease as lease_mod
from nova_ext_resources import exception
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import due
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation import planned_server

#: Seconds that Nova may take to shelve a server, or to delete it. So long
#: before its end a borrower goes.
LEAVE_SECONDS = 300

#: So long a notice holds after its server should have gone.
NOTICE_SECONDS = 600

#: The same for one that Nova shelves or deletes: an image may be large.
LEAVING_SECONDS = 3600

#: No notice is older that matters still.
MAX_NOTICE_SECONDS = lease_mod.MAX_DRAIN + LEAVE_SECONDS + LEAVING_SECONDS

#: So long before a promise begins its host is looked at.
HORIZON_SECONDS = lease_mod.MAX_DRAIN + LEAVE_SECONDS

_NO_HINTS: lease_mod.Hints = types.MappingProxyType({})

#: Place -> how much is short there.
Shortage: TypeAlias = Mapping[host_view.Place, int]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What there is of a class of a provider, and who holds it.

    :ivar holders: consumer -> amount
    :ivar is_shared: whether servers of several hosts may hold it
    """

    capacity: int
    is_shared: bool = False
    holders: Mapping[str, int] = dataclasses.field(default_factory=dict)


Uses: TypeAlias = Mapping[host_view.Place, Use]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Borrower:
    """A server that is there without a reservation, and can be told to go.

    :ivar created_at: seconds since the epoch
    :ivar host: that it is on, '' for none
    :ivar told_at: since when it knows that it is to go; None if it does not
    :ivar is_stuck: whether it was told long ago and is there nevertheless
    :ivar until: up to when it has a reservation, or had one that is over, in
        seconds since the epoch; None if it has none
    :ivar is_kept: whether it can be told to go by that alone
    :ivar project: id of the project that has it
    """

    uuid: str
    lease: lease_mod.FlavorLease
    created_at: int
    host: str = ''
    told_at: int | None = None
    is_stuck: bool = False
    until: int | None = None
    is_kept: bool = False
    project: str = ''

    @property
    def leaves_at(self) -> int | None:
        """From when on it is shelved or deleted; None if it was not told.

        By a clock that is behind it has its reservation somewhat longer.
        """
        if self.told_at is None:
            return None
        drained_at = self.told_at + self.lease.drain_seconds
        if self.until is None:
            return drained_at
        return max(drained_at, self.until + due.MAX_SKEW)

    @property
    def lead(self) -> int:
        """Seconds from the notice until it is gone."""
        return self.lease.drain_seconds + LEAVE_SECONDS


def make_borrower(
    server: nova_server.NovaServer,
    told_at: int | None,
    now: int,
    until: int | None = None,
) -> Borrower | None:
    """Make a borrower of a server, None if it cannot be told to go.

    A notice holds for as long as it takes to go, and a while, which is longer
    while Nova has it go. Later it has to be told anew.

    :param told_at: when it was told last; None if it never was
    :param now: seconds since the epoch
    :param until: as of :class:`Borrower`
    """
    lease = _find_own_lease(server, until)
    if not lease.is_lent:
        return None
    made = Borrower(
        uuid=server.uuid,
        lease=lease,
        created_at=server.created_at,
        host=server.host,
        told_at=told_at,
        until=until,
        project=server.project,
        is_kept=until is not None
        and not find_lease(server.extra_specs, server.hints).is_lent,
    )
    is_leaving = nova_server.is_leaving(server)
    wait = LEAVING_SECONDS if is_leaving else NOTICE_SECONDS
    if told_at is None or now < told_at + made.lead + wait:
        return made
    return dataclasses.replace(made, told_at=None, is_stuck=True)


def _find_own_lease(
    server: nova_server.NovaServer, until: int | None
) -> lease_mod.FlavorLease:
    """Return when a server goes, and how; never before its reservation ends.

    One that stays longer has no end that anybody has promised it.

    :param until: as of :class:`Borrower`
    """
    lease = find_lease(server.extra_specs, server.hints)
    if until is None:
        return lease
    return dataclasses.replace(
        lease,
        is_preemptible=False,
        max_seconds=until + LEAVE_SECONDS - server.created_at,
    )


def find_lease(
    extra_specs: Mapping[str, str], hints: lease_mod.Hints = _NO_HINTS
) -> lease_mod.FlavorLease:
    """Return when a server ends, and whether it may be told to go.

    What is malformed lends nothing.

    :param extra_specs: of its flavor
    :param hints: scheduler hints that it was created with; none of them makes
        it end later than its flavor says
    """
    lease = _read_specs(extra_specs)
    try:
        asked = lease_mod.read_hint(hints)
    except ValueError:
        asked = None
    if lease is None or asked is None:
        return lease or lease_mod.FlavorLease()
    longest = lease.max_seconds or asked
    return dataclasses.replace(lease, max_seconds=min(asked, longest))


def find_fault(extra_specs: Mapping[str, str], hints: lease_mod.Hints) -> str:
    """Return what is wrong with the end that a server asks for; or ''.

    :param extra_specs: of its flavor
    :param hints: its scheduler hints
    """
    try:
        asked = lease_mod.read_hint(hints)
    except ValueError as err:
        return str(err)
    longest = find_lease(extra_specs).max_seconds
    if asked is None or longest is None or asked <= longest:
        return ''
    return (
        f'the scheduler hint {lease_mod.HINT} is {asked}, but servers of '
        f'this flavor end after {longest} seconds; ask for {longest} at most'
    )


def _read_specs(
    extra_specs: Mapping[str, str],
) -> lease_mod.FlavorLease | None:
    """Read the extra specs of a flavor; None if they are malformed."""
    prefix = f'resource:{lease_mod.SUBJECT}:'
    for key, value in extra_specs.items():
        if not key.startswith(prefix):
            continue
        pattern = lease_mod.PATTERNS.get(key.removeprefix(prefix))
        if pattern is None or not re.fullmatch(pattern, value):
            return None
    try:
        return lease_mod.parse(extra_specs)
    except exception.InvalidExtraSpec:
        return None


def find_end(
    extra_specs: Mapping[str, str],
    now: int,
    hints: lease_mod.Hints = _NO_HINTS,
) -> int:
    """Return until when a server that is created now counts as being there.

    :param extra_specs: of its flavor
    :param now: seconds since the epoch
    :param hints: its scheduler hints
    :returns: the same; ``FOREVER`` where it can stay
    """
    lease = find_lease(extra_specs, hints)
    end = interval.FOREVER
    if lease.max_seconds is not None:
        end = now + lease.max_seconds
    if lease.is_preemptible:
        end = min(end, now + lease.drain_seconds + LEAVE_SECONDS)
    return end


def find_due(one: Borrower, start: int) -> int | None:
    """Return when a borrower is to be told to go, None for never.

    :param start: when what is promised begins
    :returns: seconds since the epoch
    """
    if one.lease.is_preemptible:
        return start - one.lead
    if one.lease.max_seconds is None:
        return None
    return max(start, one.created_at + one.lease.max_seconds) - one.lead


def is_due(one: Borrower, start: int, now: int) -> bool:
    """Return whether a borrower is to be told to go, or to go.

    That it was told for another promise makes it due no earlier.

    :param start: as of :func:`find_due`
    :param now: seconds since the epoch
    """
    due = find_due(one, start)
    return due is not None and now >= due


def is_late(one: Borrower, start: int, now: int) -> bool:
    """Return whether a borrower is told though others may be chosen.

    Until then all servers that hold what is short are waited for: one of a
    lower priority may be among those that Nova has not shown.

    :param start: as of :func:`find_due`
    :param now: seconds since the epoch
    """
    return now >= start - max(one.lease.drain_seconds, LEAVE_SECONDS)


def has_drained(one: Borrower, now: int) -> bool:
    """Return whether the time between notice and end is over."""
    return one.leaves_at is not None and now >= one.leaves_at


def find_shortage(
    uses: Uses,
    promised: Iterable[planned_server.PlannedServer],
    leaving: Set[str] = frozenset(),
    places: Container[host_view.Place] | None = None,
) -> dict[host_view.Place, int]:
    """Return what is short for what is promised at one time.

    :param promised: slots that no server has taken
    :param leaving: consumers that are gone by then
    :param places: that are looked at; None for all
    """
    asked: dict[host_view.Place, int] = {}
    for one in promised:
        for place, amount in one.places.items():
            if places is None or place in places:
                asked[place] = asked.get(place, 0) + amount
    found = {}
    for place, amount in asked.items():
        use = uses.get(place, Use(capacity=0))
        held = sum(
            amount
            for consumer, amount in use.holders.items()
            if consumer not in leaving
        )
        short = amount + held - use.capacity
        if short > 0:
            found[place] = short
    return found


def choose(
    borrowers: Collection[Borrower], shortage: Shortage, uses: Uses
) -> tuple[list[Borrower], dict[host_view.Place, int]]:
    """Choose who goes: those who know it, then by priority, and no more.

    Those come last that were told long ago and have not gone; and before them
    those that have stayed, the one whose reservation was over first before
    the others.

    :returns: these, and what is short even so
    """
    ordered = sorted(
        borrowers,
        key=lambda one: (
            one.told_at is None,
            one.is_stuck,
            one.until if one.is_kept else interval.ALWAYS,
            one.lease.priority,
            -one.created_at,
            one.uuid,
        ),
    )
    chosen: list[Borrower] = []
    left = dict(shortage)
    for one in ordered:
        if left and _helps(one, left, uses):
            chosen.append(one)
            left = _subtract(shortage, chosen, uses)
    # Who was chosen first may not be needed beside those that came later.
    for one in reversed(ordered):
        fewer = [each for each in chosen if each is not one]
        if one in chosen and _subtract(shortage, fewer, uses) == left:
            chosen = fewer
    return chosen, left


def find_objection(
    one: Borrower,
    server: nova_server.NovaServer,
    shortage: Shortage,
    uses: Uses,
) -> str:
    """Return why a borrower is not removed now; '' if it is.

    :param one: as it was chosen
    :param server: the same, as Nova shows it now
    :param shortage: what is short now
    :param uses: what placement shows now
    """
    if server.status == 'SHELVED_OFFLOADED':
        return 'the server is no longer on a host'
    if server.host != one.host:
        return f'it has moved from host {one.host} to {server.host}'
    if _find_own_lease(server, one.until) != one.lease:
        return 'its flavor has changed'
    if not shortage:
        return 'the host no longer lacks resources'
    if not _helps(one, shortage, uses):
        return 'the server holds none of the missing resources'
    return ''


def list_strays(
    borrowers: Iterable[Borrower], host: str, shortage: Shortage, uses: Uses
) -> list[str]:
    """Return the borrowers that hold of a host, and run on another one.

    So it is after an evacuation until their allocations are healed. They do
    not go for it: what they hold is not in the way.

    :param shortage: what is short on the host
    """
    own = {
        place: short
        for place, short in shortage.items()
        if place in uses and not uses[place].is_shared
    }
    return sorted(
        one.uuid
        for one in borrowers
        if one.host != host and _helps(one, own, uses)
    )


def leave_out(uses: Uses, strays: Collection[str]) -> Uses:
    """Return the same without what strays hold, if it is not shared.

    :param strays: as of :func:`list_strays`
    """
    return {
        place: use
        if use.is_shared
        else dataclasses.replace(
            use,
            holders={
                consumer: amount
                for consumer, amount in use.holders.items()
                if consumer not in strays
            },
        )
        for place, use in uses.items()
    }


def _helps(one: Borrower, left: Shortage, uses: Uses) -> bool:
    return any(
        place in uses and uses[place].holders.get(one.uuid) for place in left
    )


def _subtract(
    shortage: Shortage, chosen: Sequence[Borrower], uses: Uses
) -> dict[host_view.Place, int]:
    """Return what is short once these are gone."""
    found = {}
    for place, short in shortage.items():
        use = uses.get(place, Use(capacity=0))
        freed = sum(use.holders.get(one.uuid, 0) for one in chosen)
        if short > freed:
            found[place] = short - freed
    return found


def list_holders(shortage: Shortage, uses: Uses) -> frozenset[str]:
    """Return the consumers that hold any of what is short."""
    return frozenset(
        consumer
        for place in shortage
        if place in uses
        for consumer, amount in uses[place].holders.items()
        if amount
    )


def describe(
    host: str, shortage: Shortage, names: Mapping[str, str] | None = None
) -> str:
    """Return a sentence on what is missing.

    :param names: uuid of each provider -> its name, as far as it is known
    """
    parts = list_parts(shortage, names or {})
    return f'room is missing on host {host}: {", ".join(parts)}'


def list_parts(shortage: Shortage, names: Mapping[str, str]) -> list[str]:
    """Return what is missing, in words; ``names`` as of :func:`describe`."""
    return [
        f'{amount} {resource_class} of provider {names.get(rp_uuid, rp_uuid)}'
        for (rp_uuid, resource_class), amount in sorted(shortage.items())
    ]
