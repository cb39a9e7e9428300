# SPDX-License-Identifier: Apache-2.0

"""Whether a clock can be trusted with what cannot be undone.

A clock that is set, or that a virtual machine wakes up with, may be hours
ahead for some minutes. What would end a reservation then waits until the clock
has gone as fast as time itself for a while: long enough for whatever keeps the
time of the machine, or for an operator, to set it right again.
"""

#: Seconds by which a clock may differ from time between two readings. To slew
#: it takes less: at most 1 of 1,000 seconds in any implementation of NTP.
MAX_STEP = 10.0


class Steadiness:
    """Compares a clock with the time that passes.

    :param wait: seconds without a step after which the clock is trusted
    """

    def __init__(self, wait: float) -> None:
        self._wait = wait
        self._offset: float | None = None
        #: Since when no step was seen, as the time that passes counts it.
        self._since = 0.0

    def observe(self, clock: float, passed: float) -> float:
        """Compare a reading of the clock with the one before.

        :param clock: seconds since the epoch
        :param passed: seconds since any time, of a clock that is never set
            and that goes on while the machine is suspended
        :returns: seconds by which the clock was set since the last reading;
            0 if it was not
        """
        step = 0.0
        if self._offset is not None:
            step = clock - passed - self._offset
        if self._offset is None or abs(step) > MAX_STEP:
            self._since = passed
        self._offset = clock - passed
        return step if abs(step) > MAX_STEP else 0.0

    def is_steady(self, passed: float) -> bool:
        """Return whether the clock has been watched for long enough."""
        return self._offset is not None and passed - self._since >= self._wait
