# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""A base for tests of the client against a simulator."""

from typing import Any

from oslo_utils import uuidutils

from nova_ext_resources.conf import rmd as rmd_conf
from nova_ext_resources.rmd import client as client_mod
from nova_ext_resources.rmd import loading
from nova_ext_resources.rmd import writing
from nova_ext_resources.testing import rmd_simulator
from tests import base


class RmdTestCase(base.TestCase):
    """Has a simulator and a client that reaches it over loopback."""

    #: Fields of the simulator's settings, for all tests of a class.
    SETTINGS: dict[str, Any] = {}  # noqa: RUF012 - read only

    def setUp(self) -> None:
        super().setUp()
        rmd_conf.register_opts(self.conf)
        self.fixture = self.useFixture(
            rmd_simulator.RmdSimulatorFixture(**self.SETTINGS)
        )
        self.simulator = self.fixture.simulator
        self.client = self.make_client()

    def make_client(
        self, url: str | None = None, **options: Any
    ) -> client_mod.RmdClient:
        """Make a client as a deployer would, from options."""
        options.setdefault('timeout', 5.0)
        options['url'] = url or self.fixture.url
        for name, value in options.items():
            self.conf.set_override(name, value, 'ext_resources_rmd')
        client = loading.from_conf(self.conf)
        self.addCleanup(client.close)
        return client

    def changes(self) -> list[str]:
        """Give the methods of all requests but reading ones."""
        return [
            method
            for method, _path in self.simulator.requests
            if method != 'GET'
        ]

    def is_written(self) -> bool:
        """Tell whether some thread holds the writer lock."""
        lock = writing.writer_lock(self.client.url)
        if lock.acquire(blocking=False):
            lock.release()
            return False
        return True


def make_uuid() -> str:
    """Make the uuid of a server."""
    return str(uuidutils.generate_uuid())
