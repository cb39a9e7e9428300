# SPDX-License-Identifier: Apache-2.0

import dataclasses

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.resctrl.kernel import counters
from nova_ext_resources.monitoring import sample
from nova_ext_resources.objects import assignment
from tests import base

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other


def make_entry(resource_class: str) -> assignment.Entry:
    return assignment.Entry(
        consumer_uuid=SERVER,
        cpus=frozenset({1, 2}),
        assignments=(
            assignment.Assignment(
                rp_uuid=uuidsentinel.rp,
                rp_key='L3_0',
                resource_class=resource_class,
                amount=1,
            ),
        ),
    )


def make_domain(
    cache: int,
    node: int | None = None,
    occupancy: int | None = None,
    rate: float | None = None,
) -> sample.DomainSample:
    return sample.DomainSample(
        domain=counters.Domain(cache=cache, node=node),
        counters=counters.Counters(occupancy=occupancy),
        total_rate=rate,
        local_rate=None if rate is None else rate / 2,
    )


class ServersTest(base.TestCase):
    def test_the_ledger_says_who_holds_something(self) -> None:
        entry = make_entry('CUSTOM_LLC_WAYS')

        servers = sample.describe_servers({SERVER: entry})

        self.assertEqual(
            {
                SERVER: sample.MonitoredServer(
                    cpus=frozenset({1, 2}), holds=True
                )
            },
            servers,
        )

    def test_what_a_move_keeps_is_not_measured(self) -> None:
        entry = make_entry('CUSTOM_LLC_WAYS')
        held = dataclasses.replace(entry, state=assignment.State.PARKED)
        moved = dataclasses.replace(entry, consumer_uuid='migration')

        for one in (held, moved):
            self.assertEqual(
                {}, sample.describe_servers({one.consumer_uuid: one})
            )

    def test_a_place_in_the_shared_pool_is_seen(self) -> None:
        entry = make_entry('CUSTOM_LLC_WAYS_SHARED')

        servers = sample.describe_servers({SERVER: entry})

        self.assertTrue(servers[SERVER].is_shared)

    def test_of_all_servers_some_hold_nothing(self) -> None:
        entry = make_entry('CUSTOM_LLC_WAYS')

        servers = sample.describe_servers({SERVER: entry}, [SERVER, OTHER])

        self.assertTrue(servers[SERVER].holds)
        self.assertEqual(sample.MonitoredServer(), servers[OTHER])


class ServerSampleTest(base.TestCase):
    def test_whole_caches_leave_out_their_parts(self) -> None:
        one = sample.ServerSample(
            consumer_uuid=SERVER,
            domains=(
                make_domain(0, occupancy=3, rate=10.0),
                make_domain(0, 0, occupancy=2, rate=4.0),
                make_domain(0, 1, occupancy=1, rate=6.0),
                make_domain(1, occupancy=5, rate=1.0),
                make_domain(2),
            ),
        )

        self.assertEqual([0, 1, 2], [d.domain.cache for d in one.caches])
