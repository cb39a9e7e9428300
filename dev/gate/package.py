# SPDX-License-Identifier: Apache-2.0

"""The package as an operator has it: a wheel in Nova's environment."""

import os
import pathlib
import shutil
import sys
import sysconfig

from dev.cloud import programs

ROOT = pathlib.Path(__file__).resolve().parents[2]

NAME = 'nova-ext-resources'

#: What takes the place of the previous release until there is one: a commit
#: of this branch, so that every clone has it.
PREVIOUS = '079ce43'


def build(commit: str, folder: pathlib.Path) -> pathlib.Path:
    """Return the wheel of a commit, made from a clone.

    :raises CloudError: the history lacks the commit, or it does not build
    """
    clone = folder / f'clone-{commit}'
    programs.run('git', 'clone', '--quiet', str(ROOT), str(clone))
    programs.run('git', '-C', str(clone), 'checkout', '--quiet', commit)
    made = folder / f'wheel-{commit}'
    _pip(
        'wheel',
        '--no-deps',
        '--no-build-isolation',
        f'--wheel-dir={made}',
        str(clone),
    )
    (wheel,) = made.glob('*.whl')
    return wheel


def install(wheel: pathlib.Path) -> None:
    """Put the files of a wheel in the place of those of another.

    Services that run keep what they have loaded.

    :raises CloudError: pip fails
    """
    _pip('install', '--no-deps', '--no-index', '--force-reinstall', str(wheel))


def unpack(wheel: pathlib.Path, folder: pathlib.Path) -> None:
    """Put the files of a wheel into a folder of their own, to import from.

    :raises CloudError: pip fails
    """
    _pip(
        'install', '--no-deps', '--no-index', f'--target={folder}', str(wheel)
    )


def uninstall() -> None:
    """Remove all files of the package.

    :raises CloudError: pip fails
    """
    _pip('uninstall', '--yes', NAME)


def install_driver() -> str:
    """Give Nova a driver of its own; return what selects it."""
    nova = pathlib.Path(sysconfig.get_path('purelib'), 'nova')
    shutil.copy(ROOT / 'dev' / 'gate' / 'driver.py', nova / 'virt' / 'gate.py')
    return 'gate.Driver'


def downgrade_ledger(path: pathlib.Path) -> None:
    """Make a ledger readable for an older release, as its manual says.

    :raises CloudError: the command refuses
    """
    module = 'nova_ext_resources.cmd.downgrade_ledger'
    # -P: what is installed, and not the checkout.
    programs.run(sys.executable, '-P', '-m', module, str(path))


def _pip(*words: str) -> None:
    quiet = ('--quiet', '--disable-pip-version-check')
    programs.run(
        sys.executable,
        '-m',
        'pip',
        *words,
        *quiet,
        environ={'PIP_ROOT_USER_ACTION': 'ignore', **_own_version()},
    )


def _own_version() -> dict[str, str]:
    """Return what pbr needs where a tarball has no history."""
    given = os.environ.get('PBR_VERSION')
    return {'PBR_VERSION': given} if given else {}
