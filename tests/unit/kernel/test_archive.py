# SPDX-License-Identifier: Apache-2.0

"""Packages of kernels by their names."""

import pathlib
import subprocess
import sys

import fixtures

from dev.kernel import archive
from dev.kernel import obstacle
from tests import base

PACKAGE = 'linux-image-6.12.9+deb12-amd64'


class Programs:
    """apt and dpkg, that bring a package of two parts.

    :ivar is_broken: whether the second part cannot be unpacked
    """

    def __init__(self) -> None:
        self.is_broken = False

    def run(self, *command: str, folder: pathlib.Path | None = None) -> str:
        if 'download' in command:
            assert folder is not None
            (folder / '1.deb').touch()
            (folder / '2.deb').touch()
        elif command[0] == 'dpkg-deb':
            self.unpack(pathlib.Path(command[2]), pathlib.Path(command[3]))
        return ''

    def unpack(self, package: pathlib.Path, folder: pathlib.Path) -> None:
        if self.is_broken and package.name == '2.deb':
            raise obstacle.Obstacle('no space left on device')
        folder.mkdir(exist_ok=True)
        (folder / package.stem).touch()


class FetchTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.programs = Programs()
        self.useFixture(
            fixtures.MonkeyPatch('dev.kernel.archive._run', self.programs.run)
        )
        self.cache = pathlib.Path(self.make_folder())
        self.archive = archive.Archive(self.cache / 'apt')

    def fetch(self) -> list[str]:
        """Return what is there of a kernel after it was fetched."""
        folder = self.cache / PACKAGE
        self.archive.fetch_kernel(PACKAGE, folder)
        return sorted(one.name for one in folder.iterdir())

    def test_a_kernel_is_all_of_its_packages(self) -> None:
        self.assertEqual(['1', '2'], self.fetch())
        self.assertEqual([PACKAGE], [one.name for one in self.cache.iterdir()])

    def test_half_a_kernel_is_not_found_later(self) -> None:
        self.programs.is_broken = True

        self.assertRaises(obstacle.Obstacle, self.fetch)

        self.assertFalse((self.cache / PACKAGE).exists())

    def test_what_is_left_of_another_try_is_not_used(self) -> None:
        self.programs.is_broken = True
        self.assertRaises(obstacle.Obstacle, self.fetch)
        (self.cache / f'{PACKAGE}.new' / 'old').touch()
        self.programs.is_broken = False

        self.assertEqual(['1', '2'], self.fetch())


class RunTest(base.TestCase):
    def test_a_program_that_fails_is_an_obstacle(self) -> None:
        self.assertRaises(
            obstacle.Obstacle, archive._run, sys.executable, '-c', 'x'
        )

    def test_a_program_that_is_missing_is_one(self) -> None:
        err = self.assertRaises(obstacle.Obstacle, archive._run, '/no/such')

        self.assertIn('/no/such', str(err))

    def test_a_program_that_hangs_is_one(self) -> None:
        def run(*_words: object, **_options: object) -> None:
            raise subprocess.TimeoutExpired(['apt-get'], 600)

        self.useFixture(fixtures.MonkeyPatch('subprocess.run', run))

        err = self.assertRaises(
            obstacle.Obstacle, archive._run, 'apt-get', 'update'
        )

        self.assertIn('600', str(err))


class ArchiveTest(base.TestCase):
    def test_the_newest_kernel_of_each_series_is_taken(self) -> None:
        names = (
            'linux-image-6.1.0-9-amd64',
            'linux-image-6.1.0-50-amd64',
            'linux-image-6.1.0-60-cloud-amd64',
            'linux-image-6.1.0-60-rt-amd64',
            'linux-image-6.1.0-60-amd64-unsigned',
            'linux-image-6.12.9+deb12-amd64',
            'linux-image-6.12.95+deb13-amd64',
            'linux-image-amd64',
        )

        self.assertEqual(
            {
                '6.1': 'linux-image-6.1.0-50-amd64',
                '6.12': 'linux-image-6.12.95+deb13-amd64',
            },
            archive.choose(names),
        )
