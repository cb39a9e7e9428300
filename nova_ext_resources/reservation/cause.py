# SPDX-License-Identifier: Apache-2.0

"""Why a reservation has changed, where no person has said so.

A reason is a text for operators, with hosts and servers, and anybody may write
one. What programs have to know again is said by a cause.
"""

import enum


class Cause(enum.StrEnum):
    """What a change is about.

    ``OUTAGE``: hosts are lost.
    ``SHORTAGE``: room is missing on hosts.
    ``CAPACITY``: a change of capacity is planned that takes some of it.
    ``WITHDRAWN``: a change of capacity was planned that it counted on.
    ``NOTICE``: servers that borrow room are told to leave.
    ``MOVED``: it has a place on other hosts.
    ``FREED``: a server that had a place is gone.
    ``UNSHELVED``: Nova has not unshelved a server that had a place.
    ``LEFT``: servers have not gone with it.
    """

    OUTAGE = 'outage'
    SHORTAGE = 'shortage'
    CAPACITY = 'capacity'
    WITHDRAWN = 'withdrawn'
    NOTICE = 'notice'
    MOVED = 'moved'
    FREED = 'freed'
    UNSHELVED = 'unshelved'
    LEFT = 'left'

    @property
    def is_lack(self) -> bool:
        """Whether a reservation is degraded by it."""
        return self in _LACKS

    @property
    def words(self) -> str:
        """A sentence for those who may see no hosts, and nothing of others."""
        return _WORDS[self]


_LACKS = frozenset(
    {Cause.OUTAGE, Cause.SHORTAGE, Cause.CAPACITY, Cause.WITHDRAWN}
)

_WORDS = {
    Cause.OUTAGE: 'hosts of the reservation are out of service',
    Cause.SHORTAGE: 'the hosts of the reservation lack room for it',
    Cause.CAPACITY: 'its hosts will have less capacity for a time, as planned',
    Cause.WITHDRAWN: 'its hosts will not get the additional capacity '
    'that was planned',
    Cause.NOTICE: 'servers that borrow room of the reservation are told to '
    'leave in time',
    Cause.MOVED: 'moved to other hosts, for the same time',
    Cause.FREED: 'a server of the reservation is gone; its place is free '
    'for another server',
    Cause.UNSHELVED: 'a server of the reservation could not be unshelved; '
    'its place is free again',
    Cause.LEFT: 'the reservation has ended; some of its servers were not '
    'removed',
}
