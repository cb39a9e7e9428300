# SPDX-License-Identifier: Apache-2.0


"""What real placement does not do on demand; the rest is functional."""

from typing import Any

from keystoneauth1 import adapter
from keystoneauth1 import session
from keystoneauth1 import token_endpoint
from oslo_config import cfg
from oslo_utils.fixture import uuidsentinel as uuids
import requests
import requests_mock

from nova_ext_resources.conf import placement
from nova_ext_resources import exception
from nova_ext_resources import opts
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.api import retry
from nova_ext_resources.testing import fake_clock
from tests import base

URL = 'http://placement.example'
SECRET = 'not-to-be-seen'


def make_client(timeout: float | None = 5) -> placement_client.Client:
    auth = token_endpoint.Token(URL, SECRET)
    return placement_client.Client(
        adapter.Adapter(
            session.Session(auth=auth, timeout=timeout),
            service_type='placement',
        )
    )


class MockTestCase(base.TestCase):
    def make_mock(self) -> requests_mock.Mocker:
        mock = requests_mock.Mocker()
        mock.start()
        self.addCleanup(mock.stop)
        return mock


class FaultTest(MockTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.mock = self.make_mock()
        self.client = make_client()

    def answer(self, *responses: dict[str, Any], **kwargs: Any) -> None:
        self.mock.register_uri(
            'GET', f'{URL}/resource_providers', [*responses, kwargs]
        )

    def list_tree(self) -> None:
        self.client.list_providers(in_tree=uuids.root)

    def refuse(self, kind: type[exception.PlacementError]) -> str:
        error = self.assertRaises(kind, self.list_tree)
        self.assertNotIn(SECRET, str(error))
        return str(error)

    def test_statuses_become_what_they_mean(self) -> None:
        for status, body, kind, advice in (
            (503, 'Service Unavailable', exception.PlacementUnavailable, ''),
            (500, '', exception.PlacementUnavailable, ''),
            (429, '', exception.PlacementUnavailable, ''),
            (401, 'no', exception.PlacementUnavailable, 'credentials'),
            (403, 'no', exception.PlacementRefused, '"service"'),
            (406, 'no', exception.PlacementRefused, 'placement 7.0.0'),
            (400, 'no', exception.PlacementRefused, 'endpoint_override'),
            (404, '<html>', exception.PlacementUnavailable, 'endpoint_over'),
        ):
            with self.subTest(status=status):
                self.answer(status_code=status, text=body)

                self.assertIn(advice, self.refuse(kind))

    def test_placements_own_words_and_request_are_told(self) -> None:
        self.answer(
            status_code=404,
            headers={'x-openstack-request-id': 'req-1'},
            json={
                'errors': [
                    {
                        'code': 'placement.undefined_code',
                        'detail': 'The resource\n\n   could not be found.',
                    }
                ]
            },
        )

        self.assertEqual(
            f'Placement did not list the provider tree of {uuids.root}: 404 '
            'placement.undefined_code The resource could not be found. '
            '(req-1)',
            self.refuse(exception.NotFound),
        )

    def test_malformed_bodies_are_not_believed(self) -> None:
        for body in (
            'Hello',
            '[]',
            'null',
            '{}',
            '{"resource_providers": [{}]}',
            '{"resource_providers": 5}',
            '{"resource_providers": [{"uuid": "a", "name": "b", '
            '"parent_provider_uuid": null, "generation": "x"}]}',
        ):
            with self.subTest(body=body):
                self.answer(text=body)

                self.assertIn(
                    'this response is not from placement',
                    self.refuse(exception.PlacementUnavailable),
                )

    def test_malformed_errors_keep_their_status(self) -> None:
        for body in ('{"errors": []}', '{"errors": [5]}', '[]', '{'):
            with self.subTest(body=body):
                self.answer(status_code=409, text=body)

                self.assertIn('409', self.refuse(exception.ConcurrentUpdate))

    def test_no_answer_is_unavailable_and_says_what_to_check(self) -> None:
        for error in (
            requests.exceptions.ConnectTimeout,
            requests.exceptions.ReadTimeout,
            requests.exceptions.ConnectionError,
            requests.exceptions.SSLError,
            requests.exceptions.ChunkedEncodingError,
            OSError('no such file: /etc/ca.pem'),
        ):
            with self.subTest(error=error):
                self.answer(exc=error)

                self.assertIn(
                    'endpoint_override',
                    self.refuse(exception.PlacementUnavailable),
                )

    def test_a_session_without_a_timeout_gets_one(self) -> None:
        self.answer(json={'resource_providers': []})

        for timeout, expected in ((None, 10.0), (3.0, 3.0)):
            with self.subTest(timeout=timeout):
                self.client = make_client(timeout)
                self.list_tree()

                self.assertEqual(
                    expected, self.mock.request_history[-1].timeout
                )

    def test_the_microversion_is_pinned(self) -> None:
        self.answer(json={'resource_providers': []})

        self.list_tree()

        self.assertEqual(
            'placement 1.39',
            self.mock.request_history[-1].headers['OpenStack-API-Version'],
        )

    def test_names_stay_one_part_of_the_path(self) -> None:
        self.mock.register_uri('GET', requests_mock.ANY, text='{}')

        self.assertRaises(
            exception.PlacementUnavailable,
            self.client.get_allocations,
            'a/../../b?c#d',
        )

        self.assertEqual(
            '/allocations/a%2f..%2f..%2fb%3fc%23d',
            self.mock.request_history[-1].path,
        )

    def test_parts_that_climb_in_the_path_are_refused(self) -> None:
        for part in ('', '.', '..'):
            with self.subTest(part=part):
                self.assertRaises(
                    exception.InvalidResource,
                    self.client.get_allocations,
                    part,
                )

    def test_inventories_that_make_no_sense_are_passed_over(self) -> None:
        url = f'{URL}/resource_providers/{uuids.rp}'
        self.mock.get(
            url,
            json={
                'uuid': uuids.rp,
                'name': 'rp',
                'parent_provider_uuid': None,
                'generation': 0,
            },
        )
        self.mock.get(
            f'{url}/inventories',
            json={
                'inventories': {
                    'CUSTOM_ODD': {'total': 1, 'allocation_ratio': 0},
                    'CUSTOM_GOOD': {'total': 1},
                }
            },
        )
        self.mock.get(f'{url}/traits', json={'traits': []})
        self.mock.get(f'{url}/aggregates', json={'aggregates': []})

        provider = self.client.get_provider(uuids.rp)

        self.assertEqual(['CUSTOM_GOOD'], list(provider.inventories))

    def test_a_short_outage_is_survived_by_trying_again(self) -> None:
        self.answer(
            {'status_code': 503},
            {'exc': requests.exceptions.ConnectTimeout},
            json={'resource_providers': []},
        )

        retry.make_strategy(fake_clock.FakeClock())(self.list_tree)

        self.assertEqual(3, self.mock.call_count)

    def test_a_long_outage_is_told_after_a_few_attempts(self) -> None:
        self.answer(status_code=503)
        clock = fake_clock.FakeClock()

        self.assertRaises(
            exception.PlacementUnavailable,
            retry.make_strategy(clock),
            self.list_tree,
        )

        self.assertEqual(retry.MAX_ATTEMPTS, self.mock.call_count)
        self.assertLess(sum(clock.slept), retry.MAX_SECONDS)

    def test_what_cannot_pass_is_not_tried_again(self) -> None:
        self.answer(status_code=400)

        self.assertRaises(
            exception.PlacementRefused, retry.call, self.list_tree
        )

        self.assertEqual(1, self.mock.call_count)


class FromConfTest(MockTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.mock = self.make_mock()

    def load(self, text: str) -> placement_client.Client:
        path = f'{self.make_folder()}/nova.conf'
        with open(path, 'w') as file:
            file.write(text)
        conf = cfg.ConfigOpts()
        conf(['--config-file', path], project='nova', default_config_files=[])
        return placement_client.from_conf(conf)

    def list_tree(self, client: placement_client.Client) -> str:
        self.mock.get(
            f'{URL}/resource_providers', json={'resource_providers': []}
        )
        client.list_providers(in_tree=uuids.root)
        token: str = self.mock.request_history[-1].headers.get(
            'X-Auth-Token', ''
        )
        return token

    def test_a_token_alone_is_enough(self) -> None:
        client = self.load(
            '[ext_resources_placement]\n'
            f'auth_type = admin_token\nendpoint = {URL}\ntoken = admin\n'
        )

        self.assertEqual('admin', self.list_tree(client))
        self.assertEqual(10.0, self.mock.request_history[-1].timeout)

    def test_no_authentication_is_possible(self) -> None:
        client = self.load(
            '[ext_resources_placement]\n'
            f'auth_type = none\nendpoint_override = {URL}\n'
        )

        self.assertEqual('notused', self.list_tree(client))

    def test_an_empty_group_means_novas(self) -> None:
        client = self.load(
            '[placement]\nauth_type = admin_token\ntoken = nova\n'
            f'endpoint = {URL}\ntimeout = 7\n'
        )

        self.assertEqual('nova', self.list_tree(client))
        self.assertEqual(7.0, self.mock.request_history[-1].timeout)

    def test_an_auth_section_gives_the_credentials_only(self) -> None:
        client = self.load(
            '[placement]\nauth_type = admin_token\ntoken = nova\n'
            'endpoint = http://elsewhere.example\ntimeout = 7\n'
            '[ext_resources_placement]\nauth_section = placement\n'
            f'endpoint_override = {URL}\n'
        )

        self.assertEqual('nova', self.list_tree(client))
        self.assertEqual(10.0, self.mock.request_history[-1].timeout)

    def test_a_password_logs_in_and_finds_placement(self) -> None:
        client = self.load(
            '[ext_resources_placement]\nauth_type = password\n'
            'auth_url = http://keystone.example/v3\nusername = nova\n'
            f'password = {SECRET}\nproject_name = service\n'
            'user_domain_name = Default\nproject_domain_name = Default\n'
            'region_name = one\n'
        )
        self.mock.get('http://keystone.example/v3', status_code=404)
        self.mock.post(
            'http://keystone.example/v3/auth/tokens',
            headers={'X-Subject-Token': 'fresh'},
            json=make_token(URL),
        )
        self.mock.get(URL, status_code=404)

        self.assertEqual('fresh', self.list_tree(client))

    def test_refused_credentials_are_told_without_the_password(self) -> None:
        client = self.load(
            '[ext_resources_placement]\nauth_type = v3password\n'
            'auth_url = http://keystone.example/v3\nusername = nova\n'
            f'password = {SECRET}\nuser_domain_name = Default\n'
        )
        self.mock.get('http://keystone.example/v3', status_code=404)
        self.mock.post(
            'http://keystone.example/v3/auth/tokens', status_code=401
        )

        error = self.assertRaises(
            exception.PlacementUnavailable,
            client.list_providers,
            in_tree=uuids.root,
        )

        self.assertIn('check the credentials', str(error))
        self.assertNotIn(SECRET, str(error))

    def test_a_catalogue_without_placement_is_unavailable(self) -> None:
        client = self.load(
            '[ext_resources_placement]\nauth_type = v3password\n'
            'auth_url = http://keystone.example/v3\nusername = nova\n'
            'password = x\nuser_domain_name = Default\n'
            'region_name = another\n'
        )
        self.mock.get('http://keystone.example/v3', status_code=404)
        self.mock.post(
            'http://keystone.example/v3/auth/tokens',
            headers={'X-Subject-Token': 'fresh'},
            json=make_token(URL),
        )

        error = self.assertRaises(
            exception.PlacementUnavailable,
            client.list_providers,
            in_tree=uuids.root,
        )

        for words in ('region_name', 'Keystone', 'auth_url'):
            self.assertIn(words, str(error))

    def test_missing_or_wrong_credentials_stop_with_the_option(self) -> None:
        for text, reason in (
            ('', 'auth_type = (empty) cannot be used: no credentials'),
            ('auth_type = nosuch', 'nosuch'),
            ('auth_type = password', 'auth_url'),
            ('auth_section = placement', 'no credentials for placement'),
            (
                'auth_type = none\nversion = 1\nmin_version = 1',
                'mutually exclusive',
            ),
        ):
            with self.subTest(text=text):
                error = self.assertRaises(
                    exception.InvalidConfiguration,
                    self.load,
                    f'[ext_resources_placement]\n{text}\n',
                )

                self.assertIn('[ext_resources_placement]', str(error))
                self.assertIn(reason, str(error))
                self.assertNotIn('..', str(error))


def make_token(url: str) -> object:
    return {
        'token': {
            'expires_at': '2999-01-01T00:00:00.000000Z',
            'methods': ['password'],
            'catalog': [
                {
                    'type': 'placement',
                    'name': 'placement',
                    'endpoints': [
                        {
                            'interface': 'internal',
                            'region': 'one',
                            'region_id': 'one',
                            'url': url,
                        }
                    ],
                }
            ],
        }
    }


class OptionsTest(base.TestCase):
    def list_shown(self) -> list[cfg.Opt]:
        by_group = {group.name: some for group, some in opts.list_opts()}
        return by_group[placement.GROUP.name]

    def test_the_sample_shows_what_each_way_to_log_in_needs(self) -> None:
        shown = self.list_shown()

        names = {opt.dest for opt in shown}

        self.assertEqual(len(names), len(shown))
        self.assertLessEqual(
            {'auth_type', 'auth_section', 'password', 'token', 'timeout'},
            names,
        )

    def test_secrets_are_marked_so_that_no_log_shows_them(self) -> None:
        secret = {opt.dest for opt in self.list_shown() if opt.secret}

        self.assertLessEqual({'password', 'token'}, secret)

    def test_what_a_plugin_adds_is_not_shared_between_processes_parts(
        self,
    ) -> None:
        first, second = cfg.ConfigOpts(), cfg.ConfigOpts()
        for conf in (first, second):
            conf([], default_config_files=[])
            placement.register_opts(conf)

        first.register_opt(cfg.StrOpt('added'), group=placement.GROUP.name)

        self.assertNotIn('added', second[placement.GROUP.name])
