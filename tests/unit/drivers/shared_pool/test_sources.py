# SPDX-License-Identifier: Apache-2.0

"""Sources of pools, as they are and as they fail."""

import datetime
import email.utils
import http.server
import json
import os
import pathlib
import ssl
import threading
import time
from typing import Any, ClassVar

import requests

from nova_ext_resources.drivers.shared_pool import pool_file
from nova_ext_resources.drivers.shared_pool import sources
from nova_ext_resources.objects import pool
from tests import base
from tests import certificates
from tests.unit.drivers.shared_pool import test_reading


class _Handler(http.server.BaseHTTPRequestHandler):
    answers: ClassVar[dict[str, tuple[int, bytes]]] = {
        '/good': (200, b'{"total": 20, "free": 5}'),
        '/error': (500, b'{"total": 20}'),
        '/moved': (302, b'{"total": 20}'),
        '/html': (200, b'<html>'),
    }

    #: Their headers, besides.
    headers_sent: ClassVar[dict[str, str]] = {}

    #: Ends answers that come byte by byte.
    is_over = threading.Event()

    def do_GET(self) -> None:
        if self.path == '/slow':
            self._send_slowly()
            return
        status, body = self.answers[self.path]
        self.send_response(status)
        self.send_header('Content-Length', str(len(body)))
        for name, value in self.headers_sent.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _send_slowly(self) -> None:
        self.send_response(200)
        self.end_headers()
        while not self.is_over.wait(0.01):
            try:
                self.wfile.write(b' ')
            except OSError:
                return

    def log_message(self, format: str, *args: Any) -> None:
        pass


class SourcesTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.make_folder())

    def read(self, kind: str, location: str, **fields: Any) -> pool.Reading:
        return sources.read(
            sources.Source(
                kind=kind, location=location, **{'unit_size': 1, **fields}
            )
        )

    def make_command(self, script: str) -> str:
        path = self.folder / 'ceph'
        path.write_text(f'#!/bin/sh\n{script}\n')
        path.chmod(0o755)
        return str(path)

    def test_each_kind_of_a_file_of_pools_can_be_read(self) -> None:
        self.assertEqual(pool_file.UNIT_SIZES.keys(), sources.KINDS.keys())

    def test_a_file_is_as_old_as_it_is(self) -> None:
        path = self.folder / 'pool.json'
        path.write_text('{"total": 20, "free": 5}')
        os.utime(path, (1000, 1000))

        found = self.read('file', str(path))

        self.assertEqual((20, 5), (found.total, found.free))
        self.assertEqual(1000, found.read_at.timestamp())

    def test_a_file_that_cannot_be_read(self) -> None:
        path = self.folder / 'pool.json'
        self.assertRaises(OSError, self.read, 'file', str(path))
        self.assertRaises(OSError, self.read, 'file', str(self.folder))

        path.write_text(' ' * (sources.MAX_BYTES + 1))
        error = self.assertRaises(ValueError, self.read, 'file', str(path))
        self.assertIn('longer', str(error))

    def test_a_mount(self) -> None:
        found = os.statvfs('/')

        reading = self.read('statvfs', '/', unit_size=1024**2)

        size = (found.f_blocks - found.f_bfree + found.f_bavail) * (
            found.f_frsize
        )
        # Others write meanwhile.
        self.assertLess(abs(reading.total - size // 1024**2), 1024)
        assert reading.free is not None
        self.assertLessEqual(reading.free, reading.total)

    def test_where_nothing_is_mounted_the_hosts_own_disk_is_not_read(
        self,
    ) -> None:
        for path in (self.folder, self.folder / 'missing'):
            error = self.assertRaises(
                ValueError, self.read, 'statvfs', str(path)
            )
            self.assertIn('nothing is mounted', str(error))

    def test_ceph(self) -> None:
        output = self.folder / 'df.json'
        output.write_text(json.dumps(test_reading.CEPH))
        command = self.make_command(
            f'test "$*" = "--id nova df --format json" && cat {output}'
        )

        found = self.read(
            'ceph',
            'vms',
            unit_size=1024**3,
            ceph_command=[command, '--id', 'nova'],
        )

        self.assertEqual((230, 190), (found.total, found.free))

    def test_ceph_that_fails(self) -> None:
        for script, reason in (
            ('echo no monitor >&2; exit 1', 'with exit status 1: no monitor'),
            ('exec sleep 1000', 'has not ended within 0.2 seconds'),
            ('echo hello', 'Expecting value'),
        ):
            with self.subTest(script=script):
                command = self.make_command(script)

                error = self.assertRaises(
                    ValueError,
                    self.read,
                    'ceph',
                    'vms',
                    ceph_command=[command],
                    timeout=60.0 if 'sleep' not in script else 0.2,
                )

                self.assertIn(reason, str(error))
        self.assertRaises(
            OSError, self.read, 'ceph', 'vms', ceph_command=['/no/ceph']
        )

    def serve(self, *certificate: str) -> int:
        """Serve answers; return the port.

        :param certificate: its file and its key's, for HTTPS
        """
        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), _Handler)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            server.socket = context.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        # Of handshakes that fail.
        server.handle_error = lambda *_args: None  # type: ignore[method-assign]
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server.server_port

    def test_https_of_an_authority_of_the_site(self) -> None:
        authority = certificates.Authority(self.make_folder())
        port = self.serve(*authority.issue('localhost'))
        url = f'https://localhost:{port}/good'

        found = self.read('http', url, ca_file=authority.path)

        self.assertEqual((20, 5), (found.total, found.free))
        self.assertRaises(requests.exceptions.SSLError, self.read, 'http', url)
        # Its name is none of the certificate's.
        self.assertRaises(
            requests.exceptions.SSLError,
            self.read,
            'http',
            f'https://127.0.0.1:{port}/good',
            ca_file=authority.path,
        )

    def test_http(self) -> None:
        url = f'http://127.0.0.1:{self.serve()}'

        found = self.read('http', f'{url}/good')

        self.assertEqual((20, 5), (found.total, found.free))
        self.assertRaises(OSError, self.read, 'http', f'{url}/error')
        self.assertRaises(ValueError, self.read, 'http', f'{url}/html')
        error = self.assertRaises(
            ValueError, self.read, 'http', f'{url}/moved'
        )
        self.assertIn('redirect, which is not followed', str(error))

        _Handler.is_over.clear()
        self.addCleanup(_Handler.is_over.set)
        error = self.assertRaises(
            ValueError, self.read, 'http', f'{url}/slow', timeout=0.5
        )
        self.assertIn('not complete after 0.5 seconds', str(error))

    def read_modified(self, **headers: str) -> pool.Reading:
        """Read a document with these headers, `_` in place of ``-``."""
        sent = {name.replace('_', '-'): one for name, one in headers.items()}
        _Handler.headers_sent = sent
        self.addCleanup(setattr, _Handler, 'headers_sent', {})
        return self.read('http', f'http://127.0.0.1:{self.serve()}/good')

    def test_http_is_as_old_as_the_server_says(self) -> None:
        for text in (
            'Sat, 01 Aug 2026 00:00:00 GMT',
            'Sat, 01 Aug 2026 02:00:00 +0200',
            'Sat, 01 Aug 2026 00:00:00 -0000',
        ):
            with self.subTest(text=text):
                found = self.read_modified(Last_Modified=text, Age='7')

                self.assertEqual(
                    datetime.datetime(2026, 8, 1, tzinfo=datetime.UTC),
                    found.read_at,
                )
                self.assertEqual('', found.undated)

    def test_http_whose_age_is_not_known(self) -> None:
        for headers in (
            {},
            {'Age': '7'},
            {'Last_Modified': ''},
            {'Last_Modified': 'yesterday'},
            {'Last_Modified': f'Sat, {"9" * 30} Aug 2026 00:00:00 GMT'},
            {'Last_Modified': 'Fri, 31 Dec 9999 23:00:00 -2300'},
        ):
            with self.subTest(headers=headers):
                before = datetime.datetime.now(datetime.UTC)

                found = self.read_modified(**headers)

                self.assertIn('no Last-Modified', found.undated)
                self.assertLessEqual(before, found.read_at)

    def test_what_is_of_the_future(self) -> None:
        path = self.folder / 'pool.json'
        path.write_text('{"total": 20, "free": 5}')
        for ahead, is_undated in ((30, False), (90000, True)):
            at = time.time() + ahead
            os.utime(path, (at, at))
            for found in (
                self.read('file', str(path)),
                self.read_modified(Last_Modified=email.utils.formatdate(at)),
            ):
                with self.subTest(ahead=ahead, found=found):
                    self.assertEqual(is_undated, 'future' in found.undated)
                    self.assertLessEqual(
                        found.read_at, datetime.datetime.now(datetime.UTC)
                    )

    def test_http_that_is_away(self) -> None:
        self.assertRaises(
            requests.ConnectionError, self.read, 'http', 'http://127.0.0.1:1/'
        )
