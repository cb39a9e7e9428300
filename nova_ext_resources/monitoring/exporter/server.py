# SPDX-License-Identifier: Apache-2.0

"""The HTTP server for metrics and health: off by default, small, bounded.

It serves a scrape every few seconds. Slow clients are cut off as soon as
another client needs their place, so that they cannot keep a scrape waiting.
"""

from typing import TYPE_CHECKING, Any, TextIO
from collections.abc import Callable
import contextlib
import errno
import http
import io
import socket
import socketserver
import sys
import threading
import time
from wsgiref import simple_server

from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources import log_on_change
from nova_ext_resources.monitoring.exporter import application
from nova_ext_resources.monitoring.exporter import collector
from nova_ext_resources.monitoring.exporter import series
from nova_ext_resources import worker

if TYPE_CHECKING:
    from _typeshed import wsgi

LOG = logging.getLogger(__name__)

#: Connections at a time; another one takes the place of the oldest. Each has a
#: thread, which costs next to nothing while a slow client keeps it waiting. So
#: many that those who are slow for an honest reason, such as a poor network,
#: are not cut off for a scrape.
MAX_CONNECTIONS = 64

#: Bytes of the request line and the headers in all. Prometheus sends less than
#: one KiB. The standard library takes 64 KiB for each of 100 headers: all
#: connections together could take gigabytes.
MAX_HEAD = 1 << 14

#: Seconds for a request and its answer in all.
MAX_DURATION = 15.0

#: Seconds between two attempts to listen, while that fails.
RETRY_PAUSE = 10.0

#: Seconds to wait for a connection that was cut off to leave its place.
_LEAVE_TIMEOUT = 1.0

#: Seconds to wait when no client can be accepted, such as when the process
#: has no file descriptor left.
_CROWDED_PAUSE = 0.2

_GROUP = '[ext_resources_metrics]'

_OTHER_ADVICE = f'correct listen and port in {_GROUP}'
_ADVICE = {
    errno.EADDRINUSE: f'free the port, or choose another {_GROUP} port',
    errno.EADDRNOTAVAIL: 'this host has no such address now; unless it gets '
    f'the address later, correct {_GROUP} listen',
}


class _Handler(simple_server.WSGIRequestHandler):
    #: Does not show the version of Python.
    server_version = application.SERVER
    sys_version = ''

    def handle(self) -> None:
        with self.rfile as file:
            head = _read_head(file)
        if len(head) <= MAX_HEAD:
            # There is no more to read: no method has a body here.
            self.rfile = io.BytesIO(head)
            super().handle()
            return
        self.command = self.requestline = self.request_version = ''
        self.send_error(http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def log_message(self, format: str, *args: Any) -> None:
        # The default writes a line per scrape to stderr.
        LOG.debug(
            '%(client)s: %(message)s',
            {'client': self.client_address[0], 'message': format % args},
        )

    def get_stderr(self) -> TextIO:
        # Where wsgiref writes a traceback when a client stalls.
        return io.StringIO()


def _read_head(file: io.BufferedIOBase) -> bytes:
    """Return the request line and the headers; of too large ones, too much."""
    head = b''
    while len(head) <= MAX_HEAD:
        line = file.readline(MAX_HEAD + 1 - len(head))
        head += line
        if not line.strip(b'\r\n'):
            break
    return head


class _Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    """A bounded number of connections, each for a bounded time.

    A scrape takes milliseconds. So when all places are taken, the oldest
    connection is that of a slow client, and is cut off for a new one.
    """

    daemon_threads = True
    # Not joined on close: stop() cuts their connections off first.
    block_on_close = False
    #: For clients that connect at the same time; five by default.
    request_queue_size = 128
    #: Seconds that handle_request waits for a request.
    timeout = 0.5

    def __init__(
        self, address: tuple[str, int], app: 'wsgi.WSGIApplication'
    ) -> None:
        if ':' in address[0]:
            self.address_family = socket.AF_INET6
        self._changed = threading.Condition()
        #: Connection -> since when, the oldest first.
        self._open: dict[socket.socket, float] = {}
        super().__init__(address, _Handler)
        self.set_app(app)

    def server_bind(self) -> None:
        # HTTPServer resolves its own name, which takes long without DNS.
        socketserver.TCPServer.server_bind(self)
        host, self.server_port = self.server_address[:2]
        self.server_name = str(host)
        self.setup_environ()

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError:
            # The client still waits, so the next attempt follows at once:
            # without a pause this would take all of a CPU.
            time.sleep(_CROWDED_PAUSE)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changed:
            if not self._has_place():
                oldest = next(iter(self._open))
                # To the end: if it does not leave, another one is next.
                self._open[oldest] = self._open.pop(oldest)
                _cut(oldest)
                self._changed.wait_for(self._has_place, _LEAVE_TIMEOUT)
            is_accepted = self._has_place()
            if is_accepted:
                self._open[request] = time.monotonic()
        if is_accepted:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def _has_place(self) -> bool:
        return len(self._open) < MAX_CONNECTIONS

    def shutdown_request(self, request: Any) -> None:
        with self._changed:
            self._open.pop(request, None)
            self._changed.notify_all()
        super().shutdown_request(request)

    def cut_off(self, started_before: float) -> None:
        """Cut off the connections that were opened before a time."""
        with self._changed:
            for request, started_at in self._open.items():
                if started_at < started_before:
                    _cut(request)

    def wait_until_idle(self, timeout: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._open, timeout)

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that leaves or stalls is no error of this service.
        LOG.debug(
            'A request for metrics was not completed: %(err)s',
            {'err': sys.exc_info()[1]},
        )


def _cut(request: socket.socket) -> None:
    # Its own thread notices, and closes it; it may have done so by now.
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class MetricsServer(worker.Worker):
    """Serves an application in threads of its own.

    If it cannot listen at first, it tries again and again: another process
    may have the port for a moment, and the host may get the address later.

    :param listen: an IPv4 or IPv6 address of this host
    :param port: 0 takes any free one
    :param pause: seconds between two attempts
    :raises InvalidConfiguration: this process may not listen there
    """

    THREAD = 'ext-resources-metrics'
    STOP_TIMEOUT = 5.0

    def __init__(
        self,
        app: 'wsgi.WSGIApplication',
        *,
        listen: str,
        port: int,
        pause: float = RETRY_PAUSE,
    ) -> None:
        super().__init__()
        self._app = app
        self._listen, self._port = listen, port
        self._pause = pause
        self._logged = log_on_change.LogOnChange()
        self._server: _Server | None = None
        try:
            self._bind()
        except PermissionError as err:
            raise _refuse(listen, port, err) from err
        except OSError as err:
            self._log(err)

    def _bind(self) -> None:
        self._server = _Server((self._listen, self._port), self._app)
        LOG.info('Metrics are at %(url)s/metrics', {'url': self.url})

    def _log(self, err: OSError) -> None:
        failure = _describe(self._listen, self._port, err)
        if self._logged.note(failure):
            LOG.error(
                '%(failure)s. Another attempt follows every %(pause).0f '
                'seconds',
                {'failure': failure, 'pause': self._pause},
            )

    @property
    def url(self) -> str:
        """Return its address, without a path."""
        host, port = self._listen, self._port
        if self._server is not None:
            host, port = self._server.server_name, self._server.server_port
        name = f'[{host}]' if ':' in host else host
        return f'http://{name}:{port}'

    def start(self, pause: float = 0.0) -> None:
        super().start(pause if self._server else self._pause)

    def do_round(self) -> float:
        if self._server is None:
            try:
                self._bind()
            except OSError as err:
                self._log(err)
                return self._pause
        else:
            self._server.handle_request()
            self._server.cut_off(time.monotonic() - MAX_DURATION)
        return 0.0

    def stop(self, timeout: float | None = None) -> None:
        """Close everything, also requests that are being answered.

        :param timeout: seconds to wait for the thread, and then for requests
        """
        super().stop(timeout)
        if self._server is not None:
            self._server.cut_off(float('inf'))
            self._server.server_close()
            self._server.wait_until_idle(
                self.STOP_TIMEOUT if timeout is None else timeout
            )


def _describe(listen: str, port: int, err: OSError) -> str:
    advice = _ADVICE.get(err.errno or 0, _OTHER_ADVICE)
    return (
        'Metrics and health are not served, because listening on '
        f'{listen} port {port} failed: {err.strerror or err}; {advice}'
    )


def _refuse(
    listen: str, port: int, err: PermissionError
) -> exception.InvalidConfiguration:
    return exception.InvalidConfiguration(
        option=f'{_GROUP} port',
        value=port,
        reason=f'this process may not listen on {listen} port {port}: '
        f'{err.strerror}; choose another port, or 0 for no metrics',
    )


def check(conf: cfg.ConfigOpts) -> None:
    """Make sure of what :func:`from_conf` refuses, and let no client connect.

    Logs what it does not refuse, and what would be tried again. A port that is
    in use may be that of nova-compute.

    :param conf: with the options of :mod:`.conf.metrics` registered
    :raises InvalidConfiguration: this process may not listen there
    """
    listen, port = (conf.ext_resources_metrics[n] for n in ('listen', 'port'))
    if not port:
        return
    family = socket.AF_INET6 if ':' in listen else socket.AF_INET
    try:
        with socket.socket(family) as tried:
            tried.bind((listen, port))
    except PermissionError as err:
        raise _refuse(listen, port, err) from err
    except OSError as err:
        if err.errno != errno.EADDRINUSE:
            LOG.warning(
                '%(failure)s', {'failure': _describe(listen, port, err)}
            )


def from_conf(
    conf: cfg.ConfigOpts,
    read: Callable[[], series.HostSnapshot],
) -> MetricsServer | None:
    """Make the server that the options describe; None when it is off.

    :param conf: with the options of :mod:`.conf.metrics` registered
    :raises InvalidConfiguration: this process may not listen there
    """
    options = conf.ext_resources_metrics
    if not options.port:
        return None
    registry = collector.make_registry(
        collector.Collector(read, options.max_servers)
    )
    return MetricsServer(
        application.Application(registry, read),
        listen=options.listen,
        port=options.port,
    )
