# SPDX-License-Identifier: Apache-2.0

"""How far ahead a reservation may start, and how long it may last.

What goes beyond a limit already, because the limit is newer, may stay so, and
may be changed into less.
"""

import dataclasses

from nova_ext_resources.reservation import errors
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import planner as planner_mod
from nova_ext_resources.reservation import request as request_mod
from nova_ext_resources.reservation import times

#: In place of a duration: no bound.
NONE = 'none'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What holds for the reservations of a project.

    :ivar ahead: seconds from now within which they start; ``FOREVER`` for any
    :ivar duration: seconds that they last at most; ``FOREVER`` for any, also
        for those without an end
    :raises ValueError: a number is none, or beyond its bounds
    """

    ahead: int = interval.FOREVER
    duration: int = interval.FOREVER

    def __post_init__(self) -> None:
        for name, low in (('ahead', 0), ('duration', 1)):
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= interval.FOREVER:
                raise ValueError(
                    f'{name} is {value!r}; it must be a whole number of '
                    f'seconds from {low} on'
                )

    def check(
        self,
        request: request_mod.Request,
        now: int,
        before: interval.Interval | None = None,
    ) -> None:
        """Check a request.

        :param now: seconds since the epoch
        :param before: when the same reservation was served until now
        :raises LimitExceeded: it starts too late, or lasts too long
        """
        latest, seconds = request.latest, request.during.seconds
        if latest > self._find_last(now) and not (
            before and latest <= before.start
        ):
            raise errors.LimitExceeded(
                key=request.key,
                project=request.project,
                reason=self._explain_start(latest, now),
            )
        if seconds > self.duration and not (
            before and seconds <= before.seconds
        ):
            raise errors.LimitExceeded(
                key=request.key,
                project=request.project,
                reason=self._explain_duration(seconds),
            )

    def trim(
        self,
        answer: planner_mod.Plan | planner_mod.Refusal,
        now: int,
    ) -> planner_mod.Plan | planner_mod.Refusal:
        """Return an answer that offers nothing that would be refused."""
        if (
            isinstance(answer, planner_mod.Refusal)
            and answer.earliest is not None
            and answer.earliest.during.start > self._find_last(now)
        ):
            return dataclasses.replace(answer, earliest=None)
        return answer

    def _find_last(self, now: int) -> int:
        return interval.add_seconds(now, self.ahead)

    def _explain_start(self, latest: int, now: int) -> str:
        return (
            f'start at {interval.format_time(latest)}: the latest start is '
            f'{interval.format_time(self._find_last(now))}, '
            f'{times.format_seconds(self.ahead)} from now. Choose an earlier '
            'start, or a shorter delay'
        )

    def _explain_duration(self, seconds: int) -> str:
        most = times.format_seconds(self.duration)
        if seconds >= interval.FOREVER:
            return f'be without an end: it lasts {most} at most. Name an end'
        return (
            f'last {times.format_seconds(seconds)}: {most} is the most. '
            'Choose an earlier end'
        )


def parse_seconds(text: str) -> int:
    """Read a duration, or ``none``.

    :raises ValueError: it is neither
    """
    return interval.FOREVER if text == NONE else times.parse_seconds(text)


def format_seconds(seconds: int) -> str:
    """Return a limit as :func:`parse_seconds` reads it."""
    is_any = seconds >= interval.FOREVER
    return NONE if is_any else times.format_seconds(seconds)
