# SPDX-License-Identifier: Apache-2.0

"""What time brings: the state that a reservation should have by now."""

from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import state as state_mod

#: Seconds by which the clocks of two programs may differ.
MAX_SKEW = 60

State = state_mod.State


def find_due(
    state: State,
    during: interval.Interval,
    now: int,
    *,
    is_steady: bool = True,
) -> tuple[State, str] | None:
    """Return the state that is due and why; None if none is.

    :param state: that of the newest row
    :param now: seconds since the epoch
    :param is_steady: whether the clock is trusted with what cannot be undone
    """
    wanted = state.find_now(during, now)
    start, end = map(interval.format_time, (during.start, during.end))
    if wanted is state:
        return None
    if wanted is State.ENDED:
        return (wanted, f'its end, {end}, has come') if is_steady else None
    if wanted is State.ACTIVE:
        return wanted, f'its start, {start}, has come'
    # Of two programs whose clocks differ by less, none undoes what the other
    # one does.
    if during.start - now <= MAX_SKEW:
        return None
    return wanted, f'the clock is before its start, {start}, again'
