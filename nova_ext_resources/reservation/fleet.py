# SPDX-License-Identifier: Apache-2.0

"""The hosts of a cloud, and all that is booked on them.

What a server would find on a host at any second of an interval is one
:class:`~nova_ext_resources.objects.view.HostView`: the *future* view, which
``claims.decide`` answers for as for the view of today.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
import contextlib
import dataclasses
import itertools

from nova_ext_resources.claims import base
from nova_ext_resources.claims.trackers import count
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import provider as provider_obj
from nova_ext_resources.objects import view as view_obj
from nova_ext_resources.reservation import calendar as calendar_mod
from nova_ext_resources.reservation import index as index_mod
from nova_ext_resources.reservation import interval


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One host, without anything that is booked in the fleet.

    :ivar providers: its tree in placement, and the sharing providers that it
        uses; of each uuid, inventories and traits matter
    :ivar view: all classes of all providers with what is left of them; what
        a server outside of the fleet's bookings holds there, it is taken to
        hold for good
    :ivar zone: availability zone, '' for none
    :ivar cells: dedicated CPUs of each NUMA cell that no server outside of
        the bookings has; None where the host does not report them
    """

    name: str
    providers: tuple[provider_obj.Provider, ...]
    view: view_obj.HostView
    zone: str = ''
    cells: tuple[frozenset[int], ...] | None = None


def make_host(
    name: str,
    providers: Sequence[provider_obj.Provider],
    published: view_obj.HostView,
    *,
    zone: str = '',
    cells: tuple[frozenset[int], ...] | None = None,
) -> Host:
    """Make a host of its tree in placement and the view that it publishes.

    Classes that the view does not have, such as VCPU, are counted. Their
    capacity is the inventory's: allocation ratio and reserve are in it.
    """
    counted = {
        (one.rp_uuid, resource_class): view_obj.Tracked(
            tracker='count',
            state=count.CountState(inventory.capacity),
            inventory=inventory,
        )
        for one in providers
        for resource_class, inventory in one.inventories.items()
        if (one.rp_uuid, resource_class) not in published.tracked
    }
    view = dataclasses.replace(
        published, tracked={**counted, **published.tracked}
    )
    return Host(
        name=name,
        providers=tuple(providers),
        view=view,
        zone=zone,
        cells=cells,
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlannedServer:
    """One server on one host for one interval.

    :ivar key: unique in the fleet
    :ivar assignments: what it takes, with the units
    :ivar cpus: host CPUs that are kept for it; None when it floats. Nova will
        choose its CPUs itself: these show that there is a way to choose
    """

    key: str
    host: str
    during: interval.Interval
    assignments: tuple[assignment.Assignment, ...]
    cpus: frozenset[int] | None = None

    @property
    def places(self) -> dict[view_obj.Place, int]:
        return {
            (one.rp_uuid, one.resource_class): one.amount
            for one in self.assignments
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Future:
    """What is there throughout an interval."""

    view: view_obj.HostView
    cells: tuple[frozenset[int], ...] | None


class Fleet:
    """All hosts, and what is booked on each.

    When a host comes or goes for good, make another one.

    :ivar calendar: amounts only, of all places of all hosts
    :ivar index: of the same, which hosts may have room
    :ivar places: host -> resource class -> places, those of sharing providers
        included
    :ivar shared: uuids of providers that several hosts use
    :ivar shared_classes: the classes of these
    :ivar spread: classes of which some host has several providers
    :param trackers: all that are installed, by name. Places of others, and of
        those that cannot join states, are left out: nothing can be reserved
        there
    """

    def __init__(
        self,
        hosts: Iterable[Host],
        trackers: Mapping[str, base.Tracker],
    ) -> None:
        self.calendar = calendar_mod.Calendar()
        self.trackers = trackers
        self.hosts = {one.name: self._leave_out(one) for one in hosts}
        self._changes: dict[
            str, list[tuple[interval.Interval, view_obj.HostView | None]]
        ] = {name: [] for name in self.hosts}
        self._bookings: dict[str, PlannedServer] = {}
        # By provider: a sharing one has bookings of several hosts.
        self._held: dict[str, dict[str, PlannedServer]] = {}
        owners: dict[str, set[str]] = {}
        for host in self.hosts.values():
            for place, tracked in host.view.tracked.items():
                self.calendar.set_capacity(place, tracked.state.free)
                self._held.setdefault(place[0], {})
                owners.setdefault(place[0], set()).add(host.name)
        self.shared = frozenset(
            rp_uuid for rp_uuid, names in owners.items() if len(names) > 1
        )
        self.shared_classes = frozenset(
            place[1]
            for place in self.calendar.places
            if place[0] in self.shared
        )
        self.places = {
            name: _list_places(one.view) for name, one in self.hosts.items()
        }
        self.spread = frozenset(
            resource_class
            for classes in self.places.values()
            for resource_class, places in classes.items()
            if len(places) > 1
        )
        self.index = index_mod.Index(
            self.calendar,
            {name: self._list_own(name) for name in self.hosts},
        )

    @property
    def bookings(self) -> Mapping[str, PlannedServer]:
        """Key -> booking."""
        return self._bookings

    def _leave_out(self, host: Host) -> Host:
        """Return a host without what cannot be foreseen."""
        tracked = {
            place: one
            for place, one in host.view.tracked.items()
            if self._can_join(one)
        }
        view = dataclasses.replace(host.view, tracked=tracked)
        return dataclasses.replace(host, view=view)

    def _can_join(self, tracked: view_obj.Tracked) -> bool:
        try:
            self.trackers[tracked.tracker].join([tracked.state])
        except (KeyError, NotImplementedError):
            return False
        return True

    def change(
        self,
        name: str,
        view: view_obj.HostView | None,
        during: interval.Interval,
    ) -> None:
        """Let a host offer something else in an interval.

        :param view: None where it offers nothing, as in a maintenance.
            Places that the host does not have otherwise are left out
        """
        places = self.hosts[name].view.tracked.keys()
        tracked = {
            place: one
            for place, one in (view.tracked.items() if view else ())
            if place in places
        }
        view = view and dataclasses.replace(view, tracked=tracked)
        self._changes[name].append((during, view))
        for place in places:
            if place[0] not in self.shared:
                left = tracked[place].state.free if place in tracked else 0
                self.calendar.set_capacity(place, left, during)

    def book(self, server: PlannedServer) -> None:
        """Book a server, whether or not it fits.

        :raises KeyError: a place is unknown
        :raises ValueError: the key is in use
        """
        self.calendar.add(server.key, server.during, server.places)
        self._bookings[server.key] = server
        for rp_uuid, _resource_class in server.places:
            self._held[rp_uuid][server.key] = server

    def release(self, key: str) -> PlannedServer:
        """Take a booking out, and return it.

        :raises KeyError: there is no such booking
        """
        server = self._bookings.pop(key)
        self.calendar.remove(key)
        for rp_uuid, _resource_class in server.places:
            self._held[rp_uuid].pop(key, None)
        return server

    def list_overlapping(
        self, name: str, during: interval.Interval
    ) -> list[PlannedServer]:
        """Return the bookings of a host that have a second of an interval.

        And those of other hosts that take from a sharing provider of it.
        """
        found = {
            key: one
            for rp_uuid in {
                place[0] for place in self.hosts[name].view.tracked
            }
            for key, one in self._held[rp_uuid].items()
            if one.during.overlaps(during)
        }
        return list(found.values())

    def list_ends(self, name: str, first: int, last: int) -> Iterator[int]:
        """Return when bookings of a host end, from ``first`` to ``last``."""
        for rp_uuid in {place[0] for place in self.hosts[name].view.tracked}:
            for one in self._held[rp_uuid].values():
                end = one.during.end
                if first <= end <= last and end < interval.FOREVER:
                    yield end

    @contextlib.contextmanager
    def trying(
        self, without: Iterable[str] = (), adding: Iterable[PlannedServer] = ()
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

    def foresee(self, name: str, during: interval.Interval) -> Future | None:
        """Return what is there throughout an interval.

        None if the host offers nothing in some of it.
        """
        parts = list(self._list_parts(name, during))
        held = self.list_overlapping(name, during)
        if any(view is None for _part, view in parts):
            return None
        views = [
            self._foresee(view, part, held) for part, view in parts if view
        ]
        used = frozenset[int]().union(
            *(one.cpus or () for one in held if one.host == name)
        )
        cells = self.hosts[name].cells
        return Future(
            views[0] if len(views) == 1 else self._join(views),
            cells and tuple(cell - used for cell in cells),
        )

    def _list_parts(
        self, name: str, during: interval.Interval
    ) -> Iterator[tuple[interval.Interval, view_obj.HostView | None]]:
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
            view: view_obj.HostView | None = self.hosts[name].view
            for when, changed in changes:
                if when.overlaps(part):
                    view = changed
            yield part, view

    def _foresee(
        self,
        view: view_obj.HostView,
        part: interval.Interval,
        held: Iterable[PlannedServer],
    ) -> view_obj.HostView:
        """Return a view with all that is booked at any second of a part."""
        taken: dict[
            view_obj.Place,
            list[tuple[interval.Interval, assignment.Assignment]],
        ] = {}
        for one in held:
            if one.during.overlaps(part):
                for each in one.assignments:
                    place = each.rp_uuid, each.resource_class
                    taken.setdefault(place, []).append((one.during, each))
        tracked = dict(view.tracked)
        for place, items in taken.items():
            if place in tracked:
                tracked[place] = self._sweep(tracked[place], part, items)
        return dataclasses.replace(view, tracked=tracked)

    def _sweep(
        self,
        tracked: view_obj.Tracked,
        part: interval.Interval,
        items: Sequence[tuple[interval.Interval, assignment.Assignment]],
    ) -> view_obj.Tracked:
        """Return a place with the states after each change joined."""
        tracker = self.trackers[tracked.tracker]
        state, states = tracked.state, []
        # What ends in a second is given back before others take.
        events = [(during.end, 0, one) for during, one in items]
        events += [
            (max(during.start, part.start), 1, one) for during, one in items
        ]
        events.sort(key=lambda event: event[:2])
        for _time, is_start, one in events:
            if not is_start:
                state = tracker.give(state, one.amount, one.units)
                continue
            state, _units = tracker.take(state, one.amount, one.units)
            states.append(state)
        return dataclasses.replace(tracked, state=tracker.join(states))

    def _join(self, views: Sequence[view_obj.HostView]) -> view_obj.HostView:
        """Return a view of what all of several views offer."""
        tracked = {
            place: dataclasses.replace(
                one,
                state=self.trackers[one.tracker].join(
                    [view.tracked[place].state for view in views]
                ),
            )
            for place, one in views[0].tracked.items()
            if all(place in view.tracked for view in views)
        }
        return dataclasses.replace(views[0], tracked=tracked)

    def _list_own(self, name: str) -> index_mod.Classes:
        """Return the host's places by class, without sharing providers."""
        return {
            resource_class: [
                place for place in places if place[0] not in self.shared
            ]
            for resource_class, places in self.places[name].items()
        }


def _list_places(view: view_obj.HostView) -> dict[str, list[view_obj.Place]]:
    """Return resource class -> its places."""
    found: dict[str, list[view_obj.Place]] = {}
    for place in view.tracked:
        found.setdefault(place[1], []).append(place)
    return found
