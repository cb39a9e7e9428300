# SPDX-License-Identifier: Apache-2.0

"""Tests of which hosts aggregates leave out."""

from typing import Any

from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.inspection import aggregates as aggregates_mod
from tests import base

RACK1 = aggregates_mod.Aggregate(
    name='rack1',
    uuid=uuids.rack1,
    zone='z1',
    hosts=frozenset({'host1'}),
    metadata={'availability_zone': 'z1', 'filter_tenant_id': 'p1,p2'},
)
RACK2 = aggregates_mod.Aggregate(
    name='rack2',
    uuid=uuids.rack2,
    zone='z2',
    hosts=frozenset({'host2'}),
    metadata={'availability_zone': 'z2', 'ssd': 'true'},
)
FAST = aggregates_mod.Aggregate(
    name='fast',
    hosts=frozenset({'host1', 'host3'}),
    metadata={'filter_tenant_id_2': 'p3', 'trait:CUSTOM_FAST': 'required'},
)
EMPTY = aggregates_mod.Aggregate(name='empty', uuid=uuids.empty, zone='z4')


class ZoneTest(base.TestCase):
    """Placement has the provider of host1 in z1, and that of host2 in z2."""

    def find(self, zone: str, provider: str, host: str | None = None) -> str:
        found = aggregates_mod.find_zone(
            [RACK1, RACK2, FAST, EMPTY],
            zone,
            {'z1': [uuids.host1], 'z2': [uuids.host2]}.get(zone, []),
        )
        return found.find_exclusion(
            getattr(uuids, provider), provider if host is None else host
        )

    def test_hosts_of_other_zones_are_left_out(self) -> None:
        self.assertEqual('', self.find('z1', 'host1'))
        self.assertEqual(
            'the host is in availability zone z2; z1 is requested',
            self.find('z1', 'host2'),
        )
        for host in ('host3', 'host4'):
            self.assertIn('in no host aggregate', self.find('z1', host))

    def test_a_host_that_only_nova_has_in_the_aggregate(self) -> None:
        self.assertIn('sync_aggregates', self.find('z1', 'late', 'host1'))

    def test_hosts_of_which_only_the_hypervisor_is_known(self) -> None:
        self.assertEqual('', self.find('z1', 'host1', ''))
        self.assertEqual(
            'placement does not have the host in an aggregate of the zone; z1 '
            'is requested',
            self.find('z1', 'host2', ''),
        )

    def test_a_zone_without_hosts_leaves_out_all(self) -> None:
        self.assertIn('z2; z4 is requested', self.find('z4', 'host2'))
        self.assertIn('in no host aggregate', self.find('z4', 'host3'))

    def test_what_leaves_no_host_out(self) -> None:
        zone = aggregates_mod.Zone(name='nova')

        self.assertEqual('', zone.find_exclusion(uuids.host1, 'host1'))

    def test_aggregates_that_are_a_zone(self) -> None:
        for zone, found in (
            ('z1', [uuids.rack1]),
            ('z4', [uuids.empty]),
            ('nova', []),
            ('', []),
        ):
            self.assertEqual(
                found,
                aggregates_mod.list_uuids([RACK1, RACK2, FAST, EMPTY], zone),
            )


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
        [empty] = self.list_notes(RACK2, EMPTY, zone='z4')
        self.assertIn('Availability zone z4 has no hosts', empty)

    def test_aggregates_that_nova_does_not_show(self) -> None:
        wish = aggregates_mod.Wish(zone='z3', extra_specs={'ssd': '1'})

        [note] = aggregates_mod.list_notes(None, wish)

        self.assertIn('Nova does not show its host aggregates', note)

    def test_projects(self) -> None:
        for project, wanted in (
            (
                '',
                'filter_tenant_id (--project names the project) of rack1, '
                'fast',
            ),
            ('p2', 'filter_tenant_id with project p2 of rack1'),
            ('p2', 'filter_tenant_id with projects other than p2 of fast'),
            ('p', 'with projects other than p of rack1, fast'),
        ):
            [note] = self.list_notes(RACK1, FAST, zone='z1', project=project)

            self.assertIn(wanted, note)
            self.assertIn('trait:CUSTOM_FAST of fast', note)

    def test_extra_specs_that_aggregates_have(self) -> None:
        for specs, wanted in (
            ({'ssd': 'true'}, ': ssd of rack2. '),
            (
                {'aggregate_instance_extra_specs:ssd': 'true'},
                ': ssd of rack2. ',
            ),
            (
                {'aggregate_instance_extra_specs:gpu': '1'},
                ': aggregate_instance_extra_specs:gpu of the flavor, which no '
                'aggregate has. ',
            ),
        ):
            [note] = self.list_notes(RACK2, zone='z2', extra_specs=specs)

            self.assertIn(wanted, note)
            self.assertIn('AggregateImagePropertiesIsolation', note)
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
