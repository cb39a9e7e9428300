# SPDX-License-Identifier: Apache-2.0

"""Clients of the gate that work side by side."""

import threading

from dev.gate import pool
from tests import base


class PoolTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.go = threading.Event()
        self.addCleanup(self.go.set)

    def fail_beside_another(self) -> None:
        with pool.opened(2) as threads:
            threads.submit(self.go.wait)
            threads.submit(int, 'no number').result()

    def test_an_error_does_not_wait_for_the_others(self) -> None:
        self.assertRaises(ValueError, self.fail_beside_another)

        self.assertFalse(self.go.is_set())
