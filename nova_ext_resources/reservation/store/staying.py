# SPDX-License-Identifier: Apache-2.0

"""Servers of Nova that stay when their slots are over.

What a server holds of its slot is left out of what the hosts use, because the
slot is booked; see :mod:`..site.hosts`. If the slot is over, and the server
stays, the hosts say so when they are read again. Until then it is booked here,
for good, or its units would be promised once more.
"""

import dataclasses
import heapq

from nova_ext_resources.reservation import fleet as fleet_mod
from nova_ext_resources.reservation import interval


class Staying:
    """Books servers beside their slots, on hosts that are not read again."""

    def __init__(self, fleet: fleet_mod.Fleet) -> None:
        self._fleet = fleet
        self._now = interval.ALWAYS
        #: (end, slot), the first end at the front.
        self._ends: list[tuple[int, str]] = []

    def expect(self, slot: str, end: int) -> None:
        """Note a slot that is taken, whose server stays at its end."""
        heapq.heappush(self._ends, (end, slot))

    def look(self, now: int) -> None:
        """Book servers whose slots have ended.

        :param now: seconds since the epoch
        """
        self._now = now
        while self._ends and self._ends[0][0] <= now:
            end, slot = heapq.heappop(self._ends)
            server = self._fleet.bookings.get(slot)
            if server and server.consumer and server.during.end == end:
                self._book(slot, end)

    def leave(self, slot: str) -> None:
        """Book the server of a slot that is about to be released early.

        One that is over was booked then, if it stays.
        """
        server = self._fleet.bookings[slot]
        if server.consumer and self._now < server.during.end:
            self._book(slot, server.during.start)

    def forget(self, slot: str) -> None:
        """Release the server of a slot that is there again."""
        key = _make_key(slot)
        if key in self._fleet.bookings:
            self._fleet.release(key)

    def _book(self, slot: str, start: int) -> None:
        key = _make_key(slot)
        if key not in self._fleet.bookings:
            during = interval.Interval(start)
            server = self._fleet.bookings[slot]
            self._fleet.book(
                dataclasses.replace(server, key=key, during=during)
            )


def _make_key(slot: str) -> str:
    return f'{slot}/stays'
