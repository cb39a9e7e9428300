# SPDX-License-Identifier: Apache-2.0

"""The host's loop goes on, whatever the others do."""

from collections.abc import Callable
import socket
import threading
import time
from typing import Any
from unittest import mock

from keystoneauth1 import adapter
from keystoneauth1 import session
from keystoneauth1 import token_endpoint

from nova_ext_resources.host import health
from nova_ext_resources.host import periodic
from nova_ext_resources.host import restore
from nova_ext_resources.placement import client as placement_client
from nova_ext_resources.placement import publisher
from tests.unit.host import test_resources_meanwhile
from tests.unit.host import with_host

SERVER = test_resources_meanwhile.SERVER

#: Seconds for what takes no time unless something is wrong.
WAIT = 60


class HungPlacement:
    """Accepts connections and answers nothing."""

    def __init__(self) -> None:
        self._socket = socket.create_server(('127.0.0.1', 0))
        self._socket.settimeout(WAIT)
        self._connections: list[socket.socket] = []
        port = self._socket.getsockname()[1]
        self.client = placement_client.Client(
            adapter.Adapter(
                session.Session(
                    auth=token_endpoint.Token(
                        f'http://127.0.0.1:{port}', 'token'
                    )
                ),
                service_type='placement',
            )
        )

    def wait_for_request(self) -> None:
        connection, _address = self._socket.accept()
        self._connections.append(connection)

    def close(self) -> None:
        for one in (*self._connections, self._socket):
            one.close()


class PeriodicTest(test_resources_meanwhile.ActingHostTestCase):
    def make_periodic(self, client: Any, **fields: Any) -> periodic.Periodic:
        made = publisher.Publisher(
            client,
            with_host.NODE,
            wanted=self.host.providers,
            interval=0.01,
        )
        self.addCleanup(made.stop)
        given: dict[str, Any] = {
            'list_live': tuple,
            'list_requests': dict,
            'expect': lambda _: None,
            'interval': 0.01,
            **fields,
        }
        loop = periodic.Periodic(
            self.host,
            health.Health('host1'),
            made,
            self.make_restore(),
            **given,
        )
        self.addCleanup(loop.stop)
        made.start()
        loop.start()
        return loop

    def make_restore(self) -> restore.Restore:
        return restore.Restore(
            self.host,
            restore=self.host.restore,
            read_allocations=lambda _: {},
        )

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT
        while not is_so():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_a_placement_that_hangs_delays_no_repair(self) -> None:
        placement = HungPlacement()
        self.start()
        self.make_periodic(placement.client)
        self.addCleanup(placement.close)
        placement.wait_for_request()

        for _ in range(3):
            self.enforcer.in_force.clear()
            self.wait_for(lambda: SERVER in self.enforcer.in_force)

    def test_metrics_hear_of_the_servers_after_a_round(self) -> None:
        expected: list[list[str]] = []
        loop = periodic.Periodic(
            self.host,
            health.Health('host1'),
            mock.Mock(spec=publisher.Publisher),
            self.make_restore(),
            list_live=tuple,
            list_requests=dict,
            expect=lambda uuids: expected.append(list(uuids)),
            interval=60,
        )
        self.start()

        loop.run_round()

        self.assertEqual([[SERVER]], expected)

    def test_a_nova_that_hangs_delays_no_repair(self) -> None:
        is_asked, is_over = threading.Event(), threading.Event()

        def list_live() -> list[str]:
            is_asked.set()
            is_over.wait()
            return [SERVER]

        placement = HungPlacement()
        self.start()
        self.make_periodic(placement.client, list_live=list_live).accept_host()
        self.addCleanup(placement.close)
        self.addCleanup(is_over.set)
        self.assertTrue(is_asked.wait(WAIT))

        self.enforcer.in_force.clear()

        self.wait_for(lambda: SERVER in self.enforcer.in_force)
        self.assertFalse(is_over.is_set())
