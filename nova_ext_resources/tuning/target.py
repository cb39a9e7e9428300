# SPDX-License-Identifier: Apache-2.0

"""What the tuner reads and changes of a host.

Its readings come from samples of monitoring.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.monitoring import sample
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import tunable_units
from nova_ext_resources.tuning import pressure

#: What may be moved.
_TUNABLE = frozenset({classes.BURST, *classes.BANDWIDTHS})


class EnforcementPort(Protocol):
    """The part of a host that changes what servers have."""

    def list_tunables(self) -> Sequence[tunable_units.Tunable]:
        """Return what may be moved."""

    def set_tunables(self, tunables: Sequence[tunable_units.Tunable]) -> None:
        """Apply all tunables of one pool."""


class HostPort(Protocol):
    """The host whose servers are tuned."""

    @property
    def view(self) -> host_view.HostView:
        """Resources and their allocations."""

    @property
    def enforcement(self) -> EnforcementPort:
        """Its enforcers."""


class TunedHost:
    """A host as the tuner sees it.

    :param sizes: cache id -> bytes
    :param bandwidth: MB per second of the memory of each cache; 0: not known
    """

    def __init__(
        self, host: HostPort, *, sizes: Mapping[int, int], bandwidth: int
    ) -> None:
        self._host = host
        self._sizes = sizes
        self._bandwidth = bandwidth

    def list_tunables(self) -> Sequence[tunable_units.Tunable]:
        """Return what may be moved, as it is applied now."""
        return self._host.enforcement.list_tunables()

    def set_tunables(self, tunables: Sequence[tunable_units.Tunable]) -> None:
        """Apply all tunables of one pool."""
        self._host.enforcement.set_tunables(tunables)

    def list_domains(self) -> Mapping[str, pressure.CacheDomain]:
        """Return the caches by the keys of their providers."""
        return make_domains(
            self._host.view, sizes=self._sizes, bandwidth=self._bandwidth
        )


def make_domains(
    view: host_view.HostView, *, sizes: Mapping[int, int], bandwidth: int
) -> dict[str, pressure.CacheDomain]:
    """Return the caches of a host by the keys of their providers. Pure.

    :param sizes: see :class:`TunedHost`
    :param bandwidth: see :class:`TunedHost`
    """
    keys = {
        rp_uuid: key
        for rp_uuid, key in view.keys.items()
        if key.startswith(classes.L3_PREFIX)
    }
    return {
        key: pressure.CacheDomain(
            capacities={
                name: one.capacity
                for name, one in _list_inventories(view, rp_uuid)
            },
            steps={
                name: one.step_size
                for name, one in _list_inventories(view, rp_uuid)
            },
            way_bytes=_find_way(view, rp_uuid, sizes.get(_number(key))),
            bandwidth_bytes=bandwidth * pressure.MEGABYTE or None,
        )
        for rp_uuid, key in keys.items()
    }


def _number(key: str) -> int:
    return int(key.removeprefix(classes.L3_PREFIX))


def _list_inventories(
    view: host_view.HostView, rp_uuid: str
) -> Iterable[tuple[str, class_inventory.Inventory]]:
    for name in _TUNABLE:
        tracked = view.tracked.get((rp_uuid, name))
        if tracked is not None and tracked.inventory is not None:
            yield name, tracked.inventory


def _find_way(
    view: host_view.HostView, rp_uuid: str, size: int | None
) -> float | None:
    """Return the size of a way; None: not known."""
    tracked = view.tracked.get((rp_uuid, classes.WAYS))
    if size is None or tracked is None or tracked.inventory is None:
        return None
    return size / tracked.inventory.total


def list_readings(
    sweep: sample.Sweep, cpus: Mapping[str, int] | None = None
) -> tuple[pressure.PressureReading, ...]:
    """Return one for each server and cache; unknown values stay unknown.

    :param cpus: server -> number of its CPUs, where that is known
    """
    return tuple(
        reading
        for server in sweep.servers.values()
        for reading in _read(server, sweep.finished_at, cpus or {})
    )


def _read(
    server: sample.ServerSample, taken_at: float, cpus: Mapping[str, int]
) -> Iterator[pressure.PressureReading]:
    for one in server.caches:
        yield pressure.PressureReading(
            consumer_uuid=server.consumer_uuid,
            rp_key=f'{classes.L3_PREFIX}{one.domain.cache}',
            llc_bytes=one.counters.occupancy,
            memory_bytes=one.total_rate,
            taken_at=taken_at,
            cpus=cpus.get(server.consumer_uuid),
        )
