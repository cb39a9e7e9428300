# SPDX-License-Identifier: Apache-2.0

"""What there is to show: hosts in every state, made by hand."""

import datetime
from typing import Any

from nova_ext_resources.drivers.resctrl.kernel import counters as counters_mod
from nova_ext_resources.facts import server
from nova_ext_resources.monitoring.exporter import series
from nova_ext_resources.monitoring import sample
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_health
from nova_ext_resources.objects import host_view
from tests.unit import builders

AT = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


def make_health(
    *raised: str,
    status: host_health.HealthStatus = host_health.HealthStatus.OK,
) -> host_health.HostHealth:
    """Make the health of a host with these alarms, each for one subject."""
    return host_health.HostHealth(
        host='host1',
        at=AT,
        status=status,
        parts=(
            host_health.PartHealth(
                part=host_health.Part.ENFORCER,
                name='rmd',
                last_success_at=AT,
                failing_since=AT,
                failure='RMD is gone',
                alarm=alarm.ENFORCER_FAILED,
            ),
            host_health.PartHealth(
                part=host_health.Part.LEDGER, last_success_at=AT
            ),
            host_health.PartHealth(part=host_health.Part.PUBLISHER),
        ),
        alarms=tuple(
            alarm.Alarm(name=name, subject=f'{n}', text='It is.', since=AT)
            for n, name in enumerate(raised)
        ),
    )


def make_entries(*uuids: str, ways: int = 2) -> dict[str, assignment.Entry]:
    return {
        uuid: assignment.Entry(
            consumer_uuid=uuid,
            state=assignment.State.APPLIED,
            assignments=(
                builders.make_assignment(
                    rp_key='L3_0', resource_class=builders.WAYS, amount=ways
                ),
            ),
        )
        for uuid in uuids
    }


def make_sweep(*uuids: str, **fields: Any) -> sample.Sweep:
    """Make a sweep over servers that are in cache 0, and never were in 1."""
    counters = counters_mod.Counters(occupancy=100, total=1000, local=600)
    nothing = counters_mod.Counters(occupancy=0, total=0, local=0)
    return sample.Sweep(
        finished_at=1.0,
        duration=0.25,
        servers={
            uuid: sample.ServerSample(
                consumer_uuid=uuid,
                frequency=2e9,
                domains=(
                    make_domain(0, None, counters),
                    make_domain(0, 3, counters),
                    make_domain(1, None, nothing),
                ),
            )
            for uuid in uuids
        },
        ids=sample.RmidBudget(total=8, used=3),
        **fields,
    )


def make_domain(
    cache: int, node: int | None, counters: counters_mod.Counters
) -> sample.DomainSample:
    return sample.DomainSample(
        domain=counters_mod.Domain(cache=cache, node=node), counters=counters
    )


def make_snapshot(*uuids: str, **fields: Any) -> series.HostSnapshot:
    given: dict[str, Any] = {
        'health': make_health(),
        'view': host_view.HostView(),
        'entries': make_entries(*uuids),
        'servers': {
            uuid: server.NovaServer(flavor='gold', project_id='p1')
            for uuid in uuids
        },
    }
    return series.HostSnapshot(**{**given, **fields})
