# SPDX-License-Identifier: Apache-2.0

"""Tests of what reads beside the passes what is available."""

import subprocess
import sys

from nova_ext_resources import exception
from nova_ext_resources.reservation.manager import beside
from tests import base

#: Ends while it waits for an answer that never comes.
_HANGING = """
import sys
import threading
from nova_ext_resources.reservation.manager import shortages
asked = threading.Event()
def read(now):
    asked.set()
    threading.Event().wait()
made = shortages.Shortages(None, read, 60, is_watched=True)
assert made.run(0)
assert asked.wait(30)
assert made.run(1)
print('over')
"""


class EndTest(base.TestCase):
    def test_what_hangs_does_not_keep_a_manager_from_ending(self) -> None:
        ended = subprocess.run(
            [sys.executable, '-c', _HANGING],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )

        self.assertEqual('over\n', ended.stdout)


class BesideTest(base.TestCase):
    def test_an_error_is_raised_where_the_result_is_asked_for(self) -> None:
        def fail() -> None:
            raise exception.StoreUnavailable(reason='away')

        future = beside.start(fail, 'it')

        self.assertRaises(exception.StoreUnavailable, future.result, 30)
        self.assertEqual(3, beside.start(lambda: 3, 'it').result(30))
