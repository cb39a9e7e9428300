# SPDX-License-Identifier: Apache-2.0

"""With a real keystone: tokens, trusts, application credentials."""

import datetime
from typing import Any

from blazar.api.v1 import app as blazar_app
from keystoneauth1.identity import v3
from keystoneauth1 import loading
from keystoneauth1 import session as ks_session
from oslo_config import cfg
from oslo_utils import timeutils

from tests.blazar import base
from tests.blazar import identity


class KeystoneTest(base.BlazarTestCase):
    """A user of a project, by the time that it is."""

    identity: identity.Identity

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        # It takes some seconds to make one.
        cls.identity = identity.Identity()
        cls.identity.setUp()
        cls.addClassCleanup(cls.identity.cleanUp)

    def set_time(self) -> None:
        """Leave it: tokens go by the time that it is."""

    def make_identity(self) -> str:
        # After the reset, which comes first.
        self.addCleanup(self.forget_options)
        self.session = self.identity.make_session('alice', 'red')
        return identity.BLAZAR.format(
            port=self.identity.port, url=self.identity.url
        )

    def forget_options(self) -> None:
        """Forget those of keystonemiddleware, which other tests do without."""
        cfg.CONF.unregister_opts(
            loading.get_auth_plugin_conf_options('password'),
            group='keystone_authtoken',
        )

    def make_app(self) -> Any:
        return blazar_app.make_app()

    def make_headers(self, project: str, roles: str) -> dict[str, str]:
        return {'X-Auth-Token': str(self.session.get_token())}

    def date(self, hours: float) -> str:
        start = timeutils.utcnow() + datetime.timedelta(hours=hours)
        return start.strftime(base.FORMAT)

    def count_trusts(self) -> int:
        made = self.identity.make_client('alice', 'red')
        return len(made.trusts.list(trustor_user=self.identity.user))

    def test_the_life_of_a_lease(self) -> None:
        lease = self.make('now', 0, 2, amount=2)
        self.play_events()
        started = self.show(lease)['status']
        answer = self.delete(lease)

        self.assertEqual('ACTIVE', started)
        self.assertEqual(204, answer.status)
        found = self.read(lease)
        self.assertEqual(self.identity.project, found.request.project)
        self.assertEqual('cancelled', found.state)

    def test_keystone_is_away_at_the_start(self) -> None:
        lease = self.make('now', 0, 2)
        self.identity.stop()
        self.play_events()
        state = self.read(lease).state
        self.play_monitor()
        self.play_events()
        self.identity.start()
        given_up = self.show(lease)['status']

        self.play_monitor()
        self.play_events()

        self.assertEqual('active', state)
        self.assertEqual('ERROR', given_up)
        self.assertEqual('ACTIVE', self.show(lease)['status'])

    def test_without_a_lease_no_trust_is_left(self) -> None:
        before = self.count_trusts()
        answer = self.ask(
            'POST', '/extended/reservations', {'flavor': 'large'}
        )
        self.assertEqual(201, answer.status, answer.body)
        self.assertEqual(before, self.count_trusts())

        # A limit of Blazar, which the documents name.
        refused = self.lease('much', 1, 2, amount=9)
        self.assertEqual(409, refused.status)
        self.assertEqual(before + 1, self.count_trusts())

    def test_application_credentials(self) -> None:
        made = self.identity.make_client('alice', 'red')
        credential = made.application_credentials.create(self.id())
        self.session = ks_session.Session(
            v3.ApplicationCredential(
                auth_url=self.identity.url,
                application_credential_id=credential.id,
                application_credential_secret=credential.secret,
            )
        )

        answer = self.ask(
            'POST', '/extended/reservations', {'flavor': 'large'}
        )
        lease = self.lease('night', 1, 2)

        self.assertEqual(201, answer.status, answer.body)
        self.assertEqual(
            self.identity.project, answer.body['reservation']['project']
        )
        # A limit of Blazar, which the documents name.
        self.assertEqual(500, lease.status)

    def test_a_token_that_is_none(self) -> None:
        response = self.client.get(
            '/v1/extended/reservations',
            headers={'X-Auth-Token': 'x', 'Accept': 'application/json'},
            environ_base={'REMOTE_ADDR': '127.0.0.1'},
        )

        self.assertEqual(401, response.status_code)
