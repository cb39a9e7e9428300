# SPDX-License-Identifier: Apache-2.0

"""What must hold when a manager could reach all for some minutes.

Each broken promise is a notice with a reason, and none that is kept is said to
be broken. No broken promise is yet, until its start:

* of a host that has less than is promised beside all plans. It is not known
  whether it will have it again, and it is looked at an hour before.
* of servers in the way that nobody has told to go, such as those that a
  scheduler without the filter has let in.

A server that was moved by force keeps its place, and has it elsewhere.
"""

from collections.abc import Set
import dataclasses

from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import state as state_mod
from tests.unit.reservation.manager import laws
from tests.unit.reservation.manager import scenes
from tests.unit.reservation.manager import views
from tests.unit.reservation.manager import worlds

State = state_mod.State
AtEnd = plan_request.AtEnd

#: Seconds after which a server must hold something that has taken a slot.
GRACE_SECONDS = 300

#: What begins later is not looked at, if it was said to lack room by a clock
#: that was ahead.
HORIZON_SECONDS = 3900


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settled:
    """What a manager has left behind.

    :ivar scene: of its last pass, by its clock
    :ivar began: when it made the first one
    :ivar gone: servers that were gone then
    :ivar well: reservations that had all before the last pass
    :ivar waiting: servers that were shelved and offloaded before it
    """

    scene: scenes.Scene
    began: int
    gone: Set[str]
    well: Set[str]
    waiting: Set[str]

    @property
    def view(self) -> views.View:
        return self.scene.view

    @property
    def world(self) -> worlds.World:
        return self.scene.world

    @property
    def now(self) -> int:
        return self.scene.now

    def check(self) -> None:
        self._check_lacks()
        self._check_less()
        self._check_well()
        self._check_gone()
        self._check_clock()
        self._check_ends()
        self._check_expiry()
        self._check_holds()
        self._check_waiting()

    def _check_lacks(self) -> None:
        """What lacks something is degraded."""
        for key, words in self.scene.list_lacks().items():
            state = self.view.get_state(key)
            assert state is State.DEGRADED, f'{key} is {state}: {words}'

    def _check_less(self) -> None:
        """What is not degraded has room, whatever is planned to be less."""
        for host in worlds.HOSTS:
            starts = self.view.list_starts(host)
            for time in {max(start, self.now) for start in starts}:
                capacity = self.scene.find_capacity(host, time)
                slots = [
                    one
                    for one in self.view.list_at(host, time)
                    if self.view.get_state(one.reservation)
                    is not State.DEGRADED
                ]
                if self.view.count_less(host, time) and capacity is not None:
                    promised = sum(one.amount for one in slots)
                    # Several plans may take more than the host has.
                    assert promised <= max(capacity, 0), f'{time}: {slots}'

    def _check_well(self) -> None:
        """What has all is not degraded."""
        for key in self.well & self.scene.list_well():
            row = self.view.histories[key][-1]
            start, _end = self.view.during[key]
            is_far = start > self.now + HORIZON_SECONDS
            is_degraded = row.state is State.DEGRADED
            assert not is_degraded or is_far, f'{key} has all: {row.reason}'

    def _check_gone(self) -> None:
        """No slot is taken by a server that is gone."""
        for one in self.view.slots:
            if (
                one.consumer
                and one.consumer in self.gone
                and one.end > self.now
                and (one.taken_at or 0) <= self.began - GRACE_SECONDS
            ):
                assert not self.world.is_gone(one.consumer), one

    def _check_clock(self) -> None:
        """The state of what is not over is that of the clock."""
        for key in self.view.unfinished:
            start, end = self.view.during[key]
            state = self.view.get_state(key)
            if state is State.DEGRADED:
                continue
            if start <= self.began and self.now < end:
                assert state is State.ACTIVE, f'{key} has started'
            if start > self.now + laws.SKEW:
                assert state is State.PENDING, f'{key} has not started'

    def _check_ends(self) -> None:
        """What is over has ended, and its servers have gone if they are to."""
        for key in self.view.unfinished:
            end, at_end = (
                self.view.during[key][1],
                self.view.requests[key].at_end,
            )
            if at_end is AtEnd.KEEP:
                assert end > self.began, f'{key} goes on'
            elif end + laws.SKEW <= self.began:
                assert any(
                    self._stays(one.consumer, at_end)
                    for one in self.view.list_slots(key)
                ), f'{key} goes on, and its servers can go'

    def _stays(self, uuid: str | None, at_end: AtEnd) -> bool:
        """Return whether Nova does not shelve a server."""
        server = self.world.servers.get(uuid or '')
        return (
            server is not None
            and at_end is AtEnd.SHELVE
            and server.status == 'ERROR'
        )

    def _check_expiry(self) -> None:
        """What was not taken in time is released."""
        for key in self.view.unfinished:
            start, end = self.view.during[key]
            after = self.view.requests[key].expires_after
            was_degraded = any(
                row.state is State.DEGRADED for row in self.view.histories[key]
            )
            if after is None or was_degraded:
                continue
            if start + after <= self.began and self.now < end:
                assert all(one.consumer for one in self.view.list_slots(key))

    def _check_holds(self) -> None:
        """What holds room does so for somebody, and where it is promised."""
        own = {one.hold: one for one in self.view.slots}
        for consumer in self.world.holds:
            slot = own.get(consumer)
            ((place, amount),) = self.world.held[consumer].items()
            if place[0] not in self.world.enabled:
                continue
            assert slot is not None, f'{consumer} holds {amount} of {place[0]}'
            assert (place[0], amount) == (slot.host, slot.amount)
            assert not self.world.keeps_room

    def _check_waiting(self) -> None:
        """No server waits for a place that it can have.

        One that is offloaded in a pass is unshelved in the next one.
        """
        for server in self.world.servers.values():
            key = server.metadata.get(nova_server.RESERVATION, '')
            if (
                self.world.keeps_room
                or server.uuid not in self.waiting & self.world.waiting
                or server.uuid in self.view.consumers
                or key not in self.view.unfinished
                or self.view.during[key][0] > self.began
                or self._has_failed(key, server.uuid)
            ):
                continue
            for one in self.view.list_slots(key):
                assert not self._is_free(one, server.flavor.vcpus), (
                    f'{server.uuid} waits, and {one} is free'
                )

    def _has_failed(self, key: str, uuid: str) -> bool:
        """Return whether it has been tried, or it had a place before."""
        return any(uuid in row.reason for row in self.view.histories[key])

    def _is_free(self, slot: views.Slot, amount: int) -> bool:
        return (
            slot.consumer is None
            and slot.amount >= amount
            and slot.end > self.now
            and self.world.is_up(slot.host)
            and not self.view.is_away(slot.host, self.now)
        )
