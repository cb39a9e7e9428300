# SPDX-License-Identifier: Apache-2.0

"""Tests of the command that audits the cloud; see functional."""

import json
import os
import pathlib
from typing import Any

from osc_lib import exceptions
from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.cmd.osc import audit_journal
from nova_ext_resources.cmd.osc import audit_reading
from nova_ext_resources.cmd.osc import audit_repair
from nova_ext_resources import exception
from nova_ext_resources.inspection.audit import finding
from nova_ext_resources.placement import responses
from tests import base
from tests.unit.inspection.audit import clouds

Remedy = finding.Remedy

_HELD = {
    uuids.l3: {'CUSTOM_LLC_WAYS': 4, 'CUSTOM_OTHER': 1},
    uuids.node: {'VCPU': 2},
}


class _Placement:
    """Takes allocations, or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.written: list[responses.Allocations] = []

    def put_allocations(self, allocations: responses.Allocations) -> None:
        if self.error is not None:
            raise self.error
        self.written.append(allocations)


def make_finding(
    remedy: Remedy = Remedy.REPAIR, consumer: str = uuids.gone
) -> finding.Finding:
    return finding.Finding(
        kind=finding.Kind.NO_CONSUMER,
        remedy=remedy,
        text='do something',
        host='node1',
        rp_uuid=uuids.l3,
        resource_class='CUSTOM_LLC_WAYS',
        consumer=consumer,
        amount=4,
    )


class RepairTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.path = pathlib.Path(self.make_folder()) / 'journal'
        self.fresh = {
            uuids.gone: clouds.make_fresh(
                uuids.gone, resources=_HELD, generation=7, project_id='p'
            )
        }

    def repair(
        self, placement: Any, *found: finding.Finding
    ) -> list[finding.Finding]:
        with audit_journal.Journal(str(self.path)) as journal:
            repair = audit_repair.Repair(placement, journal)
            return repair.run(found, self.fresh)

    def read(self) -> list[Any]:
        return [json.loads(one) for one in self.path.read_text().splitlines()]

    def test_only_the_leftover_is_deleted_with_the_generation(self) -> None:
        placement = _Placement()

        [one] = self.repair(placement, make_finding())

        self.assertEqual((Remedy.DONE, 'deleted'), (one.remedy, one.text))
        [written] = placement.written
        self.assertEqual(7, written.generation)
        self.assertEqual(
            {uuids.l3: {'CUSTOM_OTHER': 1}, uuids.node: {'VCPU': 2}},
            written.resources,
        )

    def test_each_change_is_noted_before_and_after_it(self) -> None:
        self.repair(_Placement(), make_finding())

        begun, done = self.read()
        self.assertEqual('begun', begun.pop('state'))
        self.assertEqual('done', done.pop('state'))
        self.assertIn('time', begun)
        for one in (begun, done):
            self.assertEqual(
                (uuids.gone, uuids.l3, 'CUSTOM_LLC_WAYS', 4, 0, 7, 'p'),
                tuple(
                    one[key]
                    for key in (
                        'consumer',
                        'provider',
                        'resource_class',
                        'before',
                        'after',
                        'consumer_generation',
                        'project',
                    )
                ),
            )

    def test_all_else_is_left(self) -> None:
        placement = _Placement()
        found = [make_finding(one) for one in Remedy if one != Remedy.REPAIR]

        self.assertEqual(found, self.repair(placement, *found))
        self.assertEqual([], placement.written)
        self.assertEqual([], self.read())

    def test_what_placement_refuses(self) -> None:
        for kind, words in (
            (exception.ConcurrentUpdate, 'changed meanwhile'),
            (exception.AllocationRejected, 'no room'),
            (exception.PlacementUnavailable, 'no room'),
        ):
            error = kind(action='set allocations', detail='no room')
            [one] = self.repair(_Placement(error), make_finding())
            self.assertEqual(Remedy.OPERATOR, one.remedy)
            self.assertIn(words, one.text)
            begun, failed = self.read()[-2:]
            self.assertEqual('begun', begun['state'])
            self.assertEqual('failed', failed['state'])
            self.assertIn('no room', failed['reason'])

    def test_nothing_is_changed_without_the_journal(self) -> None:
        placement = _Placement()
        self.patch(os, 'fsync', self._fail)

        error = self.assertRaises(
            exceptions.CommandError, self.repair, placement, make_finding()
        )

        self.assertIn(str(self.path), str(error))
        self.assertEqual([], placement.written)

    def _fail(self, _descriptor: int) -> None:
        raise OSError('the disk is full')

    def test_a_journal_that_cannot_be_opened(self) -> None:
        self.path = self.path / 'no' / 'folder'

        error = self.assertRaises(exceptions.CommandError, self.repair, None)

        self.assertIn('cannot be written', str(error))


class CheckTest(base.TestCase):
    def test_services_of_different_clouds(self) -> None:
        cloud = clouds.make_cloud()
        audit_reading._check(cloud)

        for nodes in ({}, {'node1': uuids.other}):
            other = clouds.replace(cloud, nodes=nodes)
            self.assertRaises(
                exceptions.CommandError, audit_reading._check, other
            )

    def test_a_cloud_without_hosts(self) -> None:
        cloud = clouds.make_cloud()
        pools = {
            rp_uuid: one for rp_uuid, one in cloud.owned.items() if one.is_pool
        }

        audit_reading._check(clouds.replace(cloud, owned=pools, nodes={}))
