# SPDX-License-Identifier: Apache-2.0

"""The system calls of a change, and the check before a privileged one."""

from collections.abc import Callable, Iterable, Iterator, Mapping
import contextlib
import errno
import os
import re

from nova_ext_resources.drivers.resctrl.kernel import groups

MOUNTS = '/proc/self/mountinfo'

#: Of folders that are groups. Whatever may make monitoring groups in one can
#: use up what the hardware has of them.
GROUP_MODE = 0o755

_TYPE = 'resctrl'

_UUID = '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}'

_OURS = f'({groups.PREFIX}{_UUID}|{groups.SHARED}|{groups.TRIAL})'

_GROUP = re.compile(f'(({_OURS}/)?mon_groups/)?{_OURS}')


def write(path: str, text: str, *, dir_fd: int | None = None) -> None:
    """Write by one system call, which is one command to the kernel.

    A buffered file would write when it is closed, where the kernel's
    refusal is easily lost.

    :raises OSError: as the kernel gives it; EIO when it took a part only
    """
    data = text.encode()
    with _writing(path, dir_fd) as handle:
        if os.write(handle, data) != len(data):
            raise OSError(errno.EIO, 'only a part was written')


def assign(
    path: str, tids: Iterable[int], *, dir_fd: int | None = None
) -> None:
    """Write the numbers of threads to a file ``tasks``, one per system call.

    Those that have ended are passed over. Later kernels take a list, and
    give up at the first thread of it that has ended.

    :raises OSError: as the kernel gives it, and some may have been moved;
        EINVAL for numbers of no thread: to the kernel 0 is the writer
    """
    numbers = list(tids)
    if any(tid < 1 for tid in numbers):
        raise OSError(errno.EINVAL, f'{min(numbers)} is not a thread id')
    with _writing(path, dir_fd) as handle:
        for tid in numbers:
            try:
                os.write(handle, b'%d\n' % tid)
            except ProcessLookupError:
                continue


def mkdir(path: str, *, dir_fd: int | None = None) -> None:
    """Make a group.

    The helper of oslo.privsep runs with a umask of 0.
    """
    os.mkdir(path, GROUP_MODE, dir_fd=dir_fd)


def rmdir(path: str, *, dir_fd: int | None = None) -> None:
    """Remove a group."""
    os.rmdir(path, dir_fd=dir_fd)


#: All that the privileged helper does.
CALLS: Mapping[str, Callable[..., None]] = {
    'write': write,
    'assign': assign,
    'mkdir': mkdir,
    'rmdir': rmdir,
}

#: Below the mount, what it does that with: groups of Nova, and the default
#: one, which gets the threads and the ways that no group has.
PATHS: Mapping[str, re.Pattern[str]] = {
    'write': re.compile(f'({_OURS}/)?schemata|{_OURS}/cpus_list'),
    'assign': re.compile(f'({_OURS}/)?(mon_groups/{_OURS}/)?tasks'),
    'mkdir': _GROUP,
    'rmdir': _GROUP,
}


@contextlib.contextmanager
def _writing(path: str, dir_fd: int | None) -> Iterator[int]:
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(path, flags, dir_fd=dir_fd)
    try:
        yield handle
    finally:
        os.close(handle)


@contextlib.contextmanager
def checked(call: str, root: str, path: str) -> Iterator[tuple[int, str]]:
    """Open the folder of a path that a call may change.

    The path is resolved here and never again: its author may put a
    symbolic link into it at any moment.

    :param root: the mount
    :param path: below it
    :return: the folder, and the last part of the path
    :raises OSError: EPERM, it must not be changed; or it cannot be opened
    """
    if not PATHS[call].fullmatch(path):
        raise OSError(
            errno.EPERM,
            f'{call} of {path!r} is refused, because this path '
            'is not a group of Nova',
        )
    folder, name = os.path.split(path)
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    with contextlib.ExitStack() as stack:
        handle = os.open(root, flags)
        stack.callback(os.close, handle)
        check(handle)
        if folder:
            flags |= os.O_NOFOLLOW
            handle = os.open(folder, flags, dir_fd=handle)
            stack.callback(os.close, handle)
        yield handle, name


def check(folder: int, mounts: str = MOUNTS) -> None:
    """Make sure that an open folder is the root of a mount of type resctrl.

    :raises OSError: EPERM, it is not
    """
    device = os.fstat(folder).st_dev
    # From any folder but the root one gets to another of the same mount.
    if os.stat(os.pardir, dir_fd=folder).st_dev != device:
        with open(mounts, encoding='utf-8') as file:
            if f'{os.major(device)}:{os.minor(device)}' in _list_devices(
                file.read()
            ):
                return
    raise OSError(
        errno.EPERM, 'this folder is not the root of a resctrl mount'
    )


def _list_devices(text: str) -> set[str]:
    """Return the devices of all mounts of resctrl (proc(5), mountinfo)."""
    devices = set()
    for line in text.splitlines():
        fields, _dash, rest = line.partition(' - ')
        if rest.split(' ')[0] == _TYPE:
            devices.add(fields.split(' ')[2])
    return devices
