# SPDX-License-Identifier: Apache-2.0

"""The ways to spread what a server needs over the providers of a host.

The rules are those of placement's ``GET /allocation_candidates`` (Placement
API guide, *Granular Resource Request Syntax*): all that a group with a suffix
requests comes from one provider, which must have the group's traits; of the
group without one each class comes from one provider, and together they have
its traits. With ``group_policy=isolate`` no two groups with a suffix share a
provider.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
import itertools
from typing import TypeAlias

from nova_ext_resources.objects import provider as provider_obj
from nova_ext_resources.objects import requirement as requirement_obj
from nova_ext_resources.objects import view as view_obj
from nova_ext_resources.reservation import demand as demand_mod

#: rp_uuid -> resource class -> amount
Allocations: TypeAlias = Mapping[str, Mapping[str, int]]

#: Resource class -> the uuid of the provider that it comes from.
_Choice: TypeAlias = Mapping[str, str]

#: Ways that are returned. The decision itself also tries siblings of the
#: providers, so that few are needed.
MAX_TRIED = 64

#: Ways that are looked at.
MAX_LOOKED = 4096


def list_candidates(
    view: view_obj.HostView,
    providers: Sequence[provider_obj.Provider],
    demand: demand_mod.Demand,
) -> Iterator[Allocations]:
    """Return the allocations that placement would offer, the best first.

    Providers where more is available come first. Where nowhere is enough, the
    only one returned is the nearest, so that the reasons can be named.
    """
    groups = demand.requirement.groups
    options = [_list_choices(view, providers, demand, one) for one in groups]
    nearest: Allocations | None = None
    offered = 0
    for chosen in itertools.islice(itertools.product(*options), MAX_LOOKED):
        if demand.is_isolated and not _are_apart(groups, chosen):
            continue
        found = _add_up(groups, chosen)
        if has_room(view, found):
            offered += 1
            yield found
        nearest = nearest or found
        if offered == MAX_TRIED:
            break
    if nearest and not offered:
        yield nearest


def has_room(view: view_obj.HostView, allocations: Allocations) -> bool:
    """Return whether each place could give one server so much."""
    return all(
        view.tracked[rp_uuid, name].state.available >= amount
        for rp_uuid, amounts in allocations.items()
        for name, amount in amounts.items()
    )


def list_missing(
    view: view_obj.HostView,
    providers: Sequence[provider_obj.Provider],
    demand: demand_mod.Demand,
) -> list[tuple[str, int, str]]:
    """Return what no provider of the host could ever serve, and why.

    :returns: (resource class, amount, reason) of one class of each group for
        which there is no provider; empty if there is a candidate
    """
    missing = []
    for group in demand.requirement.groups:
        if _list_choices(view, providers, demand, group):
            continue
        absent = [
            name
            for name in sorted(group.resources)
            if not any(
                (one.rp_uuid, name) in view.tracked for one in providers
            )
        ]
        name = (absent or sorted(group.resources))[0]
        reason = (
            'no provider of this host offers it for a later time'
            if absent
            else 'no provider of this host has it with the traits that the '
            'flavor asks for'
        )
        missing.append((name, group.resources[name], reason))
    return missing


def _list_choices(
    view: view_obj.HostView,
    providers: Sequence[provider_obj.Provider],
    demand: demand_mod.Demand,
    group: requirement_obj.RequestGroup,
) -> list[_Choice]:
    """Return the ways to serve one group, whatever is free."""
    traits = demand.traits.get(group.suffix, demand_mod.Traits())
    allowed = [one for one in providers if not one.traits & traits.forbidden]
    if group.suffix:
        name = next(iter(group.resources))
        spread: Iterable[Sequence[provider_obj.Provider]] = [
            [one] * len(group.resources)
            for one in _sort(view, allowed, name, traits.required)
        ]
    else:
        spread = itertools.product(
            *(
                _sort(view, allowed, name, traits.required)
                for name in group.resources
            )
        )
    found: list[_Choice] = []
    for chosen in itertools.islice(spread, MAX_TRIED):
        had = frozenset[str]().union(*(one.traits for one in chosen))
        choice = dict(
            zip(group.resources, (one.rp_uuid for one in chosen), strict=True)
        )
        if traits.required <= had and _has_all(view, choice):
            found.append(choice)
    return found


def _has_all(view: view_obj.HostView, choice: _Choice) -> bool:
    return all(
        (rp_uuid, name) in view.tracked for name, rp_uuid in choice.items()
    )


def _sort(
    view: view_obj.HostView,
    providers: Iterable[provider_obj.Provider],
    resource_class: str,
    required: Set[str],
) -> list[provider_obj.Provider]:
    """Return those that have a class, the most available first.

    Before these, those with the most traits that are required: of many
    providers, few ways are tried.
    """
    having = [
        one
        for one in providers
        if (one.rp_uuid, resource_class) in view.tracked
    ]
    return sorted(
        having,
        key=lambda one: (
            -len(one.traits & required),
            -view.tracked[one.rp_uuid, resource_class].state.available,
        ),
    )


def _are_apart(
    groups: Sequence[requirement_obj.RequestGroup],
    chosen: Sequence[_Choice],
) -> bool:
    used = [
        next(iter(choice.values()))
        for group, choice in zip(groups, chosen, strict=True)
        if group.suffix
    ]
    return len(set(used)) == len(used)


def _add_up(
    groups: Sequence[requirement_obj.RequestGroup],
    chosen: Sequence[_Choice],
) -> Allocations:
    total: dict[str, dict[str, int]] = {}
    for group, choice in zip(groups, chosen, strict=True):
        for name, amount in group.resources.items():
            own = total.setdefault(choice[name], {})
            own[name] = own.get(name, 0) + amount
    return total
