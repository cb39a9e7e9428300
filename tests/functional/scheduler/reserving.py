# SPDX-License-Identifier: Apache-2.0

"""Hosts with reservations, as Nova's scheduler sees them."""

from collections.abc import Mapping
import dataclasses
import datetime
from typing import Any

import fixtures
import nova.conf
from nova import context
from oslo_utils import fixture as utils_fixture
from oslo_utils.fixture import uuidsentinel
from oslo_utils import timeutils

from nova_ext_resources.conf import reservation as reservation_conf
from nova_ext_resources.reservation import host as host_mod
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import planner
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.scheduler.hooks import request_context
from nova_ext_resources.scheduler import request
from nova_ext_resources.scheduler.reservation import filter as filter_mod
from tests.functional.scheduler import scheduling
from tests.unit.reservation import hosts as planned
from tests.unit.reservation.store import migrated
from tests.unit.reservation.store import stores

#: Some second in 2030.
NOW = 1_900_000_000

HOUR = 3600

#: Of servers, and of reservations, that are of no other one.
PROJECT = 'mine'


def hours(start: int, end: int | None = None) -> interval.Interval:
    """Return an interval in hours from now on."""
    return interval.Interval(
        NOW + start * HOUR,
        interval.FOREVER if end is None else NOW + end * HOUR,
    )


class ReservingTestCase(scheduling.TestCase):
    """Two hosts of eight CPUs. A candidate takes VCPU of the root.

    :ivar used: host -> CPUs that placement says are used
    :ivar caller: fields of the context of requests
    """

    HOSTS: tuple[str, ...] = ('a', 'b')

    #: CPUs of each host, as placement says.
    capacity = 8

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(level=20))
        self.useFixture(utils_fixture.TimeFixture())
        self.set_time(0)
        self.caller: dict[str, Any] = {}
        self.url = f'sqlite:///{self.make_folder()}/reservations.db'
        self.database = databases.Database(self.url)
        migrated.make_tables(self.database)
        self.used: dict[str, int] = {}
        self.filter = self.make_filter()

    def make_filter(self, url: str = '') -> Any:
        reservation_conf.register_opts(nova.conf.CONF)
        self.config.config(
            group=reservation_conf.GROUP.name, connection=url or self.url
        )
        return filter_mod.ReservationFilter()

    def set_time(self, hour: float) -> None:
        """Let it be so many hours from now on."""
        at = NOW + int(hour * HOUR)
        timeutils.set_time_override(
            datetime.datetime.fromtimestamp(at, datetime.UTC).replace(
                tzinfo=None
            )
        )

    def make_planned(self) -> list[host_mod.Host]:
        return [
            dataclasses.replace(
                host, view=dataclasses.replace(host.view, keys={name: name})
            )
            for name, host in (
                (name, planned.make_host(name)) for name in self.HOSTS
            )
        ]

    def reserve(
        self,
        key: str = 'lease',
        during: interval.Interval | None = None,
        *,
        vcpus: int = 4,
        servers: int = 1,
        **fields: Any,
    ) -> Any:
        """Reserve; hosts are filled one after the other."""
        admission = stores.make_admission(self.url, *self.make_planned())
        asked = planned.make_request(
            key,
            during or hours(0, 2),
            **{
                'demand': planned.make_demand(_={'VCPU': vcpus}),
                'least': servers,
                'project': PROJECT,
                **fields,
            },
        )
        plan = admission.admit(asked, now=NOW, reason=stores.REASON)
        assert isinstance(plan, planner.Plan), plan
        return plan

    def make_hosts(
        self, vcpus: int = 4, names: tuple[str, ...] | None = None
    ) -> list[Any]:
        """Make host states with a candidate each."""
        return [self.make_state(one, vcpus) for one in names or self.HOSTS]

    def make_state(self, name: str, vcpus: int = 4) -> Any:
        host_state = scheduling.make_host(host=name)
        host_state.uuid = name
        host_state.allocation_candidates = [make_candidate({name: vcpus})]
        return host_state

    def make_spec(
        self,
        server: str = uuidsentinel.server,
        reservation: str | None = None,
        **fields: Any,
    ) -> Any:
        """Make a request, with what placement says of it."""
        if reservation is not None:
            fields['scheduler_hints'] = {request.HINT: [reservation]}
        fields.setdefault('project_id', PROJECT)
        spec = scheduling.make_spec({}, pinned=0, **fields)
        spec.instance_uuid = server
        spec._context = context.RequestContext(
            request_id='req-1', **self.caller
        )
        request_context.find(spec).summaries = self.make_summaries()
        return spec

    def make_summaries(self) -> dict[str, Any]:
        return {
            one: {
                'resources': {
                    'VCPU': {
                        'capacity': self.capacity,
                        'used': self.used.get(one, 0),
                    }
                }
            }
            for one in self.HOSTS
        }

    def run_filter(
        self, hosts: list[Any], spec: Any, host_filter: Any = None
    ) -> list[str]:
        """Return the names of the hosts that pass."""
        found = (host_filter or self.filter).filter_all(hosts, spec)
        return [one.nodename for one in found]

    def find_slots(self) -> dict[str, str]:
        """Return server -> the host of its slot."""
        return {
            row.consumer: row.host
            for row in stores.dump(self.url)['servers']
            if row.consumer is not None
        }


def make_candidate(
    vcpus: Mapping[str, int], resource_class: str = 'VCPU'
) -> dict[str, Any]:
    return {
        'allocations': {
            rp_uuid: {'resources': {resource_class: amount}}
            for rp_uuid, amount in vcpus.items()
        },
        'mappings': {'': [*vcpus]},
    }
