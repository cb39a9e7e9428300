# SPDX-License-Identifier: Apache-2.0

"""What is promised where and when, and which slots servers have taken.

A slot that a server has taken is not promised any more: what the server holds
is used, as placement says. So nothing is counted twice, as long as the server
has what its slot was for. Only until placement knows of the server, which is
some seconds after it has taken the slot, it counts as promised.

Where servers of a reservation are removed at its end, what they hold is free
then: of two leases of a host, one after the other, the second one needs
nothing beside what the servers of the first hold. Not so of units that must
lie side by side: how many are free does not say that they do.

Servers without an end are the usual ones, and are asked about for thousands of
hosts at once: the most that is promised from a time on is kept with each place
until it may have become less.

What will be taken away while something is promised counts with it.
"""

import collections
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import capacity_plan
from nova_ext_resources.reservation import column as column_mod
from nova_ext_resources.reservation import cuts
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import owed
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planned_server

#: So long a slot that was taken counts as promised. A scheduler claims at
#: once; what another one has read of placement may be as old as its request;
#: and clocks differ.
CLAIM_SECONDS = 30

Promise: TypeAlias = column_mod.Promise

PlannedServers: TypeAlias = tuple[planned_server.PlannedServer, ...]


class Promises:
    """All reservations that are not over, and who has taken what.

    :ivar reservations: reservation -> what was asked for
    :ivar slots: reservation -> its slots
    :ivar cuts: what planned changes of capacity take away
    """

    def __init__(self) -> None:
        self.cuts = cuts.Cuts()
        self.reservations: dict[str, plan_request.Request] = {}
        self.slots: dict[str, PlannedServers] = {}
        self._columns: dict[str, dict[str, column_mod.Column]] = {}
        #: Host -> how many slots are promised there.
        self._hosts: collections.Counter[str] = collections.Counter()
        #: Host -> uuid of its root provider when slots were planned -> how
        #: many of these slots take of it and are promised.
        self._roots: dict[str, collections.Counter[str]] = {}
        #: Host -> how often that has changed.
        self._versions: collections.Counter[str] = collections.Counter()
        #: Server of Nova -> its slot, after its reservation.
        self._taken: dict[str, tuple[str, planned_server.PlannedServer]] = {}
        #: Provider -> key -> slot that is taken, and takes of it, and when its
        #: server is removed.
        self._taken_of: dict[
            str, dict[str, tuple[planned_server.PlannedServer, int]]
        ] = {}

    def follow(self, changes: capacity_plan.Changes) -> None:
        """Take planned changes of capacity in place of those before."""
        self.cuts.follow(changes)

    def take(
        self, request: plan_request.Request, found: PlannedServers
    ) -> None:
        """Add a reservation with its slots."""
        self.reservations[request.key] = request
        self.slots[request.key] = found
        for one in found:
            if one.consumer is not None:
                self._take(request, one)
            during = _find_during(one)
            if during is None:
                continue
            promise = Promise(request=request, slot=one, during=during)
            self._count(one, 1)
            for place, amount in one.places.items():
                self._ensure(place).add(promise, amount)

    def _count(self, slot: planned_server.PlannedServer, number: int) -> None:
        """Note that a slot is promised; or not any more, if negative."""
        host = slot.host
        self._hosts[host] += number
        self._versions[host] += 1
        for one in slot.assignments:
            # Nova's root provider is named as the host is.
            if one.rp_key == host:
                roots = self._roots.setdefault(host, collections.Counter())
                roots[one.rp_uuid] += number
                if not roots[one.rp_uuid]:
                    del roots[one.rp_uuid]

    def _take(
        self, request: plan_request.Request, slot: planned_server.PlannedServer
    ) -> None:
        """Note who has taken a slot."""
        assert slot.consumer is not None, 'it is taken'
        self._taken[slot.consumer] = request.key, slot
        is_kept = request.at_end is plan_request.AtEnd.KEEP
        end = interval.FOREVER if is_kept else slot.during.end
        for place, amount in slot.places.items():
            self._taken_of.setdefault(place[0], {})[slot.key] = slot, end
            if end < interval.FOREVER and _is_exchangeable(slot, place):
                self._ensure(place).give_back(end, amount)

    def _ensure(self, place: host_view.Place) -> column_mod.Column:
        columns = self._columns.setdefault(place[0], {})
        if place[1] not in columns:
            columns[place[1]] = column_mod.Column()
        return columns[place[1]]

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
            self._count(one, -1)
            for place, amount in one.places.items():
                self._remove(place, one, amount)

    def _forget_taken(self, slot: planned_server.PlannedServer) -> None:
        end = interval.FOREVER
        for rp_uuid in {place[0] for place in slot.places}:
            _slot, end = self._taken_of[rp_uuid].pop(slot.key)
            if not self._taken_of[rp_uuid]:
                del self._taken_of[rp_uuid]
        for place, amount in slot.places.items():
            if end < interval.FOREVER and _is_exchangeable(slot, place):
                self._columns[place[0]][place[1]].give_back(end, -amount)
                self._tidy(place)

    def _remove(
        self,
        place: host_view.Place,
        slot: planned_server.PlannedServer,
        amount: int,
    ) -> None:
        self._columns[place[0]][place[1]].remove(slot.key, amount)
        self._tidy(place)

    def _tidy(self, place: host_view.Place) -> None:
        columns = self._columns[place[0]]
        if columns[place[1]].is_empty:
            del columns[place[1]]
            if not columns:
                del self._columns[place[0]]

    def find_taken(
        self, consumer: str
    ) -> tuple[str, planned_server.PlannedServer] | None:
        """Return the slot of a server of Nova, after its reservation."""
        return self._taken.get(consumer)

    @property
    def is_empty(self) -> bool:
        """Whether nobody has reserved anything."""
        return not self.slots

    def is_promised(self, host: str) -> bool:
        """Return whether something of a host is promised, at any time."""
        return self._hosts[host] > 0

    def get_version(self, host: str) -> int:
        """Return a number that differs if other slots are promised there."""
        return self._versions[host]

    def has(self, slot: planned_server.PlannedServer) -> bool:
        """Return whether just that slot is promised, at any time."""
        return all(
            column is not None
            and slot.key in column.promises
            and column.promises[slot.key].slot == slot
            for column in map(self._find, slot.places)
        )

    def concerns(self, rp_uuid: str) -> bool:
        """Return whether anything of a provider is promised or taken."""
        return rp_uuid in self._columns or rp_uuid in self._taken_of

    def find_former(
        self, host: str, rp_uuid: str, during: interval.Interval
    ) -> Promise | None:
        """Return a slot that is promised on a host of the same name.

        The host was created anew since: for placement it is another one, and
        nothing is promised of that.

        :param rp_uuid: the root provider that the host has now
        :param during: when it matters
        :returns: the first that begins; None if nothing is promised then
        """
        roots = self._roots.get(host)
        if not roots or (len(roots) == 1 and rp_uuid in roots):
            return None
        formers = [one for one in roots if one != rp_uuid]
        found = self.list_promises(formers, during)
        return next((one for one in found if one.slot.host == host), None)

    @property
    def places(self) -> Mapping[str, Mapping[str, object]]:
        """Provider -> the classes of which something may be promised."""
        return self._columns

    def find_peak(
        self,
        place: host_view.Place,
        now: int,
        end: int,
        shown: int | None = None,
    ) -> int:
        """Return the most that is promised of a place at once.

        Beside what servers hold now: what is promised for a time when some of
        them are gone is theirs first.

        :param now: seconds since the epoch
        :param end: up to which it matters; ``FOREVER`` is answered at once
        :param shown: the capacity of it in placement, which matters where
            less is planned; None where that is not known
        """
        column = self._find(place)
        if column is None or end <= now:
            return 0
        is_cut = self.cuts.concern(place)
        if end == interval.FOREVER and not is_cut:
            return column.find_top(now)
        window = interval.Interval(now, end)
        if is_cut:
            steps = self._list_needed(
                place, column, window, now=now, shown=shown
            )
            peak = max(amount for _part, amount in steps)
        else:
            peak = column.needed.highest(window)
        return peak + column.count_returned(now)

    def find_begin(
        self,
        place: host_view.Place,
        now: int,
        since: int,
        limit: int,
        *,
        shown: int | None = None,
    ) -> int:
        """Return when more is promised of a place than a number.

        Beside what servers hold now, as :meth:`find_peak` counts it.

        :param since: seconds since the epoch, it is not before that
        :param shown: as of :meth:`find_peak`
        :returns: the same; ``FOREVER`` if that is never
        """
        column = self._find(place)
        if column is None or (
            not self.cuts.concern(place) and column.find_top(now) <= limit
        ):
            return interval.FOREVER
        limit -= column.count_returned(now)
        rest = interval.Interval(since)
        steps = self._list_needed(place, column, rest, now=now, shown=shown)
        return next(
            (part.start for part, amount in steps if amount > limit),
            interval.FOREVER,
        )

    def find_owed(
        self,
        place: host_view.Place,
        now: int,
        end: int,
        shown: int | None = None,
    ) -> owed.Owed:
        """Return what is promised of a place in a time, whatever is held.

        :param shown: as of :meth:`find_peak`
        """
        column = self._find(place)
        taken = self.list_taken_of(place, now, end)
        amounts = [(now, 0)]
        if column is not None and end > now:
            during = interval.Interval(now, end)
            steps = self.cuts.list_steps(
                place, column.profile, during, now=now, shown=shown
            )
            later = {one.counted_until for one in taken}
            times = {part.start for part, _cut in steps} | later
            amounts = [
                (
                    time,
                    column.count_promised(time)
                    + self._count_cut(
                        place, column, time, now=now, shown=shown
                    ),
                )
                for time in sorted(times)
                if now <= time < end
            ]
        return owed.Owed(amounts=amounts, taken=taken)

    def _count_cut(
        self,
        place: host_view.Place,
        column: column_mod.Column,
        time: int,
        *,
        now: int,
        shown: int | None,
    ) -> int:
        """Return what is cut at a time, if anything is promised then."""
        ((_part, cut),) = self.cuts.list_steps(
            place,
            column.profile,
            interval.Interval(time, time + 1),
            now=now,
            shown=shown,
        )
        return cut

    def _list_needed(
        self,
        place: host_view.Place,
        column: column_mod.Column,
        during: interval.Interval,
        *,
        now: int,
        shown: int | None,
    ) -> Iterator[tuple[interval.Interval, int]]:
        """Return what is needed, and cut at the same time, in steps."""
        for part, cut in self.cuts.list_steps(
            place, column.profile, during, now=now, shown=shown
        ):
            for each, amount in column.needed.list_steps(part):
                yield each, amount + cut

    def list_peak(
        self,
        place: host_view.Place,
        now: int,
        end: int,
        shown: int | None = None,
    ) -> tuple[int, list[Promise]]:
        """Return when the most is promised first, and what that is.

        :param shown: as of :meth:`find_peak`
        """
        column = self._find(place)
        if column is None or end <= now:
            return now, []
        window = interval.Interval(now, end)
        steps = [
            *self._list_needed(place, column, window, now=now, shown=shown)
        ]
        peak = max(amount for _part, amount in steps)
        start = next(part.start for part, amount in steps if amount == peak)
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
        self, place: host_view.Place, now: int, end: int
    ) -> list[owed.Taken]:
        """Return who has taken how much of a place, for some of a time.

        What their servers do not hold there is promised all the same.
        """
        if end <= now:
            return []
        window = interval.Interval(now, end)
        found = []
        for slot, removed_at in self._taken_of.get(place[0], {}).values():
            during = _find_during(slot)
            amount = slot.places.get(place, 0)
            if amount and slot.during.overlaps(window):
                assert slot.consumer is not None, 'it is taken'
                taken = owed.Taken(
                    consumer=slot.consumer,
                    amount=amount,
                    end=slot.during.end,
                    is_removed=removed_at < interval.FOREVER
                    and _is_exchangeable(slot, place),
                    counted_until=during.end if during else interval.ALWAYS,
                )
                found.append(taken)
        return found

    def list_taken(self) -> Iterator[tuple[str, planned_server.PlannedServer]]:
        """Return all slots that are taken, each after its reservation."""
        yield from self._taken.values()

    def _find(self, place: host_view.Place) -> column_mod.Column | None:
        return self._columns.get(place[0], {}).get(place[1])


def _is_exchangeable(
    slot: planned_server.PlannedServer, place: host_view.Place
) -> bool:
    """Return whether any units do for what a slot takes of a place.

    A slot of cache ways names them: what is free when its server has gone may
    lie apart from what was free before. So the amount says nothing.
    """
    return not any(
        one.units
        for one in slot.assignments
        if (one.rp_uuid, one.resource_class) == place
    )


def _find_during(
    slot: planned_server.PlannedServer,
) -> interval.Interval | None:
    """Return when a slot counts as promised, None for never."""
    if slot.consumer is None:
        return slot.during
    end = min(slot.during.end, (slot.taken_at or 0) + CLAIM_SECONDS)
    start = slot.during.start
    return interval.Interval(start, end) if start < end else None
