# SPDX-License-Identifier: Apache-2.0

"""What the simulated host and its rmd.toml look like."""

from collections.abc import Mapping
import dataclasses
import functools
from typing import Literal

from nova_ext_resources.testing.rmd_simulator import masks

#: RMD reads max_allowed_shared wrongly: it is 10 whatever the file says.
SHARED_QUOTA = 10

LINE_BYTES = 64
SETS = 28672

MBA_STEP = 10
#: Without a mode, RMD takes percentages all the same.
MBA_MAXIMA = {'percentage': 100, 'mbps': 4294967290, 'none': 100}

#: Names of the pools on the command line, in the order of their ways.
POOLS = ('os', 'guarantee', 'besteffort', 'shared')


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A host, its RMD configuration, and which of its faults to copy.

    :ivar pools: ways of ``os``, ``guarantee``, ``besteffort``, ``shared``,
        and of ``infra``, from the top
    :ivar policies: name -> (max, min) ways
    :ivar policy_plugins: name of a policy -> plugins that it names
    :ivar clos: classes of service; two of them are RMD's own
    :ivar policy_file: YAML changes what RMD makes of its integers
    :ivar plugins: loaded plugins; ``pstate`` is known here
    :ivar has_shrink: ``shrink = true``, which gives ways away twice
    :ivar has_cache_mixup: write masks to a random cache, as RMD does
    :ivar has_races: check for duplicates outside the lock, as RMD does
    :ivar mixup_odds: how often a mask comes to the right cache all the same;
        None: it is drawn for each pool when RMD starts, as with RMD
    :ivar seed: of the mix-up
    """

    sockets: int = 2
    cpus: int = 48
    ways: int = 11
    clos: int = 8
    pools: Mapping[str, int] = dataclasses.field(
        default_factory=lambda: {
            'os': 1,
            'guarantee': 6,
            'besteffort': 3,
            'shared': 1,
        }
    )
    policies: Mapping[str, tuple[int, int]] = dataclasses.field(
        default_factory=lambda: {
            'gold': (4, 4),
            'silver': (3, 1),
            'bronze': (0, 0),
        }
    )
    policy_plugins: Mapping[str, tuple[str, ...]] = dataclasses.field(
        default_factory=dict
    )
    os_cpus: str = '0'
    infra_cpus: str = ''
    mba_mode: Literal['percentage', 'mbps', 'none'] = 'percentage'
    policy_file: Literal['toml', 'yaml'] = 'toml'
    plugins: tuple[str, ...] = ()
    has_shrink: bool = False
    has_cache_mixup: bool = False
    has_races: bool = False
    mixup_odds: float | None = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        if self.sockets < 1 or self.cpus < 1 or self.cpus % self.sockets:
            raise ValueError(
                f'{self.cpus} CPUs cannot be spread over {self.sockets} '
                f'sockets'
            )
        if not 1 <= self.ways <= 32:
            raise ValueError(f'{self.ways} ways: 1 to 32 are possible')
        if self.clos < 3:
            raise ValueError(f'{self.clos} classes: RMD needs 3 or more')
        unknown = set(self.pools) - {*POOLS, 'infra'}
        if unknown:
            raise ValueError(f'pools {sorted(unknown)} do not exist')
        needed = sum(self.pools.get(pool, 0) for pool in POOLS)
        if needed > self.ways:
            raise ValueError(
                'Error config: Guarantee + Besteffort + Shared + OS reserved '
                f'ways should be less or equal to {self.ways}'
            )

    @property
    def caches(self) -> Mapping[int, frozenset[int]]:
        """CPUs of each last-level cache, by its id."""
        return _spread(self.cpus, self.sockets)

    @property
    def cores(self) -> int:
        """Cores, each with a level 2 cache of its own."""
        return self.cpus // _threads(self.cpus, self.sockets)

    @property
    def cpu_words(self) -> int:
        """RMD keeps CPUs in words of 32 bits."""
        return -(-self.cpus // 32)

    @property
    def mba_maximum(self) -> int:
        """What no limit reads as."""
        return MBA_MAXIMA[self.mba_mode]

    def layout(self, pool: str) -> dict[int, int] | None:
        """Return a pool's ways on each cache, None when it has none."""
        if pool == 'os':
            ways = masks.full(self.pools.get('os', 0))
            return {
                cache_id: ways if self._has_os(cpus) else 0
                for cache_id, cpus in self.caches.items()
            }
        if pool == 'infra':
            return self._infra_layout()
        size = self.pools.get(pool, 0)
        if pool not in POOLS or not size:
            return None
        below = POOLS[1 : POOLS.index(pool)]
        offset = sum(self.pools.get(name, 0) for name in below)
        # Caches without a CPU of the OS group keep no ways for it.
        return {
            cache_id: masks.full(size)
            << offset + (self.pools.get('os', 0) if self._has_os(cpus) else 0)
            for cache_id, cpus in self.caches.items()
        }

    def _has_os(self, cpus: frozenset[int]) -> bool:
        return bool(cpus & masks.parse_ranges(self.os_cpus))

    def _infra_layout(self) -> dict[int, int] | None:
        size = self.pools.get('infra', 0)
        infra = masks.parse_ranges(self.infra_cpus)
        if not size or not infra:
            return None
        # Also of caches where it has no CPUs.
        return dict.fromkeys(self.caches, masks.full(size) << self.ways - size)


def _threads(cpus: int, sockets: int) -> int:
    """Two hyper-threads per core, where the number of CPUs allows it."""
    return 1 if cpus % (2 * sockets) else 2


@functools.lru_cache(maxsize=32)
def _spread(cpus: int, sockets: int) -> dict[int, frozenset[int]]:
    """Number CPUs as Intel hosts do: all first threads, then the second."""
    threads = _threads(cpus, sockets)
    cores = cpus // threads
    per_socket = cores // sockets
    return {
        socket: frozenset(
            thread * cores + socket * per_socket + core
            for thread in range(threads)
            for core in range(per_socket)
        )
        for socket in range(sockets)
    }
