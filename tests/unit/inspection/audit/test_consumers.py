# SPDX-License-Identifier: Apache-2.0

"""Tests of what is found about migrations, and consumers of nobody."""

import dataclasses
from typing import Any

from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.inspection.audit import cloud as cloud_mod
from nova_ext_resources.inspection.audit import compare
from nova_ext_resources.inspection.audit import finding
from nova_ext_resources.objects import planned_hold
from tests import base
from tests.unit.inspection.audit import clouds

Kind = finding.FindingKind
Remedy = finding.Remedy
WAYS, GB = clouds.WAYS, clouds.GB

SERVER: str = uuids.server
MOVE: str = uuids.move


class CellsTest(base.TestCase):
    """A migration to another cell has a record in each."""

    def test_it_has_not_ended_before_both_have(self) -> None:
        source, target = (
            clouds.make_move(MOVE, SERVER, status)
            for status in ('confirmed', 'finished')
        )

        for moves in ([source, target], [target, source]):
            self.assertEqual({MOVE: target}, cloud_mod.index_moves(moves))


class MovesTest(base.TestCase):
    """A server on node2 has been on node1."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud = clouds.allocate_all(clouds.make_cloud(), MOVE)
        self.cloud = clouds.allocate_all(self.cloud, SERVER, 'node2')

    def set_state(
        self, move: str, *, is_old: bool = False, **fields: Any
    ) -> None:
        self.cloud = clouds.add_server(
            self.cloud, clouds.make_server(SERVER, 'node2', **fields)
        )
        self.cloud = clouds.add_move(
            self.cloud, clouds.make_move(MOVE, SERVER, move, is_old=is_old)
        )

    def assert_found(self, remedy: Remedy) -> None:
        self.assertEqual(
            {
                (Kind.MIGRATION_ENDED, remedy, 'L3_0', WAYS),
                (Kind.MIGRATION_ENDED, remedy, 'POOL_rack1', GB),
            },
            {*clouds.describe(self.cloud)},
        )

    def test_one_in_progress(self) -> None:
        cases: tuple[tuple[str, dict[str, Any]], ...] = (
            ('finished', {'status': 'VERIFY_RESIZE'}),
            ('running', {'status': 'MIGRATING', 'task_state': 'migrating'}),
            ('accepted', {'task_state': 'scheduling'}),
        )
        for status, fields in cases:
            self.set_state(status, **fields)
            self.assertEqual([], clouds.describe(self.cloud))

    def test_one_with_which_nova_may_not_go_on(self) -> None:
        """After a while, it is the operator's, and so is all of its server."""
        for is_old, remedy in (
            (False, Remedy.WAIT),
            (True, Remedy.OPERATOR),
        ):
            self.set_state('running', is_old=is_old)
            self.assert_found(remedy)
            cloud = clouds.allocate(
                self.cloud,
                SERVER,
                clouds.make_rp_uuid('node2', 'L3_0'),
                WAYS,
                1,
            )
            self.assertIn(
                (Kind.NOT_ALLOCATED, remedy, 'L3_0', WAYS),
                clouds.describe(cloud),
            )

    def test_one_that_has_ended(self) -> None:
        for status in ('confirmed', 'reverted', 'completed', 'error'):
            self.set_state(status)
            self.assert_found(Remedy.REPAIR)

    def test_the_server_may_need_it(self) -> None:
        self.set_state('error', status='ERROR')
        self.assert_found(Remedy.OPERATOR)

        self.set_state('reverted', task_state='resize_reverting')
        self.assert_found(Remedy.WAIT)

    def test_the_server_does_not_have_its_own(self) -> None:
        self.set_state('error')
        self.cloud = clouds.allocate(
            self.cloud, SERVER, clouds.make_rp_uuid('node2', 'L3_0'), WAYS, 3
        )

        self.assertIn(
            (Kind.MIGRATION_ENDED, Remedy.OPERATOR, 'L3_0', WAYS),
            clouds.describe(self.cloud),
        )
        for consumer in (MOVE, SERVER):
            self.assertIn(
                f'allocation show {consumer}',
                compare.compare(self.cloud)[0].text,
            )

    def test_one_that_failed_on_the_host_of_the_server(self) -> None:
        """A resize on one host: which units are in use is not known."""
        place = clouds.make_rp_uuid('node2', 'L3_1'), WAYS
        self.cloud = clouds.allocate(clouds.make_cloud(), MOVE, *place, 4)
        self.cloud = clouds.allocate_all(self.cloud, SERVER, 'node2')
        for status, remedy in (
            ('error', Remedy.OPERATOR),
            ('reverted', Remedy.OPERATOR),
            ('confirmed', Remedy.REPAIR),
        ):
            self.set_state(status)
            self.assertEqual(
                [(Kind.MIGRATION_ENDED, remedy, 'L3_1', WAYS)],
                clouds.describe(self.cloud),
            )

    def test_what_is_of_nova_is_left(self) -> None:
        self.set_state('error')
        fresh = clouds.make_fresh(
            MOVE, resources={clouds.ROOTS['node1']: {'VCPU': 2}}
        )
        self.cloud = dataclasses.replace(self.cloud, fresh={MOVE: fresh})

        self.assertEqual([], clouds.describe(self.cloud))

    def test_the_server_is_deleted(self) -> None:
        self.set_state('running')
        self.cloud = clouds.allocate(
            self.cloud, SERVER, clouds.make_rp_uuid('node2', 'L3_0'), WAYS, 0
        )
        self.cloud = clouds.allocate(
            self.cloud, SERVER, clouds.POOL.rp_uuid, GB, 0
        )
        self.cloud = dataclasses.replace(self.cloud, servers={})
        self.assert_found(Remedy.WAIT)

        self.cloud = dataclasses.replace(
            self.cloud, absent=frozenset({SERVER})
        )
        self.assert_found(Remedy.REPAIR)


class StrangersTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.consumer: str = uuids.gone
        self.cloud = clouds.allocate_all(clouds.make_cloud(), uuids.gone)
        self.cloud = dataclasses.replace(
            self.cloud, absent=frozenset({uuids.gone})
        )

    def test_it_may_be_of_another_nova(self) -> None:
        """Whose hosts this one does not have."""
        self.cloud = dataclasses.replace(
            self.cloud, nodes={'node2': clouds.ROOTS['node2']}
        )

        found = {
            one.remedy
            for one in compare.compare(self.cloud)
            if one.kind is Kind.NO_CONSUMER
        }

        self.assertEqual({Remedy.OPERATOR}, found)

    def test_it_may_be_a_migration_that_nova_has_not_listed(self) -> None:
        """Of a server of the same project that moves, or has failed to."""
        held = self.cloud.allocations[self.consumer]
        for project, status, remedy in (
            ('red', 'VERIFY_RESIZE', Remedy.WAIT),
            ('red', 'ERROR', Remedy.WAIT),
            ('red', 'ACTIVE', Remedy.REPAIR),
            ('blue', 'VERIFY_RESIZE', Remedy.REPAIR),
        ):
            server = clouds.make_server(
                SERVER, status=status, project=project, extra_specs={}
            )
            self.cloud = dataclasses.replace(
                self.cloud,
                servers={SERVER: server},
                fresh={
                    self.consumer: clouds.make_fresh(
                        self.consumer, resources=held, project_id='red'
                    )
                },
            )
            self.assert_found(remedy)

    def set_type(self, consumer_type: str, consumer: str) -> None:
        self.cloud = clouds.allocate_all(clouds.make_cloud(), consumer)
        fresh = clouds.make_fresh(
            consumer,
            consumer_type=consumer_type,
            resources={
                clouds.make_rp_uuid('node1', 'L3_0'): {WAYS: 4},
                clouds.POOL.rp_uuid: {GB: 10},
                clouds.ROOTS['node1']: {'VCPU': 2},
            },
        )
        self.cloud = dataclasses.replace(
            self.cloud,
            fresh={consumer: fresh},
            absent=frozenset({consumer}),
        )

    def assert_found(self, remedy: Remedy) -> None:
        self.assertEqual(
            {
                (Kind.NO_CONSUMER, remedy, 'L3_0', WAYS),
                (Kind.NO_CONSUMER, remedy, 'POOL_rack1', GB),
            },
            {*clouds.describe(self.cloud)},
        )

    def test_a_consumer_of_nobody(self) -> None:
        self.assert_found(Remedy.REPAIR)
        for kind in ('unknown', 'INSTANCE', 'MIGRATION'):
            self.set_type(kind, uuids.gone)
            self.assert_found(Remedy.REPAIR)

    def test_nova_was_not_asked(self) -> None:
        self.cloud = dataclasses.replace(self.cloud, absent=frozenset())

        self.assert_found(Remedy.WAIT)

    def test_what_holds_room_for_reserved_servers(self) -> None:
        self.set_type(
            planned_hold.CONSUMER_TYPE, planned_hold.make_consumer('night 1')
        )

        self.assertEqual([], clouds.describe(self.cloud))

    def test_a_consumer_of_other_software(self) -> None:
        self.set_type('BACKUP', uuids.gone)

        self.assert_found(Remedy.OPERATOR)
        self.assertIn('type BACKUP', compare.compare(self.cloud)[0].text)
