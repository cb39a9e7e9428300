# SPDX-License-Identifier: Apache-2.0

"""What counts as the commit, and what as installed."""

import os
import pathlib
import subprocess
import venv

import fixtures

from tests import base
from tools import artefacts


class ArtefactsTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def git(self, *arguments: str) -> None:
        subprocess.run(
            ['git', '-C', self.folder, *arguments],
            check=True,
            capture_output=True,
        )

    def make_egg_info(self, folder: pathlib.Path, version: str) -> None:
        info = folder / f'{artefacts.NAME}.egg-info'
        info.mkdir(parents=True)
        (info / 'PKG-INFO').write_text(
            f'Metadata-Version: 2.1\nName: {artefacts.NAME}\n'
            f'Version: {version}\n'
        )

    def test_what_git_ignores_is_not_expected_in_etc(self) -> None:
        etc = self.folder / 'etc' / artefacts.NAME
        etc.mkdir(parents=True)
        (self.folder / '.gitignore').write_text('*.sample\n')
        (etc / 'sudoers').touch()
        (etc / 'nova.conf.sample').touch()
        self.git('init', '--quiet')
        self.git('add', '--all')

        self.assertEqual({'sudoers'}, artefacts.list_etc(self.folder))

    def test_the_version_is_that_of_the_environment(self) -> None:
        environment = self.folder / 'environment'
        venv.create(environment)
        [packages] = environment.glob('lib/python*/site-packages')
        self.make_egg_info(packages, '1.0.0')
        repository = self.folder / 'repository'
        self.make_egg_info(repository, '0.5.0')
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(repository)

        found = artefacts.find_installed_version(environment)

        self.assertEqual('1.0.0', found)
