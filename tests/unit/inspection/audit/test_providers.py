# SPDX-License-Identifier: Apache-2.0

"""Tests of what is found about providers and pools."""

import dataclasses
from typing import Any

from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.inspection.audit import compare
from nova_ext_resources.inspection.audit import finding
from nova_ext_resources.inspection.audit import providers
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from tests import base
from tests.unit.inspection.audit import clouds

Kind = finding.FindingKind
Remedy = finding.Remedy
WAYS, GB = clouds.WAYS, clouds.GB

L3_0 = clouds.make_rp_uuid('node1', 'L3_0')
TIE = clouds.make_rp_uuid('node3', 'POOL_rack2')


class ProvidersTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = clouds.make_cloud()

    def replace(self, **fields: Any) -> None:
        self.cloud = dataclasses.replace(self.cloud, **fields)

    def replace_provider(self, rp_uuid: str, **fields: Any) -> None:
        self.cloud = clouds.replace_provider(self.cloud, rp_uuid, **fields)

    def assert_found(self, *found: Any) -> None:
        self.assertEqual([*found], clouds.describe(self.cloud))

    def test_a_host_that_is_gone(self) -> None:
        left = {k: v for k, v in clouds.ROOTS.items() if k != 'node2'}
        self.replace(nodes=left)

        # Each before its parent.
        self.assert_found(
            *(
                (Kind.HOST_GONE, Remedy.OPERATOR, key, '')
                for key in ('L3_0', 'L3_1', 'POOL_rack1', 'RDT')
            )
        )
        self.assertIn(
            'provider delete ' + clouds.make_rp_uuid('node2', 'L3_0'),
            compare.compare(self.cloud)[0].text,
        )

    def test_a_host_that_may_be_in_no_cell_yet(self) -> None:
        self.cloud = dataclasses.replace(
            self.cloud, nodes={}, unmapped=frozenset({'host1'})
        )

        found = {
            one.remedy
            for one in compare.compare(self.cloud)
            if one.kind is Kind.HOST_GONE
        }

        self.assertEqual({Remedy.WAIT}, found)

    def test_a_host_with_another_uuid(self) -> None:
        self.replace(nodes={**clouds.ROOTS, 'node1': uuids.other})

        found = compare.compare(self.cloud)

        self.assertEqual(4, len(found))
        self.assertIn(f'another uuid, {uuids.other}', found[0].text)

    def test_a_provider_below_no_host(self) -> None:
        self.replace_provider(
            clouds.make_rp_uuid('node1', 'POOL_rack1'), parent_uuid=None
        )

        self.assert_found(
            (Kind.NO_HOST, Remedy.OPERATOR, 'node1_POOL_rack1', '')
        )

    def test_a_provider_without_the_trait(self) -> None:
        self.replace_provider(L3_0, traits=frozenset())

        self.assert_found((Kind.NOT_MARKED, Remedy.OPERATOR, 'L3_0', ''))

    def test_which_providers_are_made_by_this_package(self) -> None:
        root = self.cloud.listed[clouds.ROOTS['node1']]
        own = self.cloud.listed[L3_0]
        other = dataclasses.replace(own, rp_uuid=uuids.other)

        self.assertTrue(providers.is_made_by_us(own, root))
        self.assertFalse(providers.is_made_by_us(other, root))
        self.assertFalse(providers.is_made_by_us(root, root))

    def sell(self, amount: int) -> None:
        self.cloud = clouds.add_server(
            self.cloud,
            clouds.make_server(
                uuids.server, extra_specs={f'resources:{WAYS}': str(amount)}
            ),
        )
        self.cloud = clouds.allocate(
            self.cloud, uuids.server, L3_0, WAYS, amount
        )

    def test_more_than_there_is(self) -> None:
        self.sell(38)
        self.assert_found()

        self.sell(39)
        self.assert_found((Kind.OVERSOLD, Remedy.OPERATOR, 'L3_0', WAYS))
        [one] = compare.compare(self.cloud)
        self.assertEqual(1, one.amount)
        self.assertIn(f'held by web ({uuids.server}) 39', one.text)

    def test_the_largest_of_many_holders_are_named(self) -> None:
        uuids_of_many = [
            f'{n:08}-0000-4000-8000-0' + '0' * 11 for n in range(12)
        ]
        for number, uuid in enumerate(uuids_of_many):
            self.cloud = clouds.allocate(
                self.cloud, uuid, L3_0, WAYS, 4 + (number == 11)
            )

        [one] = [
            one
            for one in compare.compare(self.cloud)
            if one.kind is Kind.OVERSOLD
        ]

        self.assertIn(f'held by {uuids_of_many[11]} 5, ', one.text)
        self.assertTrue(one.text.endswith(' 4, and 2 more'), one.text)

    def test_what_is_held_of_a_closed_provider(self) -> None:
        self.replace_provider(
            L3_0,
            inventories={WAYS: class_inventory.Inventory(total=4, reserved=4)},
        )
        self.sell(4)
        self.assert_found()

        self.sell(5)
        self.assert_found((Kind.OVERSOLD, Remedy.OPERATOR, 'L3_0', WAYS))

        doubled = class_inventory.Inventory(
            total=4, reserved=4, allocation_ratio=2.0
        )
        self.replace_provider(L3_0, inventories={WAYS: doubled})
        self.sell(8)
        self.assert_found()

    def test_a_pool_that_is_not_tied(self) -> None:
        pool = clouds.POOL
        for fields in (
            {'aggregates': frozenset({uuids.other})},
            {'traits': frozenset({host_provider.OWNER_TRAIT})},
        ):
            self.cloud = clouds.make_cloud()
            self.replace_provider(pool.rp_uuid, **fields)
            self.assert_found(
                (Kind.POOL_UNTIED, Remedy.OPERATOR, 'POOL_rack1', '')
            )

    def test_a_pool_that_no_host_reaches(self) -> None:
        pool = clouds.POOL.rp_uuid
        for roots in ({pool}, {pool, uuids.gone}):
            self.replace(
                reached={**self.cloud.reached, pool: frozenset(roots)}
            )
            self.assert_found(
                (Kind.POOL_UNREACHED, Remedy.OPERATOR, 'POOL_rack1', '')
            )

    def test_a_host_that_has_lost_the_aggregate(self) -> None:
        self.replace_provider(TIE, aggregates=frozenset())

        self.assert_found((Kind.TIE_LOST, Remedy.OPERATOR, 'POOL_rack2', ''))

    def test_a_host_that_is_tied_to_no_pool(self) -> None:
        gone = clouds.OTHER_POOL.rp_uuid
        for name in ('listed', 'owned'):
            known = getattr(self.cloud, name)
            left = {k: v for k, v in known.items() if k != gone}
            self.replace(**{name: left})

        self.assert_found((Kind.POOL_GONE, Remedy.OPERATOR, 'POOL_rack2', ''))
