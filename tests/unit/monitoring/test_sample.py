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

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.monitoring import sample
from nova_ext_resources.objects import assignment
from nova_ext_resources.resctrl import monitoring
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
        domain=monitoring.Domain(cache=cache, node=node),
        counters=monitoring.Counters(occupancy=occupancy),
        total_rate=rate,
        local_rate=None if rate is None else rate / 2,
    )


class ServersTest(base.TestCase):
    def test_the_ledger_says_who_holds_something(self) -> None:
        entry = make_entry('CUSTOM_LLC_WAYS')

        servers = sample.describe_servers({SERVER: entry})

        self.assertEqual(
            {SERVER: sample.Server(cpus=frozenset({1, 2}), holds=True)},
            servers,
        )

    def test_a_place_in_the_shared_pool_is_seen(self) -> None:
        entry = make_entry('CUSTOM_LLC_WAYS_SHARED')

        servers = sample.describe_servers({SERVER: entry})

        self.assertTrue(servers[SERVER].is_shared)

    def test_of_all_servers_some_hold_nothing(self) -> None:
        entry = make_entry('CUSTOM_LLC_WAYS')

        servers = sample.describe_servers({SERVER: entry}, [SERVER, OTHER])

        self.assertTrue(servers[SERVER].holds)
        self.assertEqual(sample.Server(), servers[OTHER])


class ServerSampleTest(base.TestCase):
    def test_sums_leave_out_the_parts_of_caches(self) -> None:
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

        self.assertEqual(8, one.occupancy)
        self.assertEqual(11.0, one.total_rate)
        self.assertEqual(5.5, one.local_rate)
        self.assertEqual([0, 1, 2], [d.domain.cache for d in one.caches])

    def test_a_sum_of_nothing_is_not_nought(self) -> None:
        one = sample.ServerSample(
            consumer_uuid=SERVER, domains=(make_domain(0),)
        )

        self.assertIsNone(one.occupancy)
        self.assertIsNone(one.total_rate)
        self.assertIsNone(one.local_rate)
