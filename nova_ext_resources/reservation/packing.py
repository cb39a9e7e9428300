# SPDX-License-Identifier: Apache-2.0

"""The servers of one request, put on hosts for one interval."""

import collections
from collections.abc import Iterator, Mapping
import contextlib
import dataclasses
import functools
from typing import TypeAlias

from nova_ext_resources.claims import base
from nova_ext_resources.reservation import fleets
from nova_ext_resources.reservation import host as host_mod
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation import room as room_mod
from nova_ext_resources.reservation import shortfalls as shortfalls_mod
from nova_ext_resources.reservation import starts

PlannedServers: TypeAlias = tuple[planned_server.PlannedServer, ...]


def list_hosts(
    fleet: fleets.Fleet, request: plan_request.Request
) -> Iterator[host_mod.Host]:
    """Return the hosts of the zone that is asked for."""
    for host in fleet.hosts.values():
        if request.zone in (None, host.zone):
            yield host


class Packing:
    """Fills one host after the other, in their order.

    :ivar servers: as many servers as fit, ``most`` at most
    :param tests: all claim tests that are installed, by name
    :param gives_up: whether none are placed any more once it is certain that
        fewer than ``least`` fit
    :raises InventoriesUnread: see :meth:`.fleets.Fleet.check_read`
    """

    def __init__(
        self,
        fleet: fleets.Fleet,
        tests: Mapping[str, base.ClaimTest],
        request: plan_request.Request,
        during: interval.Interval,
        *,
        gives_up: bool = False,
    ) -> None:
        self._fleet = fleet
        self._tests = tests
        self._request = request
        self._during = during
        self._amounts = dict(sorted(request.demand.largest.items()))
        #: Of hosts that have the amounts.
        self._short: dict[str, shortfalls_mod.Found] = {}
        self._fewest = request.least if gives_up else 0
        self.servers: PlannedServers = ()
        self._place()
        fleet.check_read(self.servers)

    @property
    def is_enough(self) -> bool:
        """Whether the fewest servers that are asked for fit."""
        if len(self.servers) < self._request.least:
            return False
        return not self._fleet.list_deficits(self.servers, self._during)

    @functools.cached_property
    def shortfalls(self) -> shortfalls_mod.Shortfalls:
        """What is short on each host for one more server.

        Or for all of them, where they must be on the same host.
        """
        servers = self._request.least if self._is_together else 1
        hosts = [
            one
            for one in list_hosts(self._fleet, self._request)
            if self._is_together or one.name not in self._short
        ]
        with self._sharing(self.servers):
            found = room_mod.list_short(
                self._fleet, hosts, self._amounts, self._during, servers
            )
            short = {
                host.name: (host, one)
                for host, (_fits, one) in zip(hosts, found, strict=True)
                if one
            }
        return shortfalls_mod.Shortfalls(
            short.values(),
            {k: v for k, v in self._short.items() if k not in short},
        )

    @property
    def _is_together(self) -> bool:
        return self._request.affinity is plan_request.Affinity.SAME_HOST

    def _place(self) -> None:
        affinity, most = self._request.affinity, self._request.most
        with contextlib.ExitStack() as stack:
            for host in self._list_promising():
                if self._is_together:
                    found = self._fill(host, 0, most)
                    self.servers = max(self.servers, found, key=len)
                else:
                    left = most - len(self.servers)
                    if affinity is plan_request.Affinity.DIFFERENT_HOSTS:
                        left = 1
                    found = self._fill(host, len(self.servers), left)
                    self.servers += found
                    stack.enter_context(self._sharing(found))
                if len(self.servers) == most:
                    break

    def _list_promising(self) -> Iterator[host_mod.Host]:
        """Return the hosts in turn, while it is worth while to fill them."""
        affinity, most = self._request.affinity, self._request.most
        possible = self._list_possible()
        if self._is_together:
            # Those that may have most come first, so that few are filled.
            for host, fits in sorted(
                possible, key=lambda one: -min(one[1], most)
            ):
                if fits > len(self.servers) and fits >= self._fewest:
                    yield host
            return
        ahead: collections.deque[tuple[host_mod.Host, int]]
        ahead, hope = collections.deque(), 0
        for host, fits in possible:
            if affinity is plan_request.Affinity.DIFFERENT_HOSTS:
                fits = 1
            ahead.append((host, fits))
            hope += fits
            # No further is looked ahead than until enough may fit.
            while ahead and len(self.servers) + hope >= self._fewest:
                host, fits = ahead.popleft()
                hope -= fits
                yield host

    def _sharing(
        self, servers: PlannedServers
    ) -> contextlib.AbstractContextManager[None]:
        """Let other hosts have no more than servers leave of what they share.

        The host itself sees all of them; see :class:`.room.Room`.
        """
        if self._fleet.shared_classes.isdisjoint(self._amounts):
            return contextlib.nullcontext()
        return self._fleet.trying(
            adding=[
                dataclasses.replace(one, key=f'{one.key}/packed')
                for one in servers
            ]
        )

    def _list_possible(self) -> Iterator[tuple[host_mod.Host, int]]:
        """Return hosts with the number of servers that amounts do for."""
        ask = starts.make_ask(self._fleet, self._request)
        for name in self._fleet.index.find(ask, self._during):
            host = self._fleet.hosts[name]
            if self._request.zone not in (None, host.zone):
                continue
            ((fits, _short),) = room_mod.list_short(
                self._fleet, [host], self._amounts, self._during
            )
            if fits:
                yield host, fits

    def _fill(
        self, host: host_mod.Host, first: int, most: int
    ) -> PlannedServers:
        """Place servers on one host, with numbers from ``first`` on."""
        room = room_mod.Room(self._fleet, host, self._during, self._tests)
        found: list[planned_server.PlannedServer] = []
        while len(found) < most:
            key = f'{self._request.key}/{first + len(found)}'
            server = room.take(key, self._request.demand)
            if server is None:
                self._short[host.name] = room.shortfalls
                break
            found.append(server)
        return tuple(found)
