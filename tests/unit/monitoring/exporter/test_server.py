# SPDX-License-Identifier: Apache-2.0

"""The metrics server over real sockets: its answers, and slow clients."""

from collections.abc import Callable, Iterator
import contextlib
import gzip
import http.client
import itertools
import json
import socket
import threading
import time
from typing import Any
import urllib.parse

import fixtures
from oslo_config import cfg

from nova_ext_resources.conf import metrics
from nova_ext_resources import exception
from nova_ext_resources.monitoring.exporter import application
from nova_ext_resources.monitoring.exporter import collector
from nova_ext_resources.monitoring.exporter import series
from nova_ext_resources.monitoring.exporter import server
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import host_health
from tests import base
from tests.unit.monitoring.exporter import shown

#: Seconds; far more than anything here takes.
TIMEOUT = 60.0

#: Clients beside which a scrape is answered, while all of them are there.
SLOW = 50


class ServerTestCase(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.health = shown.make_health()

    def read(self) -> series.HostSnapshot:
        return shown.make_snapshot('s1', health=self.health)

    def make(
        self, listen: str = '127.0.0.1', port: int = 0, pause: float = 0.05
    ) -> server.MetricsServer:
        registry = collector.make_registry(
            collector.Collector(lambda: self.read())
        )
        made = server.MetricsServer(
            application.Application(registry, lambda: self.read()),
            listen=listen,
            port=port,
            pause=pause,
        )
        self.addCleanup(made.stop)
        return made

    def start(self, **fields: Any) -> str:
        made = self.make(**fields)
        made.start()
        return made.url

    def wait_for(self, condition: Callable[[], bool]) -> None:
        give_up_at = time.monotonic() + TIMEOUT
        while not condition():
            self.assertLess(time.monotonic(), give_up_at)
            time.sleep(0.01)

    def ask(
        self, url: str, path: str, method: str = 'GET', **headers: str
    ) -> tuple[http.client.HTTPResponse, bytes]:
        with contextlib.closing(connect(url)) as connection:
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            return response, response.read()


def connect(url: str) -> http.client.HTTPConnection:
    parts = urllib.parse.urlsplit(url)
    assert parts.hostname is not None
    return http.client.HTTPConnection(
        parts.hostname, parts.port, timeout=TIMEOUT
    )


def open_socket(url: str) -> socket.socket:
    parts = urllib.parse.urlsplit(url)
    return socket.create_connection(
        (parts.hostname, parts.port), timeout=TIMEOUT
    )


class PagesTest(ServerTestCase):
    def test_metrics_are_text_for_prometheus(self) -> None:
        response, body = self.ask(self.start(), '/metrics')

        self.assertEqual(200, response.status)
        self.assertTrue(
            str(response.headers['Content-Type']).startswith('text/plain')
        )
        self.assertIn(b'nova_ext_resources_assigned_units{', body)
        self.assertIn(b'# HELP nova_ext_resources_alarm ', body)
        self.assertNotIn(b'# EOF', body)

    def test_who_asks_for_open_metrics_gets_it(self) -> None:
        response, body = self.ask(
            self.start(),
            '/metrics?x=1',
            Accept='application/openmetrics-text; version=1.0.0',
        )

        self.assertIn('openmetrics-text', response.headers['Content-Type'])
        self.assertTrue(body.endswith(b'# EOF\n'))

    def test_no_answer_tells_what_python_this_is(self) -> None:
        url = self.start()
        for path in ('/metrics', '/health', '/', f'/{server.MAX_HEAD * "x"}'):
            response, _body = self.ask(url, path)

            self.assertEqual(
                'nova-ext-resources', response.headers['Server'].strip()
            )

    def test_who_can_unpack_gets_less(self) -> None:
        url = self.start()
        _response, body = self.ask(url, '/metrics')

        response, packed = self.ask(
            url, '/metrics', **{'Accept-Encoding': 'gzip'}
        )

        self.assertEqual('gzip', response.headers['Content-Encoding'])
        self.assertEqual(body, gzip.decompress(packed))
        self.assertLess(len(packed), len(body))

    def test_health_says_how_the_host_is(self) -> None:
        self.health = shown.make_health(
            alarm.STATS_CUT, status=host_health.HealthStatus.DEGRADED
        )

        response, body = self.ask(self.start(), '/health')

        self.assertEqual(200, response.status)
        self.assertEqual('application/json', response.headers['Content-Type'])
        self.assertEqual('no-store', response.headers['Cache-Control'])
        self.assertEqual(
            {
                'status': 'degraded',
                'host': 'host1',
                'at': '2026-01-02T03:04:05+00:00',
                'plugins': {
                    'enforcer/rmd': {
                        'status': 'failing',
                        'last_success_at': '2026-01-02T03:04:05+00:00',
                        'failing_since': '2026-01-02T03:04:05+00:00',
                        'failure': 'RMD is gone',
                    },
                    'ledger': {
                        'status': 'ok',
                        'last_success_at': '2026-01-02T03:04:05+00:00',
                        'failing_since': None,
                        'failure': '',
                    },
                    'publisher': {
                        'status': 'unknown',
                        'last_success_at': None,
                        'failing_since': None,
                        'failure': '',
                    },
                },
                'alarms_total': 1,
                'alarms': [
                    {
                        'name': 'stats_cut',
                        'former_name': None,
                        'severity': 'warning',
                        'subject': '0',
                        'text': 'It is.',
                        'since': '2026-01-02T03:04:05+00:00',
                    }
                ],
            },
            json.loads(body),
        )

    def test_a_host_that_fails_is_unavailable(self) -> None:
        url = self.start()
        for status, code in (
            (host_health.HealthStatus.OK, 200),
            (host_health.HealthStatus.DEGRADED, 200),
            (host_health.HealthStatus.FAILING, 503),
        ):
            self.health = shown.make_health(status=status)

            response, body = self.ask(url, '/health')

            self.assertEqual(code, response.status)
            self.assertEqual(status.value, json.loads(body)['status'])

    def test_of_many_alarms_the_first_are_told(self) -> None:
        self.health = shown.make_health(*(500 * [alarm.NOT_APPLIED]))

        _response, body = self.ask(self.start(), '/health')

        told = json.loads(body)
        self.assertEqual(500, told['alarms_total'])
        self.assertEqual(application.MAX_ALARMS, len(told['alarms']))
        self.assertEqual('0', told['alarms'][0]['subject'])

    def test_other_pages_are_not_there(self) -> None:
        url = self.start()
        for path in (
            '/x',
            '/metrics/',
            '/health/../metrics',
            '/metricsx',
            '*',
        ):
            with self.subTest(path=path):
                response, body = self.ask(url, path)

                self.assertEqual(404, response.status)
                self.assertIn(b'/metrics and /health', body)

    def test_other_methods_are_not_allowed(self) -> None:
        url = self.start()
        for method in ('POST', 'PUT', 'DELETE', 'OPTIONS', 'BREW'):
            for path in ('/', '/metrics', '/health'):
                with self.subTest(method=method, path=path):
                    response, _body = self.ask(url, path, method)

                    self.assertEqual(405, response.status)
                    self.assertEqual('GET, HEAD', response.headers['Allow'])

    def test_head_is_answered_as_get_is_without_the_body(self) -> None:
        self.health = shown.make_health(
            status=host_health.HealthStatus.FAILING
        )
        url = self.start()
        for path, code in (
            ('/', 200),
            ('/metrics', 200),
            ('/health', 503),
            ('/x', 404),
        ):
            with self.subTest(path=path):
                response, body = self.ask(url, path, 'HEAD')
                asked, whole = self.ask(url, path)

                self.assertEqual((code, b''), (response.status, body))
                self.assertEqual(code, asked.status)
                for name in ('Content-Type', 'Cache-Control'):
                    self.assertEqual(
                        asked.headers[name], response.headers[name]
                    )
                self.assertGreater(int(response.headers['Content-Length']), 0)
                self.assertTrue(whole)


class FaultsTest(ServerTestCase):
    def test_what_cannot_be_told_is_an_error_and_logged_once(self) -> None:
        url = self.start()
        good = self.read

        def fail() -> series.HostSnapshot:
            raise KeyError('L3_7')

        for _ in range(2):
            self.read = fail  # type: ignore[method-assign]
            response, body = self.ask(url, '/metrics')
            self.assertEqual(500, response.status)
            self.assertNotIn(b'L3_7', body)
            self.assertEqual(
                1, self.log.output.count('Please report this bug')
            )
        self.assertIn('L3_7', self.log.output)

        self.read = good  # type: ignore[method-assign]
        response, _body = self.ask(url, '/metrics')
        self.assertEqual(200, response.status)

    def test_a_port_that_is_taken_is_listened_on_as_soon_as_it_is_free(
        self,
    ) -> None:
        first = self.make()
        first.start()
        port = urllib.parse.urlsplit(first.url).port
        assert port is not None
        second = self.make(port=port)
        second.start()
        self.assertEqual(first.url, second.url)
        words = f'port {port} failed: Address already in use'
        self.assertEqual(1, self.log.output.count(words))
        self.assertIn('another [ext_resources_metrics] port', self.log.output)

        first.stop()

        self.wait_for(lambda: self.is_there(second.url))
        self.assertEqual(1, self.log.output.count(words))

    def test_an_address_of_another_host_is_not_blamed_on_the_port(
        self,
    ) -> None:
        # Of a network for documentation: nobody has it.
        self.make(listen='192.0.2.1')

        self.assertIn('this host has no such address', self.log.output)
        self.assertIn('[ext_resources_metrics] listen', self.log.output)
        self.assertNotIn('choose another', self.log.output)

    def is_there(self, url: str) -> bool:
        try:
            open_socket(url).close()
        except ConnectionRefusedError:
            return False
        return True

    def test_one_that_never_gets_its_port_ends_at_once(self) -> None:
        first = self.make()
        second = self.make(
            port=urllib.parse.urlsplit(first.url).port or 0, pause=600.0
        )
        second.start()

        second.stop(timeout=TIMEOUT)

        # Long before the pause is over.
        assert second._thread
        self.assertFalse(second._thread.is_alive())

    def test_what_may_never_be_listened_on_is_refused(self) -> None:
        def refuse(*_arguments: Any) -> None:
            raise PermissionError(13, 'Permission denied')

        self.patch(server._Server, 'server_bind', refuse)

        err = self.assertRaises(
            exception.InvalidConfiguration, self.make, port=80
        )

        self.assertIn('[ext_resources_metrics] port = 80', str(err))

    def test_who_cannot_be_let_in_costs_nothing(self) -> None:
        url = self.start()

        refused: list[None] = []
        paused: list[float] = []

        def refuse(_server: Any) -> None:
            refused.append(None)
            raise OSError(24, 'Too many open files')

        with (
            fixtures.MonkeyPatch('socketserver.TCPServer.get_request', refuse),
            fixtures.MonkeyPatch(
                'nova_ext_resources.monitoring.exporter.server.time.sleep',
                paused.append,
            ),
            open_socket(url),
        ):
            self.wait_for(lambda: len(refused) > 1)

        # A pause for each of them; one may be about to begin.
        pauses = paused.count(server._CROWDED_PAUSE)
        self.assertGreaterEqual(pauses, len(refused) - 1)
        self.assertEqual(200, self.ask(url, '/health')[0].status)

    def test_an_address_of_another_host_is_named(self) -> None:
        self.make(listen='192.0.2.1')

        self.assertIn('192.0.2.1', self.log.output)

    def test_it_listens_on_ipv6(self) -> None:
        url = self.start(listen='::1')
        if 'listening on' in self.log.output:
            self.skipTest('this machine has no IPv6')

        self.assertTrue(url.startswith('http://[::1]:'))
        response, _body = self.ask(url, '/health')
        self.assertEqual(200, response.status)


class SlowClientsTest(ServerTestCase):
    @contextlib.contextmanager
    def crowd(
        self, url: str, number: int, request: bytes = b'GET /metr'
    ) -> Iterator[list[socket.socket]]:
        """Connect and begin a request, and do no more."""
        with contextlib.ExitStack() as stack:
            sockets = []
            for _ in range(number):
                one = stack.enter_context(open_socket(url))
                one.sendall(request)
                sockets.append(one)
            yield sockets

    def assert_open(self, sockets: list[socket.socket]) -> None:
        """Make sure that the server has closed none, and answered to none."""
        for one in sockets:
            one.setblocking(False)
            self.assertRaises(BlockingIOError, one.recv, 100)

    def test_more_than_have_a_place_keep_no_scrape_waiting(self) -> None:
        self.patch(server, 'MAX_DURATION', float('inf'))
        url = self.start()
        with self.crowd(url, server.MAX_CONNECTIONS) as sockets:
            response, _body = self.ask(url, '/metrics')

            self.assertEqual(200, response.status)
            self.assert_cut(sockets[0])
            self.assert_open(sockets[1:])

    def assert_cut(self, one: socket.socket) -> None:
        with contextlib.suppress(ConnectionResetError):
            self.assertEqual(b'', one.recv(100))

    def test_a_few_keep_nobody_waiting(self) -> None:
        url = self.start()
        with self.crowd(url, server.MAX_CONNECTIONS - 1):
            response, _body = self.ask(url, '/metrics')

            self.assertEqual(200, response.status)

    def test_many_that_send_nothing_more_keep_no_scrape_waiting(self) -> None:
        # So that nothing ends because it took too long.
        self.patch(server, 'MAX_DURATION', float('inf'))
        url = self.start()
        with self.crowd(url, SLOW) as sockets:
            response, _body = self.ask(url, '/metrics')

            self.assertEqual(200, response.status)
            self.assert_open(sockets)

    def test_many_that_never_end_their_headers_keep_no_scrape_waiting(
        self,
    ) -> None:
        self.patch(server, 'MAX_DURATION', float('inf'))
        url = self.start()
        begun = b'GET /metrics HTTP/1.0\r\nX-Slow: '
        with self.crowd(url, SLOW, begun) as sockets:
            for _ in range(3):
                for one in sockets:
                    one.sendall(b'y')
                response, _body = self.ask(url, '/metrics')

                self.assertEqual(200, response.status)
            self.assert_open(sockets)

    def test_many_that_read_nothing_keep_no_scrape_waiting(self) -> None:
        self.patch(server, 'MAX_DURATION', float('inf'))
        url = self.start_other()
        endless = b'GET /endless HTTP/1.0\r\n\r\n'
        with self.crowd(url, SLOW, endless) as sockets:
            # Each has been answered to until its buffers were full.
            for one in sockets:
                one.recv(1, socket.MSG_PEEK)
            response, _body = self.ask(url, '/')

            self.assertEqual(200, response.status)

    def start_other(self, size: int = 0) -> str:
        """Serve a page that has no end, and one of a size."""

        def answer(environ: Any, start_response: Any) -> Iterator[bytes]:
            start_response('200 OK', [])
            if environ['PATH_INFO'] == '/endless':
                yield from itertools.repeat(bytes(1 << 16))
            yield bytes(size)

        made = server.MetricsServer(answer, listen='127.0.0.1', port=0)
        self.addCleanup(made.stop)
        made.start()
        return made.url

    def test_many_have_no_more_threads_than_are_allowed(self) -> None:
        url = self.start()
        before = threading.active_count()
        with self.crowd(url, 3 * server.MAX_CONNECTIONS) as sockets:
            # Those that came first have left their places to the last ones.
            for one in sockets[: -server.MAX_CONNECTIONS]:
                self.assert_cut(one)

            # A thread that has left its place is about to end.
            self.wait_for(
                lambda: (
                    threading.active_count() <= before + server.MAX_CONNECTIONS
                )
            )

    def test_a_place_that_is_not_left_is_not_given_to_another(self) -> None:
        self.patch(server, 'MAX_CONNECTIONS', 1)
        self.patch(server, '_LEAVE_TIMEOUT', 0.01)
        is_asked, may_answer = threading.Event(), threading.Event()
        self.addCleanup(may_answer.set)
        good = self.read

        def wait() -> series.HostSnapshot:
            is_asked.set()
            may_answer.wait(TIMEOUT)
            return good()

        self.read = wait  # type: ignore[method-assign]
        url = self.start()
        with self.crowd(url, 1, b'GET /health HTTP/1.0\r\n\r\n'):
            self.assertTrue(is_asked.wait(TIMEOUT))

            with self.crowd(url, 1) as (late,):
                self.assert_cut(late)

    def test_who_says_nothing_for_long_is_cut_off(self) -> None:
        self.patch(server, 'MAX_DURATION', 0.2)
        url = self.start()
        with self.crowd(url, 1) as (one,):
            self.assert_cut(one)
        self.assertNotIn('Traceback', self.log.output)

    def test_who_reads_slowly_and_steadily_gets_all(self) -> None:
        size = 1 << 24
        port = urllib.parse.urlsplit(self.start_other(size)).port
        with socket.socket() as one:
            # So that not all of it is in buffers at once.
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.settimeout(TIMEOUT)
            one.connect(('127.0.0.1', port))
            one.sendall(b'GET /whole HTTP/1.0\r\n\r\n')
            one.recv(1, socket.MSG_PEEK)
            # The server waits for longer than it does for a request.
            time.sleep(2 * server._Server.timeout)
            response = http.client.HTTPResponse(one)
            response.begin()
            body = response.read()

        self.assertEqual(size, len(body))

    def test_who_trickles_is_cut_off(self) -> None:
        self.patch(server, 'MAX_DURATION', 0.2)
        url = self.start()
        with open_socket(url) as one:
            one.sendall(b'GET /metrics HTTP/1.0\r\nX-Y: ')

            def is_cut() -> bool:
                try:
                    one.sendall(b'z')
                except ConnectionError:
                    return True
                return False

            # One character at a time, fewer in all than are too many.
            self.wait_for(is_cut)

    def test_rubbish_is_refused(self) -> None:
        url = self.start()
        for rubbish in (
            b'\x16\x03\x01\x00\xa5\x01\x00\n\n',
            b'GET\r\n\r\n',
            b'GET /metrics HTTP/9.9\r\n\r\n',
            b'GET /' + server.MAX_HEAD * b'x' + b' HTTP/1.0\r\n\r\n',
            b'GET /metrics HTTP/1.0\r\n' + 200 * b'X: y\r\n' + b'\r\n',
        ):
            with self.subTest(rubbish=rubbish[:20]), open_socket(url) as one:
                one.sendall(rubbish)
                with contextlib.suppress(ConnectionResetError):
                    self.assertNotIn(b'nova_ext', one.recv(4096))
        response, _body = self.ask(url, '/health')
        self.assertEqual(200, response.status)
        self.assertNotIn('Traceback', self.log.output)


class HeadTest(ServerTestCase):
    """How large the request line and the headers may be, in all."""

    def send(self, url: str, head: bytes) -> bytes:
        """Return all that the server says until it closes the connection."""
        with open_socket(url) as one:
            one.sendall(head)
            return b''.join(iter(lambda: one.recv(4096), b''))

    def make_head(self, size: int, lines: int = 1) -> bytes:
        """Make a whole head of this size, of some long lines."""
        first, last = b'GET /health HTTP/1.0\r\n', b'\r\n'
        left = size - len(first + last)
        sizes = [left // lines] * (lines - 1)
        sizes.append(left - sum(sizes))
        middle = b''.join(b'X: ' + (one - 5) * b'y' + b'\r\n' for one in sizes)
        return first + middle + last

    def test_the_largest_is_answered(self) -> None:
        url = self.start()
        for lines in (1, 90):
            head = self.make_head(server.MAX_HEAD, lines)
            self.assertEqual(server.MAX_HEAD, len(head))

            self.assertIn(b' 200 OK', self.send(url, head))

    def test_one_byte_more_is_refused(self) -> None:
        url = self.start()
        for lines in (1, 90):
            answer = self.send(url, self.make_head(server.MAX_HEAD + 1, lines))

            self.assertIn(b' 431 ', answer.partition(b'\r\n')[0])

    def test_it_is_refused_before_it_ends(self) -> None:
        """Or else a client could send more and more."""
        url = self.start()
        for begun in (
            b'GET /',
            b'GET /health HTTP/1.0\r\nX: ',
            b'GET /health HTTP/1.0\r\n' + 90 * (b'X: ' + 160 * b'y' + b'\r\n'),
        ):
            head = begun.ljust(server.MAX_HEAD + 1, b'x')
            self.assertEqual(server.MAX_HEAD + 1, len(head))

            answer = self.send(url, head)

            self.assertIn(b' 431 ', answer.partition(b'\r\n')[0])


class StopTest(ServerTestCase):
    def test_nothing_is_left_also_when_somebody_is_slow(self) -> None:
        before = set(threading.enumerate())
        made = self.make()
        made.start()
        with open_socket(made.url) as slow:
            slow.sendall(b'GET /metr')
            self.ask(made.url, '/health')

            made.stop()

            with contextlib.suppress(ConnectionResetError):
                self.assertEqual(b'', slow.recv(100))
        # A thread that has closed its connection is about to end.
        self.wait_for(lambda: before.issuperset(threading.enumerate()))
        self.assertRaises(OSError, open_socket, made.url)

    def test_the_port_is_free_again(self) -> None:
        made = self.make()
        made.start()
        port = urllib.parse.urlsplit(made.url).port
        assert port is not None
        self.ask(made.url, '/health')
        made.stop()

        self.start(port=port)

    def test_one_that_was_never_started_is_stopped_in_peace(self) -> None:
        made = self.make()

        made.stop()
        made.stop()


class FromConfTest(ServerTestCase):
    def setUp(self) -> None:
        super().setUp()
        metrics.register_opts(self.conf)

    def set(self, **options: Any) -> None:
        for name, value in options.items():
            self.conf.set_override(name, value, 'ext_resources_metrics')

    def make_from_conf(self) -> server.MetricsServer | None:
        return server.from_conf(self.conf, self.read)

    def test_it_is_off_and_on_loopback_by_default(self) -> None:
        self.assertIsNone(self.make_from_conf())
        options = self.conf.ext_resources_metrics
        self.assertEqual(
            ('127.0.0.1', 0, 512),
            (options.listen, options.port, options.max_servers),
        )

    def test_a_port_switches_it_on_with_the_bound(self) -> None:
        with socket.create_server(('127.0.0.1', 0)) as free:
            port = free.getsockname()[1]
        self.set(port=port, max_servers=1)
        self.read = lambda: shown.make_snapshot(  # type: ignore[method-assign]
            'a', 'b'
        )
        made = self.make_from_conf()
        assert made is not None
        self.addCleanup(made.stop)
        made.start()

        self.assertEqual(f'http://127.0.0.1:{port}', made.url)
        _response, body = self.ask(made.url, '/metrics')
        self.assertIn(b'nova_ext_resources_servers_left_out 1.0', body)

    def test_values_that_are_none_are_refused(self) -> None:
        for name, value in (
            ('listen', 'localhost'),
            ('listen', '300.1.1.1'),
            ('listen', '::g'),
            ('listen', ''),
            ('port', 65536),
            ('port', -1),
            ('max_servers', -1),
        ):
            self.assertRaises(
                (ValueError, cfg.Error), self.set, **{name: value}
            )
