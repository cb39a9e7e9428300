# SPDX-License-Identifier: Apache-2.0

"""ReservationFilter where cache ways are reserved.

Amounts are not enough for them, so that each candidate of a host is decided on
beside all slots of that host. A thousand hosts with two caches of eleven ways,
and ten thousand leases of two ways each.
"""

from collections.abc import Iterator
import tempfile
from typing import Any

import nova.conf
from nova import objects

from dev.bench.harness import fleet as fleet_mod
from dev.bench.harness import reserving
from dev.bench.harness import rows as rows_mod
from nova_ext_resources.claims.trackers import cache_ways
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.objects import host_view
from nova_ext_resources.scheduler.hooks import request_context

HOSTS = 1000

#: Of a server, and of a lease.
WAYS = 2
_LEASED = {fleet_mod.LLC: WAYS}

MAX_FIRST_MS = 3000.0


class Cloud(reserving.Cloud):
    """Hosts that publish their caches."""

    SIZE = HOSTS
    LEASED = _LEASED

    def _make_host(self, number: int) -> Any:
        host_state = super()._make_host(number)
        tracked = {
            (rp_uuid, fleet_mod.LLC): host_view.Tracked(
                tracker='cache_ways',
                state=cache_ways.CacheWaysState(
                    (1 << fleet_mod.WAYS) - 1, 0b11
                ),
            )
            for rp_uuid in _list_caches(host_state)
        }
        text = stats.encode(host_view.HostView(tracked=tracked))
        host_state.stats = {stats.KEY: text}
        return host_state

    def _summarize(self, host_state: Any) -> dict[str, dict[str, Any]]:
        ways = {fleet_mod.LLC: {'capacity': fleet_mod.WAYS, 'used': WAYS}}
        caches = dict.fromkeys(_list_caches(host_state), ways)
        return {**super()._summarize(host_state), **caches}

    def offer(self) -> None:
        for one in self.hosts:
            one.allocation_candidates = [
                {
                    'allocations': {
                        one.uuid: {'resources': dict(reserving.ASKED)},
                        rp_uuid: {'resources': {fleet_mod.LLC: WAYS}},
                    },
                    'mappings': {'': [one.uuid, rp_uuid]},
                }
                for rp_uuid in _list_caches(one)
            ]

    def make_request(self) -> Any:
        spec = fleet_mod.make_request(
            {f'resources:{fleet_mod.LLC}': f'{WAYS}'}
        )
        request_context.find(spec).summaries = self.summaries
        return spec

    def _choose(self, host_state: Any) -> dict[tuple[str, str], int]:
        rp_uuid = self.rng.choice(_list_caches(host_state))
        return {(rp_uuid, fleet_mod.LLC): WAYS}


def _list_caches(host_state: Any) -> list[str]:
    """Return the providers of the caches of a host."""
    return [
        f'{socket + 1:04x}{host_state.uuid[4:]}'
        for socket in range(fleet_mod.SOCKETS)
    ]


def run() -> Iterator[rows_mod.Row]:
    """Measure; in a process that has Nova's configuration."""
    objects.register_all()
    assert nova.conf.CONF.project == 'nova', 'reserving.run comes first'
    with tempfile.TemporaryDirectory() as folder:
        yield from reserving.measure(
            Cloud(folder),
            f'filter, {HOSTS} hosts of two caches, {reserving.LEASES} leases '
            f'of {WAYS} ways',
            MAX_FIRST_MS,
        )
