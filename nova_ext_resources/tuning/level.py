# SPDX-License-Identifier: Apache-2.0

"""How much a server waits for memory, and what that means for its speed.

Nothing measures how fast a server is. Its traffic says how often it waits,
but not how long each time: several lines of a cache may be fetched at once.
So there are two estimates of its time. ``time`` is a likely one, for what a
server gains. ``worst_time`` is what it may be at worst, for what it loses: a
server that gives units must not become slower because the estimate was kind.

All of this is pure.
"""

import dataclasses
import math

#: Nothing waits all the time; more than this is not told apart.
_MOST = 0.95

#: Traffic, as a part of one line at a time, up to which each line may have
#: been waited for alone. Beyond it, some lines were fetched together.
_TURN = 0.7


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A mean of measurements, and how far it may be from the truth.

    :ivar waiting: part of its time that a server waits, 0 to 1
    :ivar error: standard error of that
    """

    waiting: float = 0.0
    error: float = 0.0

    @property
    def _traffic(self) -> float:
        """Return traffic in units of one line at a time."""
        waiting = min(self.waiting, _MOST)
        return waiting / (1 - waiting)

    @property
    def time(self) -> float:
        """Return the logarithm of the likely time for the same work."""
        return math.log(1 + self._traffic)

    @property
    def worst_time(self) -> float:
        """Return the logarithm of the longest time that is plausible."""
        traffic = self._traffic
        if traffic < _TURN:
            return -math.log(1 - traffic)
        slope = _TURN / (1 - _TURN)
        return -math.log(1 - _TURN) + slope * math.log(traffic / _TURN)

    @property
    def time_error(self) -> float:
        """Return the standard error of ``time``."""
        return self.error * (1 + self._traffic)

    @property
    def worst_error(self) -> float:
        """Return the standard error of ``worst_time``."""
        traffic = self._traffic
        if traffic < _TURN:
            slope = 1 / (1 - traffic)
        else:
            slope = _TURN / (1 - _TURN) / traffic
        return self.error * slope * (1 + traffic) ** 2


def find_gain(before: Level, after: Level) -> tuple[float, float]:
    """Return by how much a server became faster, and the standard error.

    0.01 is one percent.
    """
    error = math.hypot(before.time_error, after.time_error)
    return before.time - after.time, error


def find_loss(before: Level, after: Level) -> tuple[float, float]:
    """Return by how much a server may have become slower, and the error."""
    error = math.hypot(before.worst_error, after.worst_error)
    return after.worst_time - before.worst_time, error
