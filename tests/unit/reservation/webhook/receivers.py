# SPDX-License-Identifier: Apache-2.0

"""Receivers of notifications on this machine, which answer as tests say."""

import base64
from collections.abc import Callable
import hashlib
import hmac
from http import server
import json
import socket
import ssl
import struct
import threading
import time
from typing import Any, NamedTuple
import unittest


class Got(NamedTuple):
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


class Receiver:
    """A server of HTTP, or of HTTPS with a certificate.

    :param tls: the files of the certificate and of its key
    :ivar got: all requests, in order
    :ivar behave: called with the handler of each request; returns a status,
        or None if it has done all
    :ivar ended: set at the end of the test, for who waits
    """

    def __init__(
        self,
        test: unittest.TestCase,
        port: int = 0,
        *,
        tls: tuple[str, str] | None = None,
    ) -> None:
        self.got: list[Got] = []
        self.behave: Callable[[Any], int | None] = lambda _handler: 204
        self.ended = threading.Event()
        receiver = self

        class Handler(server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers['Content-Length'])
                body = self.rfile.read(size)
                headers = {k.lower(): v for k, v in self.headers.items()}
                receiver.got.append(Got(self.path, headers, body))
                status = receiver.behave(self)
                if status is not None:
                    self.send_response(status)
                    self.send_header('Location', '/elsewhere')
                    self.send_header('Content-Length', '0')
                    self.end_headers()

            def log_message(self, *_args: Any) -> None:
                """Be silent."""

        self.server = server.ThreadingHTTPServer(('127.0.0.1', port), Handler)
        self.server.daemon_threads = True
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(
                self.server.socket,
                server_side=True,
                # In the thread of each request.
                do_handshake_on_connect=False,
            )
        self.server.handle_error = lambda *_args: None  # type: ignore[method-assign]
        self.port: int = self.server.server_address[1]
        self.thread = threading.Thread(
            target=self.server.serve_forever, args=(0.02,), daemon=True
        )
        self.thread.start()
        test.addCleanup(self.close)

    @property
    def url(self) -> str:
        return f'http://127.0.0.1:{self.port}/hook'

    @property
    def kinds(self) -> list[str]:
        return [one.event['type'] for one in self.got]

    def close(self) -> None:
        self.ended.set()
        self.server.shutdown()
        self.server.server_close()

    def hang(self, _handler: Any) -> None:
        self.ended.wait(60)

    def drip(self, handler: Any) -> None:
        """Send a header that has no end, byte by byte."""
        handler.wfile.write(b'HTTP/1.1 200 OK\r\nX-Long: ')
        while not self.ended.is_set():
            handler.wfile.write(b'x')
            time.sleep(0.02)


def answer(status: int) -> Callable[[Any], int]:
    """Return what answers this."""
    return lambda _handler: status


def delay(seconds: float) -> Callable[[Any], int]:
    """Return what answers well, and late."""

    def wait(_handler: Any) -> int:
        time.sleep(seconds)
        return 204

    return wait


def reset(handler: Any) -> None:
    """Drop the connection."""
    handler.connection.setsockopt(
        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0)
    )
    handler.connection.close()


def is_signed(got: Got, secret: str) -> bool:
    """Return whether a request is genuine, as a receiver would find out."""
    key = base64.b64decode(secret.removeprefix('whsec_'))
    text = b'.'.join(
        (
            got.headers['webhook-id'].encode(),
            got.headers['webhook-timestamp'].encode(),
            got.body,
        )
    )
    digest = hmac.new(key, text, hashlib.sha256).digest()
    wanted = 'v1,' + base64.b64encode(digest).decode()
    return hmac.compare_digest(wanted, got.headers['webhook-signature'])
