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

"""Where on a host a server fits. Pure.

Nova claims quantities before it pins CPUs, and placement knows nothing of
CPUs: its choice among a host's cache domains may not be the one that the
server's CPUs are in. Another one of the same host will do as well.
"""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
from typing import TypeAlias

from nova_ext_resources import claims
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import view as view_obj
from nova_ext_resources.plugins import base

_Moved: TypeAlias = dict[str, dict[str, int]]


def find_place(
    view: view_obj.HostView,
    request: assignment.ClaimRequest,
    tests: Sequence[base.ClaimTest],
) -> tuple[assignment.ClaimRequest, tuple[exception.Shortfall, ...]]:
    """Find where on this host a request fits.

    :return: the request with its allocations where they fit, and no
        shortfalls; or what comes nearest, in the domains of its CPUs if
        there are any, and why it does not fit
    """
    found = claims.find_shortfalls(view, request, tests)
    if not found:
        return request, found
    others = [
        dataclasses.replace(request, allocations=allocations)
        for allocations in list_moves(view, request)
    ]
    near = [one for one in (request, *others) if _is_near(view, one)]
    tried = [(one, claims.find_shortfalls(view, one, tests)) for one in near]
    return min(tried, key=lambda one: len(one[1]), default=(request, found))


def list_moves(
    view: view_obj.HostView, request: assignment.ClaimRequest
) -> Iterable[_Moved]:
    """Give the same amounts on sibling providers.

    Siblings track the same class with the same implied place, or serve the
    CPUs of their own provider alone. With pinned CPUs: one class of one
    provider each, then all that is on one provider, then all that is not
    where the CPUs are. A floating server's CPUs say nothing, so what it has
    asked for together stays together, and apart from the rest.
    """
    allocations = request.allocations
    for rp_uuid, classes in _group(view, allocations).items():
        local = _list_local(view, rp_uuid, classes)
        parts = _list_parts(classes)
        if not request.cpus:
            parts = [[one] for one in classes if one not in local]
            parts += [local] if local else []
        for some in parts:
            is_local = not request.cpus and some == local
            for other in _list_targets(view, rp_uuid, some):
                if _has_room(allocations, other, some) and not (
                    is_local and other in allocations
                ):
                    yield _exchange(allocations, rp_uuid, other, some)
    if request.cpus:
        yield from _follow_cpus(view, request)


def _follow_cpus(
    view: view_obj.HostView, request: assignment.ClaimRequest
) -> Iterable[_Moved]:
    """Move all that is in no domain of the CPUs, if anything is."""
    moved: Mapping[str, Mapping[str, int]] = request.allocations
    for rp_uuid, every in _group(view, request.allocations).items():
        classes = _list_local(view, rp_uuid, every)
        if _meets(view, rp_uuid, classes, request.cpus):
            continue
        for other in _list_targets(view, rp_uuid, classes):
            if _meets(view, other, classes, request.cpus) and _has_room(
                moved, other, classes
            ):
                moved = _exchange(moved, rp_uuid, other, classes)
                break
    if moved is not request.allocations:
        yield {rp: dict(amounts) for rp, amounts in moved.items()}


def _is_near(
    view: view_obj.HostView, request: assignment.ClaimRequest
) -> bool:
    """Tell whether all units are in domains that some CPU of it is in.

    A floating server is near to all.
    """
    if not request.cpus:
        return True
    return all(
        _meets(view, rp_uuid, classes, request.cpus)
        for rp_uuid, classes in _group(view, request.allocations).items()
    )


def _group(
    view: view_obj.HostView, allocations: claims.Amounts
) -> dict[str, list[str]]:
    """Give provider -> classes: ways are no use apart from bandwidth."""
    together: dict[str, list[str]] = {}
    for rp_uuid, resource_class in claims.list_places(view, allocations):
        together.setdefault(rp_uuid, []).append(resource_class)
    return together


def _list_local(
    view: view_obj.HostView, rp_uuid: str, classes: Iterable[str]
) -> list[str]:
    """Give the classes whose units serve the CPUs of the provider only."""
    return [
        one for one in classes if view.tracked[rp_uuid, one].cpus is not None
    ]


def _list_parts(classes: list[str]) -> list[list[str]]:
    """Give each class by itself, then all of them together."""
    together = [classes] if len(classes) > 1 else []
    return [*([one] for one in classes), *together]


def _meets(
    view: view_obj.HostView,
    rp_uuid: str,
    classes: Iterable[str],
    cpus: frozenset[int] | None,
) -> bool:
    """Tell whether units of a provider serve some of the CPUs."""
    texts = [view.tracked[rp_uuid, one].cpus for one in classes]
    return all(
        text is None or bitmask.parse_list(text) & (cpus or frozenset())
        for text in texts
    )


def _has_room(
    allocations: claims.Amounts, rp_uuid: str, classes: Iterable[str]
) -> bool:
    own = allocations.get(rp_uuid, {})
    return not any(one in own for one in classes)


def _list_targets(
    view: view_obj.HostView, rp_uuid: str, classes: Iterable[str]
) -> list[str]:
    """Give the providers that are siblings for all of these classes."""
    others = [set(_list_siblings(view, rp_uuid, one)) for one in classes]
    return sorted(set.intersection(*others))


def _list_siblings(
    view: view_obj.HostView, rp_uuid: str, resource_class: str
) -> Iterable[str]:
    own = view.tracked[rp_uuid, resource_class]
    for (other, other_class), tracked in view.tracked.items():
        if (
            other != rp_uuid
            and other_class == resource_class
            and tracked.tracker == own.tracker
            and tracked.implied == own.implied
            and (own.implied or own.cpus is not None)
        ):
            yield other


def _exchange(
    allocations: claims.Amounts,
    rp_uuid: str,
    other: str,
    classes: Iterable[str],
) -> _Moved:
    moved = {rp: dict(resources) for rp, resources in allocations.items()}
    for resource_class in classes:
        amount = moved[rp_uuid].pop(resource_class)
        moved.setdefault(other, {})[resource_class] = amount
    if not moved[rp_uuid]:
        del moved[rp_uuid]
    return moved
