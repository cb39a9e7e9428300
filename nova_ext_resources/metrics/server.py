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

"""The HTTP server for metrics and health: off by default, small, bounded.

It serves a scrape each few seconds. Whoever is slow, or many, is cut off; the
service that it tells of never waits for it.
"""

from collections.abc import Callable
import contextlib
import errno
import io
import socket
import socketserver
import sys
import threading
import time
from typing import Any, TextIO
from wsgiref import simple_server

from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.metrics import application
from nova_ext_resources.metrics import collector
from nova_ext_resources.metrics import families
from nova_ext_resources.objects import health as health_obj

LOG = logging.getLogger(__name__)

#: Requests that are answered at a time; who comes then is turned away.
MAX_CONNECTIONS = 8

#: Seconds without a byte of a request.
IDLE_TIMEOUT = 5.0

#: Seconds for a request and its answer in all.
MAX_DURATION = 15.0

#: Seconds until it is tried again to listen where that did not work.
RETRY_PAUSE = 10.0

#: Seconds to wait when nobody can be let in, such as without descriptors.
_CROWDED_PAUSE = 0.2

_GROUP = '[ext_resources_metrics]'

_OTHER_ADVICE = f'correct listen and port in {_GROUP}'
_ADVICE = {
    errno.EADDRINUSE: f'free it, or choose another {_GROUP} port',
    errno.EADDRNOTAVAIL: 'this host has no such address now: unless it comes '
    f'later, correct {_GROUP} listen',
}


class _Handler(simple_server.WSGIRequestHandler):
    timeout = IDLE_TIMEOUT
    #: Tells nobody what Python this is; as in the application's answers.
    server_version = application.SERVER
    sys_version = ''

    def parse_request(self) -> bool:
        is_good = super().parse_request()
        # An answer is sent in one go: a slow client may take all of the time.
        self.connection.settimeout(MAX_DURATION)
        return is_good

    def log_message(self, format: str, *args: Any) -> None:
        # It logs to stderr otherwise, a line per scrape.
        LOG.debug('%(client)s: %(message)s', self._describe(format % args))

    def _describe(self, message: str) -> dict[str, object]:
        return {'client': self.client_address[0], 'message': message}

    def get_stderr(self) -> TextIO:
        # Where wsgiref writes a traceback when a client stalls.
        return io.StringIO()

    def handle(self) -> None:
        # A client that goes or stalls is no error of this service.
        with contextlib.suppress(OSError):
            super().handle()


class _Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    """A bounded number of connections, each for a bounded time."""

    daemon_threads = True
    # They are joined by hand, after their connections are closed.
    block_on_close = False

    def __init__(self, address: tuple[str, int], family: int) -> None:
        self.address_family = family
        self._changed = threading.Condition()
        self._open: dict[socket.socket, float] = {}
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # HTTPServer looks its own name up, which takes long without DNS.
        socketserver.TCPServer.server_bind(self)
        host, self.server_port = self.server_address[:2]
        self.server_name = str(host)
        self.setup_environ()

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError:
            # The client still waits: without a pause it is tried again at
            # once, and the process has other things to do.
            time.sleep(_CROWDED_PAUSE)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changed:
            is_full = len(self._open) >= MAX_CONNECTIONS
            if not is_full:
                self._open[request] = time.monotonic()
        if is_full:
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._changed:
            self._open.pop(request, None)
            self._changed.notify_all()
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Cut off who takes too long; called about twice a second."""
        self.cut_off(time.monotonic() - MAX_DURATION)

    def cut_off(self, started_before: float) -> None:
        with self._changed:
            late = [s for s, at in self._open.items() if at < started_before]
        for request in late:
            # Its own thread closes it, and may have done so by now.
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def wait_until_idle(self, timeout: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._open, timeout)

    def handle_error(self, request: Any, client_address: Any) -> None:
        LOG.debug(
            'A request for metrics broke off: %(err)s',
            {'err': sys.exc_info()[1]},
        )


class MetricsServer:
    """Serves an application in threads of its own.

    Where it cannot listen now, it tries again: another process may have the
    port for a moment, and the address may come later.

    :param port: 0 takes any free one
    :param pause: seconds between two attempts
    :raises InvalidConfiguration: it can never listen there
    """

    def __init__(
        self,
        app: application.Application,
        *,
        listen: str,
        port: int,
        pause: float = RETRY_PAUSE,
    ) -> None:
        self._app = app
        self._listen, self._port = listen, port
        self._pause = pause
        self._family, self._address = _find_address(listen, port)
        # Whether it stops, and what there is to be stopped then.
        self._lock = threading.Lock()
        self._is_stopping = threading.Event()
        self._failure = ''
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        try:
            self._bind()
        except PermissionError as err:
            raise exception.InvalidConfiguration(
                option=f'{_GROUP} port',
                value=port,
                reason=f'{listen} port {port} cannot be listened on: '
                f'{_tell(err)}; choose another one, or 0 for no metrics',
            ) from err
        except OSError as err:
            self._log(err)

    def _bind(self) -> None:
        server = _Server((self._address, self._port), self._family)
        server.set_app(self._app)
        self._server = server

    def _log(self, err: OSError) -> None:
        if _tell(err) != self._failure:
            LOG.error(
                'Metrics and health cannot be read: %(listen)s port %(port)s '
                'cannot be listened on: %(err)s. It is tried again; '
                '%(advice)s',
                {
                    'listen': self._listen,
                    'port': self._port,
                    'err': _tell(err),
                    'advice': _ADVICE.get(err.errno or 0, _OTHER_ADVICE),
                },
            )
        self._failure = _tell(err)

    @property
    def url(self) -> str:
        """Give its address, without a path."""
        host, port = self._listen, self._port
        if self._server is not None:
            host, port = self._server.server_name, self._server.server_port
        name = f'[{host}]' if ':' in host else host
        return f'http://{name}:{port}'

    def start(self) -> None:
        self._thread = threading.Thread(
            target=self._run, name='ext-resources-metrics', daemon=True
        )
        self._thread.start()

    def _run(self) -> None:
        server = self._server
        while server is None:
            self._is_stopping.wait(self._pause)
            with self._lock:
                if self._is_stopping.is_set():
                    return
                try:
                    self._bind()
                except OSError as err:
                    self._log(err)
            server = self._server
        LOG.info('Metrics are at %(url)s/metrics', {'url': self.url})
        # Ends at once when it was told to before.
        server.serve_forever()

    def stop(self, timeout: float = 5.0) -> None:
        """Close everything, also what is being answered.

        :param timeout: seconds to wait for each of the two
        """
        with self._lock:
            self._is_stopping.set()
            server = self._server
        if self._thread is not None:
            if server is not None:
                server.shutdown()
            self._thread.join(timeout)
        if server is not None:
            server.cut_off(float('inf'))
            server.server_close()
            server.wait_until_idle(timeout)


def _find_address(listen: str, port: int) -> tuple[int, str]:
    """Give family and address.

    :raises InvalidConfiguration: it is no address
    """
    try:
        family, _type, _proto, _name, address = socket.getaddrinfo(
            listen,
            port,
            type=socket.SOCK_STREAM,
            flags=socket.AI_PASSIVE | socket.AI_NUMERICHOST,
        )[0]
    except OSError as err:
        raise exception.InvalidConfiguration(
            option=f'{_GROUP} listen',
            value=listen,
            reason=f'{_tell(err)}; an IPv4 or IPv6 address is needed, such as '
            '127.0.0.1 or ::1',
        ) from err
    return family, str(address[0])


def _tell(err: OSError) -> str:
    return err.strerror or str(err)


def from_conf(
    conf: cfg.ConfigOpts,
    *,
    read: Callable[[], families.Snapshot],
    health: Callable[[], health_obj.Snapshot],
) -> MetricsServer | None:
    """Make what the options say; None when it is off.

    :param conf: with the options of :mod:`.conf.metrics` registered
    :raises InvalidConfiguration: it can never listen there
    """
    options = conf.ext_resources_metrics
    if not options.port:
        return None
    registry = collector.make_registry(
        collector.Collector(read, options.max_servers)
    )
    return MetricsServer(
        application.Application(registry, health),
        listen=options.listen,
        port=options.port,
    )
