# SPDX-License-Identifier: Apache-2.0

"""Tests of what the tuner sees of a host."""

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.claims.trackers import bandwidth
from nova_ext_resources.claims.trackers import cache_ways
from nova_ext_resources.claims.trackers import count
from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_view
from nova_ext_resources.tuning import target
from tests import base

L3: str = uuidsentinel.l3
RDT: str = uuidsentinel.rdt


def make_view() -> host_view.HostView:
    return host_view.HostView(
        keys={RDT: 'RDT', L3: 'L3_1'},
        tracked={
            (RDT, classes.CLOS): host_view.Tracked(
                tracker='count',
                state=count.CountState(8),
                inventory=class_inventory.Inventory(total=8),
            ),
            (L3, classes.WAYS): host_view.Tracked(
                tracker='cache_ways',
                state=cache_ways.CacheWaysState(0xFF),
                inventory=class_inventory.Inventory(total=16, reserved=8),
            ),
            (L3, classes.BURST): host_view.Tracked(
                tracker='burst_ways',
                state=count.CountState(6),
                inventory=class_inventory.Inventory(total=6),
            ),
            (L3, classes.PERCENT): host_view.Tracked(
                tracker='bandwidth',
                state=bandwidth.BandwidthState(100, 0, 10),
                inventory=class_inventory.Inventory(
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
        self.assertEqual(
            {classes.BURST: 6, classes.PERCENT: 80}, one.capacities
        )
        self.assertEqual({classes.BURST: 1, classes.PERCENT: 10}, one.steps)
        self.assertEqual(1 << 20, one.way_bytes)
        self.assertEqual(1000 << 20, one.bandwidth_bytes)

    def test_what_nobody_knows_stays_unknown(self) -> None:
        domains = target.make_domains(make_view(), sizes={}, bandwidth=0)

        self.assertIsNone(domains['L3_1'].way_bytes)
        self.assertIsNone(domains['L3_1'].bandwidth_bytes)
