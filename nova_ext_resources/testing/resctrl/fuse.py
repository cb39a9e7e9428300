# SPDX-License-Identifier: Apache-2.0

"""The front that other programs see: a FUSE file system.

It needs ``/dev/fuse``, the right to mount, libfuse 3 and mfusepy. The type
of the mount is ``fuse.resctrl``, not ``resctrl``. flock(2) is the kernel's
own here, as it is on the real one.
"""

from collections.abc import Callable, Iterator
import errno
import importlib
import itertools
import os
import stat
from typing import Any
import zlib

from nova_ext_resources.testing.resctrl import kernel as kernel_mod


DEVICE = '/dev/fuse'

#: Inodes of files come after those of groups.
_FIRST_FILE = 1 << 32


class Unavailable(RuntimeError):
    """FUSE cannot be used here; the text says what to do."""


def load(device: str = DEVICE, module: str = 'mfusepy') -> Any:
    """Give mfusepy.

    :raises Unavailable: it or what it needs is not there
    """
    if not os.path.exists(device):
        raise Unavailable(f'there is no {device}: modprobe fuse')
    try:
        return importlib.import_module(module)
    except ImportError as err:
        raise Unavailable(
            'mfusepy cannot be loaded: pip install '
            '"nova-ext-resources[testing]"; python3-mfusepy of Debian will '
            f'do as well ({err})'
        ) from err
    except OSError as err:
        raise Unavailable(
            f'libfuse cannot be loaded: apt-get install fuse3 ({err})'
        ) from err


class Front:
    """The operations that libfuse asks for. Paths start with a slash.

    :ivar has_started: it was mounted
    :param on_mounted: called when others can see it
    :param get_caller: gives the thread that asks
    """

    use_ns = True

    def __init__(
        self,
        kernel: kernel_mod.Kernel,
        on_mounted: Callable[[], None],
        get_caller: Callable[[], int],
    ) -> None:
        self._kernel = kernel
        self._on_mounted = on_mounted
        self._get_caller = get_caller
        self.has_started = False
        self._handles = itertools.count(1)
        self._read: dict[int, bytes] = {}

    def init(self, _path: str) -> None:
        self.has_started = True
        self._on_mounted()

    def destroy(self, _path: str) -> None:
        pass

    def getattr(self, path: str, _handle: int | None = None) -> dict[str, Any]:
        mode = self._kernel.get_mode(path[1:])
        return {
            'st_mode': mode,
            'st_ino': self._find_inode(path[1:]),
            'st_nlink': 2 if stat.S_ISDIR(mode) else 1,
            'st_uid': os.getuid(),
            'st_gid': os.getgid(),
        }

    def _find_inode(self, path: str) -> int:
        """Return a number: a group made anew has another one."""
        try:
            return self._kernel.get_inode(path)
        except OSError:
            # Files, and folders that come and go with their group.
            return _FIRST_FILE + zlib.crc32(path.encode(errors='replace'))

    def readdir(
        self, path: str, _handle: int
    ) -> Iterator[tuple[str, dict[str, int], int]]:
        names = self._kernel.listdir(path[1:])
        # No name is shown without a number; which one is of no interest.
        number = {'st_ino': _FIRST_FILE}
        return ((name, number, 0) for name in ('.', '..', *names))

    def open(self, path: str, flags: int) -> int:
        mode = self._kernel.get_mode(path[1:])
        wanted = {os.O_RDONLY: 0o400, os.O_WRONLY: 0o200}.get(
            flags & os.O_ACCMODE, 0o600
        )
        # NOTE: kernfs looks at the mode for root as well.
        if stat.S_ISDIR(mode) or mode & wanted != wanted:
            raise PermissionError(errno.EACCES, 'not permitted', path)
        return next(self._handles)

    def create(self, path: str, _mode: int, _info: object = None) -> int:
        raise PermissionError(errno.EACCES, 'nobody makes files here', path)

    def unlink(self, path: str) -> int:
        raise PermissionError(errno.EPERM, 'nobody removes files here', path)

    def read(self, path: str, size: int, offset: int, handle: int) -> bytes:
        # What is read in parts is of one moment, as in a seq_file.
        if not offset or handle not in self._read:
            text = self._kernel.read(path[1:])
            self._read[handle] = text.encode('utf-8', 'surrogateescape')
        return self._read[handle][offset : offset + size]

    def write(self, path: str, data: bytes, _offset: int, _handle: int) -> int:
        self._kernel.write(path[1:], data, self._get_caller())
        return len(data)

    def truncate(
        self, path: str, _length: int, _handle: int | None = None
    ) -> int:
        # What "echo >" does first; it means nothing here.
        self._kernel.get_mode(path[1:])
        return 0

    def release(self, _path: str, handle: int) -> int:
        self._read.pop(handle, None)
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        self._kernel.mkdir(path[1:], stat.S_IMODE(mode))
        return 0

    def rmdir(self, path: str) -> int:
        self._kernel.rmdir(path[1:])
        return 0

    def rename(self, old: str, new: str) -> int:
        self._kernel.rename(old[1:], new[1:])
        return 0


def serve(
    kernel: kernel_mod.Kernel, path: str, on_mounted: Callable[[], None]
) -> None:
    """Mount it and answer until SIGTERM, SIGINT or umount.

    :raises Unavailable: it cannot be mounted
    """
    fuse = load()
    front = Front(kernel, on_mounted, lambda: fuse.fuse_get_context()[2])
    try:
        fuse.FUSE(
            front,
            path,
            foreground=True,
            nothreads=True,
            fsname='resctrl',
            subtype='resctrl',
            # Each write(2) must come as it is, and no name may be kept:
            # the tree changes by itself.
            direct_io=True,
            use_ino=True,
            attr_timeout=1,
            entry_timeout=0,
            negative_timeout=0,
            # Linux checks modes, and lets a program with CAP_DAC_OVERRIDE
            # pass. A user who mounts a machine of his own is its root, and
            # has no capability: there nothing would be made.
            default_permissions=os.getuid() == 0,
            # Programs with other users, as on the real one.
            allow_other=os.getuid() == 0,
        )
    except RuntimeError as err:
        # Being ended by a signal is an error to libfuse.
        if front.has_started:
            return
        raise Unavailable(
            f'{path} cannot be mounted: mounting takes root, or fusermount3 '
            'of the package fuse3; in a container, CAP_SYS_ADMIN and '
            f'/dev/fuse (libfuse gives {err})'
        ) from err
