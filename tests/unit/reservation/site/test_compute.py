# SPDX-License-Identifier: Apache-2.0

"""Tests of what is read of the Compute API, with answers as Nova gives them.

Its text is that of a Nova 34; see also the tests that run on one.
"""

from typing import Any

from keystoneauth1 import adapter
from keystoneauth1 import session
from keystoneauth1 import token_endpoint
from oslo_utils.fixture import uuidsentinel as uuids
import requests
from requests_mock.contrib import fixture

from nova_ext_resources import exception
from nova_ext_resources.reservation import flavor
from nova_ext_resources.reservation import flavor as flavor_mod
from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation.site import compute
from tests import base

URL = 'http://compute/v2.1'


def make_flavor(**fields: Any) -> dict[str, Any]:
    return {
        'id': uuids.large,
        'name': 'large',
        'vcpus': 4,
        'ram': 8192,
        'disk': 20,
        'OS-FLV-EXT-DATA:ephemeral': 5,
        'swap': '',
        'extra_specs': {'resources:CUSTOM_X': '1'},
        **fields,
    }


def _make_mock() -> Any:
    make: Any = fixture.Fixture
    return make()


class ComputeTestCase(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.mock: Any = self.useFixture(_make_mock())
        auth = token_endpoint.Token(URL, 'token')
        self.compute = compute.Compute(
            adapter.Adapter(session.Session(auth=auth), service_type='compute')
        )


class ComputeTest(ComputeTestCase):
    def answer(self, *pages: list[dict[str, Any]]) -> None:
        self.mock.get(
            f'{URL}/flavors/detail',
            [{'json': {'flavors': page}} for page in (*pages, [])],
        )

    def test_a_flavor_by_name_or_id(self) -> None:
        for name in ('large', str(uuids.large)):
            self.answer([make_flavor(swap=1025)])

            self.assertEqual(
                flavor.Flavor(
                    name='large',
                    vcpus=4,
                    memory_mb=8192,
                    disk_gb=27,
                    extra_specs={'resources:CUSTOM_X': '1'},
                ),
                self.compute.find_flavor(name),
            )
        request: Any = self.mock.last_request
        self.assertEqual('none', request.qs['is_public'][0])
        self.assertEqual(
            'compute 2.61', request.headers['OpenStack-API-Version']
        )

    def test_on_a_later_page(self) -> None:
        first = make_flavor(id=uuids.small, name='small')
        self.answer([first], [make_flavor()])

        found = self.compute.find_flavor('large')

        self.assertEqual('large', found and found.name)
        self.assertIn(
            f'marker={uuids.small}', self.mock.request_history[1].url
        )

    def test_one_page_again_and_again(self) -> None:
        self.mock.get(
            f'{URL}/flavors/detail', json={'flavors': [make_flavor()]}
        )

        self.assertIsNone(self.compute.find_flavor('tiny'))
        self.assertEqual(2, self.mock.call_count)

    def test_a_flavor_that_there_is_not(self) -> None:
        self.answer([make_flavor()])

        self.assertIsNone(self.compute.find_flavor('tiny'))

    def test_aggregates_that_are_zones(self) -> None:
        self.mock.get(
            f'{URL}/os-aggregates',
            json={
                'aggregates': [
                    {'uuid': uuids.north, 'availability_zone': 'north'},
                    {'uuid': uuids.other, 'availability_zone': None},
                ]
            },
        )

        self.assertEqual({uuids.north: 'north'}, self.compute.list_zones())

    def test_answers_that_are_none(self) -> None:
        for answer in (
            {'status_code': 403, 'text': 'no'},
            {'status_code': 200, 'text': 'hello'},
            {'status_code': 200, 'json': {'flavors': [{}]}},
            {'status_code': 200, 'json': []},
            {'status_code': 200, 'json': {'flavors': ['x']}},
            {'exc': requests.ConnectionError('refused')},
        ):
            with self.subTest(answer=str(answer)):
                self.mock.get(f'{URL}/flavors/detail', **answer)

                err = self.assertRaises(
                    exception.ComputeUnavailable,
                    self.compute.find_flavor,
                    'large',
                )

                self.assertIn('show flavor large', str(err))
                self.assertIn('in place of a flavor', str(err))


def make_server(**fields: Any) -> dict[str, Any]:
    return {
        'id': uuids.server,
        'name': 'web',
        'status': 'ACTIVE',
        'created': '2030-01-01T00:00:00Z',
        'OS-EXT-STS:task_state': None,
        'locked': False,
        'OS-EXT-SRV-ATTR:hypervisor_hostname': 'compute-1',
        'tenant_id': 'project',
        'image': {'id': uuids.image},
        'flavor': {
            'original_name': 'large',
            'vcpus': 2,
            'ram': 512,
            'disk': 10,
            'ephemeral': 3,
            'swap': 1025,
            'extra_specs': {'a': 'b'},
        },
        'metadata': {'x': 'y'},
        **fields,
    }


def make_hypervisor(node: str, host: str) -> dict[str, Any]:
    return {'hypervisor_hostname': node, 'service': {'host': host}}


class ServersTest(ComputeTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.server = f'{URL}/servers/{uuids.server}'

    def test_a_server(self) -> None:
        self.mock.get(self.server, json={'server': make_server()})

        self.assertEqual(
            nova_server.NovaServer(
                uuid=uuids.server,
                name='web',
                host='compute-1',
                created_at=1893456000,
                project='project',
                flavor=flavor_mod.Flavor(
                    name='large',
                    vcpus=2,
                    memory_mb=512,
                    disk_gb=15,
                    extra_specs={'a': 'b'},
                ),
                extra_specs={'a': 'b'},
                metadata={'x': 'y'},
            ),
            self.compute.find_server(uuids.server),
        )

    def test_the_hints_of_a_server(self) -> None:
        for hints in ({'a': ['b', 'c']}, {}, None):
            body = make_server(scheduler_hints=hints)
            self.mock.get(self.server, json={'server': body})

            found = self.compute.find_server(uuids.server)

            assert found is not None
            self.assertEqual(hints or {}, found.hints)
            request: Any = self.mock.last_request
            self.assertEqual(
                'compute 2.100', request.headers['OpenStack-API-Version']
            )

    def test_a_nova_that_shows_no_hints(self) -> None:
        def answer(request: Any, context: Any) -> Any:
            version = request.headers['OpenStack-API-Version']
            context.status_code = 200 if version == 'compute 2.61' else 406
            return {'server': make_server()}

        self.mock.get(self.server, json=answer)

        for _time in range(2):
            found = self.compute.find_server(uuids.server)

            assert found is not None
            self.assertEqual({}, found.hints)
        # It is not asked for them again.
        self.assertEqual(3, self.mock.call_count)

    def test_a_server_of_a_volume_has_its_root_disk_elsewhere(self) -> None:
        self.mock.get(self.server, json={'server': make_server(image='')})

        found = self.compute.find_server(uuids.server)

        assert found is not None
        self.assertEqual(5, found.flavor.disk_gb)

    def test_the_servers_of_a_project_page_by_page(self) -> None:
        pages = [
            {'servers': [make_server(id='1'), make_server(id='2')]},
            {'servers': [make_server(id='3')]},
            {'servers': []},
        ]
        self.mock.get(
            f'{URL}/servers/detail', [{'json': one} for one in pages]
        )

        found = self.compute.list_servers('a&b')

        self.assertEqual(['1', '2', '3'], [one.uuid for one in found])
        asked = [one.qs for one in self.mock.request_history[-3:]]
        self.assertEqual([['a&b']] * 3, [one['project_id'] for one in asked])
        self.assertEqual([['1']] * 3, [one['all_tenants'] for one in asked])
        self.assertEqual(
            [None, ['2'], ['3']], [one.get('marker') for one in asked]
        )

    def test_hypervisors_that_are_down_page_by_page(self) -> None:
        pages = [
            {
                'hypervisors': [
                    {'id': '1', 'hypervisor_hostname': 'a', 'state': 'up'},
                    {'id': '2', 'hypervisor_hostname': 'b', 'state': 'down'},
                ]
            },
            {
                'hypervisors': [
                    {'id': '3', 'hypervisor_hostname': 'c', 'state': 'down'}
                ]
            },
            {'hypervisors': []},
        ]
        self.mock.get(
            f'{URL}/os-hypervisors', [{'json': one} for one in pages]
        )

        self.assertEqual({'b', 'c'}, self.compute.list_down())

        asked = [one.qs for one in self.mock.request_history[-3:]]
        self.assertEqual(
            [None, ['2'], ['3']], [one.get('marker') for one in asked]
        )

    def test_whether_it_is_locked(self) -> None:
        self.mock.get(self.server, json={'server': make_server(locked=True)})

        found = self.compute.find_server(uuids.server)

        assert found is not None
        self.assertTrue(found.is_locked)

    def test_a_nova_that_knows_no_pages(self) -> None:
        self.mock.get(
            f'{URL}/servers/detail', json={'servers': [make_server()]}
        )

        found = self.compute.list_servers('project')

        self.assertEqual(uuids.server, found[0].uuid)

    def test_a_server_is_unshelved_on_the_host_of_a_hypervisor(self) -> None:
        self.mock.post(f'{self.server}/action', status_code=202)
        self.mock.get(
            f'{URL}/os-hypervisors/detail',
            json={
                'hypervisors': [
                    make_hypervisor('node-12', 'twelve'),
                    make_hypervisor('node-1', 'one'),
                ]
            },
        )

        self.compute.unshelve(uuids.server, 'node-1')

        request: Any = self.mock.last_request
        self.assertEqual({'unshelve': {'host': 'one'}}, request.json())
        self.assertEqual(
            'compute 2.91', request.headers['OpenStack-API-Version']
        )

    def test_it_is_not_where_nova_has_no_such_hypervisor(self) -> None:
        self.mock.get(
            f'{URL}/os-hypervisors/detail',
            json={'hypervisors': [make_hypervisor('node-12', 'twelve')]},
        )

        err = self.assertRaises(
            exception.ComputeUnavailable,
            self.compute.unshelve,
            uuids.server,
            'node-1',
        )

        self.assertIn('show hypervisor node-1', str(err))
        self.assertFalse(err.is_away)

    def test_a_server_that_is_gone(self) -> None:
        gone = {'itemNotFound': {'code': 404, 'message': 'not found'}}
        self.mock.get(self.server, status_code=404, json=gone)
        self.mock.post(f'{self.server}/action', status_code=404, json=gone)

        self.assertIsNone(self.compute.find_server(uuids.server))
        self.compute.act(uuids.server, nova_server.Action.SHELVE)

    def test_a_404_that_is_not_of_nova(self) -> None:
        answers: list[dict[str, Any]] = [
            {'text': 'no such path'},
            {'json': {}},
            {'json': 5},
        ]
        for answer in answers:
            with self.subTest(answer=answer):
                self.mock.get(self.server, status_code=404, **answer)
                self.mock.delete(self.server, status_code=404, **answer)

                self.assertRaises(
                    exception.ComputeUnavailable,
                    self.compute.find_server,
                    uuids.server,
                )
                self.assertRaises(
                    exception.ComputeUnavailable,
                    self.compute.act,
                    uuids.server,
                    nova_server.Action.DELETE,
                )

    def test_what_nova_is_asked_for(self) -> None:
        self.mock.post(f'{self.server}/action', status_code=202)
        self.mock.delete(self.server, status_code=204)
        for action, method, body in (
            (nova_server.Action.SHELVE, 'POST', {'shelve': None}),
            (nova_server.Action.OFFLOAD, 'POST', {'shelveOffload': None}),
            (nova_server.Action.UNRESCUE, 'POST', {'unrescue': None}),
            (nova_server.Action.CONFIRM, 'POST', {'confirmResize': None}),
            (nova_server.Action.FORCE_DELETE, 'POST', {'forceDelete': None}),
            (nova_server.Action.DELETE, 'DELETE', None),
        ):
            with self.subTest(action=action):
                self.compute.act(uuids.server, action)

                request: Any = self.mock.last_request
                sent = request.json() if request.body else None
                self.assertEqual((method, body), (request.method, sent))

    def test_whether_all_servers_are_shown(self) -> None:
        hidden = make_server()
        del hidden['OS-EXT-SRV-ATTR:hypervisor_hostname']
        answers: list[tuple[dict[str, Any], str]] = [
            ({'json': {'servers': []}}, ''),
            ({'json': {'servers': [make_server()]}}, ''),
            ({'json': {'servers': [hidden]}}, 'hypervisor_hostname'),
            ({'status_code': 403, 'text': 'disallowed by policy'}, 'policy'),
        ]
        for answer, wanted in answers:
            with self.subTest(wanted=wanted):
                self.mock.get(f'{URL}/servers/detail', **answer)

                found = self.compute.find_missing_right()

                self.assertIn(wanted, found)
                self.assertIs(bool(wanted), bool(found))
        request: Any = self.mock.last_request
        self.assertEqual(['1'], request.qs['all_tenants'])
        self.mock.get(f'{URL}/servers/detail', status_code=500)
        self.assertRaises(
            exception.ComputeUnavailable, self.compute.find_missing_right
        )

    def test_metadata_is_added(self) -> None:
        self.mock.post(f'{self.server}/metadata', json={'metadata': {}})

        self.compute.set_metadata(uuids.server, {'a': 'b'})

        request: Any = self.mock.last_request
        self.assertEqual({'metadata': {'a': 'b'}}, request.json())

    def test_whether_nova_is_away_or_refuses_one_question(self) -> None:
        for status, wanted in (
            (401, True),
            (403, False),
            (404, False),
            (409, False),
            (500, False),
            (502, True),
            (503, True),
            (504, True),
        ):
            with self.subTest(status=status):
                self.mock.get(self.server, status_code=status)

                err = self.assertRaises(
                    exception.ComputeUnavailable,
                    self.compute.find_server,
                    uuids.server,
                )

                self.assertIs(wanted, err.is_away)
        self.mock.get(self.server, exc=requests.ConnectionError)
        err = self.assertRaises(
            exception.ComputeUnavailable,
            self.compute.find_server,
            uuids.server,
        )
        self.assertIs(True, err.is_away)

    def test_what_nova_does_not_do_now(self) -> None:
        text = 'Cannot shelve while it is in vm_state error'
        self.mock.post(f'{self.server}/action', status_code=409, text=text)

        err = self.assertRaises(
            exception.ComputeUnavailable,
            self.compute.act,
            uuids.server,
            nova_server.Action.SHELVE,
        )

        self.assertIn(text, str(err))

    def test_answers_that_make_no_sense(self) -> None:
        bodies: list[dict[str, Any]] = [
            {},
            {'server': {}},
            {'server': make_server(flavor={})},
        ]
        for body in bodies:
            with self.subTest(body=body):
                self.mock.get(self.server, json=body)

                self.assertRaises(
                    exception.ComputeUnavailable,
                    self.compute.find_server,
                    uuids.server,
                )
