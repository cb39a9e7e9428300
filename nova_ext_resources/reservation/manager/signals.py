# SPDX-License-Identifier: Apache-2.0

"""Waits for time or a signal, whichever comes first.

The signals are blocked, so that none interrupts a pass: it waits until the
pass is over. Handlers would run in the middle of it.
"""

import signal

STOP = frozenset({signal.SIGTERM, signal.SIGINT})
RELOAD = frozenset({signal.SIGHUP})


class Signalled(Exception):
    """A signal has come.

    :ivar number: of the signal
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def block() -> None:
    """Let the signals wait until :func:`wait` asks for them.

    In this thread, and in all that it starts.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP | RELOAD)


def wait(seconds: float) -> None:
    """Wait.

    :raises Signalled: a signal has come, also before
    """
    found = signal.sigtimedwait(STOP | RELOAD, seconds)
    if found is not None:
        raise Signalled(found.si_signo)
