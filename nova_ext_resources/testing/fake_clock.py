# SPDX-License-Identifier: Apache-2.0

"""A clock that a test sets."""

from collections.abc import Callable
import datetime

from nova_ext_resources import clocks


class FakeClock(clocks.Clock):
    """Sleeps for no time.

    :ivar slept: for how many seconds it was asked to
    :param monotonic: returns its seconds
    :param read: returns its time of day; by default that of this machine
    """

    def __init__(
        self,
        monotonic: Callable[[], float] = lambda: 0.0,
        read: Callable[[], datetime.datetime] = clocks.MACHINE.read,
    ) -> None:
        self._monotonic = monotonic
        self._read = read
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self._monotonic()

    def read(self) -> datetime.datetime:
        return self._read()

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
