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

"""What was seen of the servers: immutable values, given to anybody. Pure."""

from collections.abc import Iterable, Mapping
import dataclasses

from nova_ext_resources.objects import assignment
from nova_ext_resources import rdt
from nova_ext_resources.resctrl import monitoring


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that shall be monitored.

    :ivar cpus: host CPUs that it is pinned to; None when it floats or
        nobody knows
    :ivar holds: whether it holds resources of this package
    :ivar is_shared: whether it has a place in the pool of shared ways
    """

    cpus: frozenset[int] | None = None
    holds: bool = False
    is_shared: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DomainSample:
    """One server in one cache, or in a part of it.

    :ivar counters: as they are; they begin anew with every new group
    :ivar total_rate: bytes per second from and to memory; None while there
        are no two numbers to make it of
    :ivar local_rate: of these, from and to the memory of the same node
    """

    domain: monitoring.Domain
    counters: monitoring.Counters
    total_rate: float | None = None
    local_rate: float | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServerSample:
    """One server at one time.

    :ivar domains: caches, and after each one its parts, if it has any
    :ivar frequency: mean of its CPUs in Hz; None when it floats, or where
        it cannot be read
    """

    consumer_uuid: str
    domains: tuple[DomainSample, ...]
    frequency: float | None = None

    @property
    def caches(self) -> tuple[DomainSample, ...]:
        """Give whole caches only: their parts are counted in them."""
        return tuple(one for one in self.domains if one.domain.node is None)

    @property
    def occupancy(self) -> int | None:
        """Give the bytes that it holds in all caches."""
        found = [
            one.counters.occupancy
            for one in self.caches
            if one.counters.occupancy is not None
        ]
        return sum(found) if found else None

    @property
    def total_rate(self) -> float | None:
        return _sum_up(one.total_rate for one in self.caches)

    @property
    def local_rate(self) -> float | None:
        return _sum_up(one.local_rate for one in self.caches)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ids:
    """Monitoring ids of the CPU.

    :ivar used: by all groups of anybody; those in limbo are not counted
    """

    total: int
    used: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """All servers of a host at about one time.

    :ivar finished_at: on the monotonic clock, in seconds
    :ivar duration: seconds that it took
    :ivar servers: by uuid
    :ivar problems: server -> why it could not be monitored, or not fully
    :ivar problem: why nothing could be, or not everything; '' when all went
        well
    :ivar ids: None where nothing can be monitored
    """

    finished_at: float
    duration: float
    servers: Mapping[str, ServerSample] = dataclasses.field(
        default_factory=dict
    )
    problems: Mapping[str, str] = dataclasses.field(default_factory=dict)
    problem: str = ''
    ids: Ids | None = None


def describe_servers(
    entries: Mapping[str, assignment.Entry], others: Iterable[str] = ()
) -> dict[str, Server]:
    """Say who shall be monitored.

    :param entries: the ledger's, by server
    :param others: uuids of all servers of this host, when those that hold
        nothing shall be monitored too
    """
    return {
        **{uuid: Server() for uuid in others},
        **{
            uuid: Server(
                cpus=entry.cpus,
                holds=True,
                is_shared=any(
                    one.resource_class == rdt.SHARED
                    for one in entry.assignments
                ),
            )
            for uuid, entry in entries.items()
        },
    }


def _sum_up(rates: Iterable[float | None]) -> float | None:
    found = [rate for rate in rates if rate is not None]
    return sum(found) if found else None
