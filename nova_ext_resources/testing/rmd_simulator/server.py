# SPDX-License-Identifier: Apache-2.0

"""HTTP as Go's server speaks it, on the standard library's.

Each connection has a thread. Stopping closes all of them and waits until
their threads have ended, so that a test leaves nothing behind.
"""

from collections.abc import Callable
import contextlib
import dataclasses
import http.server
import os
import socket
import ssl
import threading
from typing import Any, Literal, TypeAlias
from urllib import parse

from nova_ext_resources.testing.rmd_simulator import cores
from nova_ext_resources.testing.rmd_simulator import faults as faults_mod
from nova_ext_resources.testing.rmd_simulator import messages

Handle: TypeAlias = Callable[[messages.Request], messages.Response]

#: Go's server does not count what is longer; it sends it in chunks.
GO_BUFFER_BYTES = 2048

#: Longer requests are not answered.
MAX_REQUEST_BYTES = 1024 * 1024

#: With which a client begins TLS.
_CLIENT_HELLO = b'\x16'
#: What Go's server says in plain where TLS is expected.
_NOT_TLS = b'Client sent an HTTP request to an HTTPS server.\n'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """RMD's normal mode.

    :ivar client_auth: ``challenge`` wants a certificate that ``client_ca``
        vouches for, ``challenge_given`` checks one if there is any, ``no``
        wants none
    """

    cert_file: str
    key_file: str
    client_ca: str | None = None
    client_auth: Literal['challenge', 'challenge_given', 'no'] = 'challenge'

    def make_context(self) -> ssl.SSLContext:
        """Make what RMD offers: TLS 1.2 with two suites."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(
            'ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES256-GCM-SHA384'
        )
        context.load_cert_chain(self.cert_file, self.key_file)
        context.verify_mode = {
            'challenge': ssl.CERT_REQUIRED,
            'challenge_given': ssl.CERT_OPTIONAL,
            'no': ssl.CERT_NONE,
        }[self.client_auth]
        if self.client_ca:
            context.load_verify_locations(cafile=self.client_ca)
        return context


class _Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = 'HTTP/1.1'
    disable_nagle_algorithm = True
    server: '_HttpServer'

    def setup(self) -> None:
        self.server.remember(self.request)
        super().setup()

    def handle(self) -> None:
        # A client that goes away, or never speaks TLS, is its own affair.
        with contextlib.suppress(OSError):
            if self._is_scheme_right():
                super().handle()

    def _is_scheme_right(self) -> bool:
        """Greet the client; answer one that uses http for https, or back.

        :raises OSError: the client gives up, or is refused
        """
        if not isinstance(self.request, ssl.SSLSocket):
            is_right = self.request.recv(1, socket.MSG_PEEK) != _CLIENT_HELLO
            # Go's server reads a line, and finds that it is none.
            return is_right or self._refuse_scheme(b'400 Bad Request')
        try:
            self.request.do_handshake()
        except ssl.SSLError as err:
            if err.reason != 'HTTP_REQUEST':
                raise
            return self._refuse_scheme(_NOT_TLS)
        return True

    def _refuse_scheme(self, text: bytes) -> bool:
        # Below TLS, which may have failed.
        with socket.socket(fileno=os.dup(self.request.fileno())) as plain:
            plain.sendall(b'HTTP/1.0 400 Bad Request\r\n\r\n' + text)
            plain.shutdown(socket.SHUT_WR)
            # What is left unread makes the kernel drop the answer.
            plain.recv(MAX_REQUEST_BYTES)
        return False

    def finish(self) -> None:
        with contextlib.suppress(OSError):
            super().finish()
        self.server.forget(self.request)

    def __getattr__(self, name: str) -> Any:
        # The base class looks for do_GET and so on; RMD answers to any.
        if name.startswith('do_'):
            return self._serve
        raise AttributeError(name)

    def log_message(self, *_args: Any) -> None:
        """Keep silent."""

    def _serve(self) -> None:
        path = parse.unquote(parse.urlsplit(self.path).path)
        request = messages.Request(
            method=self.command,
            path=path,
            headers={k.lower(): v for k, v in self.headers.items()},
            body=self._read_body(),
        )
        fault = None
        if not path.startswith('/-/'):
            fault = self.server.faults.take(self.command, path)
        try:
            if fault and fault.when == 'before':
                self._fail(fault)
            response = self.server.handle_message(request)
            if fault and fault.when == 'after':
                self._fail(fault)
        except _Answered:
            return
        except (cores.Panic, _Failed):
            self.close_connection = True
            return
        self._send(response)

    def _read_body(self) -> str:
        if 'chunked' in self.headers.get('Transfer-Encoding', ''):
            return self._read_chunks()
        length = int(self.headers.get('Content-Length') or 0)
        if length > MAX_REQUEST_BYTES:
            raise OSError('too long')
        return self.rfile.read(length).decode('utf-8', errors='replace')

    def _read_chunks(self) -> str:
        body = b''
        while len(body) <= MAX_REQUEST_BYTES:
            size = int(self.rfile.readline().split(b';')[0], 16)
            body += self.rfile.read(size)
            self.rfile.readline()
            if not size:
                break
        return body.decode('utf-8', errors='replace')

    def _send(self, response: messages.Response) -> None:
        body = response.body.encode()
        # Go's server does not introduce itself.
        self.send_response_only(response.status)
        self.send_header('Date', self.date_time_string())
        if response.content_type:
            self.send_header('Content-Type', response.content_type)
        for name, value in response.headers:
            self.send_header(name, value)
        is_chunked = len(body) > GO_BUFFER_BYTES
        if is_chunked:
            self.send_header('Transfer-Encoding', 'chunked')
        else:
            self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        if self.command == 'HEAD':
            return
        if is_chunked:
            body = b'%x\r\n%s\r\n0\r\n\r\n' % (len(body), body)
        self.wfile.write(body)

    def _fail(self, fault: faults_mod.Fault) -> None:
        """Spoil the request; returns only when it is to be answered.

        :raises _Answered: it has been
        :raises _Failed: it never will be
        """
        stopping = self.server.stopping
        if fault.kind == 'slow':
            if stopping.wait(fault.seconds):
                raise _Failed()
            return
        if fault.kind == 'hang':
            stopping.wait()
        elif fault.kind == 'status':
            self._send(messages.text(fault.status, fault.body))
            raise _Answered()
        elif fault.kind == 'garbage':
            self._send_garbage(fault.body or 'html')
        raise _Failed()

    def _send_garbage(self, name: str) -> None:
        if name == faults_mod.NO_HTTP:
            self.wfile.write(b'220 mail.example.org ESMTP\r\n\r\n')
        elif name == faults_mod.BROKEN:
            self.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n[{')
        elif name == faults_mod.ENDLESS:
            self.wfile.write(b'HTTP/1.1 200 OK\r\n\r\n')
            while not self.server.stopping.wait(0.02):
                self.wfile.write(b' ')
        else:
            self._send(
                messages.Response(
                    status=200,
                    body=faults_mod.GARBAGE[name],
                    content_type=messages.JSON,
                )
            )
            raise _Answered()


class _Answered(Exception):
    """A fault has answered; the connection can be used again."""


class _Failed(Exception):
    """A fault has had its way; the connection closes."""


class _HttpServer(http.server.ThreadingHTTPServer):
    """Knows its connections, so that it can end them."""

    daemon_threads = False
    block_on_close = True
    request_queue_size = 64

    def __init__(
        self,
        address: tuple[str, int],
        handle: Handle,
        faults: faults_mod.Faults,
        context: ssl.SSLContext | None,
    ) -> None:
        self.handle_message = handle
        self.faults = faults
        self.stopping = threading.Event()
        self._context = context
        self._connections: set[socket.socket] = set()
        self._guard = threading.Lock()
        super().__init__(address, _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        if self._context:
            # The handshake is for the connection's thread to do.
            connection = self._context.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
        return connection, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Show what went wrong here, not what a client did."""
        if not self.stopping.is_set():
            super().handle_error(request, client_address)

    def remember(self, connection: socket.socket) -> None:
        with self._guard:
            self._connections.add(connection)
        if self.stopping.is_set():
            _end(connection)

    def forget(self, connection: socket.socket) -> None:
        with self._guard:
            self._connections.discard(connection)

    def end_connections(self) -> None:
        self.stopping.set()
        with self._guard:
            connections = list(self._connections)
        for connection in connections:
            _end(connection)


def _end(connection: socket.socket) -> None:
    """Wake the thread that waits for it."""
    with contextlib.suppress(OSError):
        # Below TLS, which its own thread may be in.
        with socket.socket(fileno=os.dup(connection.fileno())) as plain:
            plain.shutdown(socket.SHUT_RDWR)


class Server:
    """Listens at an address, as often as it is started."""

    def __init__(
        self,
        handle: Handle,
        faults: faults_mod.Faults,
        *,
        address: str,
        port: int,
        tls: Tls | None,
    ) -> None:
        self._handle = handle
        self._faults = faults
        self._address = address
        self._scheme = 'https' if tls else 'http'
        self._context = tls.make_context() if tls else None
        self._running: _HttpServer | None = None
        self._thread: threading.Thread | None = None
        self._guard = threading.Lock()
        # Bound now, so that the port is known and nobody else gets it.
        self._bound: _HttpServer | None = self._bind(port)
        self._port = self._bound.server_address[1]

    @property
    def url(self) -> str:
        """Where it listens."""
        host = f'[{self._address}]' if ':' in self._address else self._address
        return f'{self._scheme}://{host}:{self._port}'

    def _bind(self, port: int) -> _HttpServer:
        return _HttpServer(
            (self._address, port), self._handle, self._faults, self._context
        )

    def start(self) -> None:
        """Listen, unless it does."""
        with self._guard:
            if self._running is not None:
                return
            self._running = self._bound or self._bind(self._port)
            self._bound = None
            self._thread = threading.Thread(
                target=self._running.serve_forever,
                kwargs={'poll_interval': 0.02},
                name=f'rmd-simulator-{self._port}',
            )
            self._thread.start()

    def stop(self) -> None:
        """Listen no more, and end every connection."""
        with self._guard:
            if self._bound is not None:
                self._bound.server_close()
                self._bound = None
            if self._running is None or self._thread is None:
                return
            self._running.shutdown()
            self._thread.join()
            self._running.end_connections()
            self._running.server_close()
            self._running = self._thread = None
