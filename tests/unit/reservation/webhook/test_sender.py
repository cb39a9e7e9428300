# SPDX-License-Identifier: Apache-2.0

"""Tests of sending, to receivers on this machine."""

import logging
import socket
import threading
import time
from typing import Any

import fixtures

from nova_ext_resources.reservation.webhook import rules
from nova_ext_resources.reservation.webhook import sender as sender_mod
from tests import base
from tests import certificates
from tests.unit.reservation.webhook import receivers

LOCAL = '127.0.0.0/8'

#: Seconds that no answer takes, on a machine under load either.
LONG = 30.0


class SenderTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.receiver = receivers.Receiver(self)

    def make(self, **fields: Any) -> sender_mod.Sender:
        allowed = rules.make_rules(
            [
                f'http://127.0.0.1:{self.receiver.port}',
                f'http://hooks.test:{self.receiver.port}',
                f'https://127.0.0.1:{self.receiver.port}',
            ],
            [LOCAL],
        )
        return sender_mod.Sender(allowed, **{'timeout': LONG, **fields})

    def send(self, sender: sender_mod.Sender, url: str = '') -> None:
        sender.send(url or self.receiver.url, {'webhook-id': 'x'}, b'{}')

    def fail(self, *args: Any) -> str:  # type: ignore[override]
        err = self.assertRaises(sender_mod.NotDelivered, self.send, *args)
        return str(err)

    def test_what_is_sent(self) -> None:
        self.send(self.make())

        (got,) = self.receiver.got
        self.assertEqual(('/hook', b'{}'), (got.path, got.body))
        self.assertEqual('x', got.headers['webhook-id'])
        self.assertEqual('application/json', got.headers['content-type'])
        self.assertEqual(
            f'127.0.0.1:{self.receiver.port}', got.headers['host']
        )

    def test_other_answers_and_no_redirect(self) -> None:
        for status in (300, 301, 302, 307, 308, 400, 404, 500, 503):
            self.receiver.behave = receivers.answer(status)
            self.assertIn(str(status), self.fail(self.make()))

        self.assertEqual({'/hook'}, {one.path for one in self.receiver.got})
        self.assertEqual(9, len(self.receiver.got))

    def test_a_receiver_that_wants_no_more(self) -> None:
        self.receiver.behave = lambda _handler: 410

        err = self.assertRaises(
            sender_mod.NotDelivered, self.send, self.make()
        )

        self.assertTrue(err.is_refused)

    def check_time(self, words: str) -> None:
        begin = time.monotonic()
        self.assertIn(words, self.fail(self.make(timeout=0.5)))
        self.assertLess(time.monotonic() - begin, LONG)

    def test_a_receiver_that_hangs(self) -> None:
        self.receiver.behave = self.receiver.hang
        self.check_time('in time')

    def test_a_receiver_that_drips(self) -> None:
        self.receiver.behave = self.receiver.drip
        self.check_time('in time')

    def test_a_receiver_that_resets(self) -> None:
        self.receiver.behave = receivers.reset
        self.assertIn('closed the connection', self.fail(self.make()))

    def test_a_body_without_end_is_not_read(self) -> None:
        def babble(handler: Any) -> None:
            handler.wfile.write(b'HTTP/1.1 200 OK\r\n\r\n')
            while not self.receiver.ended.is_set():
                handler.wfile.write(bytes(1 << 16))

        self.receiver.behave = babble

        self.send(self.make())

    def test_nothing_listens(self) -> None:
        self.receiver.close()

        self.assertIn('no connection', self.fail(self.make()))

    def test_a_receiver_without_tls(self) -> None:
        url = self.receiver.url.replace('http', 'https')

        self.assertIn('TLS', self.fail(self.make(), url))
        self.assertEqual([], self.receiver.got)

    def test_what_is_not_allowed_is_not_connected_to(self) -> None:
        sender = sender_mod.Sender(rules.PUBLIC, timeout=1)
        other = f'https://127.0.0.1:{self.receiver.port + 1}/'

        for one, url in ((sender, ''), (sender, other), (self.make(), other)):
            self.assertIn('the URL is not allowed', self.fail(one, url))
        self.assertEqual([], self.receiver.got)

    def resolve(self, *addresses: str) -> Any:
        return lambda _host, port, **_fields: [
            (2, 1, 6, '', (one, port)) for one in addresses
        ]

    def test_a_name_goes_to_the_address_that_was_judged(self) -> None:
        sender = self.make(resolve=self.resolve('127.0.0.1'))

        self.send(sender, f'http://hooks.test:{self.receiver.port}/a')

        (got,) = self.receiver.got
        self.assertEqual(
            f'hooks.test:{self.receiver.port}', got.headers['host']
        )

    def test_the_next_address_if_one_is_out_of_reach(self) -> None:
        sender = self.make(resolve=self.resolve('127.0.0.9', '127.0.0.1'))

        self.send(sender, f'http://hooks.test:{self.receiver.port}/a')

        self.assertEqual(1, len(self.receiver.got))

    def test_a_name_with_one_address_that_is_not_allowed(self) -> None:
        sender = self.make(
            resolve=self.resolve('127.0.0.1', '169.254.169.254')
        )
        url = f'http://hooks.test:{self.receiver.port}/a'

        self.assertIn('not allowed', self.fail(sender, url))
        self.assertEqual([], self.receiver.got)

    def test_nobody_learns_which_names_are_known_here(self) -> None:
        def refuse(*_args: Any, **_fields: Any) -> Any:
            raise OSError('not known')

        url = f'http://hooks.test:{self.receiver.port}/a'
        told, logged = [], []
        for resolve in (refuse, self.resolve('169.254.169.254')):
            err = self.assertRaises(
                sender_mod.NotDelivered,
                self.send,
                self.make(resolve=resolve),
                url,
            )
            told.append(str(err))
            logged.append(err.details)

        self.assertEqual(told[0], told[1])
        self.assertIn('not known', logged[0])
        self.assertIn('169.254.169.254', logged[1])

    def test_what_is_found_too_late_is_not_sent(self) -> None:
        found = self.resolve('127.0.0.1')

        def wait(*args: Any, **fields: Any) -> Any:
            time.sleep(0.3)
            return found(*args, **fields)

        sender = self.make(resolve=wait, timeout=0.2)
        url = f'http://hooks.test:{self.receiver.port}/a'

        self.assertIn('in time', self.fail(sender, url))
        self.assertEqual([], self.receiver.got)

    def test_when_it_is_too_late_is_said_by_who_waits(self) -> None:
        self.receiver.behave = receivers.delay(0.3)
        sender = self.make(timeout=20)
        begin = time.monotonic()

        err = self.assertRaises(
            sender_mod.NotDelivered,
            sender.send,
            self.receiver.url,
            {},
            b'{}',
            until=begin + 0.2,
        )

        self.assertIn('in time', str(err))

    def test_what_urllib3_logs_has_a_token(self) -> None:
        log = self.useFixture(fixtures.FakeLogger(level=10))

        def answer(handler: Any) -> None:
            handler.wfile.write(b'HTTP/1.1 204 OK\r\nno header\r\n\r\n')

        self.receiver.behave = answer
        self.send(self.make(), f'{self.receiver.url}/token')

        self.assertEqual('/hook/token', self.receiver.got[0].path)
        self.assertEqual('', log.output)
        # Others may have it log what it likes.
        logging.getLogger('urllib3.connection').warning('heard')
        self.assertIn('heard', log.output)

    def test_no_proxy_of_the_environment(self) -> None:
        for name in ('http_proxy', 'HTTP_PROXY', 'ALL_PROXY'):
            self.useFixture(
                fixtures.EnvironmentVariable(name, 'http://127.0.0.1:1')
            )

        self.send(self.make())


class TlsTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.authority = certificates.Authority(self.make_folder())

    def send(
        self,
        name: str,
        *,
        cafile: str | None,
        timeout: float = LONG,
        drips: bool = False,
    ) -> receivers.Receiver:
        """Send to ``hooks.test``, which shows a certificate of a name."""
        self.receiver = receivers.Receiver(
            self, tls=self.authority.issue(name)
        )
        if drips:
            self.receiver.behave = self.receiver.drip
        sender = sender_mod.Sender(
            rules.make_rules([], [LOCAL]),
            timeout=timeout,
            cafile=cafile,
            resolve=lambda _host, port, **_fields: [
                (2, 1, 6, '', ('127.0.0.1', port))
            ],
        )
        url = f'https://hooks.test:{self.receiver.port}/a'
        sender.send(url, {'webhook-id': 'x'}, b'{}')
        return self.receiver

    def refuse(self, name: str, cafile: str | None) -> str:
        err = self.assertRaises(
            sender_mod.NotDelivered, self.send, name, cafile=cafile
        )
        self.assertIn('TLS: ', str(err))
        self.assertEqual([], self.receiver.got)
        return str(err)

    def test_the_name_of_the_url_is_what_counts(self) -> None:
        (got,) = self.send('hooks.test', cafile=self.authority.path).got

        self.assertEqual(
            f'hooks.test:{self.receiver.port}', got.headers['host']
        )

    def test_a_certificate_of_another_name(self) -> None:
        text = self.refuse('other.test', self.authority.path)
        # A certificate may have a thousand names.
        self.assertNotIn('other.test', text)

    def test_one_sender_always_checks_names(self) -> None:
        sender = sender_mod.Sender(
            rules.make_rules([], [LOCAL]),
            timeout=LONG,
            cafile=self.authority.path,
            resolve=lambda _host, port, **_fields: [
                (2, 1, 6, '', ('127.0.0.1', port))
            ],
        )
        receiver = receivers.Receiver(
            self, tls=self.authority.issue('hooks.test')
        )
        sender.send(f'https://hooks.test:{receiver.port}/a', {}, b'{}')

        self.assertTrue(sender._context.check_hostname)

    def test_an_authority_that_is_not_trusted(self) -> None:
        self.refuse('hooks.test', None)

    def test_a_receiver_that_drips(self) -> None:
        begin = time.monotonic()

        err = self.assertRaises(
            sender_mod.NotDelivered,
            self.send,
            'hooks.test',
            cafile=self.authority.path,
            timeout=0.5,
            drips=True,
        )

        self.assertIn('in time', str(err))
        self.assertLess(time.monotonic() - begin, LONG)

    def test_a_receiver_that_hangs_in_the_handshake(self) -> None:
        listener = socket.create_server(('127.0.0.1', 0))
        self.addCleanup(listener.close)
        seen = threading.Event()

        def hold() -> None:
            line, _address = listener.accept()
            with line:
                while line.recv(4096):
                    pass
                seen.set()

        thread = threading.Thread(target=hold, daemon=True)
        thread.start()
        sender = sender_mod.Sender(
            rules.make_rules([], [LOCAL]),
            timeout=0.5,
            resolve=lambda _host, port, **_fields: [
                (2, 1, 6, '', ('127.0.0.1', port))
            ],
        )
        port = listener.getsockname()[1]

        self.assertRaises(
            sender_mod.NotDelivered,
            sender.send,
            f'https://hooks.test:{port}/',
            {},
            b'{}',
        )

        self.assertTrue(seen.wait(5))
