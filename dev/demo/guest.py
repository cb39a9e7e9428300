# SPDX-License-Identifier: Apache-2.0

"""A stand-in for the QEMU of a server: a process with its threads.

``python -m dev.demo.guest -uuid SERVER``

Nova's fake driver starts no guests. This one does nothing, in as many
threads as a small QEMU has; SIGUSR1 has it start one more, as QEMU does for
I/O whenever it likes.
"""

import ctypes
import signal
import threading

_NAMES = ('IO mon_iothread', 'CPU 0/KVM', 'CPU 1/KVM')
_LATE = 'worker'

_PR_SET_NAME = 15


def main() -> None:
    """Run until a signal comes."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGUSR1, lambda _number, _frame: _start(_LATE))
    _name('qemu-stand-in')
    for name in _NAMES:
        _start(name)
    print('up', flush=True)
    while True:
        signal.pause()


def _start(name: str) -> None:
    threading.Thread(target=_idle, args=(name,), daemon=True).start()


def _idle(name: str) -> None:
    _name(name)
    threading.Event().wait()


def _name(name: str) -> None:
    """Name the calling thread (prctl(2)); at most 15 bytes are kept."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


if __name__ == '__main__':
    main()
