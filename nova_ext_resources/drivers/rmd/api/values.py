# SPDX-License-Identifier: Apache-2.0

"""What RMD reports, as immutable values.

Way masks are integers: bit n stands for cache way n.
"""

from collections.abc import Mapping
import dataclasses
from typing import Any, Literal, TypeAlias

#: RMD's MBA mode is one of these; the API does not report which.
MbaUnit: TypeAlias = Literal['percentage', 'mbps']

#: Names of the pools that a cache page reports as free ways. RMD's own
#: configuration spells the first one ``guarantee``.
GUARANTEED = 'guaranteed'
BESTEFFORT = 'besteffort'
SHARED = 'shared'
OS = 'os'
INFRA = 'infra'

#: Id in RMD of the one workload of all servers of the shared pool.
SHARED_ID = 'nova-ext-resources-shared'

#: The pools from which workloads get their ways.
WORKLOAD_POOLS = (GUARANTEED, BESTEFFORT, SHARED)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RmdCache:
    """One last-level cache.

    :ivar cache_id: RMD's and the kernel's id of the cache
    :ivar ways: how many ways it has
    :ivar cpus: CPUs that share it
    :ivar free: pool -> mask of the ways that no control group uses now; a
        pool that is not configured is absent. ``shared`` is empty as soon
        as one shared workload exists, though more would fit.
    :ivar idle_cpus: CPUs that the kernel has in the default control group;
        without those that rmd.toml keeps for the operating system
    """

    cache_id: int
    ways: int
    cpus: frozenset[int]
    free: Mapping[str, int]
    idle_cpus: frozenset[int] = frozenset()

    @property
    def free_mask(self) -> int:
        """Free ways of all pools for workloads together."""
        mask = 0
        for pool in WORKLOAD_POOLS:
            mask |= self.free.get(pool, 0)
        return mask

    @property
    def has_infra_group(self) -> bool:
        """Whether RMD's [InfraGroup] makes all ways read as taken."""
        return INFRA in self.free


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MbaSupport:
    """How finely the host limits memory bandwidth; not in which unit.

    :ivar step: granularity in percent, 0 where percent are not used
    :ivar minimum: smallest percentage, 0 where percent are not used
    """

    step: int
    minimum: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MbaLimit:
    """A limit of memory bandwidth, in the unit that RMD is set to."""

    unit: MbaUnit
    value: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RmdPolicy:
    """One policy of RMD's policy file, for this CPU family.

    :ivar plugins: plugin -> setting -> value
    :ivar mba: memory bandwidth; RMD shows it and never enforces it
    """

    name: str
    max_ways: int
    min_ways: int
    plugins: Mapping[str, Mapping[str, Any]]
    mba: MbaLimit | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RmdWorkload:
    """A workload as RMD has it on record, not as it is applied.

    :ivar workload_id: its key in RMD; ours equal their ``uuid``
    :ivar uuid: the server, '' if the creator sent none
    :ivar core_ids: single cores; empty if other software wrote ranges
    :ivar cos_name: its class of service, '' if it has none
    :ivar plugins: RMD turns 3.0 into 3 here: do not send it back
    """

    workload_id: str
    uuid: str
    core_ids: frozenset[int]
    max_ways: int | None
    min_ways: int | None
    mba: MbaLimit | None
    cos_name: str
    plugins: Mapping[str, Mapping[str, Any]]

    @property
    def is_shared(self) -> bool:
        """Whether it gets the ways of the shared pool."""
        return self.max_ways == self.min_ways == 0
