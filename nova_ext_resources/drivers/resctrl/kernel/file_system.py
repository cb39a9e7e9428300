# SPDX-License-Identifier: Apache-2.0

"""The file system of resctrl: the one seam to the kernel.

Everything else in this package works on a :class:`FileSystem`; tests bring
one of their own.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol
import contextlib
import errno
import fcntl
import importlib
import os
import time

from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources.drivers.resctrl.kernel import system

#: Seconds in which another program must be done with its changes.
LOCK_TIMEOUT = 10.0

#: Seconds between two attempts to get the lock.
LOCK_PAUSE = 0.005

_CHUNK = 1 << 16

_INFO = 'info'

STATUS = f'{_INFO}/last_cmd_status'


class FileSystem(Protocol):
    """Paths are relative to the mount; '' is the mount itself.

    Everything raises OSError as the kernel gives it.

    :ivar root: where it is mounted
    """

    root: str

    def read(self, path: str) -> str:
        """Return the whole file."""

    def write(self, path: str, text: str) -> None:
        """Write in a single system call: one call is one command."""

    def assign(self, path: str, tids: Sequence[int]) -> None:
        """Write the numbers of threads, one system call each.

        Threads that have ended are passed over.
        """

    def mkdir(self, path: str) -> None:
        """Make a group."""

    def rmdir(self, path: str) -> None:
        """Remove a group; the kernel empties it."""

    def listdir(self, path: str) -> list[str]:
        """Return the names of files and folders."""

    def get_rights(self) -> tuple[int, ...]:
        """Return what decides whether groups can be made in the mount.

        Numbers to compare: others after it was mounted anew, or in another
        way.
        """

    def find_problem(self) -> str:
        """Return why groups cannot be made, and what to do, or ''.

        As far as reading shows. Changes nothing.
        """

    def lock(self, exclusive: bool) -> contextlib.AbstractContextManager[None]:
        """Hold the lock of the mount, as the kernel documents."""


class RealFileSystem:
    """The kernel's own, at ``root``.

    Writes go through a privileged helper where this process may not write
    itself.

    :param timeout: seconds to wait for the lock
    """

    def __init__(self, root: str, *, timeout: float = LOCK_TIMEOUT) -> None:
        self.root = root
        self._timeout = timeout

    def _resolve(self, path: str) -> str:
        return os.path.join(self.root, path) if path else self.root

    def read(self, path: str) -> str:
        handle = os.open(self._resolve(path), os.O_RDONLY | os.O_CLOEXEC)
        try:
            chunks = iter(lambda: os.read(handle, _CHUNK), b'')
            return b''.join(chunks).decode('utf-8', 'replace')
        finally:
            os.close(handle)

    def write(self, path: str, text: str) -> None:
        self._call('write', path, text)

    def assign(self, path: str, tids: Sequence[int]) -> None:
        # One call of the helper for all of them.
        self._call('assign', path, tids)

    def mkdir(self, path: str) -> None:
        self._call('mkdir', path)

    def rmdir(self, path: str) -> None:
        self._call('rmdir', path)

    def _call(self, name: str, path: str, *arguments: Any) -> None:
        if not self._needs_helper():
            system.CALLS[name](self._resolve(path), *arguments)
        else:
            _ask_helper(name, self.root, path, *arguments)

    def _needs_helper(self) -> bool:
        if os.access(self.root, os.W_OK):
            return False
        try:
            # Nothing can write there, and a helper may be missing.
            return not os.statvfs(self.root).f_flag & os.ST_RDONLY
        except FileNotFoundError:
            return True

    def listdir(self, path: str) -> list[str]:
        return os.listdir(self._resolve(path))

    def get_inode(self, path: str) -> int:
        return os.stat(self._resolve(path)).st_ino

    def get_rights(self) -> tuple[int, ...]:
        found = os.stat(self.root)
        # After unmounting, the next mount gets the same device, inode and
        # mount id. The kernel sets this time when the folder is first seen in
        # a mount, and changes it with no group, unlike that of the root.
        since = os.stat(self._resolve(_INFO)).st_ctime_ns
        return (
            since,
            found.st_dev,
            found.st_ino,
            found.st_mode,
            found.st_uid,
            found.st_gid,
            os.statvfs(self.root).f_flag,
        )

    def find_problem(self) -> str:
        if os.statvfs(self.root).f_flag & os.ST_RDONLY:
            return errors.ADVICE[errno.EROFS]
        return _load_privsep().find_problem() if self._needs_helper() else ''

    @contextlib.contextmanager
    def lock(self, exclusive: bool) -> Iterator[None]:
        handle = os.open(
            self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        )
        try:
            self._wait(handle, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
            # Closing releases the lock.
            yield
        finally:
            os.close(handle)

    def _wait(self, handle: int, how: int) -> None:
        # A program that never releases the lock must not hang the host.
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return fcntl.flock(handle, how | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise OSError(
                        errno.EBUSY,
                        f'another program has held the lock of {self.root} '
                        f'for more than {self._timeout:g} s; "lslocks" shows '
                        'the program',
                    ) from None
                time.sleep(LOCK_PAUSE)


def _ask_helper(name: str, *arguments: Any) -> None:
    """Let the privileged helper do it.

    :raises OSError: as the kernel gives it; or the helper does not work
    """
    _load_privsep().call(name, *arguments)


def _load_privsep() -> Any:
    """Import the helper where one is needed: oslo.privsep imports eventlet.

    It does so where eventlet is installed.
    """
    return importlib.import_module(
        'nova_ext_resources.drivers.resctrl.kernel.privsep'
    )


@contextlib.contextmanager
def translated(files: FileSystem, action: str) -> Iterator[None]:
    """Turn OSError into typed errors, see :func:`translate`.

    :raises ResctrlError: the block failed
    """
    try:
        yield
    except OSError as err:
        raise translate(files, action, err) from err


def translate(
    files: FileSystem, action: str, err: OSError
) -> errors.ResctrlError:
    """Return the typed error, with the kernel's own words."""
    return errors.from_os_error(action, err, _read_status(files))


def _read_status(files: FileSystem) -> str:
    try:
        return files.read(STATUS)
    except OSError:
        return ''
