# SPDX-License-Identifier: Apache-2.0

"""Reads the clock, and judges it."""

from collections.abc import Callable
import dataclasses
import time

from oslo_log import log as logging
from oslo_utils import timeutils
import sqlalchemy as sa

from nova_ext_resources.reservation import due
from nova_ext_resources.reservation import steadiness
from nova_ext_resources.reservation.store import clock as clock_mod

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a clock says.

    :ivar now: seconds since the epoch
    :ivar is_right: whether the database agrees; if not, nothing is done
    :ivar is_steady: whether it is trusted with what cannot be undone
    """

    now: int
    is_right: bool
    is_steady: bool


def read_passed() -> float:
    """Return seconds since the start of the machine, asleep or not."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Watch:
    """Compares the clock with time that passes, and with the database's.

    :param wait: seconds for which the clock must go without a step until it
        is trusted; 0 trusts it at once
    :param clock: returns seconds since the epoch
    :param passed: as of :meth:`~.steadiness.Steadiness.observe`
    :param shared: reads the clock of the database
    """

    def __init__(
        self,
        wait: float,
        *,
        clock: Callable[[], float] = timeutils.utcnow_ts,
        passed: Callable[[], float] = read_passed,
        shared: Callable[[sa.Connection], int] = clock_mod.read_clock,
    ) -> None:
        self._steadiness = steadiness.Steadiness(wait)
        self._clock = clock
        self._passed = passed
        self._shared = shared

    def read(self, connection: sa.Connection) -> Reading:
        """Read the clock.

        :param connection: to the database, which is asked for its time
        """
        shared = self._shared(connection)
        passed, now = self._passed(), self._clock()
        step = self._steadiness.observe(now, passed)
        if step and not self._steadiness.is_steady(passed):
            LOG.warning(
                'The clock of this machine was set by %(step)d s. No '
                'reservation ends, expires or is deleted until the clock has '
                'run without a step for [ext_resources_reservation] '
                'clock_wait seconds.',
                {'step': step},
            )
        is_right = abs(now - shared) <= due.MAX_SKEW
        if not is_right:
            LOG.error(
                'The clock of this machine differs by %(skew)d s from the '
                'clock of the database of the reservations. This manager '
                'does nothing until the clocks agree; correct the wrong '
                'clock.',
                {'skew': now - shared},
            )
        return Reading(
            now=int(now),
            is_right=is_right,
            is_steady=self._steadiness.is_steady(passed),
        )
