# SPDX-License-Identifier: Apache-2.0

"""How many reservations a project has, how far ahead, how long and how large.

What goes beyond a limit already, because the limit is newer, may stay so, and
may be changed into less.
"""

import dataclasses

from nova_ext_resources.reservation import errors
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planner
from nova_ext_resources.reservation import times

#: In place of a duration: no bound.
NONE = 'none'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What holds for the reservations of a project.

    :ivar ahead: seconds from now within which they start; ``FOREVER`` for any
    :ivar duration: seconds that they last at most; ``FOREVER`` for any, also
        for those without an end
    :ivar servers: how many a reservation is for at most
    :ivar reservations: how many the project has that are not over
    :raises ValueError: a number is none, or beyond its bounds
    """

    ahead: int = interval.FOREVER
    duration: int = interval.FOREVER
    servers: int = interval.FOREVER
    reservations: int = interval.FOREVER

    def __post_init__(self) -> None:
        for name in self.__slots__:
            low, value = int(name != 'ahead'), getattr(self, name)
            if type(value) is not int or not low <= value <= interval.FOREVER:
                raise ValueError(
                    f'{name} is {value!r}; it must be a whole number from '
                    f'{low} on'
                )

    def check(
        self,
        request: plan_request.Request,
        now: int,
        before: interval.Interval | None = None,
        *,
        servers: int = 0,
        others: int = 0,
    ) -> None:
        """Check a request.

        :param now: seconds since the epoch
        :param before: when the same reservation was served until now
        :param servers: for how many it was at most until now
        :param others: how many its project has that are not over
        :raises LimitExceeded: it starts too late, lasts too long, is for too
            many servers, or is one too many
        """
        latest, seconds = request.latest, request.during.seconds
        start = before.start if before else interval.ALWAYS
        if latest > max(self._find_last(now), start):
            reason = self._explain_start(latest, now)
        elif seconds > max(self.duration, before.seconds if before else 0):
            reason = self._explain_duration(seconds)
        elif request.most > max(self.servers, servers):
            reason = (
                f'be for {request.most} servers: the limit is '
                f'{self.servers}. Ask for fewer'
            )
        elif others >= self.reservations and not before:
            reason = (
                f'be made: its project has {others} reservations that are '
                f'not over, and the limit is {self.reservations}. Cancel one '
                'of them'
            )
        else:
            return
        raise errors.LimitExceeded(
            key=request.key, project=request.project, reason=reason
        )

    def trim(
        self,
        answer: planner.Plan | planner.Refusal,
        now: int,
    ) -> planner.Plan | planner.Refusal:
        """Return an answer that offers nothing that would be refused."""
        if (
            isinstance(answer, planner.Refusal)
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
            return (
                f'be without an end: the longest duration is {most}. Name '
                'an end'
            )
        return (
            f'last {times.format_seconds(seconds)}: the longest duration is '
            f'{most}. Choose an earlier end'
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
