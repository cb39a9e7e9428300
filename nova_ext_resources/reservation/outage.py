# SPDX-License-Identifier: Apache-2.0

"""What a reservation loses with its hosts."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from nova_ext_resources.reservation import state as state_mod

#: Name of each host -> whether its compute is enabled.
Enabled: TypeAlias = Mapping[str, bool]

#: Host -> how many servers of a reservation are lost with it.
Lost: TypeAlias = Mapping[str, int]

#: How the reason of a reservation begins that is degraded by this.
_BEGIN = 'host '


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


def find_cause(
    changes: Sequence[tuple[state_mod.State, str]],
) -> str | None:
    """Return why a reservation is degraded; None if it is not.

    :param changes: state and reason of each, the first one first
    """
    cause = None
    for state, reason in reversed(changes):
        if state is not state_mod.State.DEGRADED:
            break
        cause = reason
    return cause


def is_outage(cause: str | None) -> bool:
    """Return whether it is hosts that a reservation is degraded for."""
    return cause is not None and cause.startswith(_BEGIN)
