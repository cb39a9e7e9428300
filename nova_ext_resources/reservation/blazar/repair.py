# SPDX-License-Identifier: Apache-2.0

"""What is wrong with a lease, and what sets it right.

Blazar gives up a lease when keystone does not answer in the moment of its
start, and leaves it half-way when the manager is killed. What was promised
goes on all the same; but the lease could not be changed, and at times not be
deleted. So it is set back to where Blazar takes its next event by itself.
"""

from collections.abc import Mapping
import dataclasses
import enum

#: An event, or a change of a lease, that takes so many seconds was broken off.
STALE_SECONDS = 300

START, END = 'start_lease', 'end_lease'

#: States of a lease in which something is done with it.
_PASSING = frozenset({'STARTING', 'UPDATING', 'TERMINATING', 'DELETING'})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event of a lease.

    :ivar changed_at: seconds since the epoch
    """

    key: str
    status: str
    changed_at: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One lease as Blazar has it, with a reservation of ours.

    :ivar starts_at: seconds since the epoch, as all times
    :ivar reservations: id of each of ours -> its status
    :ivar broken: those of them that are known to lack something
    :ivar has_others: whether it has reservations of other plugins
    :ivar events: type -> event
    """

    key: str
    status: str
    starts_at: int
    ends_at: int
    changed_at: int
    reservations: Mapping[str, str]
    broken: frozenset[str] = frozenset()
    has_others: bool = False
    events: Mapping[str, Event] = dataclasses.field(default_factory=dict)

    @property
    def is_stable(self) -> bool:
        """Whether nothing is done with it now, and it goes on."""
        return self.status in ('PENDING', 'ACTIVE')


class Step(enum.Enum):
    """What sets a lease right.

    ``WAIT``: it begins anew: its start is the next event.
    ``GO_ON``: it has begun: its end is the next event.
    ``FORGET``: nobody was told of it: it is deleted.
    """

    WAIT = enum.auto()
    GO_ON = enum.auto()
    FORGET = enum.auto()


def find_step(lease: Lease, now: int) -> Step | None:
    """Return what sets a lease right, None if nothing is wrong.

    Leases with reservations of other plugins are left alone: what those do at
    a start may not be done twice.

    :param now: seconds since the epoch
    """
    if lease.has_others:
        return None
    if lease.status == 'CREATING':
        is_over = _is_stale(lease.changed_at, now)
        return Step.FORGET if is_over else None
    if not _is_sick(lease, now):
        return None
    has_begun = lease.events[START].status == 'DONE' and all(
        status == 'active' for status in lease.reservations.values()
    )
    return Step.GO_ON if has_begun or now >= lease.ends_at else Step.WAIT


def _is_sick(lease: Lease, now: int) -> bool:
    if not {START, END} <= lease.events.keys():
        return False
    if lease.status in _PASSING:
        return _is_stale(
            max(
                lease.changed_at,
                *(one.changed_at for one in lease.events.values()),
            ),
            now,
        )
    if lease.status == 'TERMINATED':
        return False
    return lease.status == 'ERROR' or any(
        one.status == 'ERROR'
        or (one.status == 'IN_PROGRESS' and _is_stale(one.changed_at, now))
        for one in (lease.events[START], lease.events[END])
    )


def _is_stale(changed_at: int, now: int) -> bool:
    return now - changed_at >= STALE_SECONDS
