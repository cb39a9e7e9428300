# SPDX-License-Identifier: Apache-2.0

"""What one host can take in one interval, server by server."""

from collections.abc import (
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set,
)
import dataclasses
import itertools
import sys
from typing import Any

from nova_ext_resources.claims import base
from nova_ext_resources.claims import decide
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import candidates
from nova_ext_resources.reservation import fleets
from nova_ext_resources.reservation import future as future_mod
from nova_ext_resources.reservation import host as host_mod
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation import server_demand
from nova_ext_resources.reservation import shortfalls
from nova_ext_resources.reservation import stays

_GONE = 'the host does not offer the resource class throughout the interval'
_TAKEN = 'the resources of the server are promised to other reservations later'
_REFUSED = (
    'this many are free, but the host chooses the units of each server, and '
    'would have none left for {key} when {key} begins; another size, time or '
    'cache may fit'
)

#: Allocations, each with CPUs, that are decided on for one server.
MAX_TRIED = 64


class Room:
    """One host in one interval.

    Nothing is booked in the fleet: each server that is taken is in the view
    of the next.

    :ivar shortfalls: why the last server was refused; () when it was not
    :param tests: all claim tests that are installed, by name; those run that
        the host has enabled
    """

    def __init__(
        self,
        fleet: fleets.Fleet,
        host: host_mod.Host,
        during: interval.Interval,
        tests: Mapping[str, base.ClaimTest],
    ) -> None:
        self.shortfalls: tuple[exception.Shortfall, ...] = ()
        self._fleet = fleet
        self._host = host
        self._during = during
        self._taken: list[planned_server.PlannedServer] = []
        self._trackers = fleet.trackers
        self._future = fleet.foresee(host.name, during)
        names = decide.name_tests(host.view)
        self._tests = [tests[one] for one in names if one in tests]

    def take(
        self, key: str, demand: server_demand.Demand
    ) -> planned_server.PlannedServer | None:
        """Take one server; None if it does not fit, see ``shortfalls``."""
        if self._future is None:
            self.shortfalls = (_make_outage(demand),)
            return None
        reasons: tuple[exception.Shortfall, ...] = ()
        found = candidates.CandidateSearch(
            self._future.view, self._host.providers, demand
        )
        tries = _list_requests(self._future, found, key, demand)
        for request in itertools.islice(tries, MAX_TRIED):
            decision = decide.decide(
                self._future.view,
                request,
                trackers=self._trackers,
                tests=self._tests,
            )
            short = decision.shortfalls
            if decision.fits:
                made = self._make(key, decision)
                short = self._rehearse(made)
                if not short:
                    return self._accept(made, decision)
            reasons = reasons or short
            if not candidates.has_room(self._future.view, request.allocations):
                # It is there for its reasons only.
                break
        else:
            found.is_cut |= any(tries)
        reasons = reasons or self._explain(self._future, demand)
        self.shortfalls = found.qualify(reasons)
        return None

    def _make(
        self, key: str, decision: decide.Decision
    ) -> planned_server.PlannedServer:
        return planned_server.PlannedServer(
            key=key,
            host=self._host.name,
            during=self._during,
            assignments=decision.taken,
            cpus=decision.request.cpus,
        )

    def _rehearse(
        self, made: planned_server.PlannedServer
    ) -> tuple[exception.Shortfall, ...]:
        """Return what is short because the host chooses units as it does."""
        refused = self._fleet.find_refused(
            self._host.name, itertools.chain(self._taken, [made])
        )
        return (_explain_refused(self._host, *refused),) if refused else ()

    def _accept(
        self, made: planned_server.PlannedServer, decision: decide.Decision
    ) -> planned_server.PlannedServer:
        assert self._future is not None
        cells = self._future.cells
        self._future = future_mod.Future(
            decision.view,
            cells and tuple(one - (made.cpus or frozenset()) for one in cells),
        )
        self.shortfalls = ()
        self._taken.append(made)
        return made

    def _explain(
        self, future: future_mod.Future, demand: server_demand.Demand
    ) -> tuple[exception.Shortfall, ...]:
        """Return why there was nothing to decide on."""
        providers = self._host.providers
        missing = candidates.list_missing(future.view, providers, demand)
        if missing:
            return tuple(
                _make_shortfall(*one, is_permanent=True) for one in missing
            )
        if not any(candidates.CandidateSearch(future.view, providers, demand)):
            return (
                _make_shortfall(
                    *_name_first(demand),
                    'group_policy=isolate needs a provider for each group, '
                    'and this host has fewer',
                    is_permanent=True,
                ),
            )
        cells = future.cells or ()
        return (
            _make_shortfall(
                'PCPU',
                sum(demand.cells),
                'the dedicated CPUs of each guest NUMA cell must be free in '
                'a NUMA cell of the host',
                available=max(map(len, cells), default=0),
            ),
        )


def _list_requests(
    future: future_mod.Future,
    found: Iterable[candidates.Allocations],
    key: str,
    demand: server_demand.Demand,
) -> Iterator[assignment.ClaimRequest]:
    """Return the ways to ask a host for one server."""
    for allocations in found:
        request = assignment.ClaimRequest(
            consumer_uuid=key,
            allocations=allocations,
            requirement=demand.requirement,
        )
        if not demand.cells:
            yield request
        elif future.cells is None:
            pinning = assignment.Pinning(sizes=demand.cells)
            yield dataclasses.replace(request, pinning=pinning)
        else:
            for cpus in list_cpus(future, demand.cells):
                yield dataclasses.replace(request, cpus=cpus)


def list_cpus(
    future: future_mod.Future, sizes: Sequence[int]
) -> Iterator[frozenset[int]]:
    """Return the CPUs that Nova could give a server, some of each kind.

    Each guest cell gets a cell of the host of its own (Nova's rule); CPUs of
    one cache domain come before those of several.

    :param sizes: of each guest cell; they are alike
    """
    assert future.cells is not None
    domains = {
        bitmask.parse_list(one.cpus)
        for one in future.view.tracked.values()
        if one.cpus is not None
    }
    choices = [_choose_cpus(one, sizes[0], domains) for one in future.cells]
    # A host of many cells has millions of ways to leave out those that are
    # full, and as many for each order of the others, which makes none.
    able = [one for one in choices if one]
    for some in itertools.combinations(able, len(sizes)):
        for chosen in itertools.product(*some):
            yield frozenset[int]().union(*chosen)


def _choose_cpus(
    cell: frozenset[int], size: int, domains: Set[frozenset[int]]
) -> list[frozenset[int]]:
    """Return so many CPUs of each domain in a cell, and of any."""
    parts = [cell & one for one in sorted(domains, key=sorted)]
    return list(
        dict.fromkeys(
            frozenset(sorted(part)[:size])
            for part in (*parts, cell)
            if len(part) >= size
        )
    )


def list_short(
    fleet: fleets.Fleet,
    hosts: Collection[host_mod.Host],
    amounts: Mapping[str, int],
    during: interval.Interval,
    servers: int = 1,
) -> Iterator[tuple[int, list[shortfalls.Short]]]:
    """Return how many servers a host may have room for, and what is short.

    By amounts alone, so that it is quick: no more fit, and fewer may.

    :param hosts: of each of which that is returned
    :param amounts: of each class, what one provider must have for a server
    :param servers: what has room for so many is not short
    """
    places = [fleet.places[one.name] for one in hosts]
    free = iter(
        fleet.calendar.list_free(
            [
                place
                for classes in places
                for name in amounts
                for place in classes.get(name, ())
            ],
            during,
        )
    )
    for classes in places:
        short, fewest = [], sys.maxsize
        for name, amount in amounts.items():
            best, most, fits = None, 0, 0
            for place in classes.get(name, ()):
                left = next(free)
                if best is None or left > most:
                    best, most = place, max(left, 0)
                fits += max(left, 0) // amount
            fewest = min(fewest, fits)
            if fits < servers:
                short.append(
                    shortfalls.Short(
                        name, amount * servers, best, max(most, fits * amount)
                    )
                )
        yield fewest, short


def find_refused(
    fleet: fleets.Fleet, servers: Iterable[planned_server.PlannedServer]
) -> dict[str, tuple[exception.Shortfall, ...]]:
    """Return why servers would be in the way of others, or be refused.

    All units may be there, and still the host may have none left for one of
    them: it chooses the units of each server when that comes.

    :param servers: also in place of their bookings
    :returns: host -> what is short there; empty if nothing is
    """
    servers = [*servers]
    found: dict[str, tuple[exception.Shortfall, ...]] = {}
    for host in map(fleet.hosts.get, {one.host for one in servers}):
        own = [one for one in servers if host and one.host == host.name]
        refused = fleet.find_refused(host.name, own) if host else None
        if host and refused:
            found[host.name] = (_explain_refused(host, *refused),)
    return found


def _explain_refused(
    host: host_mod.Host, place: host_view.Place, refused: stays.Stay
) -> exception.Shortfall:
    available = host.view.tracked[place].state.available
    return _make_shortfall(
        place[1],
        refused.amount,
        _REFUSED.format(key=refused.key),
        available=min(available, refused.amount - 1),
        rp_uuid=place[0],
        rp_key=host.view.keys.get(place[0], ''),
    )


def find_blocked(
    fleet: fleets.Fleet,
    servers: Iterable[planned_server.PlannedServer],
    during: interval.Interval,
) -> dict[str, tuple[exception.Shortfall, ...]]:
    """Return why servers cannot have what they have in an interval, too.

    :param servers: none of which is booked in that interval
    :returns: host -> what others have then; empty if all of it is free
    """
    # With the units that they have, if these are not those of the plan.
    booked = [fleet.bookings.get(one.key, one) for one in servers]
    found: dict[str, tuple[exception.Shortfall, ...]] = {}
    for name in {one.host for one in booked}:
        own = [one for one in booked if one.host == name]
        if short := _list_blocked(fleet, name, own, during):
            found[name] = short
    deficits = fleet.list_deficits(booked, during)
    for one in booked:
        if short := _explain_deficits(one, deficits):
            found.setdefault(one.host, short)
    return found


def _explain_deficits(
    server: planned_server.PlannedServer,
    deficits: Mapping[host_view.Place, tuple[int, int]],
) -> tuple[exception.Shortfall, ...]:
    """Return what a server takes of that is too little for all of them."""
    return tuple(
        _make_shortfall(
            one.resource_class,
            deficits[place][0],
            _TAKEN,
            available=max(deficits[place][1], 0),
            rp_uuid=one.rp_uuid,
            rp_key=one.rp_key,
        )
        for one in server.assignments
        if (place := (one.rp_uuid, one.resource_class)) in deficits
    )


def _list_blocked(
    fleet: fleets.Fleet,
    name: str,
    servers: Iterable[planned_server.PlannedServer],
    during: interval.Interval,
) -> tuple[exception.Shortfall, ...]:
    """Do what :func:`find_blocked` does, for the servers of one host."""
    host = fleet.hosts.get(name)
    future = fleet.foresee(name, during) if host else None
    short: list[exception.Shortfall] = []
    states: dict[host_view.Place, host_view.TrackerState] = {}
    for one in servers:
        for each in one.assignments:
            place = each.rp_uuid, each.resource_class
            tracked = future and future.view.tracked.get(place)
            if not tracked:
                short.append(_make_shortfall(place[1], each.amount, _GONE))
                continue
            before = states.get(place, tracked.state)
            after = _take(fleet.trackers[tracked.tracker], before, each)
            # Less is gone if some of these units were not free.
            if before.free - after.free < each.amount:
                short.append(
                    _make_shortfall(
                        place[1],
                        each.amount,
                        _TAKEN,
                        available=before.free,
                        rp_uuid=place[0],
                    )
                )
            states[place] = after
    return tuple(short)


def _take(
    tracker: base.Tracker,
    state: host_view.TrackerState,
    one: assignment.Assignment,
) -> host_view.TrackerState:
    """Return a state without what was planned, if it is known what that is."""
    if not tracker.can_parse(one.units):
        return state
    after, _units = tracker.allocate(state, one.amount, one.units)
    return after


def _make_outage(demand: server_demand.Demand) -> exception.Shortfall:
    return _make_shortfall(
        *_name_first(demand),
        'the host offers nothing in part of the interval, as planned',
    )


def _name_first(demand: server_demand.Demand) -> tuple[str, int]:
    return min(demand.requirement.resources.items())


def _make_shortfall(
    resource_class: str, requested: int, reason: str, **fields: Any
) -> exception.Shortfall:
    return exception.Shortfall(
        resource_class=resource_class,
        requested=requested,
        reason=reason,
        **fields,
    )
