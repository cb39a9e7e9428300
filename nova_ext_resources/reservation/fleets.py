# SPDX-License-Identifier: Apache-2.0

"""The hosts of a cloud, and all that is booked on them."""

import collections
from collections.abc import Iterable, Iterator, Mapping, Set
import contextlib
import dataclasses
import functools
import itertools
from typing import Any

from nova_ext_resources.claims import base
from nova_ext_resources.claims.trackers import count
from nova_ext_resources import exception
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import calendar
from nova_ext_resources.reservation import future
from nova_ext_resources.reservation import host as host_mod
from nova_ext_resources.reservation import index
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation import stays

_EVER = interval.Interval(interval.ALWAYS)


class Fleet:
    """All hosts, and what is booked on each.

    When a host comes or goes for good, make another one.

    :ivar calendar: amounts only, of all places of all hosts
    :ivar index: of the same, which hosts may have room
    :ivar places: host -> resource class -> places, those of sharing providers
        included
    :ivar shared: uuids of providers that several hosts use
    :ivar shared_classes: the classes of these
    :param trackers: all that are installed, by name. Places of others, and of
        those that cannot join states, are left out: nothing can be reserved
        there
    """

    def __init__(
        self,
        hosts: Iterable[host_mod.Host],
        trackers: Mapping[str, base.Tracker],
    ) -> None:
        self.calendar = calendar.Calendar()
        self.trackers = trackers
        self.hosts = {one.name: self._leave_out(one) for one in hosts}
        self._changes: dict[
            str, list[tuple[interval.Interval, host_view.HostView | None]]
        ] = {name: [] for name in self.hosts}
        self.bookings: dict[str, planned_server.PlannedServer] = {}
        # By provider: a sharing one has bookings of several hosts.
        self._held: dict[
            str, interval.Table[planned_server.PlannedServer]
        ] = {}
        #: Host -> keys of bookings that may not have units of their own yet.
        self._unsettled: dict[str, set[str]] = {}
        for host in self.hosts.values():
            for place, tracked in host.view.tracked.items():
                self.calendar.set_capacity(place, tracked.state.free)
                self._held.setdefault(place[0], interval.Table())
        self.shared = _find_shared(self.hosts.values())
        self.shared_classes = frozenset(
            place[1]
            for place in self.calendar.places
            if place[0] in self.shared
        )
        self.places = {
            name: host_mod.list_places(one.view)
            for name, one in self.hosts.items()
        }
        #: Host -> its places of which not only the number matters.
        self._units = {
            name: found
            for name, one in self.hosts.items()
            if (found := self._list_units(one))
        }
        #: Provider -> what reads its inventories, as they are not known.
        self._unread = {
            place[0]: one.read_inventories
            for one in self.hosts.values()
            for place, tracked in one.view.tracked.items()
            if one.read_inventories and tracked.inventory is None
        }
        self._inventories: dict[
            str, Mapping[str, class_inventory.Inventory]
        ] = {}
        #: Place -> all that was booked there when it was last looked at.
        self._rehearsals: dict[host_view.Place, list[stays.Rehearsal]] = {}
        #: Place of these -> what has changed since: key -> booking or None.
        self._changed: dict[
            host_view.Place, dict[str, planned_server.PlannedServer | None]
        ] = {}
        self.index = index.Index(
            self.calendar,
            {name: self._list_own(name) for name in self.hosts},
        )

    def _leave_out(self, host: host_mod.Host) -> host_mod.Host:
        """Return a host without what cannot be foreseen."""
        tracked = {
            place: one
            for place, one in host.view.tracked.items()
            if host_mod.can_join(one, self.trackers)
        }
        view = dataclasses.replace(host.view, tracked=tracked)
        return dataclasses.replace(host, view=view)

    def check_read(
        self, servers: Iterable[planned_server.PlannedServer]
    ) -> None:
        """Check that the inventories of what servers take are known.

        Which amounts one server may have of a provider is not among what is
        read of all hosts at once.

        :raises InventoriesUnread: they are not; read, and plan again
        """
        wanted = {each.rp_uuid for one in servers for each in one.assignments}
        if not wanted.isdisjoint(self._unread):
            raise exception.InventoriesUnread(
                read=functools.partial(self._read, wanted)
            )

    def _read(self, wanted: Set[str]) -> None:
        """Read inventories, of some providers more each time."""
        unread = self._unread.copy()
        more = itertools.islice(unread, len(self._inventories))
        wanted = {*more, *wanted & unread.keys()}
        for one in [*wanted][:1]:
            # Of those that are gone, nothing can be had.
            found = unread[one](wanted)
            self._inventories |= {key: found.get(key, {}) for key in wanted}

    def note_inventories(self) -> bool:
        """Let hosts have the inventories that were read since."""
        found = {
            one: self._inventories[one]
            for one in [*self._inventories]
            if self._unread.pop(one, None)
        }
        for name, host in self.hosts.items() if found else ():
            tracked = {
                place: dataclasses.replace(
                    one,
                    inventory=found.get(place[0], {}).get(
                        place[1], one.inventory
                    ),
                )
                for place, one in host.view.tracked.items()
                if place[1] in found.get(place[0], place)
            }
            view = dataclasses.replace(host.view, tracked=tracked)
            self.hosts[name] = dataclasses.replace(host, view=view)
            if name in self._units:
                self._units[name] = self._list_units(self.hosts[name])
        return bool(found)

    def change(
        self,
        name: str,
        view: host_view.HostView | None,
        during: interval.Interval,
    ) -> None:
        """Let a host offer something else in an interval.

        What a sharing provider has changes for all of its hosts: see to it
        that they say the same. A host that offers nothing leaves it to them.

        :param view: None where it offers nothing, as in a maintenance.
            Places that the host does not have otherwise are left out
        """
        places = self.hosts[name].view.tracked
        tracked = {
            place: one
            for place, one in (view.tracked.items() if view else ())
            if place in places
        }
        view = view and dataclasses.replace(view, tracked=tracked)
        self._changes[name].append((during, view))
        for place, before in places.items():
            is_changed = view is not None and tracked.get(place) != before
            if place[0] not in self.shared or is_changed:
                left = tracked[place].state.free if place in tracked else 0
                self.calendar.set_capacity(place, left, during)

    def restore(self) -> None:
        """Let each host offer at any time what it offers without changes."""
        for name, changes in self._changes.items():
            if changes:
                changes.clear()
                for place, tracked in self.hosts[name].view.tracked.items():
                    self.calendar.set_capacity(place, tracked.state.free)

    def book(self, server: planned_server.PlannedServer) -> None:
        """Book a server, whether or not it fits.

        One that a server of Nova has taken, with what that has, as far as it
        is known.

        :raises KeyError: a place is unknown
        :raises ValueError: the key is in use
        """
        if server.consumer is not None and server.host in self.hosts:
            server = _put_held(server, self.hosts[server.host])
        if server.host in self._units:
            self._unsettled.setdefault(server.host, set()).add(server.key)
        places = server.places
        self.calendar.add(server.key, server.during, places)
        self._exchange(server)
        for place in places:
            if place in self._changed:
                self._changed[place][server.key] = server

    def release(self, key: str) -> planned_server.PlannedServer:
        """Take a booking out, and return it.

        :raises KeyError: there is no such booking
        """
        server = self.bookings.pop(key)
        self.calendar.remove(key)
        for place in server.places:
            self._held[place[0]].drop(server)
            if place in self._changed:
                self._changed[place][key] = None
        return server

    def list_deficits(
        self,
        servers: Iterable[planned_server.PlannedServer],
        during: interval.Interval,
    ) -> dict[host_view.Place, tuple[int, int]]:
        """Return where there is too little for servers, taken together.

        Whatever is promised passes here first: a host sees its own servers
        only, and the calendar all that several hosts take of a provider.

        :param servers: none of which is booked in the interval
        :returns: place -> what they need there, and what is free
        :raises KeyError: a place is unknown
        """
        needed: dict[host_view.Place, int] = {}
        for one in servers:
            for each in one.assignments:
                place = each.rp_uuid, each.resource_class
                needed[place] = needed.get(place, 0) + each.amount
        free = self.calendar.list_free(needed, during)
        return {
            place: (amount, left)
            for (place, amount), left in zip(needed.items(), free, strict=True)
            if left < amount
        }

    def list_overlapping(
        self, name: str, during: interval.Interval
    ) -> list[planned_server.PlannedServer]:
        """Return the bookings of a host that have a second of an interval.

        And those of other hosts that take from a sharing provider of it.
        """
        found = {
            one.key: one
            for rp_uuid in {
                place[0] for place in self.hosts[name].view.tracked
            }
            for one in self._held[rp_uuid].list_overlapping(during)
        }
        return list(found.values())

    def list_ends(self, name: str, first: int, last: int) -> Iterator[int]:
        """Return when bookings of a host end, from ``first`` to ``last``."""
        last = min(last, interval.FOREVER - 1)
        if first <= last:
            # The last second of each of them is one before its end.
            met = interval.Interval(first - 1, last)
            for one in self.list_overlapping(name, met):
                if one.during.end <= last:
                    yield one.during.end

    @contextlib.contextmanager
    def trying(
        self,
        without: Iterable[str] = (),
        adding: Iterable[planned_server.PlannedServer] = (),
    ) -> Iterator[None]:
        """Release and book within the context only."""
        released = [self.release(key) for key in without]
        added = []
        try:
            for one in adding:
                self.book(one)
                added.append(one.key)
            yield
        finally:
            for key in added:
                self.release(key)
            for one in released:
                self.book(one)

    def foresee(
        self, name: str, during: interval.Interval
    ) -> future.Future | None:
        """Return what is there throughout an interval.

        None if the host offers nothing in some of it.
        """
        self._settle(name)
        parts = list(self._list_parts(name, during))
        held = self.list_overlapping(name, during)
        if any(view is None for _part, view in parts):
            return None
        views = [
            future.add_servers(view, part, held, self.trackers)
            for part, view in parts
            if view
        ]
        cells = self.hosts[name].cells
        own = [one for one in held if one.host == name]
        view = (
            views[0] if len(views) == 1 else future.join(views, self.trackers)
        )
        return future.Future(
            dataclasses.replace(view, during=during),
            cells and future.leave_cells(cells, own),
        )

    def find_refused(
        self, name: str, servers: Iterable[planned_server.PlannedServer]
    ) -> tuple[host_view.Place, stays.Stay] | None:
        """Return what would be refused when its time comes, and where.

        If all servers come in turn, and the host chooses their units; see
        :class:`.stays.Rehearsal`.

        :param servers: of that host, which are to be booked, or in place of
            their bookings
        """
        units = self._units.get(name, ())
        # Of many servers nothing is looked at where units are all alike.
        servers = [*servers] if units else []
        for place in units:
            ours = {one.key: one for one in self._list_stays(place, servers)}
            for rehearsal in self._rehearse(place, name) if ours else ():
                refused = rehearsal.play(ours)
                if refused is not None:
                    return place, refused
        return None

    def _rehearse(
        self, place: host_view.Place, name: str
    ) -> list[stays.Rehearsal]:
        """Return how all that is booked there by now comes in turn."""
        changed = self._changed.get(place)
        if changed is None:
            self._rehearsals[place] = stays.make_rehearsals(
                *self._find_tracker(place, name)
            )
            met = self._held[place[0]].list_overlapping(_EVER)
            changed = {one.key: one for one in met}
        self._changed[place] = {}
        booked = self._list_stays(place, filter(None, changed.values()))
        changes: dict[str, stays.Stay | None] = dict.fromkeys(changed)
        changes |= {one.key: one for one in booked}
        for rehearsal in self._rehearsals[place]:
            rehearsal.play(changes, is_kept=True)
        return self._rehearsals[place]

    def _find_tracker(
        self, place: host_view.Place, name: str
    ) -> tuple[base.Tracker, host_view.TrackerState]:
        tracked = self.hosts[name].view.tracked[place]
        return self.trackers[tracked.tracker], tracked.state

    def _settle(self, name: str) -> None:
        """Let all that is booked on a host have units that are there."""
        new = self._unsettled.pop(name, None)
        if new is None:
            return
        booked = [self.bookings[key] for key in new if key in self.bookings]
        for place in self._units[name]:
            chosen = stays.settle(
                *self._find_tracker(place, name),
                functools.partial(self._list_met, place),
                self._list_stays(place, booked),
            )
            for key, units in chosen.items():
                self._exchange(_put_units(self.bookings[key], place, units))

    def _exchange(self, server: planned_server.PlannedServer) -> None:
        """Let a booking have other units of the same places."""
        self.bookings[server.key] = server
        for rp_uuid, _resource_class in server.places:
            self._held[rp_uuid].put(server)

    def _list_met(
        self, place: host_view.Place, during: interval.Interval
    ) -> Iterator[stays.Stay]:
        """Return the stays of a place that have a second of an interval."""
        held = self._held[place[0]]
        return self._list_stays(place, held.list_overlapping(during))

    def _list_stays(
        self,
        place: host_view.Place,
        servers: Iterable[planned_server.PlannedServer],
    ) -> Iterator[stays.Stay]:
        for one in servers:
            for each in one.assignments:
                if (each.rp_uuid, each.resource_class) == place:
                    yield stays.Stay(
                        key=one.key,
                        during=one.during,
                        amount=each.amount,
                        units=each.units,
                        is_there=self._is_there(one, place),
                    )

    def _is_there(
        self, server: planned_server.PlannedServer, place: host_view.Place
    ) -> bool:
        if server.consumer is None or server.host not in self.hosts:
            return False
        held = self.hosts[server.host].held.get(server.consumer)
        return held is not None and place[1] in held.classes

    def _list_units(self, host: host_mod.Host) -> list[host_view.Place]:
        """Return the places of a host of which not only the number matters.

        But for those of sharing providers: what they have is of no host.
        """
        return [
            place
            for place, one in host.view.tracked.items()
            if place[0] not in self.shared
            and not isinstance(one.state, count.CountState)
        ]

    def _list_parts(
        self, name: str, during: interval.Interval
    ) -> Iterator[tuple[interval.Interval, host_view.HostView | None]]:
        """Return the parts of an interval with what the host offers then."""
        changes = [
            one for one in self._changes[name] if one[0].overlaps(during)
        ]
        times = {during.start, during.end}
        for when, _view in changes:
            times.update((when.start, when.end))
        inner = sorted(
            time for time in times if during.start <= time <= during.end
        )
        for start, end in itertools.pairwise(inner):
            part = interval.Interval(start, end)
            view: host_view.HostView | None = self.hosts[name].view
            for when, changed in changes:
                if when.overlaps(part):
                    view = changed
            yield part, view

    def _list_own(self, name: str) -> index.Classes:
        """Return the host's places by class, without sharing providers."""
        return {
            resource_class: [
                place for place in places if place[0] not in self.shared
            ]
            for resource_class, places in self.places[name].items()
        }


def _put_held(
    server: planned_server.PlannedServer, host: host_mod.Host
) -> planned_server.PlannedServer:
    """Return a slot with what its server has of it."""
    held = host.held.get(server.consumer or '')
    if held is None:
        return server
    kept = tuple(
        one
        for one in server.assignments
        if one.resource_class not in held.classes
    )
    own = tuple(
        dataclasses.replace(one, rp_key=host.view.keys.get(one.rp_uuid, ''))
        for one in held.assignments
    )
    return dataclasses.replace(
        server,
        assignments=kept + own,
        cpus=server.cpus if held.cpus is None else held.cpus,
    )


def _put_units(
    server: planned_server.PlannedServer,
    place: host_view.Place,
    units: Mapping[str, Any],
) -> planned_server.PlannedServer:
    """Return a booking with other units of a place."""
    return dataclasses.replace(
        server,
        assignments=tuple(
            dataclasses.replace(one, units=units)
            if (one.rp_uuid, one.resource_class) == place
            else one
            for one in server.assignments
        ),
    )


def _find_shared(hosts: Iterable[host_mod.Host]) -> frozenset[str]:
    """Return the providers that several hosts use."""
    used = collections.Counter(
        rp_uuid
        for host in hosts
        for rp_uuid in {place[0] for place in host.view.tracked}
    )
    return frozenset(one for one, number in used.items() if number > 1)
