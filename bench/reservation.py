# SPDX-License-Identifier: Apache-2.0

"""Plans for a fleet that is booked for weeks, without a database.

The leases take 1 to 48 hours, start in 30 days, and never over-commit. The
search is for one server of three classes for 24 hours, at times drawn at
random, after a change of one host, which the index has to follow. Beside the
usual case there are the worst ones: a flavor that was never seen before, and
hosts that are all full but for one. A refusal includes the counter-offer: the
largest number, the earliest interval, what is short on each host, and that
no move helps.

:mod:`bench.harness.reserving` measures the filter of nova-scheduler, and
:mod:`bench.harness.reserving_ways` the same where cache ways are reserved.
"""

from collections.abc import Iterator
import itertools
import random
import statistics
import time
import tracemalloc

from bench.harness import reserving
from bench.harness import reserving_ways
from bench.harness import rows as rows_mod
from bench.harness import timing
from nova_ext_resources.claims.checks import capacity
from nova_ext_resources.claims.checks import granularity
from nova_ext_resources.claims.trackers import count
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import inventory
from nova_ext_resources.objects import provider
from nova_ext_resources.objects import requirement
from nova_ext_resources.objects import view
from nova_ext_resources.reservation import demand as demand_mod
from nova_ext_resources.reservation import fleet as fleet_mod
from nova_ext_resources.reservation import host as host_mod
from nova_ext_resources.reservation import index as index_mod
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import planner as planner_mod
from nova_ext_resources.reservation import request as request_mod
from nova_ext_resources.reservation import server as server_mod

HOUR = 3600
DAY = 24 * HOUR
DAYS = 30

#: Units of each class that a host has.
CAPACITY = {'VCPU': 64, 'MEMORY_MB': 262144, 'DISK_GB': 2000}

#: What a lease takes, and what is looked for.
SIZES = (
    {'VCPU': 2, 'MEMORY_MB': 4096, 'DISK_GB': 20},
    {'VCPU': 8, 'MEMORY_MB': 32768, 'DISK_GB': 100},
    {'VCPU': 16, 'MEMORY_MB': 65536, 'DISK_GB': 400},
    {'VCPU': 32, 'MEMORY_MB': 131072, 'DISK_GB': 800},
)
ASKED = {'VCPU': 16, 'MEMORY_MB': 65536, 'DISK_GB': 400}

#: (hosts, leases); the first one has goals.
SHAPES = (
    (1_000, 10_000),
    (100, 1_000),
    (100, 10_000),
    (1_000, 1_000),
    (1_000, 100_000),
    (10_000, 10_000),
    (10_000, 100_000),
)

SEARCHES = 200

#: Of which the host that is not full can have four.
SERVERS = 10
ANSWERS = 20

MAX_SEARCH_US = 100.0
MAX_REFUSAL_MS = 20.0
MAX_MEMORY_MB = 300.0


class Leased:
    """Hosts with leases on them.

    :param full: whether all hosts but the last have less than a server free
    """

    def __init__(self, hosts: int, leases: int, *, full: bool = False) -> None:
        self.rng = random.Random(hosts * leases)
        self.names = [f'host{number:05}' for number in range(hosts)]
        self.fleet = fleet_mod.Fleet(
            map(_make_host, self.names), {'count': count.CountTracker()}
        )
        self.calendar = self.fleet.calendar
        self.planner = planner_mod.Planner(
            self.fleet,
            {
                'granularity': granularity.GranularityTest(
                    self.fleet.trackers
                ),
                'capacity': capacity.CapacityTest(self.fleet.trackers),
            },
        )
        if full:
            self._fill(leases // hosts)
            return
        for number in range(leases):
            self._lease(str(number))

    def draw(self, seconds: int = DAY) -> interval.Interval:
        start = self.rng.randrange(DAYS * DAY)
        return interval.Interval(start, start + seconds)

    def search(
        self, asked: dict[str, int], during: interval.Interval
    ) -> str | None:
        """Return the first host with room for one server."""
        for name in self.fleet.index.find(asked, during):
            places = {(name, one): asked[one] for one in asked}
            if self.calendar.fits(places, during):
                return name
        return None

    def plan(
        self, servers: int, during: interval.Interval
    ) -> planner_mod.Plan | planner_mod.Refusal:
        """Plan or refuse; nothing has started yet."""
        request = _make_request('it', during, ASKED, servers)
        return self.planner.plan(request, now=-DAY)

    def book(
        self,
        key: str,
        name: str,
        during: interval.Interval,
        amounts: dict[str, int],
    ) -> None:
        """Accept a reservation of one server."""
        assignments = tuple(
            assignment.Assignment(
                rp_uuid=name, rp_key='', resource_class=one, amount=amount
            )
            for one, amount in amounts.items()
        )
        server = server_mod.PlannedServer(
            key=f'{key}/0', host=name, during=during, assignments=assignments
        )
        self.planner.accept(
            _make_request(key, during, amounts, 1),
            planner_mod.Plan(during=during, servers=(server,)),
        )

    def _lease(self, key: str) -> None:
        """Put one lease on a host where it fits; leave it out if on none."""
        size = self.rng.choice(SIZES)
        during = self.draw(self.rng.randint(1, 48) * HOUR)
        for name in self.rng.sample(self.names, 8):
            places = {(name, one): size[one] for one in size}
            if self.calendar.fits(places, during):
                self.book(key, name, during, size)
                return

    def _fill(self, leases: int) -> None:
        """Put leases on all hosts but the last, one after the other.

        Each leaves less than a server free, until all end on one day.
        """
        whole = (DAYS + 2) * DAY
        for name in self.names[:-1]:
            inner = self.rng.sample(range(1, whole), leases - 1)
            for start, end in itertools.pairwise([0, *sorted(inner), whole]):
                vcpus = self.rng.choice((52, 56, 64))
                during = interval.Interval(start, end)
                self.book(f'{name} {start}', name, during, {'VCPU': vcpus})


def _make_request(
    key: str, during: interval.Interval, amounts: dict[str, int], servers: int
) -> request_mod.Request:
    group = requirement.RequestGroup(suffix='', resources=amounts)
    return request_mod.Request(
        key=key,
        during=during,
        least=servers,
        demand=demand_mod.Demand(
            requirement=requirement.Requirement(groups=(group,))
        ),
    )


def _make_host(name: str) -> host_mod.Host:
    root = provider.Provider(
        rp_uuid=name,
        name=name,
        inventories={
            one: inventory.Inventory(total=total)
            for one, total in CAPACITY.items()
        },
    )
    return host_mod.make_host(name, [root], view.HostView())


def run() -> list[rows_mod.Row]:
    return [
        *itertools.chain.from_iterable(
            _measure(*shape, has_goals=not number)
            for number, shape in enumerate(SHAPES)
        ),
        _measure_memory(*SHAPES[0]),
        *reserving.run(),
        *reserving_ways.run(),
    ]


def _measure(
    hosts: int, leases: int, *, has_goals: bool
) -> Iterator[rows_mod.Row]:
    name = f'{hosts} hosts, {leases} leases'
    fleet = Leased(hosts, leases)
    first = timing.time_once(lambda: fleet.search(ASKED, fleet.draw()))
    yield _make_row(f'{name}: first search of a flavor', first * 1000, None)
    goal = MAX_SEARCH_US if has_goals else None
    yield _make_row(f'{name}: search', _time_searches(fleet), goal)
    yield _make_row(
        f'{name}: plan of one server', _time_answers(fleet, 1), None
    )
    full = Leased(hosts, leases, full=True)
    full.search(ASKED, full.draw())
    yield _make_row(
        f'{name}: search, one host is not full', _time_searches(full), goal
    )
    limit = MAX_REFUSAL_MS * 1000 if has_goals else None
    yield _make_row(
        f'{name}: refusal of {SERVERS} servers',
        _time_answers(full, SERVERS),
        limit,
    )


def _time_searches(fleet: Leased) -> float:
    """Return the median of searches that follow a change each, in us.

    CPU time, for others may share the machine.
    """
    times = []
    for number in range(SEARCHES):
        place = (fleet.rng.choice(fleet.names), 'VCPU')
        fleet.calendar.add(f'search {number}', fleet.draw(), {place: 1})
        during = fleet.draw()
        start = time.process_time()
        fleet.search(ASKED, during)
        times.append(time.process_time() - start)
    return statistics.median(times) * 1e6


def _time_answers(fleet: Leased, servers: int) -> float:
    """Return the median of plans, or of refusals, in us of CPU time."""
    times = []
    for _number in range(ANSWERS):
        during = fleet.draw()
        start = time.process_time()
        answer = fleet.plan(servers, during)
        times.append(time.process_time() - start)
        is_refused = isinstance(answer, planner_mod.Refusal)
        assert is_refused == (servers == SERVERS), answer.during
    return statistics.median(times) * 1e6


def _measure_memory(hosts: int, leases: int) -> rows_mod.Row:
    tracemalloc.start()
    fleet = Leased(hosts, leases)
    for vcpus in range(1, index_mod.MAX_ASKS + 1):
        fleet.search({**ASKED, 'VCPU': vcpus}, fleet.draw())
    _now, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return rows_mod.make_limit_row(
        f'{hosts} hosts, {leases} leases: memory : its limit',
        round(most / 1e6, 1),
        MAX_MEMORY_MB,
        'MB',
    )


def _make_row(what: str, us: float, limit: float | None) -> rows_mod.Row:
    if limit is not None:
        return rows_mod.make_limit_row(
            f'{what} : its limit', round(us, 1), limit, 'us'
        )
    return rows_mod.Row(
        what=what, ours=round(us, 1), peer=0, ratio=0, goal=None, unit='us'
    )
