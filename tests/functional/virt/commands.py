# SPDX-License-Identifier: Apache-2.0

"""The commands ``openstack extended``, of Nova and placement in process."""

from typing import Any

import fixtures
from keystoneauth1 import adapter
from keystoneauth1 import noauth
from keystoneauth1 import session
from keystoneauth1 import token_endpoint

from nova_ext_resources.cmd.osc import nova

_COMMAND = 'nova_ext_resources.cmd.osc.cloud.CloudCommand.make_adapter'


class Commands:
    """For a test case with Nova; :meth:`install` comes first."""

    admin_api: Any
    placement: Any
    useFixture: Any

    def install(self) -> None:
        adapters = {
            'placement': self.make_placement(),
            'compute': self._make_nova(),
        }
        self.useFixture(
            fixtures.MonkeyPatch(
                _COMMAND, lambda _command, service: adapters[service]
            )
        )
        for name, value in (('AUTH_TYPE', 'none'), ('ENDPOINT', 'http://no')):
            self.useFixture(fixtures.EnvironmentVariable(f'OS_{name}', value))

    def make_placement(self) -> adapter.Adapter:
        endpoint = self.placement.fixture.endpoint
        auth = token_endpoint.Token(endpoint, 'admin')
        return adapter.Adapter(
            session.Session(auth=auth, timeout=30), service_type='placement'
        )

    def make_nova(self) -> nova.Nova:
        return nova.Nova(self._make_nova())

    def _make_nova(self) -> adapter.Adapter:
        return adapter.Adapter(
            session.Session(
                auth=noauth.NoAuth(endpoint=self.admin_api.base_url),
                timeout=30,
                additional_headers={
                    'X-Auth-User': 'admin',
                    'X-User-Id': 'admin',
                    'X-Auth-Project-Id': self.admin_api.project_id,
                    'X-Roles': 'admin,member,reader',
                },
            ),
            service_type='compute',
        )
