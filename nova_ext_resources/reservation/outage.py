# SPDX-License-Identifier: Apache-2.0

"""What a reservation loses with its hosts."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

#: Name of each host -> whether its compute is enabled.
Enabled: TypeAlias = Mapping[str, bool]

#: How many hosts a text names.
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


def join(parts: Sequence[str]) -> str:
    """Return what is said of each host in one text, which has its bounds."""
    found = [*parts[:NAMED]]
    if more := len(parts) - len(found):
        found.append(f'and {more} hosts more')
    return '; '.join(found)
