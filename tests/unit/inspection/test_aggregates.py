# SPDX-License-Identifier: Apache-2.0

"""Tests of which hosts aggregates leave out."""

from typing import Any

from nova_ext_resources.inspection import aggregates as aggregates_mod
from tests import base

RACK1 = aggregates_mod.Aggregate(
    name='rack1',
    zone='z1',
    hosts=frozenset({'host1'}),
    metadata={'availability_zone': 'z1', 'filter_tenant_id': 'p1,p2'},
)
RACK2 = aggregates_mod.Aggregate(
    name='rack2',
    zone='z2',
    hosts=frozenset({'host2'}),
    metadata={'availability_zone': 'z2', 'ssd': 'true'},
)
FAST = aggregates_mod.Aggregate(
    name='fast',
    hosts=frozenset({'host1', 'host3'}),
    metadata={'filter_tenant_id_2': 'p3', 'trait:CUSTOM_FAST': 'required'},
)


class ZoneTest(base.TestCase):
    def find(self, zone: str, host: str) -> str:
        found = aggregates_mod.find_zone([RACK1, RACK2, FAST], zone)
        return found.find_exclusion(host)

    def test_hosts_of_other_zones_are_left_out(self) -> None:
        self.assertEqual('', self.find('z1', 'host1'))
        self.assertEqual(
            'it is in availability zone z2; z1 is requested',
            self.find('z1', 'host2'),
        )
        for host in ('host3', 'host4'):
            self.assertIn('in no host aggregate', self.find('z1', host))

    def test_what_leaves_no_host_out(self) -> None:
        for zone in ('', 'nova'):
            for host in ('host1', 'host4'):
                self.assertEqual('', self.find(zone, host))


class NotesTest(base.TestCase):
    def list_notes(
        self, *aggregates: aggregates_mod.Aggregate, **wish: Any
    ) -> list[str]:
        return [
            *aggregates_mod.list_notes(aggregates, aggregates_mod.Wish(**wish))
        ]

    def test_a_cloud_without_aggregates(self) -> None:
        self.assertEqual([], self.list_notes())
        self.assertEqual([], self.list_notes(extra_specs={'hw:x': '1'}))

    def test_zones(self) -> None:
        [unknown] = self.list_notes(RACK2, zone='z3')
        self.assertIn('No host aggregate is availability zone z3', unknown)
        [none] = self.list_notes(RACK2)
        self.assertIn('default_schedule_zone', none)
        self.assertEqual([], self.list_notes(RACK2, zone='z2'))

    def test_projects(self) -> None:
        for project, wanted in (
            ('', 'filter_tenant_id (--project says whose) of rack1, fast'),
            ('p2', 'filter_tenant_id with project p2 of rack1'),
            ('p2', 'filter_tenant_id with projects other than p2 of fast'),
            ('p', 'with projects other than p of rack1, fast'),
        ):
            [note] = self.list_notes(RACK1, FAST, zone='z1', project=project)

            self.assertIn(wanted, note)
            self.assertIn('trait:CUSTOM_FAST of fast', note)

    def test_extra_specs_that_aggregates_have(self) -> None:
        for specs, wanted in (
            ({'ssd': 'true'}, ': ssd of rack2.'),
            (
                {'aggregate_instance_extra_specs:ssd': 'true'},
                ': ssd of rack2.',
            ),
            (
                {'aggregate_instance_extra_specs:gpu': '1'},
                ': aggregate_instance_extra_specs:gpu of the flavor, which no '
                'aggregate has.',
            ),
        ):
            [note] = self.list_notes(RACK2, zone='z2', extra_specs=specs)

            self.assertTrue(note.endswith(wanted), note)
        for specs in ({'hw:ssd': '1'}, {'gpu': '1'}):
            self.assertEqual(
                [], self.list_notes(RACK2, zone='z2', extra_specs=specs)
            )

    def test_not_all_of_many_aggregates_are_named(self) -> None:
        many = [
            aggregates_mod.Aggregate(name=f'a{n}', metadata={'ssd': '1'})
            for n in range(9)
        ]

        [note] = self.list_notes(*many, extra_specs={'ssd': '1'})

        self.assertIn('ssd of a0, a1, a2, a3, a4 and 4 more', note)
