# SPDX-License-Identifier: Apache-2.0

"""The front inside the process: the file operations of resctrl's users.

It has the methods of ``drivers.resctrl.kernel.file_system.FileSystem``.
"""

from collections.abc import Iterable, Iterator
import contextlib
import errno
import threading

from nova_ext_resources.testing.resctrl import kernel as kernel_mod

#: Seconds after which a lock that does not come is a deadlock.
DEADLOCK = 30.0


class Lock:
    """flock(2) on the mount point, for the threads of one process.

    :param patience: seconds after which it will not come any more
    """

    def __init__(self, patience: float = DEADLOCK) -> None:
        self._patience = patience
        self._changed = threading.Condition()
        self._readers = 0
        self._has_writer = False

    @contextlib.contextmanager
    def hold(self, exclusive: bool) -> Iterator[None]:
        """Hold it, shared or exclusive; taking it twice is two holders.

        :raises OSError: EDEADLK, it did not come
        """
        with self._changed:
            if not self._changed.wait_for(
                lambda: self._is_free(exclusive), self._patience
            ):
                raise OSError(
                    errno.EDEADLK, f'no lock in {self._patience:g} s'
                )
            self._add(exclusive, 1)
        try:
            yield
        finally:
            with self._changed:
                self._add(exclusive, -1)
                self._changed.notify_all()

    def _is_free(self, exclusive: bool) -> bool:
        return not self._has_writer and not (exclusive and self._readers)

    def _add(self, exclusive: bool, number: int) -> None:
        if exclusive:
            self._has_writer = number > 0
        else:
            self._readers += number


class Tree:
    """A mounted resctrl, without a mount.

    Paths are relative to the mount point; '' is the mount point.

    :ivar root: the mount point that there would be
    """

    root = '/sys/fs/resctrl'

    def __init__(
        self, kernel: kernel_mod.Kernel, lock: Lock | None = None
    ) -> None:
        self._kernel = kernel
        self._lock = lock or Lock()

    def read(self, path: str) -> str:
        return self._kernel.read(_normalize(path))

    def write(self, path: str, text: str) -> None:
        """Write all of the text with one write(2)."""
        self._kernel.write(
            _normalize(path), text.encode('utf-8', 'surrogateescape')
        )

    def assign(self, path: str, tids: Iterable[int]) -> None:
        """Write numbers of threads; those that have ended are passed over."""
        for tid in tids:
            with contextlib.suppress(ProcessLookupError):
                self.write(path, f'{tid}\n')

    def mkdir(self, path: str) -> None:
        self._kernel.mkdir(_normalize(path))

    def rmdir(self, path: str) -> None:
        self._kernel.rmdir(_normalize(path))

    def listdir(self, path: str) -> list[str]:
        return self._kernel.listdir(_normalize(path))

    def get_inode(self, path: str) -> int:
        return self._kernel.get_inode(_normalize(path))

    def get_rights(self) -> tuple[int, ...]:
        return self._kernel.get_inode(''), self._kernel.get_mode('')

    def find_problem(self) -> str:
        return ''

    @contextlib.contextmanager
    def lock(self, exclusive: bool) -> Iterator[None]:
        """Hold the lock that the kernel's documentation asks for."""
        self._kernel.operations.append(('lock', str(exclusive)))
        with self._lock.hold(exclusive):
            yield


def _normalize(path: str) -> str:
    return '/'.join(part for part in path.split('/') if part not in ('', '.'))
