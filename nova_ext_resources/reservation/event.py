# SPDX-License-Identifier: Apache-2.0

"""What happens to reservations and to capacity, as receivers are told of it.

The body of a notification has the form that `Standard Webhooks
<https://www.standardwebhooks.com>`_ recommends: ``type``, ``timestamp`` and
``data``.
"""

from collections.abc import Mapping
import dataclasses
import enum
import json
from typing import Any
import uuid as uuid_mod

from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import state as state_mod

State = state_mod.State

#: Of the ids of notifications. Any other one would do.
_NAMESPACE = uuid_mod.UUID('5b1d7c2e-6f0a-5f3b-9f0e-2d1c8a4b7e63')


class Kind(enum.StrEnum):
    """What has happened; the values are an interface of programs."""

    CREATED = 'reservation.created'
    CHANGED = 'reservation.changed'
    STARTED = 'reservation.started'
    DEGRADED = 'reservation.degraded'
    RESTORED = 'reservation.restored'
    ENDING = 'reservation.ending'
    ENDED = 'reservation.ended'
    EXPIRED = 'reservation.expired'
    CANCELLED = 'reservation.cancelled'
    TAKEN = 'allocation.taken'
    RELEASED = 'allocation.released'
    LOW = 'capacity.low'
    ENOUGH = 'capacity.enough'

    @property
    def group(self) -> str:
        """What it is about: reservation, allocation or capacity."""
        return self.partition('.')[0]


#: A sentence for each. Reasons of the history are for operators: they name
#: hosts, and reservations of other projects.
MESSAGES: Mapping[Kind, str] = {
    Kind.CREATED: 'The reservation is accepted.',
    Kind.CHANGED: 'The reservation was changed.',
    Kind.STARTED: 'The reservation has started; its servers may be created.',
    Kind.DEGRADED: 'Some of the capacity of the reservation is gone.',
    Kind.RESTORED: 'The reservation has all of its capacity again.',
    Kind.ENDING: 'The end of the reservation is near.',
    Kind.ENDED: 'The reservation has ended.',
    Kind.EXPIRED: 'The reservation was released, because it was not used.',
    Kind.CANCELLED: 'The reservation was cancelled.',
    Kind.TAKEN: 'A server has taken a place of the reservation.',
    Kind.RELEASED: 'A place of the reservation is free again.',
    Kind.LOW: 'Less than the threshold is available.',
    Kind.ENOUGH: 'At least the threshold is available again.',
}

#: State -> what it means that a reservation has got to it.
_ARRIVALS: Mapping[State, Kind] = {
    State.ACTIVE: Kind.STARTED,
    State.DEGRADED: Kind.DEGRADED,
    State.ENDED: Kind.ENDED,
    State.EXPIRED: Kind.EXPIRED,
    State.CANCELLED: Kind.CANCELLED,
}


def find_kind(before: State | None, state: State) -> Kind:
    """Return what a row of the history means.

    :param before: the state of the row before; None if it is the first one
    :param state: its own
    """
    if before is None:
        return Kind.CREATED
    if before is state:
        return Kind.CHANGED
    if before is State.DEGRADED and not state.is_final:
        return Kind.RESTORED
    # Pending again: the clock was set back.
    return _ARRIVALS.get(state, Kind.CHANGED)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that has happened.

    :ivar uuid: of what has happened, whoever is told of it
    :ivar project: of the reservation; '' without one
    :ivar reservation: None where it is about capacity
    :ivar happened_at: seconds since the epoch
    :ivar facts: for everybody who may know of it, as JSON has them
    :ivar private: more of them, for operators
    """

    uuid: str
    kind: Kind
    project: str
    reservation: str | None
    happened_at: int
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    private: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def find_id(self, subscription: str) -> str:
        """Return the id of its notification, the same each time it is sent.

        A receiver of two subscriptions may leave out what it knows by its id:
        then each subscription needs ids of its own.
        """
        return str(uuid_mod.uuid5(_NAMESPACE, f'{subscription} {self.uuid}'))

    def write_body(
        self, subscription: str, sequence: int, *, is_private: bool
    ) -> bytes:
        """Return a notification: the same each time that it is made.

        :param sequence: its number for this subscription, from 1 on
        :param is_private: whether it goes to operators
        """
        data: dict[str, Any] = {'message': MESSAGES[self.kind], **self.facts}
        if self.reservation is not None:
            data |= {'reservation': self.reservation, 'project': self.project}
        if is_private:
            data |= self.private
        body = {
            'id': self.find_id(subscription),
            'type': str(self.kind),
            'timestamp': interval.format_time(self.happened_at),
            'subscription': subscription,
            'sequence': sequence,
            'data': data,
        }
        return json.dumps(body, sort_keys=True).encode()


def describe_times(during: interval.Interval) -> dict[str, str | None]:
    """Return when a reservation is served, as facts have it."""
    return {
        'starts_at': interval.format_time(during.start),
        'ends_at': None
        if during.is_open
        else interval.format_time(during.end),
    }
