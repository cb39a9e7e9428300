# SPDX-License-Identifier: Apache-2.0

"""Mixes of simulated servers, of several kinds.

Each kind is hard for tuning in its own way. All are drawn from a seed: the
same seed and kind make the same mix.
"""

from collections.abc import Mapping
import dataclasses
import math
import random

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.testing import workloads

#: What a phase may be, and how often it is.
_ALL = {'calm': 0.25, 'stream': 0.2, 'user': 0.55}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What the servers of a mix have in common.

    :ivar servers: fewest and most servers
    :ivar noise: relative error of each measurement
    :ivar changing: how likely a server has two phases, which alternate
    :ivar rounds: shortest and longest phase
    :ivar phases: kind of phase -> how often it is drawn
    :ivar shape: exponents of the shape of miss-rate curves; far below 0, the
        misses stay until the whole working set fits
    """

    servers: tuple[int, int] = (3, 6)
    noise: float = 0.03
    changing: float = 0.0
    rounds: tuple[int, int] = (40, 120)
    phases: Mapping[str, float] = dataclasses.field(
        default_factory=lambda: _ALL
    )
    shape: tuple[float, float] = (-0.4, 0.9)

    @property
    def is_at_rest(self) -> bool:
        """Whether tuning is to come to rest: nothing to follow, or no time."""
        return not self.changing or self.rounds[1] <= 20


STEADY = Kind()
CHANGING = Kind(changing=0.4)

KINDS: Mapping[str, Kind] = {
    'steady': STEADY,
    'changing': CHANGING,
    'noise of 15 %': Kind(noise=0.15),
    'noise of 40 %': Kind(noise=0.4),
    'cliffs': Kind(shape=(-4.0, -2.0)),
    'prefetch': Kind(phases={**_ALL, 'prefetched': 0.5}),
    'all streams': Kind(phases={'stream': 1.0}),
    'all cache users': Kind(phases={'user': 1.0}),
    'two servers': Kind(servers=(2, 2)),
    'phases of 2 to 6 rounds': Kind(changing=1.0, rounds=(2, 6)),
    'phases of 10 to 20 rounds': Kind(changing=1.0, rounds=(10, 20)),
}


def make_mix(seed: int, kind: Kind = CHANGING) -> workloads.Mix:
    """Draw a mix of a kind."""
    rng = random.Random(seed)  # noqa: S311
    count = rng.randint(*kind.servers)
    ways = rng.randint(max(8, 2 * count), 16)
    servers = tuple(
        _make_server(rng, f'server-{number}', ways, kind)
        for number in range(count)
    )
    least = rng.randint(1, 2)
    allocated = tuple(
        (least, ways if rng.random() < 0.5 else rng.randint(least + 2, ways))
        for _ in servers
    )
    limits = tuple(
        (10, rng.choice((40, 60, 100))) if rng.random() < 0.7 else (10, 20)
        for _ in servers
    )
    return workloads.Mix(
        servers=servers,
        allocated={classes.BURST: allocated, classes.PERCENT: limits},
        capacities={classes.BURST: ways, classes.PERCENT: 100},
    )


def _make_server(
    rng: random.Random, name: str, ways: int, kind: Kind
) -> workloads.Server:
    count = 2 if kind.changing and rng.random() < kind.changing else 1
    return workloads.Server(
        consumer_uuid=name,
        cpus=rng.choice((2, 4, 8)),
        phases=tuple(_make_phase(rng, ways, kind) for _ in range(count)),
        noise=kind.noise,
    )


#: Kind of phase -> seconds of waiting in a second of work if all looks miss.
_WAITING = {'calm': (0.02, 0.15), 'prefetched': (0.05, 0.4)}


def _make_phase(rng: random.Random, ways: int, kind: Kind) -> workloads.Phase:
    """Draw one of: busy with itself, a stream, a user of the cache.

    A prefetched stream moves much and hardly waits for it.
    """
    [what] = rng.choices(tuple(kind.phases), tuple(kind.phases.values()))
    wait = 80e-9 / rng.uniform(1.0, 4.0)
    if what == 'prefetched':
        wait /= 8
    heavy = rng.uniform(*_WAITING.get(what, (0.5, 4)))
    is_stream = what in ('stream', 'prefetched')
    return workloads.Phase(
        looks=heavy / wait,
        working_set=rng.uniform(1.0, 0.9 * ways),
        floor=1.0 if is_stream else rng.uniform(0.02, 0.15),
        shape=math.exp(rng.uniform(*kind.shape)),
        wait=wait,
        rounds=rng.randint(*kind.rounds),
    )
