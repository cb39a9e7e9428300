# SPDX-License-Identifier: Apache-2.0

"""How many requests may be under way, so that nobody keeps others waiting.

A request takes a place in each of its lanes, and has it until its thread has
ended: a thread that searches for a host cannot be broken off.
"""

import collections
from collections.abc import Iterable
from typing import TypeAlias

from nova_ext_resources.reservation.store import followers
from nova_ext_resources.reservation.webhook import rules

#: What is bounded, and which of these: ('project', '6f1c').
Lane: TypeAlias = tuple[str, str]

#: What is bounded -> how many at once. Those that were told well and quickly
#: last have places of their own, which no new, slow or failing one takes.
PLACES = {'well': 16, 'doubtful': 32, 'project': 2, 'destination': 4}


class Lanes:
    """Counts what is under way."""

    def __init__(self) -> None:
        self._taken: collections.Counter[Lane] = collections.Counter()

    @property
    def is_full(self) -> bool:
        """Whether nobody has room, whoever it is."""
        return not any(
            self.has_room([(name, '')]) for name in ('well', 'doubtful')
        )

    def has_room(self, lanes: Iterable[Lane]) -> bool:
        """Return whether there is a place in each."""
        return all(self._taken[one] < PLACES[one[0]] for one in lanes)

    def take(self, lanes: Iterable[Lane]) -> None:
        """Take a place in each."""
        self._taken.update(lanes)

    def leave(self, lanes: Iterable[Lane]) -> None:
        """Give the places back."""
        self._taken.subtract(lanes)
        # Names of receivers come and go.
        self._taken = +self._taken


def find_lanes(
    follower: followers.Follower, *, is_slow: bool
) -> tuple[Lane, ...]:
    """Return the lanes of a request.

    :param is_slow: whether the last one took long
    """
    one = follower.subscription
    is_well = follower.sent and not follower.failures and not is_slow
    found = [
        ('well' if is_well else 'doubtful', ''),
        ('destination', rules.hide_path(one.url)),
    ]
    # Operators need no bound but that of each receiver.
    if one.project:
        found.append(('project', one.project))
    return tuple(found)
