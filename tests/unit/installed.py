# SPDX-License-Identifier: Apache-2.0

"""Lets packages look as if they were installed, for one test."""

import os
import subprocess
import sys

import fixtures


class InstalledPackage(fixtures.Fixture):
    """Has the packages in ``folder``, with their entry points, installed.

    They are imported afresh, and forgotten in the end.
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = folder

    def _setUp(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch('sys.path', [self.folder, *sys.path])
        )
        # stevedore remembers what is installed, in the process and in a file
        # of the home folder for each path that it has seen.
        self.useFixture(
            fixtures.MonkeyPatch(
                'stevedore.extension.ExtensionManager.ENTRY_POINT_CACHE', {}
            )
        )
        self.useFixture(
            fixtures.MonkeyPatch('stevedore._cache._c._disable_caching', True)
        )
        self.addCleanup(self._forget)

    def _forget(self) -> None:
        for name, module in list(sys.modules.items()):
            path = getattr(module, '__file__', None) or ''
            if path.startswith(f'{self.folder}{os.sep}'):
                del sys.modules[name]


def write_metadata(folder: str) -> None:
    """Let setuptools write what an installation of ``folder`` would have."""
    subprocess.run(
        [
            sys.executable,
            '-c',
            'import setuptools; setuptools.setup()',
            '--quiet',
            'egg_info',
        ],
        cwd=folder,
        check=True,
        timeout=60,
        capture_output=True,
    )


def write_entry_points(
    folder: str, package: str, group: str, points: dict[str, str]
) -> None:
    """Write the metadata of a package that brings these entry points."""
    path = os.path.join(folder, f'{package}.egg-info')
    os.makedirs(path)
    lines = [f'[{group}]', *(f'{k} = {v}' for k, v in points.items())]
    for name, text in {
        'PKG-INFO': f'Metadata-Version: 2.1\nName: {package}\nVersion: 1\n',
        'entry_points.txt': '\n'.join(lines),
    }.items():
        with open(os.path.join(path, name), 'w', encoding='utf-8') as file:
            file.write(text)
