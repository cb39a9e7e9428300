# SPDX-License-Identifier: Apache-2.0

"""Builds the sdist and the wheel of a commit, and installs each of them.

    python tools/artefacts.py [FOLDER]

From a clean clone, so that nothing counts that is not committed. Leaves both
in FOLDER (``dist``) and fails if ``twine check`` refuses one, if one does not
install into an empty environment, or if it brings the wrong version, no
programs, or no files for ``etc``.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).resolve().parents[1]
NAME = 'nova_ext_resources'
CONSTRAINTS = ROOT / 'upper-constraints.txt'

#: Exit with 0 and print something, without Nova and without a configuration.
PROGRAMS = (
    'nova-ext-resources-agent',
    'nova-ext-resources-hand-over',
    'nova-ext-resources-reservations',
    'nova-ext-resources-status',
)

#: Needs Nova, and says so.
SERVICE = 'nova-compute-ext'

_COUNTED = """
import os, sys
from pbr import packaging
os.chdir(sys.argv[1])
print(packaging.get_version("nova-ext-resources"))
"""

_VERSION = 'import importlib.metadata as m; print(m.version("{}"))'


def main(arguments: list[str]) -> int:
    folder = pathlib.Path(*arguments or ['dist']).absolute()
    with tempfile.TemporaryDirectory() as temporary:
        clone = pathlib.Path(temporary, 'clone')
        run('git', 'clone', '--quiet', ROOT, clone)
        version = find_version(clone)
        run(sys.executable, '-m', 'build', '--outdir', folder, clone)
        made = [
            folder / f'{NAME}-{version}.tar.gz',
            folder / f'{NAME}-{version}-py3-none-any.whl',
        ]
        run(sys.executable, '-m', 'twine', 'check', '--strict', *made)
        for artefact in made:
            environment = pathlib.Path(temporary, artefact.name)
            check(artefact, version, environment, list_etc(clone))
    return 0


def run(
    *command: str | os.PathLike[str],
    status: int = 0,
    folder: str | os.PathLike[str] | None = None,
) -> str:
    """Run a command, and return its output.

    :param folder: where it runs
    :raises SystemExit: it ends with another status
    """
    done = subprocess.run(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != status:
        raise SystemExit(
            f'{" ".join(map(str, command))} ended with {done.returncode}:\n'
            f'{done.stdout}'
        )
    return done.stdout.strip()


def find_version(clone: pathlib.Path) -> str:
    """Return the version that this commit is to have.

    It is the tag's where the commit has one. Otherwise pbr counts from the
    last tag.
    """
    tags = run('git', '-C', clone, 'tag', '--points-at', 'HEAD').split()
    given = os.environ.get('PBR_VERSION')
    if given or tags:
        return given or tags[-1]
    return run(sys.executable, '-c', _COUNTED, clone).splitlines()[-1]


def list_etc(clone: pathlib.Path) -> set[str]:
    """Return the names of the files that this commit has for ``etc``."""
    found = run('git', '-C', clone, 'ls-files', '-z', f'etc/{NAME}')
    return {pathlib.PurePath(one).name for one in found.split('\0') if one}


def find_installed_version(environment: pathlib.Path) -> str:
    """Return the version of the package that an environment has.

    Python looks into the folder that it runs in first, and the repository may
    have the ``egg-info`` of another version.
    """
    python = environment / 'bin' / 'python'
    return run(python, '-c', _VERSION.format(NAME), folder=environment)


def check(
    artefact: pathlib.Path,
    version: str,
    environment: pathlib.Path,
    expected: set[str],
) -> None:
    """Install into an empty environment, and use what is there.

    :param expected: names of the files for ``etc``
    :raises SystemExit: something is missing or does not run
    """
    venv.create(environment, with_pip=True)
    python = environment / 'bin' / 'python'
    run(
        *(python, '-m', 'pip', 'install', '-c', CONSTRAINTS, artefact),
        folder=environment,
    )
    found = find_installed_version(environment)
    if found != version:
        raise SystemExit(f'{artefact}: version {found} instead of {version}')
    for program in PROGRAMS:
        run(environment / 'bin' / program, '--help')
    run(environment / 'bin' / SERVICE, '--version', status=1)
    installed = {one.name for one in (environment / 'etc' / NAME).iterdir()}
    if expected != installed:
        raise SystemExit(f'{artefact}: etc lacks {expected - installed}')
    print(f'{artefact.name}: installs, with version {version}')


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
