# SPDX-License-Identifier: Apache-2.0

"""Some kills of real nova-computes; ``tox -e crash`` does all of them."""

import subprocess
import sys

from tests import base

#: A cloud of its own, in processes.
_SECONDS = 500


class CrashTest(base.TestCase):
    def test_hosts_that_are_killed_converge(self) -> None:
        done = subprocess.run(
            [sys.executable, '-m', 'tests.crash', 'short'],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )

        said = done.stdout + done.stderr
        self.assertEqual(0, done.returncode, said)
        self.assertIn(' | killed | ', said)
        self.assertIn('== 3 kills: ', said)
