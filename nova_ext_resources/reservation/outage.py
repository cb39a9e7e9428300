# SPDX-License-Identifier: Apache-2.0

"""What a reservation loses with its hosts, or by changes of capacity."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import capacity_plan
from nova_ext_resources.reservation import packing
from nova_ext_resources.reservation import server as server_mod
from nova_ext_resources.reservation import state as state_mod

#: Name of each host -> whether its compute is enabled.
Enabled: TypeAlias = Mapping[str, bool]

#: Host -> how many servers of a reservation are lost with it.
Lost: TypeAlias = Mapping[str, int]

#: How the reason of a reservation begins that is degraded by this.
_BEGIN = 'host '
_BEGINNINGS = (_BEGIN, 'provider ')


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
    """Return a sentence that names the hosts."""
    parts = [
        f'{_BEGIN}{host} is '
        + ('disabled' if host in enabled else 'not in placement any more')
        + f', with {number} of its servers'
        for host, number in sorted(lost.items())
    ]
    return '; '.join(parts)


def explain(
    lost: Mapping[str, Lost],
    enabled: Enabled,
    cut: Mapping[str, Sequence[str]],
) -> dict[str, str]:
    """Return reservation -> all that it has lost, in words.

    :param cut: reservation -> what changes of capacity take from it
    """
    found = {key: [describe(one, enabled)] for key, one in lost.items()}
    for key, words in cut.items():
        found.setdefault(key, []).extend(words)
    return {key: '; '.join(words) for key, words in found.items()}


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
    causes: Sequence[str],
) -> list[str]:
    """Return what changes of capacity take from a reservation, in words.

    A maintenance takes all. Of other changes, it was found out when they were
    planned whether they hurt it.

    :param servers: all of the reservation
    :param changes: those that are not over
    :param causes: why it is degraded; () if it is not
    """
    found = [
        one.describe()
        for one in changes
        if (one.is_maintenance or any(map(one.is_cause, causes)))
        and any(_takes(one, each) for each in servers)
    ]
    return found + [
        one for one in causes[:1] if capacity_change.WITHDRAWN in one
    ]


def _takes(
    change: capacity_change.CapacityChange, server: server_mod.PlannedServer
) -> bool:
    return change.concerns(server) and change.during.overlaps(server.during)


def list_causes(
    changes: Sequence[tuple[state_mod.State, str]],
) -> list[str]:
    """Return why a reservation is degraded, the first cause first.

    :param changes: state and reason of each, the first one first
    """
    found = list[str]()
    for state, reason in reversed(changes):
        if state is not state_mod.State.DEGRADED:
            break
        found.insert(0, reason)
    return found


def find_cause(
    changes: Sequence[tuple[state_mod.State, str]],
) -> str | None:
    """Return why a reservation is degraded; None if it is not.

    :param changes: state and reason of each, the first one first
    """
    causes = list_causes(changes)
    return causes[0] if causes else None


def is_outage(cause: str | None) -> bool:
    """Return whether it is hosts, or changes, that it is degraded for."""
    return cause is not None and cause.startswith(_BEGINNINGS)
