# SPDX-License-Identifier: Apache-2.0

"""What kind of machine and kernel the tree shows: plain data."""

from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses
import json
import os
from typing import Any, Self

from nova_ext_resources.testing.resctrl import capture

#: Features of the interface, and the kernel that brought them.
SPARSE_MASKS_FILE = TASK_LISTS = (6, 7)
MBPS_ANY_VALUE = (6, 12)
MBPS_EVENT_FILE = (6, 14)
#: mkdir in a folder that is no group: seen on 7.3, and not on 6.12.
ASKED_OF_PARENTS = (6, 13)
NO_PADDING = (6, 15)
ASSIGNED_COUNTERS = (6, 18)
THROTTLE_MODE_FILE = (5, 12)
MODE_FILE = (4, 19)

#: Mount options of resctrl.
OPTIONS = frozenset({'cdp', 'cdpl2', 'mba_MBps', 'debug'})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """The CPUs that share one instance of a cache.

    :ivar id: as in a line of schemata
    """

    id: int
    cpus: frozenset[int]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """A level of cache whose ways can be allocated.

    :ivar ways: length of the capacity bitmask
    :ivar num_closids: without CDP, which halves it
    :ivar shareable_bits: mask of the ways that hardware uses too
    :ivar io_ways: mask of the ways that I/O devices fill by the highest
        class of service (``io_alloc``); 0: it is disabled; None: the kernel
        has no such file
    :ivar size: of one instance, in bytes
    """

    level: int
    ways: int
    num_closids: int
    min_cbm_bits: int = 1
    shareable_bits: int = 0
    has_sparse_masks: bool = False
    is_cdp_capable: bool = False
    io_ways: int | None = None
    size: int
    domains: tuple[Domain, ...]

    @property
    def name(self) -> str:
        return f'L{self.level}'

    @property
    def mask(self) -> int:
        """Return the mask of all ways."""
        return (1 << self.ways) - 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """Memory bandwidth that can be limited.

    :ivar maximum: 100 for percent; AMD counts in eighths of a GB/s
    :ivar is_linear: false on AMD, where the values are absolute
    :ivar throttle_mode: ``max``, ``per-thread``, or None: no such file
    """

    name: str = 'MB'
    num_closids: int
    minimum: int = 10
    granularity: int = 10
    maximum: int = 100
    is_linear: bool = True
    throttle_mode: str | None = None
    domains: tuple[Domain, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MonitorDomain:
    """What is monitored on its own.

    :ivar id: of the L3 cache, or of the node where sub-NUMA clusters are on
    :ivar cache_id: the L3 cache it is in
    """

    id: int
    cache_id: int
    cpus: frozenset[int]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Monitoring:
    """What can be counted.

    :ivar num_rmids: with the one of the default group
    :ivar features: the lines of ``info/L3_MON/mon_features``
    :ivar scale: bytes of one step of a counter
    """

    num_rmids: int
    features: Sequence[str]
    scale: int = 65536
    domains: tuple[MonitorDomain, ...]

    @property
    def events(self) -> tuple[str, ...]:
        return tuple(n for n in self.features if not n.endswith('_config'))

    @property
    def has_clusters(self) -> bool:
        """Return whether sub-NUMA clusters are on."""
        caches = [domain.cache_id for domain in self.domains]
        return len(caches) != len(set(caches))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A group that is there from the start.

    :ivar name: '' for the default group
    :ivar cpus: a list like ``0-3``
    """

    name: str
    schemata: str = ''
    cpus: str = ''
    mode: str = 'shareable'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A machine.

    :ivar kernel: its version, for what changed in the interface
    :ivar num_cpus: bits in a mask of CPUs
    :ivar threads: of each core
    :ivar nodes: the CPUs of each NUMA node
    :ivar packages: the CPUs of each socket
    :ivar options: it is mounted with
    :ivar groups: left by others
    """

    name: str
    kernel: tuple[int, int] = (6, 8)
    num_cpus: int
    threads: int = 1
    caches: tuple[Cache, ...] = ()
    bandwidths: tuple[Bandwidth, ...] = ()
    monitoring: Monitoring | None = None
    nodes: tuple[frozenset[int], ...] = ()
    packages: tuple[frozenset[int], ...] = ()
    options: frozenset[str] = frozenset()
    can_pseudo_lock: bool = False
    groups: tuple[Found, ...] = ()

    def with_options(self, *options: str) -> Self:
        """Mount it with these options."""
        return dataclasses.replace(self, options=frozenset(options))

    @classmethod
    def from_tree(cls, folder: str | os.PathLike[str]) -> Self:
        """Read the captured tree of a real machine.

        :param folder: a copy of ``/sys/fs/resctrl``, or one that has it
            as ``resctrl`` or ``sys/fs/resctrl``. Next to it may be
            ``sys/devices/system/cpu``, which tells the CPUs of a domain;
            they are dealt out evenly otherwise.
        :raises ValueError: it is no such tree
        """
        return cls.from_dict(capture.read(os.fspath(folder)))

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can carry, for :meth:`from_dict`."""
        plain: dict[str, Any] = json.loads(
            json.dumps(dataclasses.asdict(self), default=sorted)
        )
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        values = dict(plain)
        values['kernel'] = tuple(plain['kernel'])
        values['options'] = frozenset(plain['options'])
        for name in ('nodes', 'packages'):
            values[name] = tuple(map(frozenset, plain[name]))
        values['caches'] = _make_all(Cache, plain['caches'], Domain)
        values['bandwidths'] = _make_all(
            Bandwidth, plain['bandwidths'], Domain
        )
        if plain['monitoring']:
            (values['monitoring'],) = _make_all(
                Monitoring, [plain['monitoring']], MonitorDomain
            )
        values['groups'] = tuple(Found(**one) for one in plain['groups'])
        return cls(**values)


def _make_all(
    kind: Callable[..., Any],
    found: Iterable[Mapping[str, Any]],
    domain: Callable[..., Any],
) -> tuple[Any, ...]:
    """Make values that have domains."""
    made = []
    for one in found:
        domains = tuple(
            domain(**{**each, 'cpus': frozenset(each['cpus'])})
            for each in one['domains']
        )
        made.append(kind(**{**one, 'domains': domains}))
    return tuple(made)
