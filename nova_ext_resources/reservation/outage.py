# SPDX-License-Identifier: Apache-2.0

"""What a reservation loses with its hosts, or by changes of capacity."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import capacity_plan
from nova_ext_resources.reservation import packing
from nova_ext_resources.reservation import server as server_mod

#: Name of each host -> whether its compute is enabled.
Enabled: TypeAlias = Mapping[str, bool]

#: How many hosts, or changes of capacity, a text names.
NAMED = 10

#: Host -> how many servers of a reservation are lost with it.
Lost: TypeAlias = Mapping[str, int]


def list_lost(
    rows: Iterable[tuple[str, str, int, int]], enabled: Enabled
) -> dict[str, dict[str, int]]:
    """Return reservation -> what it has lost; without those that have all.

    A server that runs on a host which is disabled goes on there; no other one
    can be created.

    :param rows: (reservation, host, servers, how many of them are taken)
    """
    found: dict[str, dict[str, int]] = {}
    for key, host, servers, taken in rows:
        if enabled.get(host):
            continue
        lost = servers - taken if host in enabled else servers
        if lost:
            found.setdefault(key, {})[host] = lost
    return found


def describe(lost: Lost, enabled: Enabled) -> str:
    """Return a sentence that names the hosts, some of many."""
    parts = [
        f'host {host} is '
        + ('disabled' if host in enabled else 'not in placement any more')
        + f', with {number} of its servers'
        for host, number in sorted(lost.items())
    ]
    return join(parts)


def explain(lost: Lost, enabled: Enabled, cut: Sequence[str]) -> str:
    """Return all that a reservation has lost, in words.

    :param cut: what changes of capacity take from it
    """
    parts = [describe(lost, enabled)] if lost else []
    if cut:
        parts.append(join(cut, 'changes of capacity'))
    return '; '.join(parts)


def join(parts: Sequence[str], what: str = 'hosts') -> str:
    """Return what is said of each host in one text, which has its bounds.

    :param what: hosts, or what else each part is about
    """
    found = [*parts[:NAMED]]
    if more := len(parts) - len(found):
        found.append(f'and {more} {what} more')
    return '; '.join(found)


def is_back(
    change: capacity_change.CapacityChange, start: int, now: int
) -> bool:
    """Return whether a host is away now as planned, and back at a start."""
    during = change.during
    return (
        change.is_maintenance
        and change.is_of_host
        and during.start <= now < during.end <= start
    )


def list_cut(
    servers: packing.PlannedServers,
    changes: capacity_plan.Changes,
    reasons: Collection[str],
) -> list[str]:
    """Return what changes of capacity take from a reservation, in words.

    A maintenance takes all. Of other changes, it was found out when they were
    planned whether they hurt it.

    :param servers: all of the reservation
    :param changes: those that are not over
    :param reasons: why programs have said that it is degraded; empty if it
        is not
    """
    return [
        one.describe()
        for one in changes
        if (one.is_maintenance or any(map(one.is_cause, reasons)))
        and any(_takes(one, each) for each in servers)
    ]


def _takes(
    change: capacity_change.CapacityChange, server: server_mod.PlannedServer
) -> bool:
    return change.concerns(server) and change.during.overlaps(server.during)
