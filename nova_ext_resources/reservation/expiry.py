# SPDX-License-Identifier: Apache-2.0

"""What becomes of a reservation whose servers were not created in time."""

from collections.abc import Iterable, Sequence
import dataclasses

from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planned_server


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """What is left of a reservation.

    :ivar request: for what is left, which expires no more; None if nothing is
    :ivar released: what no server of Nova has taken
    :ivar reason: a sentence
    """

    request: plan_request.Request | None
    released: tuple[planned_server.PlannedServer, ...]
    reason: str


def is_due(
    request: plan_request.Request,
    during: interval.Interval,
    now: int,
    gaps: Iterable[interval.Interval] = (),
) -> bool:
    """Return whether a reservation expires, as far as it is not used.

    :param during: when it is served
    :param now: seconds since the epoch
    :param gaps: as of :func:`find_time`
    """
    if request.expires_after is None or now >= during.end:
        return False
    return now >= find_time(request, during.start, gaps)


def find_time(
    request: plan_request.Request,
    start: int,
    gaps: Iterable[interval.Interval] = (),
) -> int:
    """Return when a reservation expires, in seconds since the epoch.

    :param start: from when on it is served
    :param gaps: when it was degraded, by time: its owner could not use it
        then, so that they do not count
    """
    time = interval.add_seconds(start, request.expires_after or 0)
    for gap in gaps:
        begin = max(gap.start, start)
        if begin < min(time, gap.end):
            time = interval.add_seconds(time, gap.end - begin)
    return time


def expire(
    request: plan_request.Request,
    held: Sequence[planned_server.PlannedServer],
    gaps: Iterable[interval.Interval] = (),
) -> Expiry:
    """Return what is left of a reservation when its expiry has come.

    :param held: its servers, one at least
    :param gaps: as of :func:`find_time`
    """
    taken = [one for one in held if one.consumer is not None]
    released = tuple(one for one in held if one.consumer is None)
    time = interval.format_time(find_time(request, held[0].during.start, gaps))
    left = None
    if taken:
        left = dataclasses.replace(
            request, least=len(taken), most=len(taken), expires_after=None
        )
    if not released:
        reason = f'all {len(held)} servers were created by {time}'
    else:
        reason = (
            f'only {len(taken)} of {len(held)} servers were created by '
            f'{time}; the others are released'
        )
    if not taken:
        reason = f'none of {len(held)} servers was created by {time}'
    return Expiry(request=left, released=released, reason=reason)
