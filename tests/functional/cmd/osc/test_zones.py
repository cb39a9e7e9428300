# SPDX-License-Identifier: Apache-2.0

"""Availability zones, aggregates and server groups, as Nova has them."""

from nova_ext_resources.cmd.osc import simulate
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
            'host2: does not fit it is in no host aggregate that is an '
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
