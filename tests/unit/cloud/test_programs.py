# SPDX-License-Identifier: Apache-2.0

import pathlib
import sys

from dev.cloud import errors
from dev.cloud import programs
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


class BesideTest(base.TestCase):
    def test_an_environment_that_is_missing_is_named_with_its_remedy(
        self,
    ) -> None:
        err = self.assertRaises(
            errors.CloudError, programs.get_beside, 'nowhere', 'blazar-api'
        )

        self.assertIn('/nowhere/bin/blazar-api does not exist', str(err))
        self.assertIn('sh tools/tox -e nowhere --notest', str(err))

    def test_a_program_is_found_there(self) -> None:
        folder = pathlib.Path(self.make_folder())
        found = folder / 'blazar' / 'bin' / 'blazar-manager'
        found.parent.mkdir(parents=True)
        found.touch()
        self.patch(sys, 'prefix', str(folder / 'gate'))

        self.assertEqual(
            str(found), programs.get_beside('blazar', 'blazar-manager')
        )
