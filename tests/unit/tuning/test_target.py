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

"""Tests of what the tuner sees of a host."""

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.objects import inventory
from nova_ext_resources.objects import view
from nova_ext_resources import rdt
from nova_ext_resources.trackers import bandwidth
from nova_ext_resources.trackers import cache_ways
from nova_ext_resources.trackers import count
from nova_ext_resources.tuning import target
from tests import base

L3: str = uuidsentinel.l3
RDT: str = uuidsentinel.rdt


def make_view() -> view.HostView:
    return view.HostView(
        keys={RDT: 'RDT', L3: 'L3_1'},
        tracked={
            (RDT, rdt.CLOS): view.Tracked(
                tracker='count',
                state=count.CountState(8),
                inventory=inventory.Inventory(total=8),
            ),
            (L3, rdt.WAYS): view.Tracked(
                tracker='cache_ways',
                state=cache_ways.CacheWaysState(0xFF),
                inventory=inventory.Inventory(total=16, reserved=8),
            ),
            (L3, rdt.BURST): view.Tracked(
                tracker='burst_ways',
                state=count.CountState(6),
                inventory=inventory.Inventory(total=6),
            ),
            (L3, rdt.PERCENT): view.Tracked(
                tracker='bandwidth',
                state=bandwidth.BandwidthState(100, 0, 10),
                inventory=inventory.Inventory(
                    total=100, reserved=20, step_size=10
                ),
            ),
        },
    )


class MakeDomainsTest(base.TestCase):
    def test_a_domain_has_what_may_be_moved_in_it(self) -> None:
        domains = target.make_domains(
            make_view(), sizes={1: 16 << 20}, bandwidth=1000
        )

        self.assertEqual(['L3_1'], list(domains))
        one = domains['L3_1']
        self.assertEqual({rdt.BURST: 6, rdt.PERCENT: 80}, one.capacities)
        self.assertEqual({rdt.BURST: 1, rdt.PERCENT: 10}, one.steps)
        self.assertEqual(1 << 20, one.way_bytes)
        self.assertEqual(1000 << 20, one.bandwidth_bytes)

    def test_what_nobody_knows_stays_unknown(self) -> None:
        domains = target.make_domains(make_view(), sizes={}, bandwidth=0)

        self.assertIsNone(domains['L3_1'].way_bytes)
        self.assertIsNone(domains['L3_1'].bandwidth_bytes)
