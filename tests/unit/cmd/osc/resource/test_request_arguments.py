# SPDX-License-Identifier: Apache-2.0

"""Tests of what commands say where the image service does not answer."""

from keystoneauth1 import adapter
from keystoneauth1 import noauth
from keystoneauth1 import session
from osc_lib import exceptions
from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.cmd.osc.resource import request_arguments
from tests.unit.placement.api import test_placement_client

URL = 'http://glance'


class ImageTest(test_placement_client.MockTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.mock = self.make_mock()
        self.adapter = adapter.Adapter(
            session.Session(noauth.NoAuth()), endpoint_override=URL
        )

    def ask(self, name: str) -> str:
        err = self.assertRaises(
            exceptions.CommandError,
            request_arguments._find_image,
            self.adapter,
            name,
        )
        return str(err)

    def test_no_answer_is_not_taken_for_no_image(self) -> None:
        self.mock.get(f'{URL}/images', status_code=503, reason='Busy')
        self.mock.get(f'{URL}/images/{uuids.image}', status_code=403)

        self.assertIn('with 503 Busy', self.ask('cirros'))
        self.assertIn('with 403', self.ask(uuids.image))

    def test_an_image_that_does_not_exist(self) -> None:
        self.mock.get(f'{URL}/images', json={'images': []})
        self.mock.get(f'{URL}/images/{uuids.image}', status_code=404)

        for name in ('cirros', uuids.image):
            self.assertIn(f'There are 0 images {name}', self.ask(name))
