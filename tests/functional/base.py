# SPDX-License-Identifier: Apache-2.0


"""Real placement in the test's own process."""

from collections.abc import Callable, Iterable
import threading
from typing import Any

from keystoneauth1 import adapter
from keystoneauth1 import session
from keystoneauth1 import token_endpoint
from oslo_utils import uuidutils
from placement import deploy
from placement.tests.functional.fixtures import placement as placement_fixture
from wsgi_intercept import interceptor

from nova_ext_resources.placement.api import placement_client
from tests import base
from tests.functional import shared


class RecordingApp:
    """A WSGI application that tells what it was asked, and can be raced.

    One request at a time, as placement's database in memory wants it.
    """

    def __init__(self, app: Any) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._hooks: list[tuple[str, str, Callable[[], None]]] = []
        self._outages: list[tuple[str, str, str]] = []
        self._losses: list[tuple[str, str]] = []
        self.requests: list[str] = []

    def before_next(
        self, method: str, path: str, action: Callable[[], None]
    ) -> None:
        """Do ``action`` once, just before a request whose path ends so."""
        self._hooks.append((method, path, action))

    def fail(self, method: str, path: str, times: int) -> None:
        """Answer 503 to the next requests whose path ends so."""
        self._outages += [(method, path, '503 Service Unavailable')] * times

    def refuse(self, method: str, path: str) -> None:
        """Answer 403 once, as to a user without the role for it."""
        self._outages.append((method, path, '403 Forbidden'))

    def lose(self, method: str, path: str) -> None:
        """Do what is asked for once, and answer 503 all the same."""
        self._losses.append((method, path))

    def _take_hooks(self, method: str, path: str) -> list[Callable[[], None]]:
        with self._lock:
            for hook in self._hooks:
                if hook[0] == method and path.endswith(hook[1]):
                    self._hooks.remove(hook)
                    return [hook[2]]
        return []

    def __call__(
        self, environ: dict[str, Any], start_response: Any
    ) -> Iterable[bytes]:
        method, path = environ['REQUEST_METHOD'], environ['PATH_INFO']
        # Outside of the lock: what it asks comes through here, too.
        for action in self._take_hooks(method, path):
            action()
        with self._lock:
            self.requests.append(f'{method} {path}')
            for outage in self._outages:
                if outage[0] == method and path.endswith(outage[1]):
                    self._outages.remove(outage)
                    start_response(outage[2], [])
                    return [b'']
            if (method, path) in self._losses:
                self._losses.remove((method, path))
                self._app(environ, lambda *_answer: None)
                start_response('503 Service Unavailable', [])
                return [b'']
            answer: Iterable[bytes] = self._app(environ, start_response)
            return answer


class PlacementTestCase(base.TestCase):
    """``self.client`` speaks to a real placement with an empty database.

    ``self.app.requests`` has what was asked since :meth:`forget_requests`.
    """

    def setUp(self) -> None:
        super().setUp()
        shared.install()
        fixture = self.useFixture(
            placement_fixture.PlacementFixture(use_intercept=False)
        )
        self.app = RecordingApp(deploy.loadapp(fixture.conf_fixture.conf))
        self.endpoint = f'http://{uuidutils.generate_uuid()}/placement'
        intercept = interceptor.RequestsInterceptor(
            lambda: self.app, url=self.endpoint
        )
        intercept.install_intercept()
        self.addCleanup(intercept.uninstall_intercept)
        self.adapter = self.make_adapter()
        self.client = placement_client.Client(self.adapter)

    def make_adapter(self) -> adapter.Adapter:
        auth = token_endpoint.Token(self.endpoint, 'admin')
        return adapter.Adapter(
            session.Session(auth=auth, timeout=30),
            service_type='placement',
            default_microversion='1.39',
        )

    def make_root(self, rp_uuid: str, name: str) -> None:
        """Create a compute node's provider in the way that Nova does."""
        self.adapter.post(
            '/resource_providers', json={'uuid': rp_uuid, 'name': name}
        )

    def forget_requests(self) -> None:
        self.app.requests.clear()
