# SPDX-License-Identifier: Apache-2.0

"""What planned changes of capacity take away, and when.

What will be taken away while something is promised counts with it. What will
be there more does not: until placement shows it, it may not come.
"""

from collections.abc import Iterator

from nova_ext_resources.objects import view as view_obj
from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import capacity_plan
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import profile
from nova_ext_resources.reservation import server as server_mod


class Cuts:
    """Those of all changes that are planned."""

    def __init__(self) -> None:
        self._maintenances: capacity_plan.Changes = ()
        #: How much less there will be.
        self._less: dict[view_obj.Place, profile.Profile] = {}

    def follow(self, changes: capacity_plan.Changes) -> None:
        """Take planned changes of capacity in place of those before."""
        self._maintenances = [one for one in changes if one.is_maintenance]
        self._less = {}
        for one in changes:
            for name, amount in one.amounts.items():
                if amount < 0:
                    less = self._less.setdefault(
                        (one.rp_uuid, name), profile.Profile()
                    )
                    less.add(one.during, -amount)

    def find_maintenance(
        self, slot: server_mod.PlannedServer, now: int
    ) -> capacity_change.CapacityChange | None:
        """Return why a slot cannot be had now; None if it can.

        :param now: seconds since the epoch
        """
        for one in self._maintenances:
            if one.during.start <= now < one.during.end and one.concerns(slot):
                return one
        return None

    def concern(self, place: view_obj.Place) -> bool:
        """Return whether a place will have less at any time."""
        return place in self._less

    def list_steps(
        self,
        place: view_obj.Place,
        promised: profile.Profile,
        during: interval.Interval,
    ) -> Iterator[tuple[interval.Interval, int]]:
        """Return what counts with what is promised of a place, in steps.

        Where nothing is promised, nobody is hurt.
        """
        less = self._less.get(place)
        for part, amount in promised.list_steps(during):
            if less is None or not amount:
                yield part, 0
            else:
                yield from less.list_steps(part)
