# SPDX-License-Identifier: Apache-2.0

"""While Nova or placement is slow, what does not need it is answered."""

from collections.abc import Callable
from concurrent import futures
import threading
from typing import Any

from tests.blazar import base
from tests.blazar import test_rest

#: Seconds, of which none is needed.
_PATIENCE = 30


class SlowNovaTest(test_rest.RestTestCase):
    """Requests of flavors wait for Nova; others do not wait for them."""

    def setUp(self) -> None:
        super().setUp()
        self.made = self.reserve(1, 2)
        self.path = f'/extended/reservations/{self.made["id"]}'

    def block(self, name: str) -> None:
        """Let a question to the cloud wait for an event."""
        self.asked, self.answered = threading.Event(), threading.Event()
        self.addCleanup(self.answered.set)
        ask = getattr(self.site, name)

        def wait(*known: Any) -> Any:
            self.asked.set()
            self.answered.wait(2 * _PATIENCE)
            return ask(*known)

        self.patch(self.site, name, wait)

    def assert_others_go_on(
        self, status: int, slow: Callable[[], base.Answer]
    ) -> None:
        """Check that others are answered while a request waits."""
        with futures.ThreadPoolExecutor(2) as pool:
            waiting = pool.submit(slow)
            self.assertTrue(self.asked.wait(_PATIENCE))
            other = pool.submit(self.ask, 'GET', self.path)
            try:
                found = other.result(_PATIENCE)
                self.assertFalse(waiting.done())
            finally:
                self.answered.set()

            self.assertEqual(200, found.status)
            answer = waiting.result(_PATIENCE)
            self.assertEqual(status, answer.status, answer.body)

    def test_while_an_order_waits(self) -> None:
        self.block('find_flavor')

        self.assert_others_go_on(201, self.create)

    def test_while_a_change_waits(self) -> None:
        self.block('find_flavor')

        self.assert_others_go_on(
            200, lambda: self.ask('PUT', self.path, {'flavor': 'large'})
        )

    def test_while_a_question_of_what_fits_waits(self) -> None:
        self.block('find_flavor')
        query = f'flavor=large&from={self.time(1)}&until={self.time(2)}'

        self.assert_others_go_on(
            200,
            lambda: self.ask('GET', f'/extended/capacity/servers?{query}'),
        )

    def test_while_a_lease_waits(self) -> None:
        self.block('find_flavor')

        self.assert_others_go_on(201, lambda: self.lease('night', 3, 4))

    def test_while_hosts_are_read_for_the_first_time(self) -> None:
        self.plugin._keeper._opened = self.open_store()
        self.block('list_hosts')

        self.assert_others_go_on(201, self.create)
