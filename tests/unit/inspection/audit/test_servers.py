# SPDX-License-Identifier: Apache-2.0

"""Tests of what is found about servers."""

import dataclasses
from typing import Any

from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.inspection.audit import compare
from nova_ext_resources.inspection.audit import finding
from tests import base
from tests.unit.inspection.audit import clouds

Kind = finding.FindingKind
Remedy = finding.Remedy
WAYS, GB = clouds.WAYS, clouds.GB

SERVER: str = uuids.server


class ServersTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = clouds.make_cloud()
        self.add_server()
        self.cloud = clouds.allocate_all(self.cloud, SERVER)

    def add_server(self, host: str = 'node1', **fields: Any) -> None:
        self.cloud = clouds.add_server(
            self.cloud, clouds.make_server(SERVER, host, **fields)
        )

    def add_move(self, status: str, **fields: Any) -> None:
        move = clouds.make_move(uuids.move, SERVER, status, **fields)
        self.cloud = clouds.add_move(self.cloud, move)

    def allocate(self, host: str, key: str, amount: int = 4) -> None:
        rp_uuid = clouds.make_rp_uuid(host, key)
        self.cloud = clouds.allocate(self.cloud, SERVER, rp_uuid, WAYS, amount)

    def assert_found(self, *found: Any) -> None:
        self.assertEqual([*found], clouds.describe(self.cloud))

    def assert_elsewhere(self, remedy: Remedy) -> None:
        self.assert_found(
            (Kind.ALLOCATION_HERE_SERVER_ELSEWHERE, remedy, 'L3_1', WAYS)
        )

    def test_a_server_that_has_what_it_requests(self) -> None:
        self.assert_found()

    def test_a_stale_part_on_another_host(self) -> None:
        self.allocate('node2', 'L3_1')

        self.assert_elsewhere(Remedy.REPAIR)

    def test_nothing_is_taken_while_nova_is_at_work(self) -> None:
        self.allocate('node2', 'L3_1')
        for fields in (
            {'task_state': 'migrating'},
            {'status': 'BUILD'},
            {'status': 'VERIFY_RESIZE'},
            {'status': 'UNKNOWN'},
        ):
            self.add_server(**fields)
            self.assert_elsewhere(Remedy.WAIT)

    def test_nothing_is_taken_in_an_error(self) -> None:
        self.allocate('node2', 'L3_1')
        self.add_server(status='ERROR')

        self.assert_elsewhere(Remedy.OPERATOR)

    def test_nothing_is_taken_in_a_migration(self) -> None:
        self.allocate('node2', 'L3_1')
        for status, remedy in (
            ('running', Remedy.WAIT),
            ('finished', Remedy.WAIT),
            ('a new one', Remedy.WAIT),
            ('completed', Remedy.REPAIR),
            ('error', Remedy.REPAIR),
            ('done', Remedy.REPAIR),
        ):
            self.add_move(status, kind='live-migration', source='node2')
            self.assert_elsewhere(remedy)

    def test_the_former_host_of_an_evacuation(self) -> None:
        """It deletes that itself, unless it is gone for good."""
        self.allocate('node2', 'L3_1')
        self.add_move('done', kind='evacuation', source='node2')
        self.assert_elsewhere(Remedy.WAIT)

        self.cloud = dataclasses.replace(
            self.cloud,
            nodes={
                name: uuid
                for name, uuid in clouds.ROOTS.items()
                if name != 'node2'
            },
        )
        self.assertIn(
            (
                Kind.ALLOCATION_HERE_SERVER_ELSEWHERE,
                Remedy.REPAIR,
                'L3_1',
                WAYS,
            ),
            clouds.describe(self.cloud),
        )

    def test_an_evacuation_from_a_host_that_may_be_there(self) -> None:
        """Nova hides the host, or has not mapped it to a cell yet."""
        self.allocate('node2', 'L3_1')
        self.add_move('done', kind='evacuation')
        self.assert_elsewhere(Remedy.WAIT)

        self.add_move('done', kind='evacuation', source='node4')
        self.assert_elsewhere(Remedy.REPAIR)
        self.cloud = dataclasses.replace(
            self.cloud, unmapped=frozenset({'host4'})
        )
        self.assert_elsewhere(Remedy.WAIT)

    def test_a_server_that_cannot_be_moved_now(self) -> None:
        self.allocate('node1', 'L3_0', 1)
        self.add_server(status='RESCUE')

        [one] = compare.compare(self.cloud)

        self.assertIn('the server is in RESCUE', one.text)

    def test_a_server_that_has_nothing_where_it_is(self) -> None:
        """It may be the guest, and not the allocation, that is elsewhere."""
        self.allocate('node1', 'L3_0', 0)
        self.allocate('node2', 'L3_1')

        self.assert_found(
            (
                Kind.ALLOCATION_HERE_SERVER_ELSEWHERE,
                Remedy.OPERATOR,
                'L3_1',
                WAYS,
            ),
            (Kind.NOT_ALLOCATED, Remedy.OPERATOR, '', WAYS),
        )

    def test_a_server_that_has_more_where_it_is(self) -> None:
        """Nova may have left a resize as it was."""
        self.allocate('node1', 'L3_0', 6)
        self.allocate('node2', 'L3_1')

        self.assert_found(
            (
                Kind.ALLOCATION_HERE_SERVER_ELSEWHERE,
                Remedy.OPERATOR,
                'L3_1',
                WAYS,
            ),
            (Kind.TOO_MUCH, Remedy.OPERATOR, 'L3_0', WAYS),
        )

    def test_a_server_whose_flavor_is_malformed(self) -> None:
        self.allocate('node2', 'L3_1')
        self.add_server(extra_specs={'resources:CUSTOM_LLC_WAYS': 'many'})

        self.assert_elsewhere(Remedy.OPERATOR)

    def test_a_server_that_requests_nothing(self) -> None:
        for key in ('L3_0', 'L3_1'):
            self.allocate('node1', key, 0)
        self.cloud = clouds.allocate(
            self.cloud, SERVER, clouds.POOL.rp_uuid, GB, 0
        )
        self.add_server(extra_specs={})
        self.assert_found()

        self.allocate('node2', 'L3_1')
        self.assert_elsewhere(Remedy.REPAIR)

    def test_a_server_on_no_host(self) -> None:
        self.add_server(host='', status='SHELVED_OFFLOADED')

        self.assert_found(
            (
                Kind.ALLOCATION_HERE_SERVER_ELSEWHERE,
                Remedy.REPAIR,
                'L3_0',
                WAYS,
            ),
            (Kind.POOL_NOT_REACHED, Remedy.REPAIR, 'POOL_rack1', GB),
        )

    def test_a_server_that_leaves_its_host(self) -> None:
        """Nova shows the status before the host."""
        self.add_server(status='SHELVED_OFFLOADED')
        self.allocate('node2', 'L3_1')

        self.assert_elsewhere(Remedy.OPERATOR)

    def test_a_server_on_a_host_that_nova_does_not_have(self) -> None:
        """All that is known is that the host is not."""
        self.add_server('elsewhere')

        self.assert_found()

    def test_a_pool_that_the_host_does_not_reach(self) -> None:
        self.cloud = clouds.allocate(
            self.cloud, SERVER, clouds.OTHER_POOL.rp_uuid, GB, 10
        )

        self.assert_found(
            (Kind.POOL_NOT_REACHED, Remedy.REPAIR, 'POOL_rack2', GB)
        )

    def test_two_pools_of_one_server(self) -> None:
        """Nobody knows which of them it uses."""
        self.cloud = dataclasses.replace(
            clouds.allocate(
                self.cloud, SERVER, clouds.OTHER_POOL.rp_uuid, GB, 10
            ),
            reached=dict.fromkeys(
                self.cloud.reached, frozenset(clouds.ROOTS.values())
            ),
        )

        self.assert_found((Kind.TOO_MUCH, Remedy.OPERATOR, '', GB))

    def test_a_pool_allocated_twice(self) -> None:
        self.cloud = clouds.allocate(
            self.cloud, SERVER, clouds.POOL.rp_uuid, GB, 20
        )

        self.assert_found((Kind.TOO_MUCH, Remedy.OPERATOR, 'POOL_rack1', GB))

    def test_more_and_less_than_requested(self) -> None:
        for amount, kind, wrong in (
            (6, Kind.TOO_MUCH, 2),
            (1, Kind.NOT_ALLOCATED, 3),
        ):
            self.allocate('node1', 'L3_0', amount)
            self.assert_found((kind, Remedy.OPERATOR, 'L3_0', WAYS))
            [one] = compare.compare(self.cloud)
            self.assertEqual(wrong, one.amount)
            self.assertIn(f'server migrate --wait {SERVER}', one.text)
            self.assertEqual('node1', one.host)

    def test_less_than_requested_while_nova_is_at_work(self) -> None:
        self.allocate('node1', 'L3_0', 1)
        self.add_server(task_state='resize_prep')

        self.assert_found((Kind.NOT_ALLOCATED, Remedy.WAIT, 'L3_0', WAYS))

    def read_fresh(self, **more: Any) -> None:
        """Have the server read for itself: with what Nova allocates."""
        held = {**self.cloud.allocations.get(SERVER, {}), **more}
        held = {k: {n: a for n, a in v.items() if a} for k, v in held.items()}
        held = {clouds.ROOTS['node1']: {'VCPU': 2}, **held}
        self.cloud = dataclasses.replace(
            self.cloud,
            fresh={SERVER: clouds.make_fresh(SERVER, resources=held)},
        )

    def assert_missing(self, remedy: Remedy, provider: str) -> None:
        self.assertIn(
            (Kind.NOT_ALLOCATED, remedy, provider, WAYS),
            clouds.describe(self.cloud),
        )

    def test_where_the_rest_is_there_is_only_one_place(self) -> None:
        self.allocate('node1', 'L3_0', 1)
        self.assert_missing(Remedy.OPERATOR, 'L3_0')

        self.read_fresh()

        self.assert_missing(Remedy.REPAIR, 'L3_0')

    def test_any_of_several_caches_may_be_the_place(self) -> None:
        self.allocate('node1', 'L3_0', 0)
        self.read_fresh()
        self.assert_missing(Remedy.OPERATOR, '')

        rp_uuid = clouds.make_rp_uuid('node1', 'L3_1')
        self.cloud = clouds.replace_provider(
            self.cloud, rp_uuid, inventories={}
        )
        self.assert_missing(Remedy.REPAIR, 'L3_0')

    def assert_place(self, provider: str, **extra_specs: str) -> None:
        """Assert where the ways of a server that has none are allocated.

        :param extra_specs: more of them, with __ for a colon
        """
        group = (
            'resources_X'
            if any('_X' in one for one in extra_specs)
            else 'resources'
        )
        more = {k.replace('__', ':'): v for k, v in extra_specs.items()}
        self.add_server(
            extra_specs={
                f'{group}:{WAYS}': '4',
                f'resources_POOL:{GB}': '10',
                **more,
            }
        )
        with self.subTest(extra_specs=extra_specs):
            self.assert_missing(
                Remedy.REPAIR if provider else Remedy.OPERATOR, provider
            )

    def make_fast(self, **fields: Any) -> None:
        """Give a trait to the cache of which the server never had ways."""
        self.allocate('node1', 'L3_0', 0)
        self.read_fresh()
        self.cloud = clouds.replace_provider(
            self.cloud,
            clouds.make_rp_uuid('node1', 'L3_1'),
            traits=clouds.OWN | {'CUSTOM_FAST'},
            **fields,
        )

    def test_only_a_provider_with_the_traits_may_be_the_place(self) -> None:
        self.make_fast()
        for provider, key, value in (
            ('L3_1', 'trait__CUSTOM_FAST', 'required'),
            ('L3_0', 'trait__CUSTOM_FAST', 'forbidden'),
            ('L3_1', 'trait_X__CUSTOM_FAST', 'required'),
            ('L3_0', 'trait_X__CUSTOM_FAST', 'forbidden'),
            ('', 'trait_X__CUSTOM_OTHER', 'required'),
            ('', 'trait_POOL__CUSTOM_FAST', 'required'),
            # It may be of the node, of which the server has more.
            ('', 'trait__HW_CPU_X86_AVX2', 'required'),
            ('', 'trait__CUSTOM_FAST', 'maybe'),
        ):
            self.assert_place(provider, **{key: value})

    def test_the_only_provider_lacks_the_traits(self) -> None:
        self.make_fast(inventories={})
        for provider, key, value in (
            ('', 'trait_X__CUSTOM_FAST', 'required'),
            ('', 'trait__CUSTOM_FAST', 'required'),
            ('L3_0', 'trait__CUSTOM_FAST', 'forbidden'),
            ('L3_0', 'trait__HW_CPU_X86_AVX2', 'required'),
            ('', 'member_of', 'in:one'),
            ('', 'member_of_X', 'in:one'),
            ('', 'in_tree__X', 'one'),
            ('', 'same_subtree', '_X,_POOL'),
        ):
            self.assert_place(provider, **{key: value})

    def test_a_group_is_of_one_provider(self) -> None:
        self.allocate('node1', 'L3_0', 0)
        self.read_fresh()
        rp_uuid = clouds.make_rp_uuid('node1', 'L3_1')
        ways = self.cloud.owned[rp_uuid].provider.inventories[WAYS]
        self.cloud = clouds.replace_provider(
            self.cloud, rp_uuid, inventories={WAYS: ways, 'CUSTOM_CAT': ways}
        )

        self.assert_place('L3_1', resources_X__CUSTOM_CAT='1')
        self.assert_place('', resources__CUSTOM_CAT='1')

    def test_what_several_groups_request_may_be_of_several(self) -> None:
        self.allocate('node1', 'L3_0', 2)
        self.add_server(
            extra_specs={f'resources_{one}:{WAYS}': '2' for one in 'AB'}
            | {f'resources_POOL:{GB}': '10'}
        )
        self.read_fresh()

        self.assert_missing(Remedy.OPERATOR, 'L3_0')

    def test_the_guest_may_be_elsewhere(self) -> None:
        self.allocate('node1', 'L3_0', 1)
        for elsewhere in (
            {clouds.ROOTS['node2']: {'VCPU': 2}},
            {clouds.make_rp_uuid('node2', 'L3_0'): {WAYS: 4}},
            {clouds.OTHER_POOL.rp_uuid: {GB: 10}},
        ):
            self.cloud = dataclasses.replace(self.cloud, fresh={})
            self.read_fresh(**elsewhere)
            self.assert_missing(Remedy.OPERATOR, 'L3_0')

    def test_in_doubt_nothing_is_allocated(self) -> None:
        self.allocate('node1', 'L3_0', 1)
        self.read_fresh()
        for remedy, fields in (
            (Remedy.WAIT, {'task_state': 'migrating'}),
            (Remedy.WAIT, {'status': 'VERIFY_RESIZE'}),
            (Remedy.OPERATOR, {'status': 'ERROR'}),
            (Remedy.OPERATOR, {'status': 'SHELVED_OFFLOADED'}),
            (Remedy.REPAIR, {'status': 'SHUTOFF'}),
            (Remedy.REPAIR, {'status': 'RESCUE'}),
        ):
            self.add_server(**fields)
            self.assert_missing(remedy, 'L3_0')

        self.add_move('error')
        self.assert_missing(Remedy.REPAIR, 'L3_0')
        self.cloud = clouds.allocate_all(self.cloud, uuids.move)
        self.assert_missing(Remedy.OPERATOR, 'L3_0')

    def test_nothing_of_what_is_requested(self) -> None:
        self.allocate('node1', 'L3_0', 0)

        self.assert_found((Kind.NOT_ALLOCATED, Remedy.OPERATOR, '', WAYS))
        [one] = compare.compare(self.cloud)
        self.assertEqual(('node1', 4), (one.host, one.amount))

    def test_what_a_migration_has_is_named(self) -> None:
        self.allocate('node1', 'L3_0', 0)
        self.add_move('error')
        self.cloud = clouds.allocate_all(self.cloud, uuids.move)

        [one, *_] = [
            one
            for one in compare.compare(self.cloud)
            if one.kind is Kind.NOT_ALLOCATED
        ]
        self.assertIn(f'migration {uuids.move}', one.text)

    def test_as_much_in_each_of_two_caches(self) -> None:
        self.allocate('node1', 'L3_1')
        self.assert_found()

        self.allocate('node1', 'L3_1', 3)
        self.assert_found((Kind.TOO_MUCH, Remedy.OPERATOR, '', WAYS))

    def test_what_others_provide_counts(self) -> None:
        """The answer for one consumer has all that it has."""
        self.allocate('node1', 'L3_0', 0)
        self.cloud = dataclasses.replace(
            self.cloud,
            fresh={
                SERVER: clouds.make_fresh(
                    SERVER,
                    resources={
                        clouds.ROOTS['node1']: {WAYS: 2},
                        uuids.sharing: {WAYS: 2},
                        clouds.POOL.rp_uuid: {GB: 10},
                        clouds.ROOTS['node2']: {'VCPU': 2},
                    },
                )
            },
        )

        self.assert_found()

    def test_classes_of_nova_are_passed_over(self) -> None:
        self.cloud = clouds.allocate(
            self.cloud, SERVER, clouds.POOL.rp_uuid, 'DISK_GB', 10
        )

        self.assert_found()

    def test_a_class_that_is_not_of_this_package(self) -> None:
        server = self.cloud.servers[SERVER]
        specs = {**server.extra_specs, 'resources:CUSTOM_OTHER': '1'}
        self.add_server(extra_specs=specs)

        self.assert_found()
