# SPDX-License-Identifier: Apache-2.0

"""What keeps the tests on kernels from running."""

import pathlib
import re

import fixtures

from dev.kernel.boot import guest
from dev.kernel import machines
from dev.kernel import obstacle
from tests import base

BINDEP = pathlib.Path(__file__).parents[3] / 'bindep.txt'


class ObstacleTest(base.TestCase):
    def test_what_starts_a_guest_is_looked_for(self) -> None:
        tree = pathlib.Path(self.make_folder())
        (tree / 'boot').mkdir()
        (tree / 'boot' / 'vmlinuz-6.1').touch()
        machine = machines.MACHINES['skylake2']

        words = guest.list_words(pathlib.Path('/qemu'), tree, machine, tree)

        self.assertIn(words[0], obstacle.PROGRAMS)

    def test_the_packages_that_it_names_are_in_bindep(self) -> None:
        listed = re.findall(
            r'^(\S+) \[kernel', BINDEP.read_text(), re.MULTILINE
        )
        named = {one for one in obstacle.PROGRAMS.values() if ' ' not in one}

        self.assertEqual(set(), named - set(listed))

    def test_a_missing_program_is_named_with_its_package(self) -> None:
        for name, answer in (
            ('platform.machine', 'x86_64'),
            ('shutil.which', None),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(name, lambda *_words, said=answer: said)
            )

        err = self.assertRaises(obstacle.Obstacle, obstacle.check)

        self.assertIn('is missing: install', str(err))
