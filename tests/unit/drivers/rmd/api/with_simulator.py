# SPDX-License-Identifier: Apache-2.0

"""A base for tests of the client against a simulator."""

from collections.abc import Callable
from typing import Any

from oslo_utils import uuidutils

from nova_ext_resources.conf.drivers import rmd
from nova_ext_resources.drivers.rmd.api import client as client_mod
from nova_ext_resources.drivers.rmd.api import losses
from nova_ext_resources.drivers.rmd.api import request
from nova_ext_resources.drivers.rmd.api import writer_lock
from nova_ext_resources.drivers.rmd import loading
from nova_ext_resources.testing import rmd_simulator
from tests import base


class RmdTestCase(base.TestCase):
    """Has a simulator and a client that reaches it over loopback."""

    #: Fields of the simulator's settings, for all tests of a class.
    SETTINGS: dict[str, Any] = {}  # noqa: RUF012 - read only

    def setUp(self) -> None:
        super().setUp()
        rmd.register_opts(self.conf)
        self.fixture = self.useFixture(
            rmd_simulator.RmdSimulatorFixture(**self.SETTINGS)
        )
        self.simulator = self.fixture.simulator
        # Another test may get the same port.
        self.addCleanup(losses.forget_all)
        self.client = self.make_client()

    def make_client(
        self, url: str | None = None, **options: Any
    ) -> client_mod.RmdClient:
        """Make a client as a deployer would, from options."""
        options.setdefault('timeout', 60.0)
        options['url'] = url or self.fixture.url
        for name, value in options.items():
            self.conf.set_override(name, value, 'ext_resources_rmd')
        client = loading.from_options(self.conf.ext_resources_rmd)
        self.addCleanup(client.close)
        return client

    def changes(self) -> list[str]:
        """Return the methods of all requests but reading ones."""
        return [
            method
            for method, _path in self.simulator.requests
            if method != 'GET'
        ]

    def interrupt(self, method: str, act: Callable[[], object]) -> None:
        """Let something happen before each call of a method of the client."""
        call = getattr(self.client, method)

        def act_and_call(*args: Any) -> Any:
            act()
            return call(*args)

        setattr(self.client, method, act_and_call)

    def is_written(self) -> bool:
        """Return whether some thread holds the writer lock."""
        lock = writer_lock.writer_lock(self.client.url)
        if lock.acquire(blocking=False):
            lock.release()
            return False
        return True


def make_uuid() -> str:
    """Make the uuid of a server."""
    return str(uuidutils.generate_uuid())


def make_request(
    uuid: str, *core_ids: int, ways: int = 2, **fields: Any
) -> request.WorkloadRequest:
    """Make one of guaranteed ways, unless ``fields`` change it."""
    given = {'max_ways': ways, 'min_ways': ways, **fields}
    return request.WorkloadRequest(
        uuid=uuid, core_ids=frozenset(core_ids), **given
    )
