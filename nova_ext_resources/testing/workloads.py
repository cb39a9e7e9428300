# SPDX-License-Identifier: Apache-2.0

"""Simulated servers, and how fast they are.

A server works, looks into its cache and waits for memory. How much it waits
follows from the ways that it has (a miss-rate curve: what is left of its
working set does not fit) and from the bandwidth that it may use. Its
slowdown is the time for its work against the time with its maximum, alone.

It is a model: it says which of two policies is better, not how fast a real
server is. All is seeded: the same seed is the same day.
"""

from collections.abc import Iterator, Mapping, Sequence
import dataclasses
import math
import random

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.rdt import fair_share
from nova_ext_resources.objects import tunable_units
from nova_ext_resources.testing import fake_clock
from nova_ext_resources.tuning import audit
from nova_ext_resources.tuning import loop
from nova_ext_resources.tuning import pressure
from nova_ext_resources.tuning import steps

#: Bytes of a cache line.
LINE = 64

#: Size of one way: 20 ways are 40 MB.
WAY_BYTES = 2.0 * (1 << 20)

#: Bytes per second of one domain.
BANDWIDTH = 60e9


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """What a server does for a while.

    :ivar looks: looks into the last-level cache for each second of work
    :ivar working_set: ways that hold all that it uses again
    :ivar floor: part of its looks that miss in any case; 1 is a stream
    :ivar shape: how fast misses fall with ways; 1 is a straight line
    :ivar wait: seconds for a miss, after what overlaps
    :ivar rounds: how many rounds it lasts
    """

    looks: float
    working_set: float
    floor: float
    shape: float
    wait: float
    rounds: int

    def miss_rate(self, ways: float) -> float:
        missing = max(1 - ways / self.working_set, 0.0)
        return self.floor + (1 - self.floor) * math.pow(missing, self.shape)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One server: its phases come again and again.

    :ivar noise: relative error of what is measured
    """

    consumer_uuid: str
    cpus: int
    phases: tuple[Phase, ...]
    noise: float = 0.03

    def find_phase(self, round_: int) -> Phase:
        left = round_ % sum(phase.rounds for phase in self.phases)
        for phase in self.phases:
            if left < phase.rounds:
                break
            left -= phase.rounds
        return phase

    def find_time(
        self, round_: int, ways: float, limit: float
    ) -> tuple[float, float]:
        """Return (seconds for one second of work, bytes per second).

        :param limit: bytes per second that it may use
        """
        phase = self.find_phase(round_)
        misses = phase.looks * phase.miss_rate(ways)
        seconds = 1 + misses * phase.wait
        fetched = misses * LINE * self.cpus
        seconds = max(seconds, fetched / limit)
        return seconds, fetched / seconds

    def find_occupancy(self, round_: int, ways: float) -> float:
        """Return the bytes that it has in the cache."""
        phase = self.find_phase(round_)
        wanted = ways if phase.floor > 0.9 else phase.working_set
        return min(ways, wanted) * WAY_BYTES


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """Servers of one domain and what was allocated to them.

    :ivar allocated: resource class -> (minimum, maximum) of each server
    :ivar capacities: resource class -> units of all together
    """

    servers: tuple[Server, ...]
    allocated: Mapping[str, tuple[tuple[int, int], ...]]
    capacities: Mapping[str, int]
    rp_key: str = 'L3_0'

    @property
    def domain(self) -> pressure.CacheDomain:
        return pressure.CacheDomain(
            capacities=self.capacities,
            steps={classes.PERCENT: 10},
            way_bytes=WAY_BYTES,
            bandwidth_bytes=BANDWIDTH,
        )

    def list_tunables(
        self, amounts: Mapping[str, Sequence[int]]
    ) -> tuple[tunable_units.Tunable, ...]:
        """Make the tunables of all, with these amounts."""
        return tuple(
            tunable_units.Tunable(
                consumer_uuid=server.consumer_uuid,
                rp_key=self.rp_key,
                resource_class=resource_class,
                minimum=allocated[0],
                maximum=allocated[1],
                amount=amount,
            )
            for resource_class, all_allocated in self.allocated.items()
            for server, allocated, amount in zip(
                self.servers,
                all_allocated,
                amounts[resource_class],
                strict=True,
            )
        )


class Machine:
    """A domain on which a mix runs, round by round.

    :param tunables: what the servers have at first
    :param seconds: length of a round
    """

    def __init__(
        self,
        mix: Mix,
        tunables: Sequence[tunable_units.Tunable],
        *,
        seed: int = 0,
        seconds: float = 10.0,
    ) -> None:
        self.mix = mix
        self.round = 0
        self.seconds = seconds
        self._random = random.Random(seed)  # noqa: S311
        self._tunables = {
            (s.consumer_uuid, s.resource_class): s for s in tunables
        }
        self._total = {one.consumer_uuid: 0.0 for one in mix.servers}
        self._alone = dict(self._total)

    @property
    def now(self) -> float:
        return self.round * self.seconds

    def list_tunables(self) -> tuple[tunable_units.Tunable, ...]:
        return tuple(self._tunables.values())

    def set_tunables(self, tunables: Sequence[tunable_units.Tunable]) -> None:
        """Apply them, as an enforcer does.

        :raises ValueError: that is outside of the allocated limits
        """
        for one in tunables:
            if not one.minimum <= one.amount <= one.maximum:
                raise ValueError(f'{one} is not within what was allocated')
        found = {one.resource_class for one in tunables}
        for resource_class in found:
            total = sum(one.amount for one in tunables)
            if total > self.mix.capacities[resource_class]:
                raise ValueError(f'{total} of {resource_class} are too many')
        for one in tunables:
            self._tunables[one.consumer_uuid, one.resource_class] = one

    def list_domains(self) -> Mapping[str, pressure.CacheDomain]:
        return {self.mix.rp_key: self.mix.domain}

    def list_readings(self) -> tuple[pressure.PressureReading, ...]:
        """Measure all servers in this round."""
        return tuple(
            pressure.PressureReading(
                consumer_uuid=one.consumer_uuid,
                rp_key=self.mix.rp_key,
                llc_bytes=self._blur(
                    one, one.find_occupancy(self.round, ways)
                ),
                memory_bytes=self._blur(
                    one, one.find_time(self.round, ways, limit)[1]
                ),
                taken_at=self.now,
                cpus=one.cpus,
            )
            for one, ways, limit in self._list_shares()
        )

    def _blur(self, server: Server, value: float) -> float:
        return max(value * self._random.gauss(1, server.noise), 0.0)

    def _list_shares(self) -> Iterator[tuple[Server, float, float]]:
        for one in self.mix.servers:
            ways = self._tunables[one.consumer_uuid, classes.BURST].amount
            yield one, ways, self._find_limit(one, 'amount')

    def _find_limit(self, server: Server, what: str) -> float:
        one = self._tunables.get((server.consumer_uuid, classes.PERCENT))
        if one is None:
            return BANDWIDTH
        return float(getattr(one, what)) * BANDWIDTH / 100

    def run_round(self) -> None:
        """Let all servers work for a round."""
        for one, ways, limit in self._list_shares():
            seconds, _bytes = one.find_time(self.round, ways, limit)
            most = self._tunables[one.consumer_uuid, classes.BURST].maximum
            alone, _bytes = one.find_time(
                self.round, most, self._find_limit(one, 'maximum')
            )
            self._total[one.consumer_uuid] += seconds
            self._alone[one.consumer_uuid] += alone
        self.round += 1

    @property
    def slowdowns(self) -> Mapping[str, float]:
        """Server -> its time against its time with its maximum."""
        return {
            uuid: total / self._alone[uuid]
            for uuid, total in self._total.items()
        }


def divide_evenly(mix: Mix) -> tuple[tunable_units.Tunable, ...]:
    """Return what the servers have without tuning."""
    return mix.list_tunables(
        {
            name: fair_share.divide(
                mix.capacities[name], allocated, mix.domain.steps.get(name, 1)
            )
            for name, allocated in mix.allocated.items()
        }
    )


def play(
    machine: Machine, rounds: int, tuner: loop.Tuner | None = None
) -> list[steps.UnitMove]:
    """Play so many rounds; return the steps that were made."""
    made: list[steps.UnitMove] = []
    for _round in range(rounds):
        if tuner is not None:
            made.extend(tuner.run_once(machine.list_readings()))
        machine.run_round()
    return made


def make_tuner(
    machine: Machine, audit_path: str, settings: loop.Settings | None = None
) -> loop.Tuner:
    """Make a tuner that lives in the time of this machine."""
    return loop.Tuner(
        machine,
        settings=settings or loop.Settings(),
        audit=audit.AuditTrail(audit_path, host='simulated'),
        host='simulated',
        clock=fake_clock.FakeClock(lambda: machine.now),
    )
