# SPDX-License-Identifier: Apache-2.0

"""Measurements of servers, as immutable values. Pure."""

from collections.abc import Iterable, Mapping
import dataclasses

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.resctrl.kernel import counters as counters_mod
from nova_ext_resources.objects import assignment


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MonitoredServer:
    """A server that shall be monitored.

    :ivar cpus: host CPUs that it is pinned to; None when it floats or
        they are not known
    :ivar holds: whether it holds resources of this package
    :ivar is_shared: whether it has a place in the pool of shared ways
    """

    cpus: frozenset[int] | None = None
    holds: bool = False
    is_shared: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DomainSample:
    """One server in one cache, or in a part of it.

    :ivar counters: as read; they restart with every new group
    :ivar total_rate: bytes per second from and to memory; None without two
        readings to compare
    :ivar local_rate: the same, for memory of the same node only
    """

    domain: counters_mod.Domain
    counters: counters_mod.Counters
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
        """Return whole caches only, which include their parts."""
        return tuple(one for one in self.domains if one.domain.node is None)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RmidBudget:
    """Monitoring ids of the CPU: how many there are, and for what.

    :ivar used: by groups of any software; ids in limbo are not counted
    :ivar reserved: for classes of service that are free now
    :ivar limbo: released, and perhaps not usable yet
    """

    total: int
    used: int
    reserved: int = 0
    limbo: int = 0

    @property
    def left(self) -> int:
        """Return how many more may be taken; below 0: release some.

        Ids in limbo are no reason to release others, which would end up in
        limbo too.
        """
        free = self.total - self.used - self.reserved
        return max(free - self.limbo, 0) if free > 0 else free


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """All servers of a host at about one time.

    :ivar finished_at: on the monotonic clock, in seconds
    :ivar duration: seconds that it took
    :ivar servers: by uuid
    :ivar problems: server -> why it could not be monitored, or not fully
    :ivar problem: why nothing or not everything could be monitored; '' when
        all went well
    :ivar ids: None where nothing can be monitored
    """

    finished_at: float
    duration: float
    servers: Mapping[str, ServerSample] = dataclasses.field(
        default_factory=dict
    )
    problems: Mapping[str, str] = dataclasses.field(default_factory=dict)
    problem: str = ''
    ids: RmidBudget | None = None


def describe_servers(
    entries: Mapping[str, assignment.Entry], others: Iterable[str] = ()
) -> dict[str, MonitoredServer]:
    """Return the servers to monitor, by uuid.

    :param entries: the ledger's, by server
    :param others: uuids of all servers of this host, when those that hold
        nothing shall be monitored too
    """
    return {
        **{uuid: MonitoredServer() for uuid in others},
        **{
            uuid: MonitoredServer(
                cpus=entry.cpus,
                holds=True,
                is_shared=any(
                    one.resource_class == classes.SHARED
                    for one in entry.assignments
                ),
            )
            for uuid, entry in entries.items()
            # Of what a move keeps, the guest is elsewhere.
            if entry.state is not assignment.State.PARKED
            and uuid == entry.server_uuid
        },
    }
