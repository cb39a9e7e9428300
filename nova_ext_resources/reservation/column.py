# SPDX-License-Identifier: Apache-2.0

"""What is promised of one class of one provider, over time."""

import dataclasses

from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation import profile


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One slot that no server has taken, or none holds yet.

    :ivar request: of its reservation
    :ivar during: when it is promised
    """

    request: plan_request.Request
    slot: planned_server.PlannedServer
    during: interval.Interval


class Column:
    """What is promised of one class of one provider, over time.

    :ivar profile: how much that is
    :ivar returned: how much servers have given back until a time that have
        slots now. Of those that have gone already, it is not free then but
        since: so only what is added after now counts
    :ivar needed: the first less the second
    """

    __slots__ = (
        'gives_back',
        'needed',
        'profile',
        'promises',
        'returned',
        'since',
        'top',
        'until',
    )

    def __init__(self) -> None:
        self.profile = profile.Profile()
        self.returned = profile.Profile()
        self.needed = profile.Profile()
        #: Whether anything is given back: asked for thousands of hosts.
        self.gives_back = False
        #: By the key of the slot.
        self.promises: dict[str, Promise] = {}
        #: The most needed from ``since`` on, which holds until ``until``.
        self.top = 0
        self.since = interval.ALWAYS
        self.until = interval.ALWAYS

    def add(self, promise: Promise, amount: int) -> None:
        """Note a promise."""
        self.promises[promise.slot.key] = promise
        self._add(promise.during, amount)

    def remove(self, key: str, amount: int) -> None:
        """Forget the promise of a slot."""
        promise = self.promises.pop(key)
        self._add(promise.during, -amount)

    def _add(self, during: interval.Interval, amount: int) -> None:
        self.profile.add(during, amount)
        self.needed.add(during, amount)
        self.until = interval.ALWAYS

    def give_back(self, end: int, amount: int) -> None:
        """Note that a server gives something back; undo it if negative."""
        rest = interval.Interval(end)
        self.returned.add(rest, amount)
        self.needed.add(rest, -amount)
        self.gives_back = len(self.returned) > 1
        self.until = interval.ALWAYS

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to be kept."""
        return not self.promises and not self.gives_back

    def count_promised(self, time: int) -> int:
        """Return how much is promised at a time."""
        return self.profile.highest(interval.Interval(time, time + 1))

    def count_returned(self, now: int) -> int:
        """Return what was given back before: it does not count any more."""
        if not self.gives_back:
            return 0
        return self.returned.highest(interval.Interval(now, now + 1))

    def find_top(self, now: int) -> int:
        """Return the most that is needed from a time on."""
        if not self.since <= now < self.until:
            rest = interval.Interval(now)
            self.top = self.needed.highest(rest)
            self.since = now
            self.until = max(
                part.end
                for part, amount in self.needed.list_steps(rest)
                if amount == self.top
            )
        if self.gives_back:
            return self.top + self.count_returned(now)
        return self.top
