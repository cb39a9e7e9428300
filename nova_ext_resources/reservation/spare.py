# SPDX-License-Identifier: Apache-2.0

"""What is free now and promised to nobody until a server ends.

Pure. Placement says how much of each class of each provider is free; what
servers hold now they are taken to hold for good. What a server takes beyond
what is spare would be missing when a reservation begins.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from nova_ext_resources import exception
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation import promise_ledger

#: ``allocations`` of an allocation request of placement.
Allocations: TypeAlias = Mapping[str, Mapping[str, Any]]

#: Returns how many units are free now; None where nobody knows.
FindFree: TypeAlias = Callable[[host_view.Place], int | None]

#: Reservations that a refusal names.
_MAX_NAMED = 3


class Spare:
    """Answers for one server.

    :param find_free: for places of which something is promised only
    :param now: seconds since the epoch
    :param end: when the server ends, ``FOREVER`` if that is not known
    :param without: a slot that is not to be counted, for the server has it
    :param find_capacity: returns how many units placement shows in all, for
        places that will have less as is planned
    """

    def __init__(
        self,
        promises: promise_ledger.Promises,
        find_free: FindFree,
        *,
        now: int,
        end: int = interval.FOREVER,
        without: planned_server.PlannedServer | None = None,
        find_capacity: FindFree = lambda _place: None,
    ) -> None:
        self.now = now
        self.end = end
        self._promises = promises
        self._find_free = find_free
        self._find_capacity = find_capacity
        self._places = promises.places
        self._own_key = without.key if without else None
        # What was changed since the promises were read is not among them.
        is_known = without is not None and promises.has(without)
        self._own = without.places if without and is_known else {}

    def fits(self, allocations: Allocations) -> bool:
        """Return whether no promise is broken by a server that takes them."""
        places = self._places
        for rp_uuid, allocation in allocations.items():
            classes = places.get(rp_uuid)
            if classes is None:
                continue
            for name, amount in allocation['resources'].items():
                if name in classes and self._is_short((rp_uuid, name), amount):
                    return False
        return True

    def _is_short(self, place: host_view.Place, amount: int) -> bool:
        promised = self._find_promised(place)
        if not promised:
            return False
        free = self._find_free(place)
        return free is None or free - promised < amount

    def _find_promised(self, place: host_view.Place) -> int:
        shown = self._find_shown(place)
        peak = self._promises.find_peak(place, self.now, self.end, shown)
        return peak - self._own.get(place, 0) if self._own else peak

    def _find_shown(self, place: host_view.Place) -> int | None:
        if not self._promises.cuts.concern(place):
            return None
        return self._find_capacity(place)

    def list_promises(
        self, rp_uuids: Iterable[str]
    ) -> list[promise_ledger.Promise]:
        """Return what is promised of providers while the server is there."""
        during = interval.Interval(self.now, self.end)
        return [
            one
            for one in self._promises.list_promises(rp_uuids, during)
            if one.slot.key != self._own_key
        ]

    def find_begin(self, allocations: Allocations) -> int:
        """Return when a server that takes them would be in the way.

        :returns: seconds since the epoch, not before its end; ``FOREVER`` if
            it could stay for good, or nobody knows what is free
        """
        return min(
            (
                self._find_begin((rp_uuid, name), amount)
                for rp_uuid, allocation in allocations.items()
                for name, amount in allocation['resources'].items()
                if name in self._places.get(rp_uuid, ())
            ),
            default=interval.FOREVER,
        )

    def _find_begin(self, place: host_view.Place, amount: int) -> int:
        free = self._find_free(place)
        if free is None:
            # It fills no gap that anybody knows of.
            return interval.FOREVER
        return self._promises.find_begin(
            place,
            self.now,
            self.end,
            free - amount,
            shown=self._find_shown(place),
        )

    def explain(self, allocations: Allocations) -> list[exception.Shortfall]:
        """Return every place where a promise would be broken, sorted."""
        return sorted(
            self._explain((rp_uuid, name), amount)
            for rp_uuid, allocation in allocations.items()
            for name, amount in allocation['resources'].items()
            if self._is_short((rp_uuid, name), amount)
        )

    def _explain(
        self, place: host_view.Place, amount: int
    ) -> exception.Shortfall:
        free, promised = self._find_free(place), self._find_promised(place)
        shown = self._find_shown(place)
        start, promises = self._promises.list_peak(
            place, self.now, self.end, shown
        )
        names = sorted({one.request.key for one in promises})
        listed = ', '.join(names[:_MAX_NAMED])
        if len(names) > _MAX_NAMED:
            listed += f' and {len(names) - _MAX_NAMED} others'
        ends = (one.during.end for one in promises)
        during = interval.Interval(start, max(ends, default=interval.FOREVER))
        left = 'an unknown number of' if free is None else str(free)
        return exception.Shortfall(
            rp_uuid=place[0],
            resource_class=place[1],
            requested=amount,
            available=max((free or 0) - promised, 0),
            reason=f'of {left} free units, {promised} are promised to '
            f'reservation {listed}{self._explain_cut(place, start)} from '
            f'{during}',
        )

    def _explain_cut(self, place: host_view.Place, time: int) -> str:
        """Return what is taken away with what is promised, if anything is."""
        shown = self._find_shown(place)
        names = self._promises.cuts.list_names(
            place, time, now=self.now, shown=shown
        )
        if not names:
            return ''
        listed = ', '.join(names[:_MAX_NAMED])
        return f', or taken away as planned by capacity change {listed}'
