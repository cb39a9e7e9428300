# SPDX-License-Identifier: Apache-2.0

"""The units are there, in the form in which the tracker gives them out."""

from collections.abc import Iterable

from nova_ext_resources.claims import base
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_view


class CapacityTest(base.ClaimTest):
    """Asks each tracker whether the amount fits."""

    def shortfalls(
        self, view: host_view.HostView, request: assignment.ClaimRequest
    ) -> Iterable[exception.Shortfall]:
        for rp_uuid, resources in request.allocations.items():
            for resource_class, amount in resources.items():
                tracked = view.tracked[rp_uuid, resource_class]
                tracker = self.trackers[tracked.tracker]
                if not tracker.fits(tracked.state, amount):
                    yield exception.Shortfall(
                        rp_uuid=rp_uuid,
                        resource_class=resource_class,
                        requested=amount,
                        available=tracked.state.available,
                        reason=_explain(tracked.state, amount, view.during),
                    )


def _explain(
    state: host_view.TrackerState, amount: int, during: object
) -> str:
    if state.free >= amount:
        return f'{state.free} units are free, but not side by side' + (
            f' throughout {during}'
            if during
            else '; the host is fragmented until servers leave it'
        )
    if during:
        return f'fewer units are free throughout {during}'
    return (
        f'servers of this host hold {state.used} units; the host itself or '
        'other software uses the rest'
    )
