# SPDX-License-Identifier: Apache-2.0

"""Tests of reading all hosts, on a real placement."""

import dataclasses

from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources import exception
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects.documents import host_tree
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement import cloud_snapshot
from tests.functional.placement import hosts


METAL = 'CUSTOM_BAREMETAL_GOLD'

ASK = 'GET /allocation_candidates'


class CloudSnapshotTest(hosts.HostTestCase):
    """One host with a device; further hosts as tests make them."""

    def add(self, name: str, parent: str | None = None, **totals: int) -> str:
        """Create a provider; return its uuid."""
        uuid: str = getattr(uuids, name)
        if parent:
            self.client.ensure_provider(uuid, name, parent)
        else:
            self.make_root(uuid, name)
        for resource_class in totals:
            if resource_class.startswith('CUSTOM_'):
                self.client.ensure_resource_class(resource_class)
        self.client.set_inventories(
            uuid,
            {
                one: class_inventory.Inventory(total=total)
                for one, total in totals.items()
            },
            0,
        )
        return uuid

    def describe(
        self, tree: host_tree.HostTree
    ) -> dict[str, dict[str, tuple[int, int]]]:
        return {
            one.name: {
                name: (amount.capacity, amount.used)
                for name, amount in one.amounts.items()
            }
            for one in tree.providers
        }

    def test_all_hosts_by_few_requests(self) -> None:
        for number in range(10):
            root = self.add(f'node{number}', MEMORY_MB=64, VCPU=8)
            self.add(f'node{number}_L3_0', root, CUSTOM_LLC_WAYS=11)
        self.allocate({uuids.node3_L3_0: {hosts.WAYS: 4}})
        self.allocate({hosts.NODE.uuid: {'VCPU': 2}}, uuids.other)
        self.forget_requests()

        found = cloud_snapshot.list_hosts(self.client)

        self.assertEqual(
            ['host1', *(f'node{number}' for number in range(10))],
            [one.name for one in found],
        )
        self.assertEqual(
            {
                'node3': {'MEMORY_MB': (64, 0), 'VCPU': (8, 0)},
                'node3_L3_0': {hosts.WAYS: (11, 4)},
            },
            self.describe(found[4]),
        )
        # Without memory: it is found by the next classes.
        self.assertEqual(
            {
                'host1': {'VCPU': (16, 2)},
                'host1_0000:81:00.0': {'SRIOV_NET_VF': (4, 0)},
            },
            self.describe(found[0]),
        )
        self.assertIn('HW_CPU_X86_AVX', found[0].root.traits)
        self.assertEqual(
            ['GET /resource_providers'] + ['GET /allocation_candidates'] * 3,
            self.app.requests,
        )

    def test_a_full_host_is_read_by_itself(self) -> None:
        root = self.add('full', CUSTOM_LLC_WAYS=4)
        self.allocate({root: {hosts.WAYS: 4}})

        found = cloud_snapshot.list_hosts(self.client, [hosts.WAYS])

        self.assertEqual(
            [{'full': {hosts.WAYS: (4, 4)}}], [self.describe(found[0])]
        )

    def close(self, rp_uuid: str) -> None:
        """Reserve all of a provider, as is done with what is not for use."""
        [listed] = [
            one
            for one in self.client.list_providers(in_tree=rp_uuid)
            if one.rp_uuid == rp_uuid
        ]
        assert listed.generation is not None
        self.client.set_inventories(
            rp_uuid,
            {
                name: dataclasses.replace(one, reserved=one.total)
                for name, one in self.client.list_inventories(rp_uuid).items()
            },
            listed.generation,
        )

    def add_metal(self, number: int) -> None:
        """Add bare-metal nodes: every fifth in use, one only allocated.

        Nova's driver of ironic reserves a node that has a server.
        """
        for n in range(number):
            uuid = self.add(f'metal{n}', None, **{METAL: 1})
            if n == 1 or n % 5 == 4:
                self.allocate({uuid: {METAL: 1}}, getattr(uuids, f'on{n}'))
            if n % 5 == 4:
                self.close(uuid)
        self.forget_requests()

    def test_bare_metal_nodes_by_few_requests(self) -> None:
        self.add_metal(25)

        found = cloud_snapshot.list_hosts(self.client, [hosts.WAYS])

        self.assertEqual(26, len(found))
        metal = {one.name: self.describe(one)[one.name] for one in found}
        for n in range(25):
            wanted = (int(n % 5 != 4), int(n == 1 or n % 5 == 4))
            self.assertEqual({METAL: wanted}, metal[f'metal{n}'])
        # Five classes, and that of the nodes. One node is read to learn that
        # class; then those that have nothing left: five that are in use, and
        # one that is allocated.
        self.assertEqual(6, self.app.requests.count(ASK))
        self.assertLessEqual(len(self.app.requests), 1 + 6 + 3 + 6 * 3)

    def test_usages_of_nodes_in_use_are_left_out_where_not_needed(
        self,
    ) -> None:
        self.add_metal(25)

        found = cloud_snapshot.list_hosts(
            self.client, [METAL], has_closed_usages=False
        )

        metal = {one.name: self.describe(one)[one.name] for one in found}
        self.assertEqual({METAL: (1, 1)}, metal['metal1'])
        self.assertEqual({METAL: (0, 0)}, metal['metal4'])
        # Usages only of the one that is allocated.
        usages = [one for one in self.app.requests if 'usages' in one]
        self.assertEqual(1, len(usages))

    def test_what_servers_hold_of_closed_providers(self) -> None:
        pool = self.add('pool', CUSTOM_RACK1_GB=100)
        generation = self.client.set_traits(
            pool, [host_provider.SHARING_TRAIT], 1
        )
        self.client.set_aggregates(pool, [uuids.aggregate], generation)
        self.client.set_aggregates(uuids.pf, [uuids.aggregate], 1)
        self.allocate({pool: {'CUSTOM_RACK1_GB': 30}})
        self.close(pool)
        host = self.add('closed', CUSTOM_LLC_WAYS=4)
        self.allocate({host: {hosts.WAYS: 3}}, uuids.other)
        self.close(host)

        [(listed, _reaching)] = cloud_snapshot.list_pools(self.client)
        found = cloud_snapshot.list_hosts(self.client, ['CUSTOM_RACK1_GB'])

        self.assertEqual(30, listed.amounts['CUSTOM_RACK1_GB'].used)
        closed, host1 = found
        self.assertEqual(
            {'closed': {hosts.WAYS: (0, 3)}}, self.describe(closed)
        )
        [shared] = host1.shared
        self.assertEqual(30, shared.amounts['CUSTOM_RACK1_GB'].used)

    def test_full_hosts_are_found_by_what_their_children_have(self) -> None:
        for n in range(10):
            root = self.add(f'node{n}', MEMORY_MB=64)
            self.add(f'node{n}_L3_0', root, CUSTOM_LLC_WAYS=11)
            self.allocate({root: {'MEMORY_MB': 64}}, getattr(uuids, f's{n}'))
        self.forget_requests()

        found = cloud_snapshot.list_hosts(self.client)

        self.assertEqual(11, len(found))
        self.assertEqual(
            {
                'node7': {'MEMORY_MB': (64, 64)},
                'node7_L3_0': {hosts.WAYS: (11, 0)},
            },
            self.describe(found[8]),
        )
        # Four common classes, the class of the first full host, and that one.
        self.assertEqual(5, self.app.requests.count(ASK))
        self.assertEqual(1 + 5 + 2 * 3, len(self.app.requests))

    def test_many_classes_of_nodes_are_not_all_asked_for(self) -> None:
        for n in range(40):
            self.add(f'node{n}', None, **{f'CUSTOM_METAL_{n}': 1})
        self.forget_requests()

        found = cloud_snapshot.list_hosts(self.client)

        self.assertEqual(41, len(found))
        self.assertEqual(
            {'node39': {'CUSTOM_METAL_39': (1, 0)}}, self.describe(found[-1])
        )
        self.assertEqual(20, self.app.requests.count(ASK))

    def test_a_class_that_placement_does_not_have(self) -> None:
        self.add('empty')

        found = cloud_snapshot.list_hosts(self.client, ['CUSTOM_NO_SUCH'])

        self.assertEqual(['empty', 'host1'], [one.name for one in found])

    def test_a_shared_pool_is_no_host(self) -> None:
        pool = self.add('pool', DISK_GB=100)
        self.client.set_traits(pool, [host_provider.SHARING_TRAIT], 1)

        found = cloud_snapshot.list_hosts(self.client)

        self.assertEqual(['host1'], [one.name for one in found])

    def test_hosts_have_the_pools_that_they_reach(self) -> None:
        pool = self.add('pool', CUSTOM_RACK1_GB=100)
        generation = self.client.set_traits(
            pool, [host_provider.SHARING_TRAIT], 1
        )
        self.client.set_aggregates(pool, [uuids.aggregate], generation)
        child = self.add('host1_POOL', hosts.NODE.uuid)
        self.client.set_aggregates(child, [uuids.aggregate], 1)
        self.add('other', CUSTOM_LLC_WAYS=4)
        self.allocate({pool: {'CUSTOM_RACK1_GB': 30}})

        found = cloud_snapshot.list_hosts(self.client, ['CUSTOM_RACK1_GB'])

        self.assertEqual(
            [('host1', {'CUSTOM_RACK1_GB': (100, 30)}), ('other', {})],
            [
                (
                    host.name,
                    {
                        name: (amount.capacity, amount.used)
                        for one in host.shared
                        for name, amount in one.amounts.items()
                    },
                )
                for host in found
            ],
        )
        # Nothing is asked of pools that do not matter.
        [host, _other] = cloud_snapshot.list_hosts(self.client, [hosts.WAYS])
        self.assertEqual((), host.shared)

    def test_pools_and_the_hosts_that_reach_them(self) -> None:
        for name, aggregates in (('b10', [uuids.one]), ('b9', [])):
            pool = self.add(name, CUSTOM_RACK1_GB=100)
            generation = self.client.set_traits(
                pool, [host_provider.SHARING_TRAIT], 1
            )
            self.client.set_aggregates(pool, aggregates, generation)
        self.add('other', VCPU=4)
        self.client.set_aggregates(uuids.pf, [uuids.one], 1)
        self.client.set_aggregates(uuids.other, [uuids.one], 1)
        self.allocate({uuids.b10: {'CUSTOM_RACK1_GB': 30}})

        found = cloud_snapshot.list_pools(self.client)

        self.assertEqual(
            [('b9', 100, ()), ('b10', 70, ('host1', 'other'))],
            [
                (one.name, one.amounts['CUSTOM_RACK1_GB'].free, reaching)
                for one, reaching in found
            ],
        )

    def test_a_provider_that_has_gone_meanwhile(self) -> None:
        root = self.add('empty')
        self.app.before_next(
            'GET',
            f'/{root}/inventories',
            lambda: self.client.delete_provider(root),
        )

        found = cloud_snapshot.list_hosts(self.client)

        self.assertEqual(['host1'], [one.name for one in found])

    def test_inventories_of_some(self) -> None:
        trees = cloud_snapshot.list_hosts(self.client)
        self.forget_requests()

        [found] = cloud_snapshot.add_inventories(
            self.client, trees, lambda one: one.parent_uuid is not None
        )

        root, device = found.providers
        self.assertIsNone(root.amounts['VCPU'].inventory)
        self.assertEqual(
            class_inventory.Inventory(total=4),
            device.amounts['SRIOV_NET_VF'].inventory,
        )
        self.assertEqual(1, len(self.app.requests))

    def test_one_host_with_its_holders(self) -> None:
        self.add('other', VCPU=1)
        self.allocate({hosts.NODE.uuid: {'VCPU': 2}})

        found = cloud_snapshot.get_host(self.client, 'host1')

        self.assertEqual(
            ['host1', 'host1_0000:81:00.0'],
            [one.name for one in found.providers],
        )
        self.assertEqual({'VCPU': {uuids.server: 2}}, found.root.holders)
        self.assertEqual(
            host_tree.Amount(
                capacity=16,
                used=2,
                inventory=class_inventory.Inventory(total=16),
            ),
            found.root.amounts['VCPU'],
        )

    def test_a_host_that_does_not_exist(self) -> None:
        for name in ('nowhere', 'host1_0000:81:00.0'):
            error = self.assertRaises(
                exception.NotFound, cloud_snapshot.get_host, self.client, name
            )

            self.assertIn('openstack hypervisor list', str(error))

    def test_holders_of_providers(self) -> None:
        self.allocate({hosts.NODE.uuid: {'VCPU': 2}})

        found = cloud_snapshot.list_holders(
            self.client, [hosts.NODE.uuid, uuids.gone]
        )

        self.assertEqual({hosts.NODE.uuid: {'VCPU': {uuids.server: 2}}}, found)
