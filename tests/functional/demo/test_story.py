# SPDX-License-Identifier: Apache-2.0


import io
import shutil
import subprocess

from rich import console

from dev.demo import cli
from dev.demo import scene as scenes
from dev.demo import stage
from dev.demo import story
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

    def test_every_line_of_a_cloud_that_is_kept_can_be_run(self) -> None:
        self.run_lines('rmd')

    def test_so_it_can_with_resctrl(self) -> None:
        mounting.require()

        self.run_lines('resctrl')

    def run_lines(self, backend: str) -> None:
        if shutil.which('curl') is None:
            self.skipTest('curl is not installed')
        with scenes.opened(
            stage.Stage(console.Console(file=io.StringIO())),
            computes=2,
            backend=backend,
        ) as scene:
            story.play(scene, ['flavors'])
            [image] = scene.sdk.image.images()
            self.assertEqual('public', image.visibility)
            for flavor in scene.sdk.compute.flavors():
                self.assertLess(0, flavor.disk)
            lines = [*cli.list_commands(scene)]
            # A script has no aliases otherwise.
            script = ['set -e', 'shopt -s expand_aliases']
            for line in lines:
                script += [f'echo "failed: {line}" >&2', line]

            done = subprocess.run(
                ['bash', '-c', '\n'.join(script)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=900,
                check=False,
            )

        self.assertEqual(0, done.returncode, done.stderr[-2000:])
        self.assertIn('ACTIVE', done.stdout)
        self.assertIn('"status": "ok"', done.stdout)
        self.assertIn('nova_ext_resources_inventory_units', done.stdout)
        self.assertLess(12, len(lines))

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
