# SPDX-License-Identifier: Apache-2.0

"""Runs ``explain`` on real Nova and placement, as admin and as owner."""

from typing import Any

from keystoneauth1 import adapter
from keystoneauth1 import noauth
from keystoneauth1 import session
from keystoneauth1 import token_endpoint
from osc_lib import exceptions

from nova_ext_resources.cmd.osc import cloud
from nova_ext_resources.cmd.osc import nova
from nova_ext_resources.cmd.osc.resource import explain
from nova_ext_resources.placement.api import placement_client
from tests.functional.virt import base

HEADERS = {
    'admin': 'admin,member,reader',
    'owner': 'member,reader',
}


class ExplainTestCase(base.NovaTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.services = {
            host: self.start_host(host) for host in ('host1', 'host2')
        }
        self.flavor = self.make_pinned_flavor(4)

    def make_command(
        self, user: str, kind: type[cloud.DrawnCommand] = explain.Explain
    ) -> cloud.DrawnCommand:
        command = kind(None, None)  # type: ignore[arg-type]
        command.nova = nova.Nova(
            adapter.Adapter(
                session.Session(
                    auth=noauth.NoAuth(endpoint=self.api_fixture.base_url),
                    timeout=30,
                    additional_headers={
                        'X-Auth-User': user,
                        'X-User-Id': user,
                        'X-Auth-Project-Id': self.api.project_id,
                        'X-Roles': HEADERS[user],
                    },
                ),
                service_type='compute',
            )
        )
        auth = token_endpoint.Token(self.placement.fixture.endpoint, user)
        command.placement = placement_client.Client(
            adapter.Adapter(
                session.Session(auth=auth, timeout=30),
                service_type='placement',
            )
        )
        return command

    def explain(
        self, *words: str, user: str = 'admin', **kind: Any
    ) -> tuple[dict[str, Any], str]:
        """Return what programs get, and what is printed.

        :param kind: ``kind``, of another command
        """
        command = self.make_command(user, **kind)
        arguments = command.get_parser('explain').parse_args(words)
        columns, values = command.take_action(arguments)
        data = dict(zip(columns, values, strict=True))
        text = '\n'.join(command.draw(data))
        return {
            key: getattr(one, '_value', one) for key, one in data.items()
        }, text

    def fail_with(self, *words: str, user: str = 'admin') -> str:
        err = self.assertRaises(
            exceptions.CommandError, self.explain, *words, user=user
        )
        return str(err)
