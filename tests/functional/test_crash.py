# SPDX-License-Identifier: Apache-2.0

"""Some kills of real nova-computes; ``tox -e crash`` does all of them."""

import subprocess
import sys

from tests import base

#: Each is a cloud of its own, in processes.
_SECONDS = 500


class CrashTest(base.TestCase):
    def run_crash(self, *arguments: str) -> str:
        """Run the harness; return what it prints."""
        done = subprocess.run(
            [sys.executable, '-m', 'tests.crash', *arguments],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done.stdout

    def test_a_host_that_is_killed_in_an_operation_converges(self) -> None:
        said = self.run_crash(
            'every-step', 'boot', 'resize', 'revert', '--sample', '2'
        )

        self.assertIn(' | killed | ', said)

    def test_hosts_that_are_killed_at_random_converge(self) -> None:
        said = self.run_crash('random', '--kills', '8', '--outages')

        self.assertIn('8 kills: ', said)
