# SPDX-License-Identifier: Apache-2.0

"""ReservationFilter over ten thousand hosts, with and without leases.

The leases take 1 to 48 hours, and start within 30 days, in a SQLite database.
A request is for a server without an end, and is asked about every host: each
has one candidate of three classes. Each call reads the revisions, as it does
for each server that Nova places.
"""

from collections.abc import Iterator
import os
import random
import statistics
import tempfile
import time
from typing import Any

import nova.conf
from nova import objects
from nova.scheduler import filters as nova_filters
from nova.scheduler import host_manager

from dev.bench.harness import fleet as fleet_mod
from dev.bench.harness import leased
from dev.bench.harness import leases
from dev.bench.harness import rows as rows_mod
from dev.bench.harness import stores
from dev.bench.harness import timing
from dev.bench import scheduler
from nova_ext_resources.conf import reservation
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import schema
from nova_ext_resources.scheduler.hooks import request_context
from nova_ext_resources.scheduler.reservation import filter as filter_mod

HOSTS = 10_000
LEASES = 10_000
REPETITIONS = 15


ASKED = {'VCPU': 4, 'MEMORY_MB': 8192, 'DISK_GB': 20}

MAX_RATIO = 1.5
MAX_MS = 100.0
MAX_START_MS = 2000.0


class Cloud:
    """Hosts, what placement says of them, and a database."""

    #: How many hosts.
    SIZE = HOSTS

    #: What each lease takes.
    LEASED = leases.ASKED

    def __init__(self, folder: str, seed: int = 1) -> None:
        self.rng = random.Random(seed)
        self.url = f'sqlite:///{os.path.join(folder, "reservations.db")}'
        self.database = databases.Database(self.url)
        schema.upgrade(self.database)
        self.hosts = [self._make_host(number) for number in range(self.SIZE)]
        self.summaries = {
            rp_uuid: {'resources': found}
            for one in self.hosts
            for rp_uuid, found in self._summarize(one).items()
        }

    def _summarize(self, host_state: Any) -> dict[str, dict[str, Any]]:
        """Return provider -> its classes, as placement gives them."""
        return {
            host_state.uuid: {
                name: {
                    'capacity': total,
                    'used': self.rng.randrange(total // 2),
                }
                for name, total in leases.CAPACITY.items()
            }
        }

    def _make_host(self, number: int) -> Any:
        name = f'compute-{number}'
        host_state = host_manager.HostState(name, name, 'cell')
        host_state.uuid = f'{number:032x}'
        return host_state

    def offer(self) -> None:
        """Give every host a candidate, as each request does."""
        for one in self.hosts:
            one.allocation_candidates = [
                {
                    'allocations': {one.uuid: {'resources': dict(ASKED)}},
                    'mappings': {'': [one.uuid]},
                }
            ]

    def make_request(self) -> Any:
        spec = fleet_mod.make_request({})
        request_context.find(spec).summaries = self.summaries
        return spec

    def make_filter(self) -> Any:
        reservation.register_opts(nova.conf.CONF)
        nova.conf.CONF.set_override(
            'connection', self.url, reservation.GROUP.name
        )
        return filter_mod.ReservationFilter()

    def lease(self) -> None:
        """Write leases of one server each, on any host."""
        now = int(time.time())
        planned = []
        for number in range(LEASES):
            start = now + self.rng.randrange(leases.DAYS * leases.DAY)
            end = start + self.rng.randint(1, 48) * leases.HOUR
            during = interval.Interval(start, end)
            asked = leased.make_request(
                f'lease {number}', during, self.LEASED, 1
            )
            planned.append((asked, self._plan(asked)))
        stores.fill(self.database, planned, now)

    def _plan(
        self, asked: plan_request.Request
    ) -> planned_server.PlannedServer:
        host_state = self.rng.choice(self.hosts)
        return leased.plan_server(
            asked,
            host_state.nodename,
            {
                (rp_uuid, self._name(host_state, rp_uuid), name): amount
                for (rp_uuid, name), amount in self._choose(host_state).items()
            },
        )

    def _name(self, host_state: Any, rp_uuid: str) -> str:
        """Return the name of a provider: the root is named as the host is."""
        name: str = host_state.nodename
        return name if rp_uuid == host_state.uuid else f'{name} {rp_uuid[:4]}'

    def _choose(self, host_state: Any) -> dict[tuple[str, str], int]:
        """Return what a lease takes of which places."""
        return {
            (host_state.uuid, name): amount
            for name, amount in self.LEASED.items()
        }


def run() -> list[rows_mod.Row]:
    """Measure; in a process that has nothing of Nova's configuration yet."""
    nova.conf.CONF([], project='nova', default_config_files=[])
    objects.register_all()
    name = f'filter, {HOSTS} hosts, {LEASES} leases'
    with tempfile.TemporaryDirectory() as folder:
        cloud = Cloud(folder)
        return [_compare_empty(cloud), *measure(cloud, name, MAX_START_MS)]


def _compare_empty(cloud: Cloud) -> rows_mod.Row:
    ours, theirs = cloud.make_filter(), scheduler.PassThroughFilter()

    def prepare() -> tuple[timing.Call, timing.Call]:
        cloud.offer()
        spec = cloud.make_request()
        return (
            lambda: _filter(cloud, ours, spec),
            lambda: _filter(cloud, theirs, spec),
        )

    return rows_mod.compare_pairs(
        f'filter, {HOSTS} hosts, nothing reserved : pass-through filter',
        timing.compare(prepare, REPETITIONS),
        MAX_RATIO,
    )


def measure(
    cloud: Cloud, name: str, max_first_ms: float
) -> Iterator[rows_mod.Row]:
    """Measure the first request after leases are written, and later ones."""
    cloud.lease()
    host_filter = cloud.make_filter()
    yield rows_mod.make_row(
        f'{name}: first request, which reads all',
        _time_filter(cloud, host_filter),
        max_first_ms,
    )
    times = [_time_filter(cloud, host_filter) for _ in range(REPETITIONS)]
    yield rows_mod.make_row(name, statistics.median(times), MAX_MS)


def _time_filter(cloud: Cloud, host_filter: Any) -> float:
    """Return how many ms it takes; some hosts must pass."""
    cloud.offer()
    spec = cloud.make_request()
    passed: list[int] = []
    spent = timing.time_once(
        lambda: passed.append(_filter(cloud, host_filter, spec))
    )
    assert passed[0] > cloud.SIZE // 2, f'only {passed[0]} hosts passed'
    return spent


def _filter(cloud: Cloud, host_filter: Any, spec: Any) -> int:
    handler = nova_filters.HostFilterHandler()
    return len(handler.get_filtered_objects([host_filter], cloud.hosts, spec))
