# SPDX-License-Identifier: Apache-2.0

"""Which other providers of a host may serve a server as well. Pure.

Nova claims quantities before it pins CPUs, and placement knows nothing of
CPUs: its choice among a host's cache domains may not be the one that the
server's CPUs are in. Another one of the same host will do as well.
"""

from collections.abc import Iterable, Sequence
import dataclasses
import itertools
from typing import TypeAlias

from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import requirements


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SiblingMove:
    """An amount that is taken from another provider than placement chose.

    :ivar source: uuid of the provider in the allocations
    :ivar target: uuid of its sibling
    """

    resource_class: str
    amount: int
    source: str
    target: str


Moves: TypeAlias = tuple[SiblingMove, ...]

#: How many ways to follow the CPUs are tried. Enough for two groups of sixteen
#: caches, three of six and four of four, and no more than a scheduler can try
#: for each of many hosts.
_MAX_TRIED = 256


def list_moves(
    view: host_view.HostView, request: assignment.ClaimRequest
) -> Iterable[Moves]:
    """Return what may be moved together to siblings.

    Siblings track the same class with the same implied place, or serve the
    CPUs of their own provider alone, or best. With CPUs of its own: one class
    of one provider each, then all that is on one provider, then all that is
    not where the CPUs are. What a floating server has requested together stays
    together, and apart from the rest.
    """
    for source, classes in _group(view, request).items():
        local = _list_local(view, request, source, classes)
        parts = [[one] for one in classes]
        if request.is_floating:
            parts = [[one] for one in classes if one not in local]
            parts += [local] if local else []
        elif len(classes) > 1:
            parts.append(classes)
        for part in parts:
            is_apart = request.is_floating and part == local
            for target in _list_targets(view, source, part):
                if not (is_apart and target in request.allocations):
                    moves = _make(request, source, target, part)
                    if _has_room(request, moves):
                        yield moves
    if request.near_cpus:
        yield from _follow_cpus(view, request, request.near_cpus)


def move(
    request: assignment.ClaimRequest, moves: Iterable[SiblingMove]
) -> assignment.ClaimRequest:
    """Return the request with its allocations moved."""
    moved = {rp: dict(amounts) for rp, amounts in request.allocations.items()}
    moves = tuple(moves)
    # One may be moved to where another is moved away.
    for one in moves:
        del moved[one.source][one.resource_class]
    for one in moves:
        moved.setdefault(one.target, {})[one.resource_class] = one.amount
    allocations = {rp: amounts for rp, amounts in moved.items() if amounts}
    return dataclasses.replace(request, allocations=allocations)


def is_near(
    view: host_view.HostView, request: assignment.ClaimRequest
) -> bool:
    """Return whether all units are in domains that some CPU of it is in.

    A server that may run on all CPUs is near to all.
    """
    cpus = request.near_cpus
    return not cpus or all(
        _meets(view, rp_uuid, _list_local(view, request, rp_uuid, names), cpus)
        for rp_uuid, names in _group(view, request).items()
    )


def _follow_cpus(
    view: host_view.HostView,
    request: assignment.ClaimRequest,
    cpus: frozenset[int],
) -> Iterable[Moves]:
    """Return the ways to have everything in domains of the CPUs."""
    choices = [
        _list_near(view, request, source, classes, cpus)
        for source, classes in _group(view, request).items()
    ]
    for chosen in itertools.islice(itertools.product(*choices), _MAX_TRIED):
        moves = tuple(itertools.chain.from_iterable(chosen))
        if moves and _has_room(request, moves):
            yield moves


def _list_near(
    view: host_view.HostView,
    request: assignment.ClaimRequest,
    source: str,
    classes: Iterable[str],
    cpus: frozenset[int],
) -> list[Moves]:
    """Return how what is on one provider gets near the CPUs.

    To stay comes first where that is near; what cannot get near stays.
    """
    local = _list_local(view, request, source, classes)
    near = [
        _make(request, source, target, local)
        for target in _list_targets(view, source, local)
        if _meets(view, target, local, cpus)
    ]
    stays = not near or _meets(view, source, local, cpus)
    return [(), *near] if stays else near


def _group(
    view: host_view.HostView, request: assignment.ClaimRequest
) -> dict[str, list[str]]:
    """Return provider -> classes: ways are no use apart from bandwidth."""
    together: dict[str, list[str]] = {}
    for rp_uuid, resource_class in view.list_places(request.allocations):
        together.setdefault(rp_uuid, []).append(resource_class)
    return together


def _list_local(
    view: host_view.HostView,
    request: assignment.ClaimRequest,
    rp_uuid: str,
    classes: Iterable[str],
) -> list[str]:
    """Return the classes whose units must be near the server's CPUs.

    They serve the CPUs of the provider only, or the flavor says so.
    """
    required = requirements.Affinity.REQUIRED
    return [
        one
        for one in classes
        if view.tracked[rp_uuid, one].cpus is not None
        or (
            view.tracked[rp_uuid, one].near is not None
            and request.requirement.find_affinity(one) == required
        )
    ]


def _meets(
    view: host_view.HostView,
    rp_uuid: str,
    classes: Iterable[str],
    cpus: frozenset[int],
) -> bool:
    """Return whether units of a provider serve some of the CPUs."""
    tracked = [view.tracked[rp_uuid, one] for one in classes]
    texts = [one.near if one.cpus is None else one.cpus for one in tracked]
    return all(
        text is None or bitmask.parse_list(text) & cpus for text in texts
    )


def _make(
    request: assignment.ClaimRequest,
    source: str,
    target: str,
    classes: Iterable[str],
) -> Moves:
    return tuple(
        SiblingMove(
            resource_class=one,
            amount=request.allocations[source][one],
            source=source,
            target=target,
        )
        for one in classes
    )


def _has_room(request: assignment.ClaimRequest, moves: Moves) -> bool:
    """Return whether the server has a class once at most in each target."""
    left = {(one.source, one.resource_class) for one in moves}
    taken = [(one.target, one.resource_class) for one in moves]
    return len(set(taken)) == len(taken) and not any(
        place not in left and place[1] in request.allocations.get(place[0], {})
        for place in taken
    )


def _list_targets(
    view: host_view.HostView, source: str, classes: Sequence[str]
) -> list[str]:
    """Return the providers that are siblings for all of these classes."""
    others = [set(list_siblings(view, source, one)) for one in classes]
    return sorted(set.intersection(*others)) if others else []


def list_siblings(
    view: host_view.HostView, rp_uuid: str, resource_class: str
) -> Iterable[str]:
    """Return the providers that serve as well with units of a class."""
    own = view.tracked[rp_uuid, resource_class]
    for (other, other_class), tracked in view.tracked.items():
        if (
            other != rp_uuid
            and other_class == resource_class
            and tracked.tracker == own.tracker
            and tracked.implied == own.implied
            and tracked.alike == own.alike
            and (own.implied or (own.cpus, own.alike) != (None, None))
        ):
            yield other
