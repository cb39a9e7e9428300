# SPDX-License-Identifier: Apache-2.0

"""Keeps a second process from writing a ledger.

Three locks, because none of them is enough. Two are files, the ledger and one
beside it. They hold wherever processes share the folder, such as in two
containers, and either may be deleted. With both of them deleted, a second
process would make new files, and lock these.

The third is a name in the kernel, an abstract Unix socket, which goes with the
process and with nothing else. It holds among processes with the same root and
the same network, which nova-compute has of its host, also in a container.
"""

import contextlib
import errno
import fcntl
import functools
import hashlib
import os
import socket
import struct

from oslo_log import log as logging

from nova_ext_resources import exception

LOG = logging.getLogger(__name__)

#: Of files that are made here.
FILE_MODE = 0o600

_USED = (
    'another process of this machine{which} uses it; stop that process, or '
    'set another [ext_resources] ledger_path for this one'
)

#: Process, user and group of the other end of a socket.
_CREDENTIALS = struct.Struct('3i')

_open_private = functools.partial(os.open, mode=FILE_MODE)


def take(path: str) -> contextlib.ExitStack:
    """Lock a ledger until what is returned is closed, or the process ends.

    SQLite locks in another way (``fcntl``), and loses its own locks when the
    process closes the file: this comes before it, and ends after it.

    :param path: without symbolic links
    :raises LedgerInUse: another process has it
    :raises OSError: a file cannot be opened
    """
    with contextlib.ExitStack() as guard:
        for name in (f'{path}.lock', path):
            file = open(name, 'a', opener=_open_private)
            guard.enter_context(file)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise _refuse(path) from None
        guard.enter_context(_take_name(path))
        return guard.pop_all()


def make_name(path: str) -> str:
    """Return the name of a ledger in the kernel.

    The same path below another root, such as that of a container, is another
    file.
    """
    root = os.stat('/')
    key = f'{root.st_dev}:{root.st_ino}:{path}'
    digest = hashlib.sha256(key.encode(errors='surrogateescape'))
    return f'\0nova-ext-resources-{digest.hexdigest()}'


def _take_name(path: str) -> contextlib.ExitStack:
    name = make_name(path)
    with contextlib.ExitStack() as guard:
        held = guard.enter_context(socket.socket(socket.AF_UNIX))
        try:
            held.bind(name)
            # Only of one that listens does the kernel name the process.
            held.listen()
        except OSError as err:
            if err.errno == errno.EADDRINUSE:
                _check_holder(path, name)
            LOG.warning(
                'Ledger %(path)s: the lock that outlives the deletion of its '
                'files cannot be had: %(err)s',
                {'path': path, 'err': err},
            )
        return guard.pop_all()


def _check_holder(path: str, name: str) -> None:
    """Refuse if a process has the name that may write the ledger.

    Any user can take any name, and shall not keep nova-compute from starting.
    Of a name that nobody can connect to any more, the user is unknown; to have
    two writers is worse than no start.

    :raises LedgerInUse: it has, or that is unknown
    """
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.settimeout(0)
            asking.connect(name)
        except BlockingIOError:
            # No process accepts connections, so that each start that was
            # refused still waits for that, and no more can.
            raise _refuse(path) from None
        except OSError:
            return
        pid, user, _group = _CREDENTIALS.unpack(
            asking.getsockopt(
                socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
            )
        )
    if user in (0, os.geteuid(), os.stat(os.path.dirname(path)).st_uid):
        # Of another PID namespace, it is 0.
        raise _refuse(path, f' (pid {pid})' if pid else '')


def _refuse(path: str, which: str = '') -> exception.LedgerInUse:
    return exception.LedgerInUse(path=path, reason=_USED.format(which=which))
