# SPDX-License-Identifier: Apache-2.0

"""Rows and a cloud side by side, at one time.

Where it is not certain what the documentation promises, the answer is that
nothing is lacking, and that not all is there.
"""

from collections.abc import Iterator
import dataclasses

from nova_ext_resources.reservation import lending
from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation import plan_request
from tests.unit.reservation.manager import askers
from tests.unit.reservation.manager import laws
from tests.unit.reservation.manager import views
from tests.unit.reservation.manager import worlds

#: Seconds after the end for which servers may be there that go with it.
LEAVE_SECONDS = 60 + 300

#: Seconds until each host is looked at again.
LOOK_SECONDS = 65

#: Seconds after a start in which a manager surely has made a pass.
DUE_SECONDS = 150

#: So long before a maintenance its host may be disabled.
DRAIN_SECONDS = 3600


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scene:
    """What there is, and what is promised.

    :ivar now: seconds since the epoch
    """

    view: views.View
    world: worlds.World
    now: int

    def find_capacity(self, host: str, time: int) -> int | None:
        """Return what a host has at a time; None if it is not known here.

        If it has less than it had, that may be what was planned.
        """
        planned = [one for one in self.view.list_changes(host) if one.less]
        is_resized = host in self.world.resized
        if is_resized and any(one.end > self.now for one in planned):
            return None
        return self.world.get_capacity(host) - self.view.count_less(host, time)

    def _goes(self, slot: views.Slot) -> bool:
        """Return whether the server of a slot goes at its end."""
        at_end = self.view.requests[slot.reservation].at_end
        return at_end is not plan_request.AtEnd.KEEP

    def _list_own(self, host: str, time: int) -> set[str]:
        """Return all that may hold what is promised of a host.

        A server that has not gone in time with its reservation is in the way
        of others, though it has its place still: Nova shelves none in ERROR.
        """
        return {
            uuid
            for one in self.view.slots
            if one.host == host
            and (
                time < one.end
                or (self._goes(one) and time < one.end + LEAVE_SECONDS)
            )
            for uuid in (one.consumer, one.hold)
            if uuid
        }

    # What lacks something

    def list_lacks(self) -> dict[str, str]:
        """Return reservation -> what it lacks for certain, in words."""
        return {
            key: f'{one.server}: {words}'
            for key in self.view.unfinished
            for one in self.view.list_slots(key)
            if self.now < one.end and (words := self._find_lack(one))
        }

    def _find_lack(self, slot: views.Slot) -> str | None:
        if words := self._find_outage(slot):
            return words
        if slot.consumer is None and slot.start <= self.now:
            short = self._count_short(slot.host)
            if short > 0:
                return f'{short} VCPU of host {slot.host} are missing'
        return None

    def _find_outage(self, slot: views.Slot) -> str | None:
        if self._is_maintained(slot):
            return f'host {slot.host} is in maintenance'
        if not self._is_spared(slot):
            if slot.host not in self.world.enabled:
                return f'host {slot.host} is lost'
            if slot.consumer is None and not self.world.is_up(slot.host):
                return f'host {slot.host} is disabled or down'
        return None

    def _is_maintained(self, slot: views.Slot) -> bool:
        return any(
            one.less is None
            and self.now < one.end
            and one.start < slot.end
            and slot.start < one.end
            for one in self.view.list_changes(slot.host)
        )

    def _is_spared(self, slot: views.Slot) -> bool:
        """Return whether a host is away as planned, and back in time."""
        return any(
            one.less is None
            and one.start - DRAIN_SECONDS <= self.now < one.end <= slot.start
            for one in self.view.list_changes(slot.host)
        )

    def _count_short(self, host: str) -> int:
        """Return how much is missing for what somebody may take now."""
        capacity = self.find_capacity(host, self.now)
        if capacity is None or self.view.is_away(host, self.now):
            return 0
        latest = self.now - LEAVE_SECONDS - LOOK_SECONDS
        leaving = {
            one.consumer
            for one in self.view.slots
            if one.consumer
            and latest < one.end <= self.now
            and self._goes(one)
        }
        holds = {one.hold for one in self.view.slots}
        promised = sum(
            one.amount
            for one in self.view.list_at(host, self.now)
            if one.consumer is None
        )
        held = self.world.count_held(host, {*leaving, *holds})
        return promised + held - capacity

    # What has all

    def list_well(self) -> set[str]:
        """Return the reservations that have all until their end."""
        return {
            key
            for key in self.view.unfinished
            if self.now < self.view.during[key][1]
            and all(map(self._is_well, self.view.list_slots(key)))
        }

    def _is_well(self, slot: views.Slot) -> bool:
        if not self.world.is_up(slot.host) or self._is_maintained(slot):
            return False
        own = self._list_own(slot.host, self.now)
        others = self.world.count_held(slot.host, own)
        begin = max(slot.start, self.now)
        for time in {begin} | self.view.list_starts(slot.host):
            if begin <= time < slot.end:
                capacity = self.find_capacity(slot.host, time)
                promised = self.view.count(slot.host, time)
                if capacity is None or promised + others > capacity:
                    return False
        return True

    # What can have all

    def is_drainable(self, key: str, grace: int) -> bool:
        """Return whether all that is in the way of a reservation can go.

        Before it begins, which is now.

        :param grace: seconds after that in which those still go that stay
            after another reservation
        """
        slots = self.view.list_slots(key)
        if any(map(self._find_outage, slots)):
            return False
        for host in {one.host for one in slots}:
            capacity = self.find_capacity(host, self.now)
            promised = self.view.count(host, self.now)
            if capacity is None or promised > capacity:
                return False
            others = self._list_others(host)
            if not self.world.is_up(host) or not all(
                self._can_go(uuid, host, grace, key) for uuid in others
            ):
                return False
        return True

    def _list_others(self, host: str) -> Iterator[str]:
        """Return the consumers to which nothing is promised there."""
        own = self._list_own(host, self.now + DUE_SECONDS)
        for uuid, amounts in self.world.held.items():
            if (host, 'VCPU') in amounts and uuid not in own:
                yield uuid

    def _can_go(self, uuid: str, host: str, grace: int, key: str) -> bool:
        server = self.world.servers.get(uuid)
        return (
            server is not None
            and server.status == 'ACTIVE'
            and server.host == host
            and (
                lending.find_lease(server.extra_specs).is_preemptible
                or self._has_stayed(server, grace, key)
            )
        )

    def _has_stayed(
        self, server: nova_server.NovaServer, grace: int, key: str
    ) -> bool:
        """Return whether a server goes that stays after its reservation.

        It has all its time, and makes way for other projects.
        """
        own = nova_server.find_reservation(server, has_metadata=True)
        latest = self.now + grace - lending.LEAVE_SECONDS - laws.SKEW
        return (
            own is not None
            and own in self.view.during
            and askers.find_project(own) != askers.find_project(key)
            and laws.has_stayed(self.view, own, latest)
        )
