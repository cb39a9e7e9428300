# SPDX-License-Identifier: Apache-2.0

"""The states of a reservation that is accepted, and which may follow which.

Whether a reservation has started is a matter of the clock: what must not be
late compares times. The state records what was done about it.
"""

from collections.abc import Mapping
import enum

from nova_ext_resources import exception
from nova_ext_resources.reservation import interval


class State(enum.StrEnum):
    """What was done with a reservation.

    ``PENDING``: accepted, and not started yet.
    ``ACTIVE``: started; its servers may be created.
    ``DEGRADED``: some of its capacity is gone.
    ``ENDED``: its end has come.
    ``EXPIRED``: released, because its servers were not created in time.
    ``CANCELLED``: released before its end.
    """

    PENDING = 'pending'
    ACTIVE = 'active'
    DEGRADED = 'degraded'
    ENDED = 'ended'
    EXPIRED = 'expired'
    CANCELLED = 'cancelled'

    @property
    def is_final(self) -> bool:
        """Whether its capacity is released, and no state follows."""
        return not _NEXT[self]

    def find_now(self, during: interval.Interval, now: int) -> 'State':
        """Return the state as the clock has it.

        That of the last row is late until something writes the next one.

        :param now: seconds since the epoch
        """
        if self.is_final:
            return self
        if now >= during.end:
            return State.ENDED
        if self is State.DEGRADED:
            return self
        return State.ACTIVE if now >= during.start else State.PENDING


_OVER = frozenset({State.ENDED, State.EXPIRED, State.CANCELLED})

#: State -> those that may follow it. The same one again records a change of
#: something else, such as the host of a server.
_NEXT: Mapping[State, frozenset[State]] = {
    State.PENDING: _OVER | {State.PENDING, State.ACTIVE, State.DEGRADED},
    # Pending again only if the clock was set back.
    State.ACTIVE: _OVER | {State.PENDING, State.ACTIVE, State.DEGRADED},
    State.DEGRADED: _OVER | {State.PENDING, State.ACTIVE, State.DEGRADED},
    **dict.fromkeys(_OVER, frozenset[State]()),
}

#: States of what is not over.
CURRENT = tuple(one for one in State if not one.is_final)

#: For what is over.
_ADVICE = (
    'a reservation in this state no longer changes; make another reservation'
)


def check_next(key: str, state: State, wanted: State) -> None:
    """Check that a state may follow another one.

    :raises StateRefused: it may not
    """
    if wanted not in _NEXT[state]:
        allowed = ', '.join(sorted(_NEXT[state]))
        raise exception.StateRefused(
            key=key,
            state=state,
            wanted=wanted,
            advice=f'it can become: {allowed}' if allowed else _ADVICE,
        )
