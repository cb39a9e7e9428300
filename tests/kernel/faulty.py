# SPDX-License-Identifier: Apache-2.0

"""File operations on the kernel that are noted, and fail on demand."""

from collections.abc import Iterator, Sequence
import contextlib
import errno
from typing import Any

from nova_ext_resources.drivers.resctrl.kernel import file_system
from nova_ext_resources.testing.resctrl import faults as faults_mod


class FaultyFileSystem:
    """Has the operations of :class:`.files.FileSystem`.

    :param act: does what a fault has to do first
    """

    def __init__(
        self,
        root: str,
        faults: faults_mod.Faults,
        operations: list[list[str]],
        act: Any,
    ) -> None:
        self.root = root
        self._real = file_system.RealFileSystem(root)
        self._faults = faults
        self._operations = operations
        self._act = act

    def _note(self, operation: str, path: str) -> faults_mod.Fault | None:
        """Note an operation, and fail if a fault says so."""
        plain = '/'.join(part for part in path.split('/') if part)
        self._operations.append([operation, plain])
        fault = self._faults.take(operation, plain)
        if fault is None:
            return None
        if fault.do:
            name, *arguments = fault.do
            getattr(self._act, str(name))(*arguments)
        if not fault.half:
            fault.fail(plain)
        return fault

    def read(self, path: str) -> str:
        self._note('read', path)
        return self._real.read(path)

    def write(self, path: str, text: str) -> None:
        fault = self._note('write', path)
        if fault is not None and fault.half:
            self._real.write(path, faults_mod.halve(text))
            return fault.fail(path)
        self._real.write(path, text)

    def assign(self, path: str, tids: Sequence[int]) -> None:
        if any(tid < 1 for tid in tids):
            raise OSError(errno.EINVAL, 'no thread')
        for tid in tids:
            with contextlib.suppress(ProcessLookupError):
                self.write(path, f'{tid}\n')

    def mkdir(self, path: str) -> None:
        self._note('mkdir', path)
        self._real.mkdir(path)

    def rmdir(self, path: str) -> None:
        self._note('rmdir', path)
        self._real.rmdir(path)

    def listdir(self, path: str) -> list[str]:
        self._note('listdir', path)
        return self._real.listdir(path)

    def get_inode(self, path: str) -> int:
        return self._real.get_inode(path)

    def get_rights(self) -> tuple[int, ...]:
        return self._real.get_rights()

    @contextlib.contextmanager
    def lock(self, exclusive: bool) -> Iterator[None]:
        self._operations.append(['lock', str(exclusive)])
        with self._real.lock(exclusive):
            yield
