# SPDX-License-Identifier: Apache-2.0

"""The decision: what a server takes where on a host, or every shortfall.

Pure functions over a :class:`~nova_ext_resources.objects.host_view.HostView`.
The host decides on its own view, and commits what is decided; the scheduler
asks the very same on the view that the host has published.

Say a host has two caches, A for its CPUs 0-3 and B for 4-7, of eight ways
each, and four classes of service. Placement knows nothing of CPUs, and gives
every server ways of A. The masks are what each gets there (``cache_ways``)::

    >>> claim('one', cpus='0-1', ways=4)
    one gets 0f of A
    >>> claim('two', cpus='2-3', ways=4)
    two gets f0 of A
    >>> claim('three', cpus='4-5', ways=4)
    three gets 0f of B, moved from A
    >>> claim('four', cpus='6-7', ways=2)
    four gets c0 of B, moved from A

Three and four run on B's CPUs: their own ways must be there. A fifth server
on B's CPUs is refused, and hears of everything that is in the way, where its
CPUs are. Nothing of it is taken::

    >>> claim('five', cpus='6-7', ways=3)
    five is refused
    CUSTOM_LLC_WAYS of B: 3 requested, 2 available
    CUSTOM_RDT_CLOS of RDT: 1 requested, 0 available
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
import dataclasses
from typing import Any, TypeAlias

from nova_ext_resources.claims import base
from nova_ext_resources.claims import constraints
from nova_ext_resources.claims import siblings
from nova_ext_resources.claims import spread
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_view

Place: TypeAlias = host_view.Place

#: Claim tests of a host that does not publish which it has enabled.
_DEFAULT_TESTS = ('granularity', 'capacity', 'cache_affinity')
_ALWAYS_TESTS = ('granularity',)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What becomes of a request on a host. Nothing is changed yet.

    :ivar request: with the allocations as they are to be, in each domain of
        its CPUs where it may be in several, and ``moves`` applied; of a
        refusal those that come nearest
    :ivar moves: what is taken from siblings of the providers that placement
        chose
    :ivar view: the host's view after it; of a refusal the view before
    :ivar taken: what the server gets
    :ivar shortfalls: every reason against it, sorted; none when it fits
    """

    request: assignment.ClaimRequest
    view: host_view.HostView
    moves: siblings.Moves = ()
    taken: tuple[assignment.Assignment, ...] = ()
    shortfalls: tuple[exception.Shortfall, ...] = ()

    @property
    def fits(self) -> bool:
        return not self.shortfalls

    def make_error(self, host: str) -> exception.ClaimError:
        """Return the error of a claim that ``host`` refuses.

        Where no server that leaves would help, the constraints are violated;
        otherwise the host is busy.
        """
        error = (
            exception.ConstraintsViolated
            if any(one.is_permanent for one in self.shortfalls)
            else exception.CapacityExceeded
        )
        return error(
            host=host,
            consumer_uuid=self.request.consumer_uuid,
            shortfalls=self.shortfalls,
        )


def decide(
    view: host_view.HostView,
    request: assignment.ClaimRequest,
    *,
    trackers: Mapping[str, base.Tracker],
    tests: Sequence[base.ClaimTest],
    published: Collection[str] = (),
    may_move: bool = True,
) -> Decision:
    """Decide on a request.

    :param published: uuids of all providers that this host ever published
    :param may_move: whether siblings of the providers in the allocations
        may be used instead of them
    """
    request = spread.spread(view, request)
    gone = _list_gone(view, request, published)
    moves: siblings.Moves = ()
    found = find_shortfalls(view, request, tests)
    if may_move and (found or _count_unmet(view, request, tests)):
        moves, found = _find_nearest(view, request, found, tests)
    request = siblings.move(request, moves) if moves else request
    found = name_providers(view, {*found, *gone})
    refusal = Decision(
        request=request, moves=moves, view=view, shortfalls=found
    )
    if found:
        return refusal
    try:
        after, taken = allocate(view, request, trackers)
    except exception.CapacityExceeded as err:
        # Only with a set of claim tests that lacks "capacity".
        return dataclasses.replace(refusal, shortfalls=err.shortfalls)
    except ValueError as err:
        # Only with a set of claim tests that lacks "granularity".
        return dataclasses.replace(
            refusal, shortfalls=_explain_attributes(request, err)
        )
    return Decision(request=request, moves=moves, view=after, taken=taken)


def name_tests(view: host_view.HostView) -> tuple[str, ...]:
    """Return the names of the claim tests that decide for a host.

    Those that it has enabled, or the defaults where it has not published
    them. Attributes are always tested, because every host refuses bad ones.
    """
    enabled = view.constraints.tests
    found = _DEFAULT_TESTS if enabled is None else enabled
    return tuple(dict.fromkeys((*_ALWAYS_TESTS, *found)))


def _find_nearest(
    view: host_view.HostView,
    request: assignment.ClaimRequest,
    found: tuple[exception.Shortfall, ...],
    tests: Sequence[base.ClaimTest],
) -> tuple[siblings.Moves, tuple[exception.Shortfall, ...]]:
    """Return the moves with which a request fits, or comes nearest to it.

    Only places in the domains of its CPUs come near, if there are any. Of
    those where it fits, it is where most of its wishes are met.

    :param found: why it does not fit as it is
    """
    best: siblings.Moves | None = None
    least = found
    weight = _weigh(found, _count_unmet(view, request, tests))
    if not found or siblings.is_near(view, request):
        best = ()
    for moves in siblings.list_moves(view, request):
        moved = siblings.move(request, moves)
        if not siblings.is_near(view, moved):
            continue
        shortfalls = find_shortfalls(view, moved, tests)
        other = _weigh(shortfalls, _count_unmet(view, moved, tests))
        if best is None or other < weight:
            best, least, weight = moves, shortfalls, other
        if not any(weight):
            break
    return best or (), least


def _weigh(
    shortfalls: Sequence[exception.Shortfall], unmet: int
) -> tuple[int, int, int]:
    """Return how far a request is from fitting; what can never be, first."""
    return sum(one.is_permanent for one in shortfalls), len(shortfalls), unmet


def _count_unmet(
    view: host_view.HostView,
    request: assignment.ClaimRequest,
    tests: Iterable[base.ClaimTest],
) -> int:
    return sum(one.count_unmet(view, request) for one in tests)


def name_providers(
    view: host_view.HostView, found: Iterable[exception.Shortfall]
) -> tuple[exception.Shortfall, ...]:
    """Return shortfalls with the names that providers have on the host."""
    return tuple(
        dataclasses.replace(one, rp_key=view.keys.get(one.rp_uuid, ''))
        for one in sorted(found)
    )


def list_implied(
    view: host_view.HostView, places: Mapping[Place, int]
) -> dict[Place, int]:
    """Return what a server takes without having been allocated it.

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
    view: host_view.HostView,
    request: assignment.ClaimRequest,
    tests: Iterable[base.ClaimTest],
) -> tuple[exception.Shortfall, ...]:
    """Run all tests; return all reasons, sorted, none when it fits."""
    whole = _with_implied(view, request)
    found = set(list_missing(view, request))
    found.update(constraints.find_violations(view, request))
    for test in tests:
        found.update(test.shortfalls(view, whole))
    return tuple(sorted(found))


def _list_gone(
    view: host_view.HostView,
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
                    reason='this host no longer offers this resource; enable '
                    'its inventory provider in [ext_resources] '
                    'inventory_providers, or find out why this provider does '
                    'not report the resource',
                )


def allocate(
    view: host_view.HostView,
    request: assignment.ClaimRequest,
    trackers: Mapping[str, base.Tracker],
) -> tuple[host_view.HostView, tuple[assignment.Assignment, ...]]:
    """Allocate all units: the new view and the assignments.

    :raises CapacityExceeded: something does not fit; run the tests first,
        which know the reasons
    :raises ValueError: an attribute of the flavor makes no sense; so does
        the test ``granularity``
    """
    places = view.list_places(request.allocations)
    implied = list_implied(view, places)
    taken = []
    for place, amount in {**places, **implied}.items():
        tracked = view.tracked[place]
        tracker = trackers[tracked.tracker]
        if not tracker.fits(tracked.state, amount):
            raise exception.CapacityExceeded(
                host='',
                consumer_uuid=request.consumer_uuid,
                shortfalls=[_make_shortfall(place, amount, tracked.state)],
            )
        state, units = tracker.allocate(tracked.state, amount)
        view = view.with_state(place, state)
        taken.append((place, amount, units))
    return view, tuple(
        _make_assignment(view, request, trackers, *one) for one in taken
    )


def describe(
    view: host_view.HostView,
    request: assignment.ClaimRequest,
    trackers: Mapping[str, base.Tracker],
) -> tuple[assignment.Assignment, ...]:
    """Return what the allocations of a server stand for.

    In each domain of its CPUs where it may be in several: a process may have
    been killed before it allocated all of them. Without the units, but for
    what the flavor's attributes add to them.

    :raises ValueError: an attribute of the flavor makes no sense
    """
    request = spread.spread(view, request)
    places = view.list_places(request.allocations)
    whole = {**places, **list_implied(view, places)}
    return tuple(
        _make_assignment(view, request, trackers, place, amount, {})
        for place, amount in whole.items()
    )


def _make_assignment(
    view: host_view.HostView,
    request: assignment.ClaimRequest,
    trackers: Mapping[str, base.Tracker],
    place: Place,
    amount: int,
    units: Mapping[str, Any],
) -> assignment.Assignment:
    rp_uuid, resource_class = place
    attributes = request.requirement.attributes.get(resource_class, {})
    tracker = trackers[view.tracked[place].tracker]
    added = tracker.read_attributes(amount, attributes)
    return assignment.Assignment(
        rp_uuid=rp_uuid,
        rp_key=view.keys.get(rp_uuid, ''),
        resource_class=resource_class,
        amount=amount,
        units={**units, **added},
        is_allocated=place in view.list_places(request.allocations),
    )


def free(
    view: host_view.HostView,
    assignments: Iterable[assignment.Assignment],
    trackers: Mapping[str, base.Tracker],
) -> host_view.HostView:
    """Free units; those of a provider that is gone are passed over."""
    for one in assignments:
        place = one.rp_uuid, one.resource_class
        if place in view.tracked:
            tracked = view.tracked[place]
            tracker = trackers[tracked.tracker]
            state = tracker.free(tracked.state, one.amount, one.units)
            view = view.with_state(place, state)
    return view


def _make_shortfall(
    place: Place, amount: int, state: host_view.TrackerState
) -> exception.Shortfall:
    return exception.Shortfall(
        rp_uuid=place[0],
        resource_class=place[1],
        requested=amount,
        available=state.available,
        reason='the request does not fit',
    )


def _explain_attributes(
    request: assignment.ClaimRequest, err: ValueError
) -> tuple[exception.Shortfall, ...]:
    return tuple(
        exception.Shortfall(
            resource_class=name,
            requested=0,
            reason=str(err),
            is_permanent=True,
        )
        for name in sorted(request.requirement.attributes)
    )


def _with_implied(
    view: host_view.HostView, request: assignment.ClaimRequest
) -> assignment.ClaimRequest:
    places = view.list_places(request.allocations)
    whole: dict[str, dict[str, int]] = {}
    for place, amount in {**places, **list_implied(view, places)}.items():
        whole.setdefault(place[0], {})[place[1]] = amount
    return dataclasses.replace(request, allocations=whole)


def list_missing(
    view: host_view.HostView, request: assignment.ClaimRequest
) -> Iterable[exception.Shortfall]:
    """Report what the flavor asks of us and nobody has allocated."""
    allocated: dict[str, int] = {}
    for place, amount in view.list_places(request.allocations).items():
        allocated[place[1]] = allocated.get(place[1], 0) + amount
    for resource_class, amount in request.requirement.resources.items():
        got = allocated.get(resource_class, 0)
        if resource_class in view.resource_classes and got < amount:
            yield exception.Shortfall(
                resource_class=resource_class,
                requested=amount,
                available=got,
                reason='no provider that this host knows now has the '
                'allocation; if the host has just started, its discovery has '
                'not succeeded yet (see the log of nova-compute)',
            )
