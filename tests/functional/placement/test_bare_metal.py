# SPDX-License-Identifier: Apache-2.0

"""Nodes of ironic in real placement, which does not always answer."""

from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources import exception
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.publish import bare_metal
from nova_ext_resources.placement.publish import publisher
from nova_ext_resources.placement.publish import tree_writer
from nova_ext_resources.testing import fake_clock
from tests.functional import base
from tests.unit import publication

GOLD = 'CUSTOM_BAREMETAL_GOLD'
GPUS = 'CUSTOM_GPU'


_LIST = 'GET /resource_providers'


def make_tree(node: str, total: int = 4) -> tuple[host_provider.Provider, ...]:
    found = host_provider.HostProvider(
        key='STATIC',
        inventories={GPUS: class_inventory.Inventory(total=total)},
    )
    return host_provider.BareMetalNode(
        uuid=node, providers=(found,)
    ).make_providers()


class BareMetalWriterTest(base.PlacementTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.nodes = (uuids.first, uuids.second)
        self.client.ensure_resource_class(GOLD)
        for node in self.nodes:
            self.make_root(node, node)
            self.client.set_inventories(
                node, {GOLD: class_inventory.Inventory(total=1)}, 0
            )
        self.writer = bare_metal.BareMetalWriter(
            self.client, clock=fake_clock.FakeClock()
        )

    def publish(
        self, *nodes: str, may_delete: bool = True, total: int = 4
    ) -> tree_writer.PublishResult:
        known = {one.rp_uuid for node in self.nodes for one in make_tree(node)}
        return self.writer.publish(
            {node: make_tree(node, total) for node in nodes},
            published=known,
            may_delete=may_delete,
        )

    def find(self, node: str) -> int:
        """Return the GPUs below a node; 0: none."""
        (one,) = make_tree(node)
        found = self.client.list_inventories(one.rp_uuid)
        return found[GPUS].total if found else 0

    def test_nothing_changed(self) -> None:
        first = self.publish(*self.nodes)
        self.publish(*self.nodes)
        self.forget_requests()

        again = self.publish(*self.nodes)

        self.assertEqual((2, 0), (first.written, again.written))
        self.assertEqual(
            [_LIST] * 4,
            self.app.requests,
        )

    def test_one_that_is_back_while_nothing_is_emptied_can_go_again(
        self,
    ) -> None:
        self.publish(*self.nodes)
        self.publish(uuids.first)
        self.publish(*self.nodes, may_delete=False)

        self.publish(uuids.first)

        self.assertEqual(
            (4, 0), (self.find(uuids.first), self.find(uuids.second))
        )

    def test_an_error_with_one_node_leaves_the_others_alone(self) -> None:
        # An operator's provider has the name.
        self.make_root(uuids.operator, f'{uuids.first}_STATIC')

        done = self.publish(*self.nodes)

        (error,) = done.errors
        self.assertIsInstance(error, exception.DuplicateName)
        self.assertEqual(4, self.find(uuids.second))

    def test_placement_goes_away(self) -> None:
        self.publish(*self.nodes)
        self.app.fail('GET', '/resource_providers', 99)

        self.assertRaises(
            exception.PlacementUnavailable, self.publish, uuids.first
        )

        self.assertEqual(4, self.find(uuids.second))
        self.app._outages.clear()
        self.publish(uuids.first, total=2)
        self.assertEqual([2, 0], [self.find(node) for node in self.nodes])

    def test_a_node_that_is_not_wanted_is_emptied_once(self) -> None:
        self.publish(*self.nodes)
        self.publish(uuids.first)
        self.publish(uuids.first)
        self.forget_requests()

        self.publish(uuids.first)

        self.assertEqual([4, 0], [self.find(node) for node in self.nodes])
        self.assertEqual(2 + 2, len(self.app.requests))

    def test_while_something_is_not_known_nothing_is_emptied(self) -> None:
        self.publish(*self.nodes)

        self.publish(uuids.first, may_delete=False)

        self.assertEqual([4, 4], [self.find(node) for node in self.nodes])

    def test_nova_has_not_written_the_class_of_a_node_yet(self) -> None:
        self.make_root(uuids.late, uuids.late)

        done = self.publish(uuids.late, *self.nodes)

        (problem,) = done.problems
        self.assertEqual(uuids.late, problem.subject)
        self.assertEqual(2, done.written)

    def test_nova_deletes_a_node_in_between(self) -> None:
        self.publish(*self.nodes)
        (one,) = make_tree(uuids.first)

        def delete() -> None:
            self.client.delete_provider(one.rp_uuid)
            self.client.delete_provider(uuids.first)

        self.app.before_next('PUT', f'{one.rp_uuid}/inventories', delete)
        done = self.publish(*self.nodes, total=8)

        (error,) = done.errors
        self.assertIn(uuids.first, str(error))
        self.assertEqual(8, self.find(uuids.second))
        (problem,) = self.publish(*self.nodes, total=8).problems
        self.assertEqual(uuids.first, problem.subject)


class PublisherTest(base.PlacementTestCase):
    """A host with providers of its own, which publishes a node as well."""

    def test_what_the_host_has_stays_when_a_node_goes(self) -> None:
        self.client.ensure_resource_class(GOLD)
        for uuid, name in ((uuids.host, 'host1'), (uuids.first,) * 2):
            self.make_root(uuid, name)
            self.client.set_inventories(
                uuid, {GOLD: class_inventory.Inventory(total=1)}, 0
            )
        host = host_provider.Node(uuid=uuids.host, hypervisor_hostname='host1')
        own = host_provider.HostProvider(
            key='STATIC',
            inventories={GPUS: class_inventory.Inventory(total=3)},
        )
        wanted = own.make_wanted(host, own.inventories)
        (of_node,) = make_tree(uuids.first)
        nodes = {uuids.first: (of_node,)}
        made = publisher.Publisher(
            self.client,
            host,
            publication.Source(
                lambda: (wanted,),
                nodes=lambda: dict(nodes),
                published=lambda: {wanted.rp_uuid, of_node.rp_uuid},
            ),
        )

        for left in (1, 0):
            self.forget_requests()
            made.run_round()
            self.assertEqual('', made.status.failure)
            # The trees; and Nova's provider of the node, or that of a
            # provider that is not wanted. None for what the host has.
            self.assertEqual(3, self.app.requests.count(_LIST))
            found = [
                len(self.client.list_inventories(one.rp_uuid))
                for one in (wanted, of_node)
            ]
            self.assertEqual([1, left], found)
            nodes.clear()
