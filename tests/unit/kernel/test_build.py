# SPDX-License-Identifier: Apache-2.0

"""The steps of building the emulator."""

import pathlib

from dev.kernel.emulator import build
from dev.kernel import obstacle
from tests import base


class BuildTest(base.TestCase):
    def run_step(self, *command: str) -> str:
        """Return why a step is an obstacle."""
        folder = pathlib.Path(self.make_folder())
        err = self.assertRaises(
            obstacle.Obstacle,
            build._run,
            list(command),
            folder,
            folder / 'log',
        )
        return str(err)

    def test_a_program_that_is_missing_is_an_obstacle(self) -> None:
        self.assertIn('/no/such', self.run_step('/no/such'))

    def test_what_a_program_said_last_is_told(self) -> None:
        said = self.run_step('sh', '-c', 'echo one; echo two; exit 1')

        self.assertIn('sh failed: two; all that it said is in', said)

    def test_a_program_may_say_nothing(self) -> None:
        self.assertIn('status 3', self.run_step('sh', '-c', 'exit 3'))
