# SPDX-License-Identifier: Apache-2.0

"""What becomes of a reservation whose servers were not created in time."""

from collections.abc import Sequence
import dataclasses

from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import request as request_mod
from nova_ext_resources.reservation import server as server_mod


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """What is left of a reservation.

    :ivar request: for what is left, which expires no more; None if nothing is
    :ivar released: what no server of Nova has taken
    :ivar reason: a sentence
    """

    request: request_mod.Request | None
    released: tuple[server_mod.PlannedServer, ...]
    reason: str


def is_due(
    request: request_mod.Request, during: interval.Interval, now: int
) -> bool:
    """Return whether a reservation expires, as far as it is not used.

    :param during: when it is served
    :param now: seconds since the epoch
    """
    seconds = request.expires_after
    if seconds is None or now >= during.end:
        return False
    return now >= interval.add_seconds(during.start, seconds)


def expire(
    request: request_mod.Request, held: Sequence[server_mod.PlannedServer]
) -> Expiry:
    """Return what is left of a reservation when its expiry has come.

    :param held: its servers, one at least
    """
    taken = [one for one in held if one.consumer is not None]
    released = tuple(one for one in held if one.consumer is None)
    time = interval.format_time(
        interval.add_seconds(held[0].during.start, request.expires_after or 0)
    )
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
