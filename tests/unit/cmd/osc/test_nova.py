# SPDX-License-Identifier: Apache-2.0

"""Tests of what Nova is asked about servers."""

from typing import Any

from keystoneauth1 import adapter
from keystoneauth1 import session
from keystoneauth1 import token_endpoint
from osc_lib import exceptions
from oslo_utils.fixture import uuidsentinel as uuids
import requests_mock

from nova_ext_resources.cmd.osc import cloud
from nova_ext_resources.cmd.osc import nova
from nova_ext_resources import exception
from nova_ext_resources.inspection.audit import cloud as cloud_mod
from nova_ext_resources.objects import planned_hold
from tests import base

URL = 'http://nova/v2.1'


class NovaTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.mock = requests_mock.Mocker()
        self.mock.start()
        self.addCleanup(self.mock.stop)
        auth = token_endpoint.Token(URL, 'admin')
        self.nova = nova.Nova(
            adapter.Adapter(
                session.Session(auth=auth),
                service_type='compute',
                endpoint_override=URL,
            )
        )

    def list_queries(self) -> list[Any]:
        return [one.qs for one in self.mock.request_history]

    def test_names_of_all_pages(self) -> None:
        pages = [
            [{'id': 'a', 'name': 'web'}, {'id': 'b', 'name': 'db'}],
            [{'id': 'c', 'name': 'web'}],
            [],
        ]
        self.mock.get(
            f'{URL}/servers', [{'json': {'servers': one}} for one in pages]
        )

        found = self.nova.list_servers_of_all('node1')

        self.assertEqual({'a': 'web', 'b': 'db', 'c': 'web'}, found)
        self.assertEqual(
            [None, ['b'], ['c']],
            [one.get('marker') for one in self.list_queries()],
        )
        self.assertEqual(['node1'], self.list_queries()[0]['node'])

    def test_a_nova_that_does_not_know_pages(self) -> None:
        self.mock.get(
            f'{URL}/servers', json={'servers': [{'id': 'a', 'name': 'web'}]}
        )

        self.assertEqual({'a': 'web'}, self.nova.list_servers_of_all())

    def test_moves_are_looked_for_until_all_are_found(self) -> None:
        move = {'uuid': uuids.move, 'instance_uuid': uuids.server}
        self.mock.get(f'{URL}/os-migrations', json={'migrations': []})
        self.mock.get(
            f'{URL}/os-migrations?status=queued', json={'migrations': [move]}
        )

        found = self.nova.find_moves(
            {uuids.move, planned_hold.make_consumer('night 1')}
        )

        self.assertEqual({uuids.move: uuids.server}, found)
        self.assertEqual(
            {'accepted', 'queued'},
            {one['status'][0] for one in self.list_queries()},
        )

    def test_nothing_is_asked_about_nothing(self) -> None:
        self.assertEqual({}, self.nova.find_moves(()))
        self.assertEqual([], self.list_queries())

    def test_a_name_is_no_regular_expression(self) -> None:
        self.mock.get(
            f'{URL}/servers',
            json={
                'servers': [
                    {'id': 'a', 'name': 'web.1'},
                    {'id': 'b', 'name': 'webx1'},
                ]
            },
        )

        self.assertEqual(['a'], self.nova.find_uuids('web.1'))
        self.assertEqual(['^web\\.1$'], self.list_queries()[0]['name'])

    def test_whoever_may_not_see_all_projects_is_shown_its_own(self) -> None:
        self.mock.get(
            f'{URL}/servers', json={'servers': [{'id': 'a', 'name': 'web'}]}
        )
        self.mock.get(f'{URL}/servers?all_tenants=1', status_code=403)

        self.assertEqual(['a'], self.nova.find_uuids('web'))

    def test_no_answer_is_not_taken_for_no_right(self) -> None:
        self.mock.get(f'{URL}/servers', status_code=503)

        self.assertRaises(
            exception.ComputeUnavailable, self.nova.find_uuids, 'web'
        )

    def test_open_moves_of_a_server(self) -> None:
        self.mock.get(
            f'{URL}/os-migrations',
            json={
                'migrations': [
                    {'uuid': 'a', 'status': 'confirmed'},
                    {'uuid': 'b', 'status': 'finished'},
                ]
            },
        )

        self.assertEqual(['b'], self.nova.list_moves(uuids.server))

    def test_hypervisors_of_all_pages(self) -> None:
        page = [
            {
                'id': uuids.node,
                'hypervisor_hostname': 'node1',
                'service': {'host': 'host1'},
                'state': 'down',
            }
        ]
        self.mock.get(
            f'{URL}/os-hypervisors/detail',
            [{'json': {'hypervisors': one}} for one in (page, [])],
        )

        self.assertEqual(
            [
                cloud_mod.Hypervisor(
                    name='node1', uuid=uuids.node, host='host1', is_up=False
                )
            ],
            [*self.nova.list_nodes()],
        )

    def test_a_cell_that_does_not_answer(self) -> None:
        self.mock.get(
            f'{URL}/os-services',
            json={
                'services': [
                    {'host': 'host1', 'status': 'disabled', 'state': 'down'},
                    {'host': 'host2', 'status': 'UNKNOWN'},
                ]
            },
        )

        found = self.nova.list_compute_services()

        self.assertEqual({'host1': 'down', 'host2': None}, found)
        headers = self.mock.request_history[-1].headers
        self.assertEqual('compute 2.69', headers['OpenStack-API-Version'])

    def test_open_migrations_are_asked_for_in_the_order_of_life(self) -> None:
        """One that goes on meanwhile is found at a later status."""
        move = {
            'uuid': uuids.move,
            'instance_uuid': uuids.server,
            'status': 'finished',
            'migration_type': 'resize',
            'source_node': None,
            'created_at': '2026-03-02T10:15:42.000000',
            'updated_at': None,
        }
        self.mock.get(f'{URL}/os-migrations', json={'migrations': []})
        self.mock.get(
            f'{URL}/os-migrations?status=finished',
            [{'json': {'migrations': one}} for one in ([move], [])],
        )

        [found] = self.nova.list_open_migrations()

        self.assertEqual(
            (uuids.move, uuids.server, 'finished', 'resize', '', True),
            (
                found.uuid,
                found.server_uuid,
                found.status,
                found.kind,
                found.source,
                found.is_old,
            ),
        )
        asked = [one['status'][0] for one in self.list_queries()]
        for earlier, later in (
            ('accepted', 'running'),
            ('pre-migrating', 'migrating'),
            ('migrating', 'post-migrating'),
            ('running', 'finished'),
            ('finished', 'confirming'),
        ):
            self.assertLess(asked.index(earlier), asked.index(later))


class AskingTest(base.TestCase):
    def ask(self, status: int) -> None:
        with cloud.asking():
            raise exception.PlacementRefused(
                action='list providers', status=status, detail='no'
            )

    def test_a_user_without_the_role_is_told_so(self) -> None:
        error = self.assertRaises(exceptions.CommandError, self.ask, 403)

        self.assertIn('list providers', str(error))
        self.assertIn('only administrators', str(error))

    def test_other_errors_pass(self) -> None:
        self.assertRaises(exception.PlacementRefused, self.ask, 400)
