# SPDX-License-Identifier: Apache-2.0

"""What a reservation loses with its hosts, or by changes of capacity."""

from collections.abc import (
    Collection,
    Container,
    Iterable,
    Mapping,
    Sequence,
)
from typing import TypeAlias

from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import packing
from nova_ext_resources.reservation import planned_server

#: Name of each host -> whether its compute is enabled and up.
Enabled: TypeAlias = Mapping[str, bool]

#: What a reservation has on a host: (reservation, host).
Part: TypeAlias = tuple[str, str]

#: How many hosts, or changes of capacity, a text names.
NAMED = 10

#: So long before its maintenance begins a host may be disabled.
DRAIN_SECONDS = 3600

#: Host -> how many servers of a reservation are lost with it.
Lost: TypeAlias = Mapping[str, int]


def list_lost(
    rows: Iterable[tuple[str, str, int, int]],
    enabled: Enabled,
    replaced: Container[Part] = (),
) -> dict[str, dict[str, int]]:
    """Return reservation -> what it has lost; without those that have all.

    A server that runs on a host which is disabled goes on there, and may do so
    on one whose compute is down; no other one can be created.

    :param rows: (reservation, host, servers, how many of them are taken)
    :param replaced: what was planned on providers that the host does not have
    """
    found: dict[str, dict[str, int]] = {}
    for key, host, servers, taken in rows:
        if enabled.get(host) and (key, host) not in replaced:
            continue
        lost = servers - taken if host in enabled else servers
        if lost:
            found.setdefault(key, {})[host] = lost
    return found


def describe(lost: Lost, enabled: Enabled, down: Collection[str] = ()) -> str:
    """Return a sentence that names the hosts, some of many.

    One that is enabled and up was installed anew, or lacks a nested provider
    that it had.

    :param down: hosts whose compute does not report
    """

    def find_words(host: str) -> str:
        if host not in enabled:
            return 'is not in placement any more'
        if enabled[host]:
            return 'does not have the planned resource providers any longer'
        return 'is down' if host in down else 'is disabled'

    parts = [
        f'host {host} {find_words(host)}, with {number} of its servers'
        for host, number in sorted(lost.items())
    ]
    return join(parts)


def explain(
    lost: Lost,
    enabled: Enabled,
    cut: Sequence[str],
    down: Collection[str] = (),
) -> str:
    """Return all that a reservation has lost, in words.

    :param cut: what changes of capacity take from it
    :param down: hosts whose compute does not report
    """
    parts = [describe(lost, enabled, down)] if lost else []
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
    """Return whether a host may be away now as planned, and back at a start.

    It is disabled some time before its maintenance begins, for its servers
    have to leave it.
    """
    during = change.during
    return (
        change.is_maintenance
        and change.is_of_host
        and during.start - DRAIN_SECONDS <= now < during.end <= start
    )


def list_cut(
    servers: packing.PlannedServers,
    changes: capacity_change.Changes,
    lacks: Collection[host_view.Place],
    late: Collection[str],
) -> list[str]:
    """Return what changes of capacity take from a reservation, in words.

    :param servers: all of the reservation
    :param changes: those that are not over
    :param lacks: where it has too little
    :param late: the changes that placement does not show yet
    """
    return [
        one.describe(is_late=one.key in late)
        for one in changes
        if (one.is_maintenance or _is_guilty(one, lacks, late))
        and any(takes(one, each) for each in servers)
    ]


def _is_guilty(
    change: capacity_change.CapacityChange,
    lacks: Collection[host_view.Place],
    late: Collection[str],
) -> bool:
    """Return whether something is missing somewhere by a change."""
    return any(
        change.rp_uuid == rp_uuid
        and (change.amounts.get(name, 0) < 0 or change.key in late)
        for rp_uuid, name in lacks
        if name in change.amounts
    )


def takes(
    change: capacity_change.CapacityChange,
    server: planned_server.PlannedServer,
) -> bool:
    """Return whether a server takes of what is changed, while it is."""
    return change.concerns(server) and change.during.overlaps(server.during)
