# SPDX-License-Identifier: Apache-2.0

"""What is promised soon, by host."""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import functools
import types
from typing import TypeAlias

import sqlalchemy as sa

from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import planned_hold
from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import due
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import lending
from nova_ext_resources.reservation.manager import request_cache
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation import promise_ledger
from nova_ext_resources.reservation.store import capacity_changes
from nova_ext_resources.reservation.store import progress
from nova_ext_resources.reservation.store import servers

#: So long after its end the servers of a reservation may be there still that
#: go with it. Whoever has the room next is not degraded by them until then.
LEAVE_SECONDS = due.MAX_SKEW + lending.LEAVE_SECONDS

_NOTHING_USED: lending.Uses = types.MappingProxyType({})

#: A planned server, after its reservation.
Slot: TypeAlias = tuple[str, planned_server.PlannedServer]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Promised:
    """What begins soon or has begun.

    :ivar reservations: that are not over
    :ivar slots: that no server has taken, and that have not ended
    :ivar taken: those that a server has taken, also of what has ended
    :ivar requests: of all of them
    :ivar changes: planned changes of capacity that are not over
    :ivar rest: where these are the slots of some hosts, what was read of all
    """

    reservations: Sequence[progress.Unfinished]
    slots: Sequence[Slot]
    taken: Sequence[Slot]
    requests: Mapping[str, plan_request.Request]
    changes: capacity_change.Changes = ()
    rest: 'Promised | None' = None

    @functools.cached_property
    def by_host(self) -> Mapping[str, Sequence[Slot]]:
        """Host -> the slots there."""
        found: dict[str, list[Slot]] = {}
        for one in self.slots:
            found.setdefault(one[1].host, []).append(one)
        return found

    @property
    def hosts(self) -> list[str]:
        """The hosts with slots."""
        return sorted(self.by_host)

    def list_hosts_by_key(self) -> dict[str, list[str]]:
        """Return reservation -> the hosts where it has slots."""
        found: dict[str, list[str]] = {}
        for host in self.hosts:
            for key in {key for key, _slot in self.by_host[host]}:
                found.setdefault(key, []).append(host)
        return found

    @property
    def keys(self) -> list[str]:
        """The reservations that are not over."""
        return [one.key for one in self.reservations]

    @functools.cached_property
    def consumers(self) -> frozenset[str]:
        """All servers that have a slot of a reservation."""
        found = frozenset(
            one.consumer for _key, one in self.taken if one.consumer
        )
        return found | self.rest.consumers if self.rest else found

    def list_over(self, time: int) -> frozenset[str]:
        """Return the servers whose slots have ended by a time."""
        found = frozenset(
            one.consumer
            for _key, one in self.taken
            if one.consumer and one.during.end <= time
        )
        return found | self.rest.list_over(time) if self.rest else found

    @functools.cached_property
    def kept(self) -> Mapping[str, int]:
        """Server that stays when its slot ends -> when that is."""
        found = dict(self.rest.kept) if self.rest else {}
        for key, one in self.taken:
            if one.consumer:
                # It may have another slot since all were read.
                found.pop(one.consumer, None)
                if self._is_kept(key):
                    found[one.consumer] = one.during.end
        return found

    def list_projects(self, keys: Iterable[str]) -> set[str]:
        """Return the projects that have some reservations; '' for none."""
        return {
            self.requests[key].project if key in self.requests else ''
            for key in keys
        }

    def list_kept(self, time: int) -> frozenset[str]:
        """Return the servers that stay, and whose slots have ended then."""
        return frozenset(
            consumer for consumer, end in self.kept.items() if end <= time
        )

    @functools.cached_property
    def holds(self) -> frozenset[str]:
        """The consumers that may hold room for these slots in placement."""
        found = frozenset(
            planned_hold.make_consumer(one.key)
            for _key, one in (*self.slots, *self.taken)
        )
        return found | self.rest.holds if self.rest else found

    @functools.cached_property
    def by_place(self) -> Mapping[host_view.Place, Sequence[Slot]]:
        """Place -> the slots that take from it, of whatever host."""
        found: dict[host_view.Place, list[Slot]] = {}
        for one in self.slots:
            for place in one[1].places:
                found.setdefault(place, []).append(one)
        return found

    def list_places(self, host: str) -> frozenset[host_view.Place]:
        """Return all that slots of a host take from."""
        return frozenset(
            place for _key, one in self.by_host[host] for place in one.places
        )

    def list_starts(self, host: str, now: int) -> list[int]:
        """Return when slots of a host begin, now for those that have.

        What is in maintenance then begins when that is over.
        """
        starts = {
            max(one.during.start, now) for _key, one in self.by_host[host]
        }
        starts.update(
            change.during.end
            for _key, one in self.by_host[host]
            for change in self._maintenances
            if change.concerns(one)
            and change.during.overlaps(one.during)
            and now < change.during.end < one.during.end
            and change.during.end <= now + lending.HORIZON_SECONDS
        )
        return sorted(starts)

    @functools.cached_property
    def _maintenances(self) -> capacity_change.Changes:
        return [one for one in self.changes if one.is_maintenance]

    def _is_away(self, slot: planned_server.PlannedServer, time: int) -> bool:
        """Return whether nobody can have a slot then."""
        return any(
            one.during.start <= time < one.during.end and one.concerns(slot)
            for one in self._maintenances
        )

    def list_slots(self, host: str, time: int) -> list[Slot]:
        """Return the slots at a time that take from what those of a host do.

        Those of other hosts are among them that share a provider; what is in
        maintenance then is not.

        :param time: seconds since the epoch
        """
        found = {
            (key, one.key): (key, one)
            for place in self.list_places(host)
            for key, one in self.by_place[place]
            if one.during.start <= time < one.during.end
            and not self._is_away(one, time)
        }
        return [*found.values()]

    def list_leaving(self, time: int, now: int) -> frozenset[str]:
        """Return servers that go with their reservation by a time.

        Those are not among them that have not gone for :data:`LEAVE_SECONDS`
        after its end. What holds room for slots is among them: the room is
        theirs.
        """
        found = self.holds | frozenset(
            one.consumer
            for key, one in self.taken
            if one.consumer
            and one.during.end <= time
            and now < one.during.end + LEAVE_SECONDS
            and self._goes_at_end(key)
        )
        return (
            found | self.rest.list_leaving(time, now) if self.rest else found
        )

    def with_claiming(
        self, now: int, uses: lending.Uses = _NOTHING_USED
    ) -> 'Promised':
        """Return the same, and as promised what servers are about to claim.

        A server takes its slot, and then what it holds in placement: in
        between nothing else says that the room of its slot is not free.

        :param now: seconds since the epoch
        :param uses: what placement showed after the slots were read; without
            it, all count that were taken shortly before
        """
        claiming = [
            one
            for one in self.taken
            if _is_claiming(one[1], now) and not _has_claimed(one[1], uses)
        ]
        return dataclasses.replace(self, slots=[*self.slots, *claiming])

    def _goes_at_end(self, key: str) -> bool:
        return key in self.requests and not self._is_kept(key)

    def _is_kept(self, key: str) -> bool:
        """Return whether the servers of a reservation stay at its end."""
        request = self.requests.get(key)
        return (
            request is not None and request.at_end is plan_request.AtEnd.KEEP
        )


def is_there(connection: sa.Connection, slots: Sequence[Slot]) -> bool:
    """Return whether slots are as they were read: held, and not taken."""
    held = servers.read_servers_on(
        connection,
        {key for key, _one in slots},
        {one.host for _key, one in slots},
    )
    return all(one in held.get(key, ()) for key, one in slots)


def read(
    connection: sa.Connection,
    requests: request_cache.Requests,
    now: int,
    until: int,
) -> Promised:
    """Read what begins up to a time.

    :param now: seconds since the epoch
    """
    found = [
        one
        for one in progress.list_unfinished(connection)
        if one.during.start <= until
    ]
    keys = {one.key for one in found}
    slots, taken = _sort_slots(
        servers.read_servers(connection, keys, interval.ALWAYS), now
    )
    return Promised(
        reservations=found,
        slots=slots,
        taken=taken,
        requests=requests.read(connection, found),
        changes=capacity_changes.read_changes(connection, now),
    )


def renew(
    connection: sa.Connection, near: Promised, host: str, now: int
) -> Promised:
    """Return the slots that take from what those of a host do, as they are.

    A server takes its slot, and then what it holds in placement. If placement
    is read after the slots, a server that comes in between counts twice: as
    promised, and as holding what is promised.

    Other slots are left out: a pass may do this for each of many hosts.

    :param now: seconds since the epoch
    """
    found = [
        one for place in near.list_places(host) for one in near.by_place[place]
    ]
    held = servers.read_servers_on(
        connection,
        {key for key, _one in found},
        {one.host for _key, one in found},
    )
    slots, taken = _sort_slots(held, now)
    return dataclasses.replace(near, slots=slots, taken=taken, rest=near)


def _sort_slots(
    held: Mapping[str, servers.PlannedServers], now: int
) -> tuple[list[Slot], list[Slot]]:
    """Return the slots that no server has taken, and those that one has.

    :param held: reservation -> its slots
    """
    slots = [(key, one) for key, ones in held.items() for one in ones]
    return (
        [
            one
            for one in slots
            if one[1].consumer is None and one[1].during.end > now
        ],
        [one for one in slots if one[1].consumer is not None],
    )


def _is_claiming(slot: planned_server.PlannedServer, now: int) -> bool:
    """Return whether a slot was taken so shortly before."""
    return (
        slot.taken_at is not None
        and now < slot.taken_at + promise_ledger.CLAIM_SECONDS
        and now < slot.during.end
    )


def _has_claimed(
    slot: planned_server.PlannedServer, uses: lending.Uses
) -> bool:
    """Return whether placement shows the server of a slot in its place."""
    return any(
        slot.consumer in uses[place].holders
        for place in slot.places
        if place in uses
    )
