# SPDX-License-Identifier: Apache-2.0

"""Tests of the command that audits the cloud; see functional."""

import dataclasses
import json
import os
import pathlib
import shlex
from typing import Any

import fixtures
from osc_lib import exceptions
from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.cmd.osc.audit import journal as journal_mod
from nova_ext_resources.cmd.osc.audit import repair as repair_mod
from nova_ext_resources.cmd.osc.audit import sources
from nova_ext_resources.cmd.osc import cloud as cloud_mod
from nova_ext_resources import exception
from nova_ext_resources.inspection.audit import finding
from nova_ext_resources.placement.api import responses
from tests import base
from tests.unit.cmd.osc import shells
from tests.unit.cmd.osc import test_pages
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


class _FullPool(_Placement):
    """Has a pool without room, and checks generations."""

    def __init__(self, held: responses.Allocations) -> None:
        super().__init__()
        self.held = held

    def get_allocations(self, _uuid: str) -> responses.Allocations:
        return self.held

    def put_allocations(self, allocations: responses.Allocations) -> None:
        if allocations.generation != self.held.generation:
            raise exception.ConcurrentUpdate(action='set', detail='other')
        if uuids.pool in allocations.resources:
            raise exception.AllocationRejected(action='set', detail='full')
        self.held = dataclasses.replace(
            allocations, generation=(self.held.generation or 0) + 1
        )
        super().put_allocations(allocations)


class _ChangedAfter(_FullPool):
    """Somebody changes the server after each write."""

    def put_allocations(self, allocations: responses.Allocations) -> None:
        super().put_allocations(allocations)
        self.held = dataclasses.replace(
            self.held, resources={}, generation=(self.held.generation or 0) + 1
        )


class _AwayAfter(_ChangedAfter):
    """And placement does not show it."""

    def get_allocations(self, _uuid: str) -> responses.Allocations:
        raise exception.PlacementUnavailable(action='show', detail='away')


def make_finding(
    remedy: Remedy = Remedy.REPAIR, consumer: str = uuids.gone
) -> finding.Finding:
    return finding.Finding(
        kind=finding.FindingKind.NO_CONSUMER,
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
        with journal_mod.AuditJournal(str(self.path)) as journal:
            repair = repair_mod.AllocationRepair(placement, journal)
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

    def test_what_is_missing_is_allocated(self) -> None:
        placement = _Placement()
        missing = dataclasses.replace(
            make_finding(), kind=finding.FindingKind.NOT_ALLOCATED
        )
        other = dataclasses.replace(missing, rp_uuid=uuids.pool)

        done = self.repair(placement, missing, other)

        self.assertEqual(['allocated'] * 2, [one.text for one in done])
        [written] = placement.written
        self.assertEqual(7, written.generation)
        self.assertEqual(
            {
                uuids.l3: {'CUSTOM_LLC_WAYS': 8, 'CUSTOM_OTHER': 1},
                uuids.node: {'VCPU': 2},
                uuids.pool: {'CUSTOM_LLC_WAYS': 4},
            },
            written.resources,
        )
        self.assertEqual(
            [(4, 8), (0, 4)] * 2,
            [(one['before'], one['after']) for one in self.read()],
        )

    def make_three(self) -> list[finding.Finding]:
        """Make what is missing: of a full pool, and of two other providers."""
        missing = dataclasses.replace(
            make_finding(), kind=finding.FindingKind.NOT_ALLOCATED
        )
        return [
            dataclasses.replace(missing, rp_uuid=one)
            for one in (uuids.l3, uuids.pool, uuids.other)
        ]

    def test_what_has_no_room_does_not_keep_others_from_theirs(self) -> None:
        placement = _FullPool(self.fresh[uuids.gone])

        found = self.repair(placement, *self.make_three())

        self.assertEqual(
            [Remedy.DONE, Remedy.OPERATOR, Remedy.DONE],
            [one.remedy for one in found],
        )
        self.assertIn('not allocated: ', found[1].text)
        self.assertIn('full', found[1].text)
        self.assertEqual(
            {
                uuids.l3: {'CUSTOM_LLC_WAYS': 8, 'CUSTOM_OTHER': 1},
                uuids.node: {'VCPU': 2},
                uuids.other: {'CUSTOM_LLC_WAYS': 4},
            },
            placement.held.resources,
        )
        self.assertEqual(
            ['begun'] * 3
            + ['failed'] * 3
            + ['begun', 'done', 'begun', 'failed', 'begun', 'done'],
            [one['state'] for one in self.read()],
        )

    def test_what_has_changed_after_the_first_of_them_is_left(self) -> None:
        for kind in (_ChangedAfter, _AwayAfter):
            placement = kind(self.fresh[uuids.gone])

            found = self.repair(placement, *self.make_three())

            self.assertEqual(
                [Remedy.DONE, Remedy.OPERATOR, Remedy.OPERATOR],
                [one.remedy for one in found],
            )
            for one in found[1:]:
                self.assertIn('changed meanwhile', one.text)
            self.assertEqual(1, len(placement.written))

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


class PageTest(base.TestCase):
    """What the page shows is what the command prints."""

    WEB_1 = '8f0d2c61-5be7-4a39-9d14-7e3c0b6a2f02'
    WEB_2 = 'c47e9b30-1a6d-4f82-b5c8-0d9f3e7a4c03'
    GONE = '3b1f7a52-90c4-4d0e-8f7b-2c6a5e1d9b01'

    def setUp(self) -> None:
        super().setUp()
        self.patch(cloud_mod.CloudCommand, 'make_adapter', lambda *_: None)
        for name, value in (('AUTH_TYPE', 'none'), ('ENDPOINT', 'http://no')):
            self.useFixture(fixtures.EnvironmentVariable(f'OS_{name}', value))
        made = self.make_cloud()
        self.patch(sources.AuditReader, 'read', lambda _reader: made)
        self.patch(
            sources.AuditReader,
            'read_again',
            lambda _reader, cloud, _found: cloud,
        )

    def make_cloud(self) -> Any:
        cloud = clouds.make_cloud()
        for uuid, name in ((self.WEB_1, 'web-1'), (self.WEB_2, 'web-2')):
            specs = {f'resources:{clouds.WAYS}': '4'}
            server = clouds.make_server(uuid, name=name, extra_specs=specs)
            cloud = clouds.add_server(cloud, server)
        for uuid, host, key, amount in (
            (self.WEB_1, 'node1', 'L3_0', 4),
            (self.WEB_1, 'node2', 'L3_1', 4),
            (self.WEB_2, 'node1', 'L3_0', 2),
            (self.GONE, 'node2', 'L3_0', 4),
        ):
            place = clouds.make_rp_uuid(host, key), clouds.WAYS
            cloud = clouds.allocate(cloud, uuid, *place, amount)
        return clouds.replace(
            cloud,
            absent=frozenset({self.GONE}),
            fresh={
                self.WEB_2: clouds.make_fresh(
                    self.WEB_2,
                    resources={
                        clouds.ROOTS['node1']: {'VCPU': 2},
                        **cloud.allocations[self.WEB_2],
                    },
                )
            },
            reached={**cloud.reached, clouds.OTHER_POOL.rp_uuid: frozenset()},
        )

    def test_each_command_prints_what_the_page_shows(self) -> None:
        seen = 0
        for line, wanted in test_pages.read_page('admin/audit.rst'):
            if wanted:
                status, output, errors = shells.run(shlex.split(line)[1:])

                self.assertEqual((1, ''), (status, errors))
                self.assertEqual(wanted, output.rstrip(), line)
                seen += 1
        self.assertEqual(2, seen)

    def test_the_page_has_all_kinds(self) -> None:
        page = test_pages.PAGES / 'admin' / 'audit.rst'
        text = page.read_text(encoding='utf-8')
        for kind in finding.FindingKind:
            self.assertIn(f'   * - ``{kind}``\n', text)

    def test_repair_needs_a_journal(self) -> None:
        status, _output, errors = shells.run(
            ['extended', 'resource', 'audit', '--repair']
        )

        self.assertEqual(2, status)
        self.assertIn('--journal', errors)


class CheckTest(base.TestCase):
    def test_services_of_different_clouds(self) -> None:
        cloud = clouds.make_cloud()
        sources._check(cloud)

        for nodes in ({}, {'node1': uuids.other}):
            other = clouds.replace(cloud, nodes=nodes)
            self.assertRaises(exceptions.CommandError, sources._check, other)

    def test_a_cloud_without_hosts(self) -> None:
        cloud = clouds.make_cloud()
        pools = {
            rp_uuid: one for rp_uuid, one in cloud.owned.items() if one.is_pool
        }

        sources._check(clouds.replace(cloud, owned=pools, nodes={}))
