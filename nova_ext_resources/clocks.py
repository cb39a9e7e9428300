# SPDX-License-Identifier: Apache-2.0

"""The clocks of a machine.

The time of day is for records and alarms; it may be set back. How long
something lasts is measured by the monotonic clock.
"""

import datetime
import time

from oslo_utils import timeutils


class Clock:
    """Those of this machine. A subclass may sleep less, or be a test's."""

    def read(self) -> datetime.datetime:
        """Return the time of day; aware, in UTC."""
        now: datetime.datetime = timeutils.utcnow(with_timezone=True)
        return now

    def monotonic(self) -> float:
        """Return seconds that no step of the time of day changes."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


MACHINE = Clock()
