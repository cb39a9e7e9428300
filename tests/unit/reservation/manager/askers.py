# SPDX-License-Identifier: Apache-2.0

"""Users who reserve, and operators who plan changes of capacity."""

import dataclasses
from typing import Any

from nova_ext_resources import exception
from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import admission
from nova_ext_resources.reservation.store import databases
from tests.unit.reservation import changes
from tests.unit.reservation import hosts
from tests.unit.reservation.manager import managers
from tests.unit.reservation.manager import worlds

#: How many projects there are.
_PROJECTS = 2


def find_project(key: str) -> str:
    """Return the project that has a reservation."""
    return f'project {int(key.split()[-1]) % _PROJECTS}'


class Askers:
    """Asks for what may be refused; all returns without a word then.

    While hosts cannot be read nobody can be answered.
    """

    def __init__(
        self,
        database: databases.Database,
        world: worlds.World,
        time: managers.Time,
    ) -> None:
        self._database, self._world, self._time = database, world, time
        self._number = 0

    @property
    def now(self) -> int:
        return int(self._time.clock)

    @property
    def _can_plan(self) -> bool:
        return not (self._world.is_placement_away or self._world.is_nova_away)

    def _make_name(self, kind: str) -> str:
        self._number += 1
        return f'{kind} {self._number}'

    def _make_during(self, later: int, seconds: int) -> interval.Interval:
        start = self.now + later
        return interval.Interval(start, start + seconds)

    def _make_admission(self) -> admission.Admission:
        return self._world.make_admission(self._database)

    def reserve(
        self, later: int, seconds: int, amount: int, **fields: Any
    ) -> None:
        if not self._can_plan:
            return
        key = self._make_name('lease')
        request = hosts.make_request(
            key,
            self._make_during(later, seconds),
            hosts.make_demand(_={'VCPU': amount}),
            project=find_project(key),
            **fields,
        )
        self._make_admission().admit(
            request, now=self.now, reason='asked for by a user'
        )

    def replace(
        self,
        request: plan_request.Request,
        during: interval.Interval,
        size: int,
    ) -> None:
        """Change a reservation."""
        if not self._can_plan:
            return
        request = dataclasses.replace(
            request, during=during, delay=0, least=size, most=size
        )
        try:
            self._make_admission().replace(
                request, now=self.now, reason='changed by its user'
            )
        except (ValueError, exception.StateRefused):
            pass  # It has started, or is over.

    def cancel(self, key: str) -> None:
        """Cancel a reservation, which needs no hosts."""
        bare = admission.Admission(self._database, hosts.make_planner())
        try:
            bare.change(
                key,
                state.State.CANCELLED,
                now=self.now,
                reason='not needed any more',
            )
        except exception.StateRefused:
            pass

    def maintain(self, host: str, later: int, seconds: int) -> None:
        name = self._make_name('maintenance')
        during = self._make_during(later, seconds)
        self._plan(changes.make_maintenance(name, during, host))

    def cut(self, host: str, less: int, later: int, seconds: int) -> None:
        change = changes.make_change(
            self._make_name('cut'),
            self._make_during(later, seconds),
            {'VCPU': -less},
            host,
            self._world.get_capacity(host),
        )
        self._plan(change)

    def _plan(self, change: capacity_change.CapacityChange) -> None:
        if self._can_plan:
            self._make_admission().capacity.plan(
                change.key,
                lambda _fleet, _others: change,
                now=self.now,
                is_forced=True,
            )

    def withdraw(self, key: str) -> None:
        """Withdraw a change of capacity."""
        if self._can_plan:
            self._make_admission().capacity.withdraw(
                key, now=self.now, is_forced=True
            )
