# SPDX-License-Identifier: Apache-2.0

"""What a test leaves behind, and what was there before it."""

import gc
import weakref

from tests import base
from tests.functional import shared


class Cycle:
    def __init__(self) -> None:
        self.own = self


class GarbageTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        shared.install()

    def test_what_was_there_is_not_looked_at(self) -> None:
        self.assertGreater(gc.get_freeze_count(), 100_000)

    def test_what_a_test_leaves_is_collected(self) -> None:
        left = weakref.ref(Cycle())

        gc.collect()

        self.assertTrue(gc.isenabled())
        self.assertIsNone(left())
