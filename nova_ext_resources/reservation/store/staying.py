# SPDX-License-Identifier: Apache-2.0

"""Servers of Nova that stay when their slots are over.

What a server holds of its slot is left out of what the hosts use, because the
slot is booked; see :mod:`..site.hosts`. If the slot is over, and the server
stays, the hosts say so when they are read again. Until then it is booked here,
for good, or its units would be promised once more.
"""

import dataclasses
import heapq

from nova_ext_resources.reservation import fleets
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import planned_server


class Staying:
    """Books servers beside their slots, on hosts that are not read again.

    :param since: when the hosts were read, in seconds since the epoch: they
        show the servers whose slots were over by then. None: at the first look
    """

    def __init__(self, fleet: fleets.Fleet, since: int | None = None) -> None:
        self._fleet = fleet
        self._since = since
        #: (end, slot), the first end at the front.
        self._ends: list[tuple[int, str]] = []
        #: Slots whose servers stay at the end.
        self._kept: set[str] = set()
        #: Slots that were released since the last look.
        self._left: dict[str, planned_server.PlannedServer] = {}

    def expect(self, slot: str, end: int) -> None:
        """Note a slot that is taken, whose server stays at its end."""
        self._kept.add(slot)
        heapq.heappush(self._ends, (end, slot))

    def look(self, now: int) -> None:
        """Book servers whose slots have ended, or were released early.

        :param now: seconds since the epoch
        """
        if self._since is None:
            self._since = now
        for slot, server in self._left.items():
            if now < server.during.end or slot in self._kept:
                self._book(server, now, self._since)
        self._kept -= self._left.keys()
        self._left.clear()
        while self._ends and self._ends[0][0] <= now:
            end, slot = heapq.heappop(self._ends)
            ended = self._fleet.bookings.get(slot)
            if ended and ended.consumer and ended.during.end == end:
                self._book(ended, now, self._since)

    def leave(self, slot: str) -> None:
        """Note a slot that is about to be released."""
        server = self._fleet.bookings[slot]
        if server.consumer:
            self._left[slot] = server

    def forget(self, slot: str) -> None:
        """Release the server of a slot that is there again."""
        self._left.pop(slot, None)
        self._kept.discard(slot)
        key = _make_key(slot)
        if key in self._fleet.bookings:
            self._fleet.release(key)

    def _book(
        self, slot: planned_server.PlannedServer, now: int, since: int
    ) -> None:
        """Book the server of a slot, unless the hosts show it."""
        key = _make_key(slot.key)
        if key not in self._fleet.bookings and slot.during.end > since:
            start = min(now, slot.during.end)
            self._fleet.book(
                dataclasses.replace(
                    slot, key=key, during=interval.Interval(start)
                )
            )


def _make_key(slot: str) -> str:
    return f'{slot}/stays'
