# SPDX-License-Identifier: Apache-2.0

"""What must hold of reservations at any time, whatever has happened.

Computed of the rows and of the cloud, second by second where something
changes, and not by the code that the manager decides with.
"""

from collections.abc import Mapping
import itertools

from nova_ext_resources.reservation import cause
from nova_ext_resources.reservation import lending
from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import state as state_mod
from nova_ext_resources.reservation.store import states
from tests.unit.reservation.manager import views
from tests.unit.reservation.manager import worlds

State = state_mod.State
AtEnd = plan_request.AtEnd

#: Seconds by which clocks may differ.
SKEW = 60


class Record:
    """What was seen up to now.

    :ivar rows: (reservation, number) -> its row, also of what was deleted
    """

    def __init__(self) -> None:
        self.rows: dict[tuple[str, int], states.Change] = {}
        self._before: views.View | None = None
        self._capacities: Mapping[str, int] = {}

    def look(self, view: views.View, world: worlds.World) -> None:
        """Check what must hold at any time."""
        capacities = {host: world.get_capacity(host) for host in worlds.HOSTS}
        check_over(view)
        check_consumers(view)
        self._check_rows(view)
        self._check_acts(view, world)
        if self._before is not None:
            check_silence(self._before, view)
            check_freed(self._before, view, world)
            for host in worlds.HOSTS:
                most = max(capacities[host], self._capacities[host])
                is_known = host not in world.resized
                check_promised(
                    self._before, view, host, most, is_known=is_known
                )
        self._before, self._capacities = view, capacities

    def _check_rows(self, view: views.View) -> None:
        """Check that rows follow each other, and none changes."""
        for key, rows in view.histories.items():
            for number, row in enumerate(rows):
                if (key, number) not in self.rows:
                    self.rows[key, number] = row
                    check_new(view, key, row)
                known = self.rows[key, number]
                assert known == row, f'row {number} of {key} has changed'
            for one, other in itertools.pairwise(rows):
                state_mod.check_next(key, one.state, other.state)

    def _check_acts(self, view: views.View, world: worlds.World) -> None:
        """Check that servers go that are to, and after a notice."""
        for server, now in world.take_acts():
            key = nova_server.find_reservation(server, has_metadata=True)
            if key and self._may_go(view, world, key, server.uuid, now):
                continue
            lease = lending.find_lease(server.extra_specs)
            is_over = key is not None and has_stayed(view, key, now + SKEW)
            assert lease.is_lent or is_over, f'{server} is not lent'
            assert any(
                row.cause is cause.Cause.NOTICE
                and server.uuid in row.reason
                and row.changed_at + lease.drain_seconds <= now + SKEW
                for row in self.rows.values()
            ), f'{server} was not told'

    def _may_go(
        self,
        view: views.View,
        world: worlds.World,
        key: str,
        uuid: str,
        now: int,
    ) -> bool:
        """Return whether a server goes with its reservation, or waits."""
        if key not in view.during:
            return True
        if not world.keeps_room:
            before = self._before.consumers if self._before else frozenset()
            if uuid not in before & view.consumers:
                return True
        is_kept = view.requests[key].at_end is AtEnd.KEEP
        return not is_kept and view.during[key][1] <= now + SKEW


def has_stayed(view: views.View, key: str, time: int) -> bool:
    """Return whether servers of a reservation have no place any more then.

    And nobody removes them for that reservation.
    """
    row = view.histories[key][-1]
    if row.state.is_final:
        return min(row.changed_at, view.during[key][1]) <= time
    is_kept = view.requests[key].at_end is AtEnd.KEEP
    return is_kept and view.during[key][1] <= time


def check_new(view: views.View, key: str, row: states.Change) -> None:
    """Check that a row says why, and that none says it too early."""
    assert is_sentence(row.reason), f'{key}: {row.reason!r}'
    (start, end), after = view.during[key], view.requests[key].expires_after
    if row.state is State.ENDED:
        assert end <= row.changed_at, f'{key} ends at {end}: {row}'
    if row.state is State.EXPIRED:
        assert after is not None, f'{key} does not expire: {row}'
        assert start + after <= row.changed_at, f'{key} expires later: {row}'


def is_sentence(reason: str) -> bool:
    """Return whether a reason has words."""
    return len(reason.split()) >= 3 and 'None' not in reason


def check_over(view: views.View) -> None:
    """Check that what is over holds nothing, and is nobody's."""
    for one in view.slots:
        state = view.get_state(one.reservation)
        assert not state.is_final, f'{one.server} is held, though {state}'
    for key in view.unfinished:
        assert view.list_slots(key), f'{key} has no place and goes on'


def check_consumers(view: views.View) -> None:
    """Check that no server has two places."""
    taken = [one.consumer for one in view.slots if one.consumer]
    assert len(taken) == len({*taken}), taken


def check_silence(before: views.View, view: views.View) -> None:
    """Check that nothing promised is changed without a row that says why."""
    for key in before.unfinished:
        rows = view.histories.get(key, ())
        assert rows, f'{key} was deleted, though it went on'
        if len(rows) == len(before.histories[key]):
            assert _list_places(before, key) == _list_places(view, key), key
            assert before.during[key] == view.during[key], key


def _list_places(view: views.View, key: str) -> set[tuple[str, str, int, int]]:
    return {
        (one.server, one.host, one.start, one.end)
        for one in view.list_slots(key)
    }


def check_freed(
    before: views.View, view: views.View, world: worlds.World
) -> None:
    """Check that a server that lives keeps a place where one goes on."""
    after = {(one.reservation, one.server) for one in view.slots}
    for one in before.slots:
        is_held = (one.reservation, one.server) in after
        if is_held and one.consumer and one.consumer not in view.consumers:
            assert world.is_gone(one.consumer), f'{one} was freed'


def check_promised(
    before: views.View,
    view: views.View,
    host: str,
    most: int,
    *,
    is_known: bool,
) -> None:
    """Check that no more is promised of a host than there is.

    What was promised before may be more, if the host had more then, or is
    planned to have less now.

    :param is_known: whether what is planned to be less has not come yet
    """
    for time in {one.start for one in view.slots if one.host == host}:
        promised, less = view.count(host, time), 0
        if before.is_away(host, time) and view.is_away(host, time):
            less = most
        elif is_known and before.changes == view.changes:
            less = view.count_less(host, time)
        allowed = max(before.count(host, time), most - less)
        assert promised <= allowed, f'{promised} VCPU of {host} at {time}'
