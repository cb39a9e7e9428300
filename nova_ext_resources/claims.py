# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Claims: test everything, take everything, or report every shortfall.

Pure functions over a :class:`~nova_ext_resources.objects.view.HostView`.
The host runs them on its own view and has the final say; the scheduler
runs the very same ones on the view that the host has published.
"""

from collections.abc import Collection, Iterable, Mapping
import dataclasses
from typing import TypeAlias

from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import view as view_obj
from nova_ext_resources.plugins import base

Amounts: TypeAlias = Mapping[str, Mapping[str, int]]

Place: TypeAlias = tuple[str, str]


def list_places(
    view: view_obj.HostView, allocations: Amounts
) -> dict[Place, int]:
    """Give (rp_uuid, resource class) -> amount of what the view tracks.

    Providers of others, such as Nova's own root, are left out.
    """
    return {
        (rp_uuid, resource_class): amount
        for rp_uuid, resources in sorted(allocations.items())
        for resource_class, amount in sorted(resources.items())
        if (rp_uuid, resource_class) in view.tracked
    }


def list_implied(
    view: view_obj.HostView, places: Mapping[Place, int]
) -> dict[Place, int]:
    """Give what a server takes without having been allocated it.

    A server that asks for ways holds a class of service all the same, one
    however many domains it has ways in.
    """
    implied = {view.tracked[place].implied for place in places}
    return {
        place: 1
        for place in sorted(filter(None, implied))
        if place not in places and place in view.tracked
    }


def find_shortfalls(
    view: view_obj.HostView,
    request: assignment.ClaimRequest,
    tests: Iterable[base.ClaimTest],
) -> tuple[exception.Shortfall, ...]:
    """Run all tests; give all reasons, sorted, none when it fits."""
    whole = _with_implied(view, request)
    found = set(_list_missing(view, request))
    for test in tests:
        found.update(test.shortfalls(view, whole))
    return tuple(sorted(found))


def list_gone(
    view: view_obj.HostView,
    request: assignment.ClaimRequest,
    published: Collection[str],
) -> Iterable[exception.Shortfall]:
    """Report what is allocated on providers of ours and not tracked.

    A plugin was taken out of the configuration, or has not found it again,
    and placement does not know yet: such a server would boot without.

    :param published: uuids of all providers that this host ever published
    """
    for rp_uuid, resources in sorted(request.allocations.items()):
        for resource_class, amount in sorted(resources.items()):
            place = rp_uuid, resource_class
            if rp_uuid in published and place not in view.tracked:
                yield exception.Shortfall(
                    rp_uuid=rp_uuid,
                    resource_class=resource_class,
                    requested=amount,
                    available=0,
                    reason='this host does not offer it any more; enable '
                    'its plugin in [ext_resources] inventory_providers, or '
                    'mend what keeps the plugin from finding it',
                )


def take(
    view: view_obj.HostView,
    request: assignment.ClaimRequest,
    trackers: Mapping[str, base.Tracker],
) -> tuple[view_obj.HostView, tuple[assignment.Assignment, ...]]:
    """Take all units: the new view and what was taken.

    :raises CapacityExceeded: something does not fit; run the tests first,
        which know the reasons
    :raises ValueError: an attribute of the flavor makes no sense; so does
        the test ``granularity``
    """
    places = list_places(view, request.allocations)
    implied = list_implied(view, places)
    taken = []
    for place, amount in {**places, **implied}.items():
        tracked = view.tracked[place]
        tracker = trackers[tracked.tracker]
        if not tracker.fits(tracked.state, amount):
            short = _make_shortfall(place, amount, tracked.state)
            raise make_error('', request, [short])
        state, units = tracker.take(tracked.state, amount)
        attributes = request.requirement.attributes.get(place[1], {})
        added = tracker.read_attributes(amount, attributes)
        view = view.with_state(place, state)
        taken.append(
            assignment.Assignment(
                rp_uuid=place[0],
                rp_key=view.keys.get(place[0], ''),
                resource_class=place[1],
                amount=amount,
                units={**units, **added},
                is_allocated=place in places,
            )
        )
    return view, tuple(taken)


def give(
    view: view_obj.HostView,
    held: Iterable[assignment.Assignment],
    trackers: Mapping[str, base.Tracker],
) -> view_obj.HostView:
    """Take units back; those of a provider that is gone are passed over."""
    for one in held:
        place = one.rp_uuid, one.resource_class
        if place in view.tracked:
            tracked = view.tracked[place]
            tracker = trackers[tracked.tracker]
            state = tracker.give(tracked.state, one.amount, one.units)
            view = view.with_state(place, state)
    return view


def make_error(
    host: str,
    request: assignment.ClaimRequest,
    found: Iterable[exception.Shortfall],
) -> exception.ClaimError:
    """Give the error of a claim that ``host`` refuses.

    Where no server that leaves would help, the constraints are violated;
    otherwise the host is busy.
    """
    shortfalls = tuple(found)
    error = (
        exception.ConstraintsViolated
        if any(one.is_permanent for one in shortfalls)
        else exception.CapacityExceeded
    )
    return error(
        host=host,
        consumer_uuid=request.consumer_uuid,
        shortfalls=shortfalls,
    )


def _make_shortfall(
    place: Place, amount: int, state: view_obj.State
) -> exception.Shortfall:
    return exception.Shortfall(
        rp_uuid=place[0],
        resource_class=place[1],
        requested=amount,
        available=state.available,
        reason='it does not fit',
    )


def _with_implied(
    view: view_obj.HostView, request: assignment.ClaimRequest
) -> assignment.ClaimRequest:
    places = list_places(view, request.allocations)
    whole: dict[str, dict[str, int]] = {}
    for place, amount in {**places, **list_implied(view, places)}.items():
        whole.setdefault(place[0], {})[place[1]] = amount
    return dataclasses.replace(request, allocations=whole)


def _list_missing(
    view: view_obj.HostView, request: assignment.ClaimRequest
) -> Iterable[exception.Shortfall]:
    """Report what the flavor asks of us and nobody has allocated."""
    allocated: dict[str, int] = {}
    for place, amount in list_places(view, request.allocations).items():
        allocated[place[1]] = allocated.get(place[1], 0) + amount
    for resource_class, amount in request.requirement.resources.items():
        got = allocated.get(resource_class, 0)
        if resource_class in view.resource_classes and got < amount:
            yield exception.Shortfall(
                rp_uuid='',
                resource_class=resource_class,
                requested=amount,
                available=got,
                reason='no provider that this host knows at present has '
                'it allocated; if the host has just started, its discovery '
                'has not succeeded yet (see its log)',
            )
