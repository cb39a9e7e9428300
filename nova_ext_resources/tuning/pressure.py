# SPDX-License-Identifier: Apache-2.0

"""How much a server needs more units, estimated from what is measured.

The hardware measures what a server has in the cache and what it moves to and
from memory, not how fast it is (kernel documentation, "User Interface for
Resource Control feature", Documentation/filesystems/resctrl.rst: monitoring
has llc_occupancy, mbm_total_bytes and mbm_local_bytes, and no more). So this
is an estimate: good to compare servers, not to promise anything. What is
decided by it is tried, and undone where it did harm.

All of this is pure.
"""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import math
from typing import TypeAlias

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.objects import tunable_units

#: (provider's key, resource class)
PoolKey: TypeAlias = tuple[str, str]

#: Bytes per second to and from memory at which one CPU spends about half of
#: its time waiting: a line of 64 bytes each 80 ns, one or two under way.
HALF_TRAFFIC = 0.8e9

#: CPUs of a server, where the number is not known.
DEFAULT_CPUS = 4

#: Part of its ways that a server fills if it uses all of them. Lines are not
#: spread evenly over the sets of a cache.
FULL = 0.9

#: Part of its limit up to which a server's traffic is not held back: what is
#: measured is the average of many seconds, in which there are bursts.
UNHINDERED = 0.6

#: Bytes that the kernel takes for one "MB" (resctrl counts mbm bytes >> 20).
MEGABYTE = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PressureReading:
    """What was measured of one server in one domain.

    :ivar llc_bytes: bytes that it has in the cache; None: not known
    :ivar memory_bytes: bytes per second to and from all memory; None: not
        known
    :ivar taken_at: when, in seconds of the clock of the tuner
    :ivar cpus: how many CPUs it can use at once; None: not known
    """

    consumer_uuid: str
    rp_key: str
    llc_bytes: float | None = None
    memory_bytes: float | None = None
    taken_at: float = 0.0
    cpus: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CacheDomain:
    """One last-level cache with the memory behind it.

    :ivar capacities: resource class -> units that servers may have together;
        of a class that is missing, units only go from one to another
    :ivar steps: resource class -> the units in which the hardware counts;
        missing: single ones
    :ivar way_bytes: size of one way; None: not known
    :ivar bandwidth_bytes: bytes per second that 100 percent are; None: not
        known
    """

    capacities: Mapping[str, int] = dataclasses.field(default_factory=dict)
    steps: Mapping[str, int] = dataclasses.field(default_factory=dict)
    way_bytes: float | None = None
    bandwidth_bytes: float | None = None

    def find_unit_bytes(self, resource_class: str) -> float | None:
        """Return the bytes per second of one unit of bandwidth."""
        if resource_class == classes.MBPS:
            return MEGABYTE
        return self.bandwidth_bytes and self.bandwidth_bytes / 100


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """How much one server needs more of one resource.

    :ivar value: 0 (not at all) to 1; only to be compared
    :ivar unused: units that it has and does not use, as far as is known
    :ivar waiting: part of its time that it waits for memory, whether or not
        it uses all of its units; None: ``value``
    """

    consumer_uuid: str
    rp_key: str
    resource_class: str
    value: float
    unused: float = 0.0
    waiting: float | None = None


def list_pressures(
    tunables: Iterable[tunable_units.Tunable],
    readings: Iterable[PressureReading],
    domains: Mapping[str, CacheDomain],
) -> tuple[Pressure, ...]:
    """Return the pressures; a server without data has none.

    A server at its limit of bandwidth wants ways too: what is in the cache
    need not be fetched.
    """
    tunables = tuple(tunables)
    found = {(one.consumer_uuid, one.rp_key): one for one in readings}
    throttled: dict[tuple[str, str], float] = {}
    pressures = []
    for one in sorted(tunables, key=_is_cache):
        place = one.consumer_uuid, one.rp_key
        reading = found.get(place)
        domain = domains.get(one.rp_key)
        if reading is None or domain is None or one.amount < 1:
            continue
        if _is_cache(one):
            held_back = throttled.get(place, 0.0)
            pressure = _press_on_ways(one, reading, domain, held_back)
        else:
            pressure = _press_on_bandwidth(one, reading, domain)
            throttled[place] = pressure.value if pressure else 0.0
        if pressure is not None:
            pressures.append(pressure)
    return tuple(pressures)


def _is_cache(one: tunable_units.Tunable) -> bool:
    return one.resource_class not in classes.BANDWIDTHS


def _press_on_ways(
    one: tunable_units.Tunable,
    reading: PressureReading,
    domain: CacheDomain,
    throttled: float,
) -> Pressure | None:
    """Full ways and much traffic: it would fetch less with more ways."""
    held = one.amount * (domain.way_bytes or 0)
    if not (held and _is_known(reading.llc_bytes, reading.memory_bytes)):
        return None
    assert reading.llc_bytes is not None
    assert reading.memory_bytes is not None
    half = HALF_TRAFFIC * max(reading.cpus or DEFAULT_CPUS, 1)
    waiting = reading.memory_bytes / (reading.memory_bytes + half)
    used = reading.llc_bytes / held / FULL
    return Pressure(
        consumer_uuid=one.consumer_uuid,
        rp_key=one.rp_key,
        resource_class=one.resource_class,
        value=min(used, 1.0) * max(waiting, throttled),
        waiting=waiting,
        unused=max(one.amount * (1 - used), 0.0),
    )


def _press_on_bandwidth(
    one: tunable_units.Tunable, reading: PressureReading, domain: CacheDomain
) -> Pressure | None:
    """Traffic close to the limit: it would fetch faster with more."""
    unit = domain.find_unit_bytes(one.resource_class)
    if not unit or not _is_known(reading.memory_bytes):
        return None
    assert reading.memory_bytes is not None
    part = reading.memory_bytes / (one.amount * unit)
    return Pressure(
        consumer_uuid=one.consumer_uuid,
        rp_key=one.rp_key,
        resource_class=one.resource_class,
        value=min(max((part - UNHINDERED) / (1 - UNHINDERED), 0.0), 1.0),
        unused=max(one.amount * (1 - part / (UNHINDERED + 0.1)), 0.0),
    )


def _is_known(*values: float | None) -> bool:
    """Whether all were measured and are possible."""
    return all(
        value is not None and math.isfinite(value) and value >= 0
        for value in values
    )


def group_by_pool(
    tunables: Sequence[tunable_units.Tunable],
) -> Mapping[PoolKey, tuple[tunable_units.Tunable, ...]]:
    """Return the tunables of each pool, in order."""
    grouped: dict[PoolKey, list[tunable_units.Tunable]] = {}
    for one in tunables:
        grouped.setdefault((one.rp_key, one.resource_class), []).append(one)
    return {key: tuple(some) for key, some in grouped.items()}
