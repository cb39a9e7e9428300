# SPDX-License-Identifier: Apache-2.0

"""Fetches, patches and compiles QEMU, once."""

import hashlib
import os
import pathlib
import shutil
import subprocess

from dev.kernel import archive as archive_mod
from dev.kernel.emulator import patch
from dev.kernel import obstacle

PROGRAM = 'qemu-system-x86_64'

#: Nothing but a processor, its memory, and folders of the host.
OPTIONS = (
    '--target-list=x86_64-softmmu',
    '--without-default-features',
    '--enable-system',
    '--enable-tcg',
    '--enable-virtfs',
    '--enable-attr',
    '--enable-cap-ng',
    '--enable-fdt=system',
    '--disable-docs',
    '--disable-werror',
)

#: Seconds for one step; compiling takes a quarter of an hour on two CPUs.
_PATIENCE = 5400


def get(
    archive: archive_mod.Archive, cache: pathlib.Path
) -> tuple[pathlib.Path, str]:
    """Return the program, and its version.

    :raises obstacle.Obstacle: it cannot be built here
    """
    version = archive.find_qemu()
    folder = cache / f'qemu-{sum_up(version)}'
    program = folder / PROGRAM
    if not program.exists():
        print(f'== building QEMU {version}: 15 minutes', flush=True)
        _build(archive, version, folder)
    return program, version


def sum_up(version: str) -> str:
    """Return what tells one build from another."""
    parts = [version, *OPTIONS, *map(repr, patch.EDITS)]
    parts += [(patch.HERE / name).read_text() for name in patch.FILES]
    return hashlib.sha256('\0'.join(parts).encode()).hexdigest()[:16]


def _build(
    archive: archive_mod.Archive, version: str, folder: pathlib.Path
) -> None:
    source = folder.with_suffix('.source')
    shutil.rmtree(source, ignore_errors=True)
    archive.fetch_qemu(version, source)
    patch.apply(source)
    at = source / 'build'
    at.mkdir()
    log = folder.with_suffix('.log')
    jobs = str(len(os.sched_getaffinity(0)))
    log.unlink(missing_ok=True)
    _run(['../configure', *OPTIONS], at, log)
    _run(['nice', 'ninja', '-j', jobs, PROGRAM], at, log)
    folder.mkdir(exist_ok=True)
    # The name is the last thing: whatever stops this, nobody finds half.
    shutil.copy(at / PROGRAM, folder / f'{PROGRAM}.new')
    (folder / f'{PROGRAM}.new').rename(folder / PROGRAM)
    shutil.rmtree(source)


def _run(command: list[str], folder: pathlib.Path, log: pathlib.Path) -> None:
    print(f'   {" ".join(command[:5])}', flush=True)
    try:
        with log.open('a') as output:
            ended = subprocess.run(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=_PATIENCE,
                check=False,
            )
    except (OSError, subprocess.TimeoutExpired) as err:
        raise obstacle.Obstacle(f'{command[0]} failed: {err}') from err
    if ended.returncode:
        said = log.read_text(errors='replace').strip().splitlines()
        last = said[-1] if said else f'status {ended.returncode}'
        raise obstacle.Obstacle(
            f'{command[0]} failed: {last}; all that it said is in {log}'
        )
