# SPDX-License-Identifier: Apache-2.0

"""What the hypervisor has answered when it was asked which guests run.

Several threads ask, and it may let one of them wait for seconds while it
answers to others. The answer to be remembered is that to the latest question:
an older one may lack guests that have started since.
"""

from collections.abc import Callable, Mapping
import itertools
import threading

from nova_ext_resources.facts import guest

#: Server -> its guest, of all that have processes on this host now.
Guests = Mapping[str, guest.Guest]


class Answers:
    """Asks, and remembers the last answer; safe to share by threads.

    :param ask: returns the guests; None while they are unknown
    """

    def __init__(self, ask: Callable[[], Guests | None]) -> None:
        self._ask = ask
        self._questions = itertools.count(1)
        self._lock = threading.Lock()
        # The question, and the answer to it; None: there was none yet.
        self._last: tuple[int, Guests | None] = (0, None)

    @property
    def last(self) -> Guests | None:
        """Return the answer to the latest question that has one."""
        return self._last[1]

    def ask(self) -> Guests | None:
        """Ask; None: the hypervisor does not say which guests run."""
        number = next(self._questions)
        guests = self._ask()
        with self._lock:
            if guests is not None and number > self._last[0]:
                self._last = number, guests
        return guests
