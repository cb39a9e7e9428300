# SPDX-License-Identifier: Apache-2.0

"""Placement follows a claim of several caches."""

import types
from typing import Any

from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources import exception
from nova_ext_resources.host import following
from nova_ext_resources.objects import constraints
from nova_ext_resources.objects import view
from nova_ext_resources.placement import tree
from tests.functional.placement import hosts
from tests.unit import builders

WAYS = hosts.WAYS

#: A third cache, which is the one that placement has chosen.
THIRD = hosts.make_wanted('L3_2', 'RDT', CUSTOM_LLC_WAYS=8)


class FollowTest(hosts.HostTestCase):
    """The server has CPUs of the first two caches."""

    def setUp(self) -> None:
        super().setUp()
        writer = tree.TreeWriter(self.client)
        writer.publish(hosts.NODE, (*hosts.make_host(ways=8), THIRD))
        self.node = {hosts.NODE.uuid: {'VCPU': 2}}
        self.given = {**self.node, THIRD.rp_uuid: {WAYS: 4}}
        self.allocate(self.given)
        self.undone: list[str] = []
        keys = {hosts.L3_0: 'L3_0', hosts.L3_1: 'L3_1', THIRD.rp_uuid: 'L3_2'}
        host: Any = types.SimpleNamespace(
            host='host1',
            view=view.HostView(
                keys=keys,
                constraints=constraints.Constraints(spreads_pins=True),
            ),
            undo=self.undone.append,
            entries={},
            is_starting=lambda _uuid: False,
        )
        self.follower = following.Follower(
            host,
            self.client,
            on_claimed=lambda: None,
            find_building=lambda _uuids: (),
        )

    def follow(self) -> None:
        held = (
            builders.make_assignment(rp_uuid=rp_uuid)
            for rp_uuid in (hosts.L3_0, hosts.L3_1)
        )
        request = builders.make_request(self.given, cpus=(0, 4))
        self.follower.follow(request, request.make_entry(tuple(held)))

    def read(self) -> Any:
        return self.client.get_allocations(uuids.server).resources

    def test_it_has_both(self) -> None:
        self.follow()

        self.assertEqual(
            {**self.node, hosts.L3_0: {WAYS: 4}, hosts.L3_1: {WAYS: 4}},
            self.read(),
        )
        self.assertEqual([], self.undone)

    def test_of_either_it_says_what_is_missing(self) -> None:
        for rp_uuid, key in ((hosts.L3_0, 'L3_0'), (hosts.L3_1, 'L3_1')):
            self.allocate({rp_uuid: {WAYS: 6}}, uuids.another)

            error = self.assertRaises(exception.CapacityExceeded, self.follow)

            (one,) = error.shortfalls
            self.assertEqual(
                (key, WAYS, 4, 2),
                (one.rp_key, one.resource_class, one.requested, one.available),
            )
            self.assertIn('host1', str(error))
            self.assertEqual(self.given, self.read())
        self.assertEqual([uuids.server] * 2, self.undone)

    def test_a_server_that_nova_has_given_up_gets_nothing(self) -> None:
        self.allocate(self.node)

        self.assertRaises(exception.NotFound, self.follow)

        self.assertEqual(self.node, self.read())
