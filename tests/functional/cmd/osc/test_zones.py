# SPDX-License-Identifier: Apache-2.0

"""Availability zones, aggregates and server groups, as Nova has them."""

from typing import Any

from nova.tests.functional.api import client as nova_client

from nova_ext_resources.cmd.osc.resource import explain
from nova_ext_resources.cmd.osc.resource import simulate
from tests.functional.cmd.osc import explaining


class ZonesTest(explaining.ExplainTestCase):
    """host1 is in zone z, and full; host2 is in no zone, and free."""

    def setUp(self) -> None:
        super().setUp()
        self.name = self.api.get_flavor(self.flavor)['name']
        self.add_aggregate('rack1', 'host1', availability_zone='z')
        for _number in range(2):
            self.boot(self.flavor, host='host1')

    def add_aggregate(self, name: str, host: str, **metadata: str) -> None:
        made = self.admin_api.post_aggregate({'aggregate': {'name': name}})
        if host:
            self.admin_api.add_host_to_aggregate(made['id'], host)
        self.admin_api.api_post(
            f'/os-aggregates/{made["id"]}/action',
            {'set_metadata': {'metadata': metadata}},
        )

    def test_a_server_whose_zone_is_full(self) -> None:
        self.boot(self.flavor, state='ERROR', name='zoned', az='z')

        found, text = self.explain('--server', 'zoned')

        self.assertEqual('z', found['availability_zone'])
        self.assertEqual(
            {'host1': 'amounts', 'host2': 'zone'},
            {one['host']: one['step'] for one in found['hosts']},
        )
        words = ' '.join(text.split())
        self.assertIn('2 enabled, and up 1 in the availability zone', words)
        self.assertIn(
            'host2: does not fit the host is in no host aggregate that is an '
            'availability zone; z is requested',
            words,
        )

    def test_a_zone_by_its_name(self) -> None:
        """Without one, host2 takes the server."""
        for arguments, free in (((), 'host2'), (('z',), None)):
            words = [f'--availability-zone={one}' for one in arguments]
            found, _text = self.explain('--flavor', self.name, *words)
            self.assertEqual(
                [free] if free else [],
                [one['host'] for one in found['hosts'] if one['fits']],
            )
            found, text = self.explain(
                *('--flavor', self.name, *words), kind=simulate.Simulate
            )
            self.assertEqual(bool(free), found['servers'] > 0)
        self.assertIn(
            '1 hosts of availability zone z that are enabled',
            ' '.join(text.split()),
        )

    def simulate(self, *words: str) -> tuple[dict[str, Any], str]:
        found, text = self.explain(
            *('--flavor', self.name, *words), kind=simulate.Simulate
        )
        return found, ' '.join(text.split())

    def test_a_zone_without_hosts(self) -> None:
        """Nova refuses the server; no host fits."""
        self.add_aggregate('rack3', '', availability_zone='z3')
        words = '--availability-zone=z3'
        self.assertRaises(
            nova_client.OpenStackApiException,
            self.api.post_server,
            {
                'server': self._build_server(
                    flavor_id=self.flavor, networks='none', az='z3'
                )
            },
        )

        found, text = self.explain('--flavor', self.name, words)

        self.assertEqual(
            {'zone'}, {one['step'] for one in found['hosts']}, text
        )
        self.assertIn('Availability zone z3 has no hosts', text)
        found, text = self.simulate(words)
        self.assertEqual(0, found['servers'])
        self.assertIn('Availability zone z3 has no hosts', text)

    def test_a_host_that_placement_does_not_have_in_the_aggregate(
        self,
    ) -> None:
        """Nova's scheduler asks placement, and finds no host."""
        self.add_aggregate('rack4', 'host2', availability_zone='z4')
        client = self.make_command('admin').placement
        rp_uuid = self._get_provider_uuid_by_host('host2')
        [listed] = client.list_providers(name='host2')
        assert listed.generation is not None
        client.set_aggregates(rp_uuid, [], listed.generation)
        self.boot(self.flavor, state='ERROR', name='lost', az='z4')

        _found, text = self.explain('--server', 'lost')

        self.assertIn(
            'host2: does not fit the host is in availability zone z4, but '
            'placement does not have the host in the aggregate; run '
            '"nova-manage placement sync_aggregates"',
            ' '.join(text.split()),
        )

    def test_aggregates_that_nova_does_not_show(self) -> None:
        self.policy.set_rules(
            {'os_compute_api:os-aggregates:index': '!'}, overwrite=False
        )
        words = '--flavor', self.name, '--availability-zone=z'

        for kind in (explain.Explain, simulate.Simulate):
            found, _text = self.explain(*words, kind=kind)

            notes = ' '.join(found['notes'])
            self.assertIn('Nova does not show its host aggregates', notes)
            self.assertNotIn('No host aggregate is', notes)
            self.assertEqual(2, len(found['hosts']))

    def test_the_host_that_is_asked_for_is_of_another_zone(self) -> None:
        _found, text = self.simulate(
            '--availability-zone=z', '--host', 'host2'
        )

        self.assertIn('fit on 0 of 0 hosts', text)
        self.assertIn(
            'Note: host2 is left out: the host is in no host aggregate that '
            'is an availability zone; z is requested.',
            text,
        )
        _found, text = self.explain(
            *('--mix', f'{self.name}=1', '--host', 'host2'),
            *('--availability-zone', 'z'),
            kind=simulate.Simulate,
        )
        self.assertIn('host2 is left out', text)

    def test_notes_of_what_aggregates_may_mean(self) -> None:
        self.add_aggregate('rack2', 'host2', filter_tenant_id='someone')
        group = self.api.post_server_groups(
            {'name': 'apart', 'policy': 'anti-affinity'}
        )
        self.api.post_server(
            {
                'server': self._build_server(
                    flavor_id=self.make_pinned_flavor(100),
                    networks='none',
                    name='grouped',
                ),
                'os:scheduler_hints': {'group': group['id']},
            }
        )
        [server] = [
            one for one in self.api.get_servers() if one['name'] == 'grouped'
        ]
        self._wait_for_state_change(server, 'ERROR')

        _found, text = self.explain('--server', server['id'])

        words = ' '.join(text.split())
        self.assertIn(
            'filter_tenant_id with projects other than '
            f'{self.api.project_id} of rack2',
            words,
        )
        self.assertIn('server group apart', words)
        self.assertIn('policy anti-affinity', words)
