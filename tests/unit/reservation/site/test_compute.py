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


class ComputeTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.mock: Any = self.useFixture(_make_mock())
        auth = token_endpoint.Token(URL, 'token')
        self.compute = compute.Compute(
            adapter.Adapter(session.Session(auth=auth), service_type='compute')
        )

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
