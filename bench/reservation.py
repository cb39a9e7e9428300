# SPDX-License-Identifier: Apache-2.0

"""Capacity over time of a fleet that is booked for weeks, without a database.

The leases take 1 to 48 hours, start in 30 days, and never over-commit. The
search is for one server of three classes for 24 hours, at times drawn at
random. Beside the usual case there are the worst ones: nearly all hosts full,
and a flavor that was never seen before. The change that precedes each search
is made before its time is taken; to bring the index up to date is in it.
"""

from collections.abc import Iterator
import itertools
import random
import statistics
import time
import tracemalloc

from bench.harness import rows as rows_mod
from bench.harness import timing
from nova_ext_resources.reservation import calendar as calendar_mod
from nova_ext_resources.reservation import index as index_mod
from nova_ext_resources.reservation import interval

HOUR = 3600
DAY = 24 * HOUR
DAYS = 30

#: Units of each class that a host has; as in the measurements of Blazar.
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

MAX_SEARCH_US = 100.0
MAX_MEMORY_MB = 300.0


class Fleet:
    """Hosts with leases on them.

    :param full: whether all hosts but the last have less than a server free
    """

    def __init__(self, hosts: int, leases: int, *, full: bool = False) -> None:
        self.rng = random.Random(hosts * leases)
        self.calendar = calendar_mod.Calendar()
        self.names = [f'host{number:05}' for number in range(hosts)]
        for name, (resource_class, capacity) in itertools.product(
            self.names, CAPACITY.items()
        ):
            self.calendar.set_capacity((name, resource_class), capacity)
        for number in range(leases):
            self._book(str(number))
        if full:
            self._fill()
        self.index = index_mod.Index(
            self.calendar,
            {
                name: {one: [(name, one)] for one in CAPACITY}
                for name in self.names
            },
        )

    def draw(self, seconds: int = DAY) -> interval.Interval:
        start = self.rng.randrange(DAYS * DAY)
        return interval.Interval(start, start + seconds)

    def search(
        self, asked: dict[str, int], during: interval.Interval
    ) -> str | None:
        """Return the first host with room for one server."""
        for name in self.index.find(asked, during):
            places = {(name, one): asked[one] for one in asked}
            if self.calendar.fits(places, during):
                return name
        return None

    def _book(self, key: str) -> None:
        """Put one lease on a host where it fits; leave it out if on none."""
        size = self.rng.choice(SIZES)
        during = self.draw(self.rng.randint(1, 48) * HOUR)
        for name in self.rng.sample(self.names, 8):
            places = {(name, one): size[one] for one in size}
            if self.calendar.fits(places, during):
                self.calendar.add(key, during, places)
                return

    def _fill(self) -> None:
        """Leave less than a server free at any time, but on the last host."""
        ever, most = interval.Interval(0), ASKED['VCPU'] - 1
        for name in self.names[:-1]:
            place = name, 'VCPU'
            steps = list(self.calendar.list_steps(place, ever))
            for part, capacity, used in steps:
                if capacity - used > most:
                    self.calendar.add(
                        f'{name} {part.start}',
                        part,
                        {place: capacity - used - most},
                    )


def run() -> list[rows_mod.Row]:
    return [
        *itertools.chain.from_iterable(
            _measure(*shape, has_goals=not number)
            for number, shape in enumerate(SHAPES)
        ),
        _measure_memory(*SHAPES[0]),
    ]


def _measure(
    hosts: int, leases: int, *, has_goals: bool
) -> Iterator[rows_mod.Row]:
    name = f'{hosts} hosts, {leases} leases'
    fleet = Fleet(hosts, leases)
    first = timing.time_once(lambda: fleet.search(ASKED, fleet.draw()))
    yield _make_row(f'{name}: first search of a flavor', first * 1000, None)
    goal = MAX_SEARCH_US if has_goals else None
    yield _make_row(f'{name}: search', _time_searches(fleet), goal)
    full = Fleet(hosts, leases, full=True)
    full.search(ASKED, full.draw())
    yield _make_row(
        f'{name}: search, one host is not full', _time_searches(full), goal
    )


def _time_searches(fleet: Fleet) -> float:
    """Return the median of searches that follow a change each, in us.

    CPU time, for others may share the machine. What is searched for and where
    something changes is drawn before.
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


def _measure_memory(hosts: int, leases: int) -> rows_mod.Row:
    tracemalloc.start()
    fleet = Fleet(hosts, leases)
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
