# SPDX-License-Identifier: Apache-2.0

import sys

from cloud import errors
from cloud import programs
from tests import base


class RunTest(base.TestCase):
    def run_python(self, *lines: str) -> str:
        return programs.run(sys.executable, '-c', '\n'.join(lines))

    def test_run_returns_what_was_printed(self) -> None:
        self.assertEqual('here\n', self.run_python('print("here")'))

    def test_run_ends_its_failure_with_the_reasons(self) -> None:
        err = self.assertRaises(
            errors.CloudError,
            self.run_python,
            'print("[ERROR] no space")',
            'print("more")',
            'print("Error 28")',
            'print("see https://example.org")',
            'exit(3)',
        )

        self.assertIn('ended with 3', str(err))
        self.assertIn('see https://example.org', str(err))
        self.assertEqual(
            '[ERROR] no space; Error 28', str(err).splitlines()[-1]
        )
