# SPDX-License-Identifier: Apache-2.0

"""Whether slots that need units side by side still find them.

Pure. Of cache ways, amounts are not enough: the host chooses which ways a
server gets, and those that are left may be apart. So the decision itself is
asked, on the view that the host publishes, for each time at which slots of
that host are promised.
"""

from collections.abc import Iterable, Mapping, Sequence

from nova_ext_resources.claims import base
from nova_ext_resources.claims import decide
from nova_ext_resources.claims.trackers import count
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import requirement as requirement_obj
from nova_ext_resources.objects import view as view_obj
from nova_ext_resources.reservation import promises as promises_mod


class Runs:
    """Asks on the views of hosts.

    :param trackers: all that are installed, by name
    :param tests: all claim tests that are installed, by name; those run that
        the host has enabled
    """

    def __init__(
        self,
        trackers: Mapping[str, base.Tracker],
        tests: Mapping[str, base.ClaimTest],
    ) -> None:
        self._trackers = trackers
        self._tests = tests

    def needs_units(
        self, view: view_obj.HostView, promise: promises_mod.Promise
    ) -> bool:
        """Return whether amounts do not say if a slot can be had."""
        return any(
            place in view.tracked
            and not isinstance(
                self._trackers[view.tracked[place].tracker], count.CountTracker
            )
            for place in promise.slot.places
        )

    def find_broken(
        self,
        view: view_obj.HostView,
        promises: Iterable[promises_mod.Promise],
        request: assignment.ClaimRequest,
        now: int,
    ) -> promises_mod.Promise | None:
        """Return a slot that can be had before a server comes, not after.

        None also where the host would refuse the server.

        :param view: of what is there now
        :param promises: those of the host, while the server is there
        :param request: what the server asks for
        :param now: seconds since the epoch
        """
        wanted = [one for one in promises if self.needs_units(view, one)]
        if not wanted:
            return None
        decision = self._decide(view, request)
        if not decision.fits:
            return None
        for together in _list_together(wanted, now):
            missed = self._find_missed(decision.view, together)
            if missed and not self._find_missed(view, together):
                return missed
        return None

    def _find_missed(
        self,
        view: view_obj.HostView,
        promises: Sequence[promises_mod.Promise],
    ) -> promises_mod.Promise | None:
        """Return the first of several slots that does not fit any more."""
        for one in promises:
            decision = self._decide(view, _make_request(view, one))
            if not decision.fits:
                return one
            view = decision.view
        return None

    def _decide(
        self, view: view_obj.HostView, request: assignment.ClaimRequest
    ) -> decide.Decision:
        names = decide.name_tests(view)
        return decide.decide(
            view,
            request,
            trackers=self._trackers,
            tests=[self._tests[one] for one in names if one in self._tests],
        )


def _list_together(
    promises: Sequence[promises_mod.Promise], now: int
) -> list[list[promises_mod.Promise]]:
    """Return what is promised at once, whenever something begins."""
    starts = sorted({max(one.during.start, now) for one in promises})
    return [
        sorted(
            (
                one
                for one in promises
                if one.during.start <= start < one.during.end
            ),
            # The largest first, which is the hardest to place.
            key=lambda one: (-sum(one.slot.places.values()), one.slot.key),
        )
        for start in starts
    ]


def _make_request(
    view: view_obj.HostView, promise: promises_mod.Promise
) -> assignment.ClaimRequest:
    """Return what the server of a slot will ask for."""
    allocations: dict[str, dict[str, int]] = {}
    for one in promise.slot.assignments:
        place = one.rp_uuid, one.resource_class
        if one.is_allocated and place in view.tracked:
            classes = allocations.setdefault(one.rp_uuid, {})
            classes[one.resource_class] = one.amount
    demand = promise.request.demand
    return assignment.ClaimRequest(
        consumer_uuid=promise.slot.key,
        allocations=allocations,
        requirement=demand.requirement,
        cpus=promise.slot.cpus,
        # Which CPUs it will have is not known.
        pinning=assignment.Pinning()
        if demand.cells and promise.slot.cpus is None
        else None,
    )


def make_request(
    allocations: Mapping[str, Mapping[str, int]],
    requirement: requirement_obj.Requirement | None,
    *,
    is_floating: bool,
) -> assignment.ClaimRequest:
    """Return what a server that is not placed yet asks for."""
    return assignment.ClaimRequest(
        consumer_uuid='',
        allocations=allocations,
        requirement=requirement or requirement_obj.Requirement(groups=()),
        pinning=None if is_floating else assignment.Pinning(),
    )
