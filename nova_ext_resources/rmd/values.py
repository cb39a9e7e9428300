# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""What RMD reports, as immutable values.

Way masks are integers: bit n stands for cache way n.
"""

from collections.abc import Mapping
import dataclasses
from typing import Any, Literal, TypeAlias

#: RMD's MBA mode is one of these; the API does not tell which.
MbaUnit: TypeAlias = Literal['percentage', 'mbps']

#: Names of the pools that a cache page reports as free ways. RMD's own
#: configuration spells the first one ``guarantee``.
GUARANTEED = 'guaranteed'
BESTEFFORT = 'besteffort'
SHARED = 'shared'
OS = 'os'
INFRA = 'infra'

#: Key in RMD of the workload of all servers that share the shared pool.
SHARED_ID = 'nova-ext-resources-shared'

#: The pools from which workloads get their ways.
WORKLOAD_POOLS = (GUARANTEED, BESTEFFORT, SHARED)


def pool_of(max_ways: int, min_ways: int) -> str:
    """Name the pool that serves such a request (RMD decides by these two).

    :raises ValueError: RMD serves no such request
    """
    if max_ways == min_ways == 0:
        return SHARED
    if max_ways >= min_ways > 0:
        return GUARANTEED if max_ways == min_ways else BESTEFFORT
    raise ValueError(f'max {max_ways}, min {min_ways}')


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """One last-level cache.

    :ivar cache_id: RMD's and the kernel's id of the cache
    :ivar ways: how many ways it has
    :ivar way_bytes: size of one way in bytes
    :ivar cpus: CPUs that share it
    :ivar free: pool -> mask of the ways that no control group uses now; a
        pool that is not configured is absent. ``shared`` is empty as soon
        as one shared workload exists, though more would fit.
    :ivar policies: policy -> how many workloads of it RMD thinks fit; blind
        to classes of service and CPUs
    """

    cache_id: int
    ways: int
    way_bytes: int
    cpus: frozenset[int]
    free: Mapping[str, int]
    policies: Mapping[str, int]

    @property
    def free_mask(self) -> int:
        """Free ways of all pools for workloads together."""
        mask = 0
        for pool in WORKLOAD_POOLS:
            mask |= self.free.get(pool, 0)
        return mask

    @property
    def has_infra_group(self) -> bool:
        """Whether RMD's [InfraGroup] makes the free ways read as none."""
        return INFRA in self.free


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One policy of RMD's policy file, for this CPU family.

    :ivar plugins: what it holds besides cache ways
    :ivar mba: memory bandwidth; RMD shows it and never enforces it
    """

    name: str
    max_ways: int
    min_ways: int
    plugins: Mapping[str, Mapping[str, Any]]
    mba: 'MbaLimit | None' = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mba:
    """What the host can do about memory bandwidth; not in which unit.

    :ivar step: granularity in percent, 0 when MBA is off
    :ivar minimum: smallest percentage, 0 when MBA is off
    """

    is_supported: bool
    is_enabled: bool
    step: int
    minimum: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MbaLimit:
    """A limit of memory bandwidth, in the unit that RMD is set to."""

    unit: MbaUnit
    value: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A workload as RMD has it on record (not as it is in force).

    :ivar workload_id: its key in RMD; ours equal their ``uuid``
    :ivar uuid: the server, '' when RMD was not told
    :ivar core_ids: single cores; empty when somebody wrote ranges
    :ivar cos_name: its class of service, '' when it has none
    :ivar origin: 'REST', or 'OPENSTACK' for RMD's own Nova listener
    :ivar plugins: RMD turns 3.0 into 3 here: do not send it back
    """

    workload_id: str
    uuid: str
    core_ids: frozenset[int]
    task_ids: tuple[str, ...]
    max_ways: int | None
    min_ways: int | None
    mba: MbaLimit | None
    policy: str
    cos_name: str
    status: str
    origin: str
    plugins: Mapping[str, Mapping[str, Any]]
