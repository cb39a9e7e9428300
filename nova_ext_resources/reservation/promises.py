# SPDX-License-Identifier: Apache-2.0

"""What is promised where and when, and which slots servers have taken.

A slot that a server has taken is not promised any more: what the server holds
is used, as placement says. So nothing is counted twice, as long as the server
has what its slot was for. Only until placement knows of the server, which is
some seconds after it has taken the slot, it counts as promised.

Servers without an end are the usual ones, and are asked about for thousands of
hosts at once: the most that is promised from a time on is kept with each place
until it may have become less.

What will be taken away while something is promised counts with it. What will
be there more does not: until placement shows it, it may not come.
"""

import collections
from collections.abc import Iterable, Iterator, Mapping
import dataclasses
from typing import TypeAlias

from nova_ext_resources.objects import view as view_obj
from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import capacity_plan
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import profile
from nova_ext_resources.reservation import request as request_mod
from nova_ext_resources.reservation import server as server_mod

#: So long a slot that was taken counts as promised. A scheduler claims at
#: once; what another one has read of placement may be as old as its request;
#: and clocks differ.
CLAIM_SECONDS = 30

PlannedServers: TypeAlias = tuple[server_mod.PlannedServer, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One slot that no server has taken, or none holds yet.

    :ivar request: of its reservation
    :ivar during: when it is promised
    """

    request: request_mod.Request
    slot: server_mod.PlannedServer
    during: interval.Interval


class _Column:
    """What is promised of one class of one provider, over time."""

    __slots__ = ('profile', 'promises', 'since', 'top', 'until')

    def __init__(self) -> None:
        self.profile = profile.Profile()
        #: By the key of the slot.
        self.promises: dict[str, Promise] = {}
        #: The most from ``since`` on, which holds until ``until``.
        self.top = 0
        self.since = interval.ALWAYS
        self.until = interval.ALWAYS

    def add(self, promise: Promise, amount: int) -> None:
        self.promises[promise.slot.key] = promise
        self.profile.add(promise.during, amount)
        self.until = interval.ALWAYS

    def remove(self, key: str, amount: int) -> None:
        promise = self.promises.pop(key)
        self.profile.add(promise.during, -amount)
        self.until = interval.ALWAYS

    def find_top(self, now: int) -> int:
        """Return the most that is promised from a time on."""
        if not self.since <= now < self.until:
            rest = interval.Interval(now)
            self.top = self.profile.highest(rest)
            self.since = now
            self.until = max(
                part.end
                for part, amount in self.profile.list_steps(rest)
                if amount == self.top
            )
        return self.top


class Promises:
    """All reservations that are not over, and who has taken what.

    :ivar reservations: reservation -> what was asked for
    :ivar slots: reservation -> its slots
    """

    def __init__(self) -> None:
        self.reservations: dict[str, request_mod.Request] = {}
        self.slots: dict[str, PlannedServers] = {}
        self._columns: dict[str, dict[str, _Column]] = {}
        #: Host -> how many slots are promised there.
        self._hosts: collections.Counter[str] = collections.Counter()
        #: Server of Nova -> its slot, after its reservation.
        self._taken: dict[str, tuple[str, server_mod.PlannedServer]] = {}
        #: Provider -> key -> slot that is taken, and takes of it.
        self._taken_of: dict[str, dict[str, server_mod.PlannedServer]] = {}
        self._maintenances: capacity_plan.Changes = ()
        #: What will be taken away when.
        self._less: dict[view_obj.Place, profile.Profile] = {}

    def follow(self, changes: capacity_plan.Changes) -> None:
        """Take planned changes of capacity in place of those before."""
        self._maintenances = [one for one in changes if one.is_maintenance]
        self._less = {}
        for one in changes:
            for name, amount in one.amounts.items():
                if amount < 0:
                    less = self._less.setdefault(
                        (one.rp_uuid, name), profile.Profile()
                    )
                    less.add(one.during, -amount)

    def find_maintenance(
        self, slot: server_mod.PlannedServer, now: int
    ) -> capacity_change.CapacityChange | None:
        """Return why a slot cannot be had now; None if it can.

        :param now: seconds since the epoch
        """
        for one in self._maintenances:
            if one.during.start <= now < one.during.end and one.concerns(slot):
                return one
        return None

    def take(
        self, request: request_mod.Request, found: PlannedServers
    ) -> None:
        """Add a reservation with its slots."""
        self.reservations[request.key] = request
        self.slots[request.key] = found
        for one in found:
            if one.consumer is not None:
                self._taken[one.consumer] = request.key, one
                for rp_uuid, _resource_class in one.places:
                    self._taken_of.setdefault(rp_uuid, {})[one.key] = one
            during = _find_during(one)
            if during is None:
                continue
            promise = Promise(request=request, slot=one, during=during)
            self._hosts[one.host] += 1
            for (rp_uuid, resource_class), amount in one.places.items():
                columns = self._columns.setdefault(rp_uuid, {})
                column = columns.get(resource_class)
                if column is None:
                    column = columns[resource_class] = _Column()
                column.add(promise, amount)

    def drop(self, key: str, found: PlannedServers) -> None:
        """Take a reservation out, with the slots that were added."""
        del self.reservations[key], self.slots[key]
        for one in found:
            if one.consumer is not None:
                # It may have another slot since, which was read before.
                if self._taken.get(one.consumer) == (key, one):
                    del self._taken[one.consumer]
                self._forget_taken(one)
            if _find_during(one) is None:
                continue
            self._hosts[one.host] -= 1
            for place, amount in one.places.items():
                self._remove(place, one, amount)

    def _forget_taken(self, slot: server_mod.PlannedServer) -> None:
        for rp_uuid in {place[0] for place in slot.places}:
            del self._taken_of[rp_uuid][slot.key]
            if not self._taken_of[rp_uuid]:
                del self._taken_of[rp_uuid]

    def _remove(
        self,
        place: view_obj.Place,
        slot: server_mod.PlannedServer,
        amount: int,
    ) -> None:
        columns = self._columns[place[0]]
        column = columns[place[1]]
        column.remove(slot.key, amount)
        if not column.promises:
            del columns[place[1]]
            if not columns:
                del self._columns[place[0]]

    def find_taken(
        self, consumer: str
    ) -> tuple[str, server_mod.PlannedServer] | None:
        """Return the slot of a server of Nova, after its reservation."""
        return self._taken.get(consumer)

    @property
    def is_empty(self) -> bool:
        """Whether nobody has reserved anything."""
        return not self.slots

    def is_promised(self, host: str) -> bool:
        """Return whether something of a host is promised, at any time."""
        return self._hosts[host] > 0

    @property
    def places(self) -> Mapping[str, Mapping[str, object]]:
        """Provider -> the classes of which something is promised, ever."""
        return self._columns

    def find_peak(self, place: view_obj.Place, now: int, end: int) -> int:
        """Return the most that is promised of a place at once.

        :param now: seconds since the epoch
        :param end: up to which it matters; ``FOREVER`` is answered at once
        """
        column = self._find(place)
        if column is None or end <= now:
            return 0
        if place in self._less:
            return max(
                amount and amount + self._less[place].highest(part)
                for part, amount in column.profile.list_steps(
                    interval.Interval(now, end)
                )
            )
        if end == interval.FOREVER:
            return column.find_top(now)
        return column.profile.highest(interval.Interval(now, end))

    def list_peak(
        self, place: view_obj.Place, now: int, end: int
    ) -> tuple[int, list[Promise]]:
        """Return when the most is promised first, and what that is."""
        column = self._find(place)
        if column is None or end <= now:
            return now, []
        window = interval.Interval(now, end)
        peak = column.profile.highest(window)
        start = next(
            part.start
            for part, amount in column.profile.list_steps(window)
            if amount == peak
        )
        found = [
            one
            for one in column.promises.values()
            if one.during.start <= start < one.during.end
        ]
        return start, sorted(found, key=lambda one: one.slot.key)

    def list_promises(
        self, rp_uuids: Iterable[str], during: interval.Interval
    ) -> list[Promise]:
        """Return what is promised of providers in a time, by its start."""
        found = {
            key: one
            for rp_uuid in rp_uuids
            for column in self._columns.get(rp_uuid, {}).values()
            for key, one in column.promises.items()
            if one.during.overlaps(during)
        }
        return sorted(
            found.values(),
            key=lambda one: (one.slot.during.start, one.slot.key),
        )

    def list_taken_of(
        self, place: view_obj.Place, now: int, end: int
    ) -> list[tuple[str, int]]:
        """Return who has taken how much of a place, for some of a time.

        Of slots that do not count as promised any more: what their servers do
        not hold there is promised all the same.

        :returns: (server of Nova, amount)
        """
        if end <= now:
            return []
        window = interval.Interval(now, end)
        found = []
        for slot in self._taken_of.get(place[0], {}).values():
            during = _find_during(slot)
            is_counted = during is not None and now < during.end
            amount = slot.places.get(place, 0)
            if amount and not is_counted and slot.during.overlaps(window):
                assert slot.consumer is not None, 'it is taken'
                found.append((slot.consumer, amount))
        return found

    def list_taken(self) -> Iterator[tuple[str, server_mod.PlannedServer]]:
        """Return all slots that are taken, each after its reservation."""
        yield from self._taken.values()

    def _find(self, place: view_obj.Place) -> _Column | None:
        return self._columns.get(place[0], {}).get(place[1])


def _find_during(slot: server_mod.PlannedServer) -> interval.Interval | None:
    """Return when a slot counts as promised, None for never."""
    if slot.consumer is None:
        return slot.during
    end = min(slot.during.end, (slot.taken_at or 0) + CLAIM_SECONDS)
    start = slot.during.start
    return interval.Interval(start, end) if start < end else None
