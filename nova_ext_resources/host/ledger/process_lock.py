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
import sys

from oslo_log import log as logging

from nova_ext_resources import exception

LOG = logging.getLogger(__name__)

#: Of files that are made here.
FILE_MODE = 0o600

_USED = (
    'another process of this machine{which} uses the ledger; stop the other '
    'process, or set another [ext_resources] ledger_path for this service'
)

#: Process, user and group of the other end of a socket.
_CREDENTIALS = struct.Struct('3i')

#: Of sock_diag(7): headers of a message and of an attribute, a question for
#: Unix sockets that listen, and the length of an answer without attributes.
_MESSAGE, _ATTRIBUTE = struct.Struct('=IHHII'), struct.Struct('=HH')
_LISTENING = struct.pack(
    '=BBHIIIII', socket.AF_UNIX, 0, 0, 1 << 10, 0, 0x41, 0, 0
)
_ANSWER = _MESSAGE.size + 16
_NETLINK_SOCK_DIAG, _BY_FAMILY, _DUMP = 4, 20, 0x301
_NAME, _UID = 0, 7

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
                'Ledger %(path)s: cannot take the lock that protects the '
                'ledger even after its files are deleted: %(err)s',
                {'path': path, 'err': err},
            )
        return guard.pop_all()


def _check_holder(path: str, name: str) -> None:
    """Refuse if a process has the name that may write the ledger.

    Any user can take any name, and shall not keep nova-compute from starting.
    Of a name that nobody can connect to any more, a kernel before Linux 5.3
    does not tell the user; to have two writers is worse than no start.

    :raises LedgerInUse: it has, or that is unknown
    """
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.settimeout(0)
            asking.connect(name)
        except BlockingIOError:
            # No process accepts connections, so that each start that was
            # refused still waits for that, and no more can.
            pid, user = 0, _find_user(name)
        except OSError:
            return
        else:
            pid, user, _group = _CREDENTIALS.unpack(
                asking.getsockopt(
                    socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
                )
            )
    if user in (None, 0, os.geteuid(), os.stat(os.path.dirname(path)).st_uid):
        # Of another PID namespace, it is 0.
        raise _refuse(path, f' (pid {pid})' if pid else '')


def _find_user(name: str) -> int | None:
    """Return the user whose socket listens by a name; None: not known."""
    with (
        contextlib.suppress(OSError, struct.error),
        socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG
        ) as asking,
    ):
        asking.settimeout(1)
        size = _MESSAGE.size + len(_LISTENING)
        asking.send(_MESSAGE.pack(size, _BY_FAMILY, _DUMP, 0, 0) + _LISTENING)
        # Until the end of the answers, which is no answer.
        while answers := asking.recv(1 << 20):
            while answers:
                size, kind = _MESSAGE.unpack_from(answers)[:2]
                if kind != _BY_FAMILY:
                    return None
                found = _read_attributes(answers[_ANSWER:size])
                if found.get(_NAME) == name.encode() and _UID in found:
                    return int.from_bytes(found[_UID], sys.byteorder)
                answers = answers[size:]
    return None


def _read_attributes(data: bytes) -> dict[int, bytes]:
    found = {}
    while data:
        size, kind = _ATTRIBUTE.unpack_from(data)
        found[kind] = data[_ATTRIBUTE.size : size]
        # Each begins at a multiple of four.
        data = data[size + -size % 4 :]
    return found


def _refuse(path: str, which: str = '') -> exception.LedgerInUse:
    return exception.LedgerInUse(path=path, reason=_USED.format(which=which))
