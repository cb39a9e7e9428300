# SPDX-License-Identifier: Apache-2.0


import io

from rich import console

from demo import scene as scenes
from demo import stage
from demo import story
from tests import base
from tests.functional.resctrl import mounting


class StoryTest(base.TestCase):
    #: Each test is a cloud of a dozen processes and thirty servers.
    TIMEOUT_SCALING_FACTOR = 3

    def test_everything_is_as_told_with_rmd(self) -> None:
        self.assert_told(self.play('rmd'))

    def test_everything_is_as_told_with_resctrl(self) -> None:
        mounting.require()

        self.assert_told(self.play('resctrl'))

    def assert_told(self, printed: str) -> None:
        """Fail unless a reservation was kept and a shortage explained."""
        # Drained, offered, and given.
        self.assertIn('servers are told to leave host', printed)
        self.assertIn('can be had from', printed)
        self.assertIn(', of reservation night: ACTIVE on ', printed)
        self.assertIn(
            'openstack extended resource explain --server full-5', printed
        )
        # On each host, with the server that is in the way.
        self.assertEqual(2, printed.count('4 of 6 are allocated'))
        self.assertEqual(2, printed.count('held by full-'))

    def play(self, backend: str) -> str:
        printed = io.StringIO()
        theatre = stage.Stage(console.Console(file=printed, width=120))
        self.addOnException(lambda _: print(printed.getvalue()))

        with scenes.opened(theatre, computes=2, backend=backend) as scene:
            story.play(scene)

        self.assertNotIn('FAIL', printed.getvalue())
        self.assertFalse(scene.cloud.folder.root.exists())
        return printed.getvalue()
