# SPDX-License-Identifier: Apache-2.0

"""The pid files of libvirt: which process is a guest that runs.

libvirt locks the file, as with fcntl(2), in the process that becomes QEMU
(``virPidFileAcquirePath``, since libvirt 6). The lock goes with the process
and cannot outlive it, and the kernel names its holder by the number that it
has for the one that asks. The number in the file is not used: it is that of
libvirt's own PID namespace, and may be used again.
"""

from collections.abc import Collection
import fcntl
import os
import stat
import struct

from nova_ext_resources.drivers.resctrl.guest import procfs

#: Where libvirt has its pid files, unless it was built otherwise.
PATH = '/run/libvirt/qemu'

#: ``struct flock``: kind, whence, start, length, process.
_FLOCK = struct.Struct('hhqqi')

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def make_path(folder: str, name: str) -> str:
    """Return the pid file of a guest."""
    # A guest's name has no slash in it (libvirt, "Domain XML format").
    return os.path.join(folder, f'{os.path.basename(name)}.pid')


def find_holder(path: str, owners: Collection[int]) -> int:
    """Return the process that holds a pid file's lock.

    :param owners: users who may own the file
    :return: 0 when none does, or it is not visible here, or the file is
        missing, cannot be read, or can be written by other users
    """
    try:
        handle = os.open(path, _FLAGS)
    except OSError:
        return 0
    try:
        seen = os.fstat(handle)
        if not stat.S_ISREG(seen.st_mode) or not procfs.is_owned(seen, owners):
            return 0
        return _find_writer(handle)
    except OSError:
        return 0
    finally:
        os.close(handle)


def _find_writer(handle: int) -> int:
    """Return the holder of a lock that only a writer can have."""
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, *_, pid = _FLOCK.unpack(fcntl.fcntl(handle, fcntl.F_GETLK, asked))
    # Whoever can read the file can hold a lock for reading.
    return max(pid, 0) if kind == fcntl.F_WRLCK else 0
