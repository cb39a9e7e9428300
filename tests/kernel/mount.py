# SPDX-License-Identifier: Apache-2.0

"""The mount of resctrl, and its groups."""

from collections.abc import Iterable, Iterator
import contextlib
import errno
import os
import subprocess
from typing import Any

from tests.kernel import cpus as cpus_mod

ROOT = '/sys/fs/resctrl'

#: Folders that are no groups.
_NO_GROUPS = frozenset({'info', 'mon_groups', 'mon_data'})

#: Percent that limit nothing.
_UNLIMITED = 100


def read(path: str) -> str:
    with open(f'{ROOT}/{path}', encoding='utf-8') as stream:
        return stream.read()


def write(path: str, text: str) -> None:
    """Write by one system call."""
    handle = os.open(f'{ROOT}/{path}', os.O_WRONLY)
    try:
        os.write(handle, text.encode('utf-8', 'surrogateescape'))
    finally:
        os.close(handle)


def unmount() -> None:
    while os.path.ismount(ROOT):
        subprocess.run(['umount', ROOT], check=True)


def mount(options: Iterable[str]) -> None:
    """Mount it anew.

    :raises OSError: EINVAL, the kernel does not take the options; it is
        mounted without any then
    """
    unmount()
    given = ','.join(sorted(options))
    command = ['mount', '-t', 'resctrl', 'resctrl', ROOT]
    tried = subprocess.run(
        [*command, *(('-o', given) if given else ())],
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode:
        subprocess.run(command, check=True)
        raise OSError(errno.EINVAL, tried.stderr)


def list_groups() -> Iterator[tuple[str, str]]:
    """Return each group and its control group, in order of their age."""
    for name in ('', *_list_folders('')):
        yield name, name
        below = os.path.join(name, 'mon_groups')
        if os.path.isdir(f'{ROOT}/{below}'):
            for one in _list_folders(below):
                yield f'{below}/{one}', name


def _list_folders(path: str) -> list[str]:
    folder = os.path.join(ROOT, path)
    names = [
        name
        for name in os.listdir(folder)
        if name not in _NO_GROUPS and os.path.isdir(f'{folder}/{name}')
    ]
    return sorted(names, key=lambda name: os.stat(f'{folder}/{name}').st_ino)


def describe(group: str, control: str) -> dict[str, Any]:
    """Return a group as the model does; ids are None where none are shown."""
    return {
        'closid': _read_id(os.path.join(control, 'ctrl_hw_id')),
        'rmid': _read_id(os.path.join(group, 'mon_hw_id')),
        'mode': read(os.path.join(control, 'mode')).strip(),
        'cpus': sorted(cpus_mod.parse(read(os.path.join(group, 'cpus_list')))),
        # Of the default group: every other task of the machine.
        'tasks': []
        if not group
        else [int(t) for t in read(f'{group}/tasks').split()],
        'values': read_values(control),
    }


def _read_id(path: str) -> int | None:
    with contextlib.suppress(OSError):
        return int(read(path))
    return None


def read_values(control: str) -> dict[str, dict[str, int]]:
    """Return resource -> domain -> value; domains are text."""
    values: dict[str, dict[str, int]] = {}
    for line in read(os.path.join(control, 'schemata')).splitlines():
        name, _colon, rest = line.strip().partition(':')
        if '=' in rest:
            base = 10 if name == 'MB' else 16
            pairs = (part.split('=') for part in rest.split(';'))
            values[name] = {d: int(value, base) for d, value in pairs}
    return values


def empty() -> bool:
    """Make it as after a mount; return whether that was possible.

    A mount patches code of the kernel, and takes long where the processor is
    emulated.
    """
    if not os.path.ismount(ROOT) or 'CODE' in read('schemata'):
        return False
    for group, _control in reversed(list(list_groups())):
        if group:
            os.rmdir(f'{ROOT}/{group}')
    write('mode', 'shareable\n')
    return all(_open(name, line) for name, line in read_values('').items())


def _open(name: str, values: dict[str, int]) -> bool:
    """Give the default group all of a resource."""
    if name == 'MB':
        # AMD's and MBps have other numbers for "all".
        return all(value == _UNLIMITED for value in values.values())
    full = read(f'info/{name}/cbm_mask').strip()
    text = ';'.join(f'{domain}={full}' for domain in values)
    write('schemata', f'{name}:{text}\n')
    return True
