# SPDX-License-Identifier: Apache-2.0

"""Readings of the tuner, from samples of monitoring. Pure."""

from collections.abc import Iterator, Mapping

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.monitoring import sample
from nova_ext_resources.tuning import pressure


def list_readings(
    sweep: sample.Sweep, cpus: Mapping[str, int] | None = None
) -> tuple[pressure.Reading, ...]:
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
) -> Iterator[pressure.Reading]:
    for one in server.caches:
        yield pressure.Reading(
            consumer_uuid=server.consumer_uuid,
            rp_key=f'{classes.L3_PREFIX}{one.domain.cache}',
            llc_bytes=one.counters.occupancy,
            memory_bytes=one.total_rate,
            taken_at=taken_at,
            cpus=cpus.get(server.consumer_uuid),
        )
