# SPDX-License-Identifier: Apache-2.0

"""What planned changes of capacity take away, and when.

What will be taken away while something is promised counts with it, as far as
placement shows it still. What will be there more does not: until placement
shows it, it may not come.
"""

from collections.abc import Iterator
import dataclasses

from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import forecast
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation import profile


class Cuts:
    """Those of all changes that are planned."""

    def __init__(self) -> None:
        self._maintenances: capacity_change.Changes = ()
        #: Those by which there will be less, and all others of the same.
        self._changes: dict[
            host_view.Place, list[capacity_change.CapacityChange]
        ] = {}
        self._known: dict[host_view.Place, _Known] = {}

    def follow(self, changes: capacity_change.Changes) -> None:
        """Take planned changes of capacity in place of those before."""
        self._maintenances = [one for one in changes if one.is_maintenance]
        self._known = {}
        self._changes = {}
        for one in changes:
            for name in one.amounts:
                place = one.rp_uuid, name
                self._changes.setdefault(place, []).append(one)
        self._changes = {
            place: found
            for place, found in self._changes.items()
            if any(
                one.amounts[place[1]] < 0 or not one.during.is_open
                for one in found
            )
        }

    def find_maintenance(
        self, slot: planned_server.PlannedServer, now: int
    ) -> capacity_change.CapacityChange | None:
        """Return why a slot cannot be had now; None if it can.

        :param now: seconds since the epoch
        """
        for one in self._maintenances:
            if one.during.start <= now < one.during.end and one.concerns(slot):
                return one
        return None

    def concern(self, place: host_view.Place) -> bool:
        """Return whether a place will have less at any time."""
        return place in self._changes

    def list_names(
        self,
        place: host_view.Place,
        time: int,
        *,
        now: int,
        shown: int | None,
    ) -> list[str]:
        """Return the changes of a place by which there will be less then."""
        moment = interval.Interval(time, time + 1)
        if place not in self._changes:
            return []
        if not self._find_less(place, now, shown).highest(moment):
            return []
        return [
            one.key
            for one in self._changes[place]
            if one.during.overlaps(moment) == (one.amounts[place[1]] < 0)
        ]

    def list_steps(
        self,
        place: host_view.Place,
        promised: profile.Profile,
        during: interval.Interval,
        *,
        now: int,
        shown: int | None,
    ) -> Iterator[tuple[interval.Interval, int]]:
        """Return what counts with what is promised of a place, in steps.

        Where nothing is promised, nobody is hurt.

        :param now: seconds since the epoch
        :param shown: the capacity that placement shows, None where that is
            not known
        """
        less: profile.Profile | None = None
        if place in self._changes:
            less = self._find_less(place, now, shown)
        for part, amount in promised.list_steps(during):
            if less is None or not amount:
                yield part, 0
            else:
                yield from less.list_steps(part)

    def _find_less(
        self, place: host_view.Place, now: int, shown: int | None
    ) -> profile.Profile:
        """Return how much less there will be than placement shows."""
        known = self._known.get(place)
        if known is None or not known.holds(now, shown):
            known = _make_known(self._changes[place], place[1], now, shown)
            self._known[place] = known
        return known.less


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What was found out, which holds until a change begins or ends."""

    shown: int | None
    since: int
    until: int
    less: profile.Profile

    def holds(self, now: int, shown: int | None) -> bool:
        return self.shown == shown and self.since <= now < self.until


def _make_known(
    changes: capacity_change.Changes,
    resource_class: str,
    now: int,
    shown: int | None,
) -> _Known:
    found = forecast.make(changes, resource_class, shown, now)
    less = profile.Profile()
    rest = interval.Interval(now)
    for part, capacity in found.count(is_sure=True).list_steps(rest):
        less.set(part, max(found.shown - capacity, 0))
    times = (
        time
        for one in changes
        for time in (one.during.start, one.during.end)
        if time > now
    )
    until = min(times, default=interval.FOREVER)
    return _Known(shown=shown, since=now, until=until, less=less)
