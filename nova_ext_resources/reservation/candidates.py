# SPDX-License-Identifier: Apache-2.0

"""The ways to spread what a server needs over the providers of a host.

The rules are those of placement's ``GET /allocation_candidates`` (Placement
API guide, *Granular Resource Request Syntax*): all that a group with a suffix
requests comes from one provider, which must have the group's traits; of the
group without one each class comes from one provider, and together they have
its traits. With ``group_policy=isolate`` no two groups with a suffix share a
provider.
"""

from collections.abc import (
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set,
)
import dataclasses
import itertools
from typing import NamedTuple, TypeAlias

from nova_ext_resources import exception
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import requirements
from nova_ext_resources.reservation import server_demand

#: rp_uuid -> resource class -> amount
Allocations: TypeAlias = Mapping[str, Mapping[str, int]]

#: Ways that are returned. The decision itself also tries siblings of the
#: providers, so that few are needed.
MAX_TRIED = 64

#: Steps of a search. Groups that are all alike need a few for each.
MAX_LOOKED = 16_384


_GIVEN_UP = (
    'not all distributions of the server over the providers of this host '
    'were tried; another distribution may fit'
)


class _Part(NamedTuple):
    """What comes from one provider.

    :ivar group: suffix of its group
    :ivar options: the providers that could have it, the best first
    :ivar required: traits that its group must have by then: the others, parts
        that come later may have
    """

    group: str
    amounts: Mapping[str, int]
    options: Sequence[host_provider.Provider]
    required: frozenset[str] = frozenset()

    def get_order(self) -> tuple[object, ...]:
        """Return what sorts parts; those of no group with a suffix stay."""
        if not self.group:
            return (False,)
        amounts = sorted(self.amounts.items())
        names = [one.rp_uuid for one in self.options]
        size = sum(self.amounts.values())
        return True, len(names), -size, amounts, names

    def is_like(self, other: '_Part') -> bool:
        """Return whether to exchange both makes no other allocations."""
        return '' not in (self.group, other.group) and self[1:] == other[1:]


class CandidateSearch:
    """The allocations that placement would offer, the best first.

    Providers of the host come before those that others use, too, and then
    those where more is available. Where nowhere is enough, the only one is the
    nearest, so that the reasons can be named.

    Part after part gets a provider, and a way is left as soon as it cannot be
    completed. Of groups that are alike, none gets a better provider than the
    one before it: to exchange them makes no other allocations.

    :ivar is_cut: whether there may be more, because the search was given up
    """

    def __init__(
        self,
        view: host_view.HostView,
        providers: Sequence[host_provider.Provider],
        demand: server_demand.Demand,
    ) -> None:
        self.is_cut = False
        self._parts = [
            part
            for group in demand.requirement.groups
            for part in _list_parts(view, providers, demand, group)
        ]
        # What is alike comes together; what has least choice comes first.
        self._parts.sort(key=_Part.get_order)
        #: How many parts from each one on are alike.
        self._alike = [1] * len(self._parts)
        for index in range(len(self._parts) - 2, -1, -1):
            if self._parts[index].is_like(self._parts[index + 1]):
                self._alike[index] += self._alike[index + 1]
        self._is_isolated = demand.is_isolated
        self._view = view
        #: The option of each part, so far.
        self._chosen: list[int] = []

    def __iter__(self) -> Iterator[Allocations]:
        if not self._is_isolated and all(
            len(one.options) == 1 for one in self._parts
        ):
            # The usual host: no search, for the only way is the nearest, too.
            yield from self._list_only()
            return
        number = 0
        for number, found in enumerate(self._search(is_strict=True), 1):
            if number > MAX_TRIED:
                self.is_cut = True
                return
            yield found
        if not number:
            yield from itertools.islice(self._search(is_strict=False), 1)

    def qualify(
        self, reasons: Iterable[exception.Shortfall]
    ) -> tuple[exception.Shortfall, ...]:
        """Return reasons against a host, in doubt if not all was tried."""
        if not self.is_cut:
            return tuple(reasons)
        return tuple(
            dataclasses.replace(
                one, reason=f'{one.reason}; {_GIVEN_UP}', is_permanent=False
            )
            for one in reasons
        )

    def _list_only(self) -> Iterator[Allocations]:
        self._chosen = [0] * len(self._parts)
        had = frozenset[str]().union(
            *(one.options[0].traits for one in self._parts if not one.group)
        )
        if all(one.required <= had for one in self._parts):
            yield self._add_up()

    def _search(self, *, is_strict: bool) -> Iterator[Allocations]:
        """Return the ways.

        :param is_strict: without those for which there is no room
        """
        tracked = self._view.tracked
        self._left = {
            (one.rp_uuid, name): tracked[one.rp_uuid, name].state.available
            for part in self._parts
            for one in part.options
            for name in part.amounts
        }
        self._chosen = []
        self._steps = MAX_LOOKED
        return self._complete(frozenset(), is_strict)

    def _complete(
        self, had: frozenset[str], is_strict: bool
    ) -> Iterator[Allocations]:
        """Return the ways that begin with what is chosen.

        :param had: traits of the providers of the group without a suffix
        """
        if len(self._chosen) == len(self._parts):
            yield self._add_up()
            return
        part = self._parts[len(self._chosen)]
        for index in self._list_able(is_strict):
            if not self._steps:
                self.is_cut = True
                return
            self._steps -= 1
            one = part.options[index]
            has = had if part.group else had | one.traits
            if part.required <= has:
                self._chosen.append(index)
                self._take(part, one, 1)
                yield from self._complete(has, is_strict)
                self._take(part, one, -1)
                self._chosen.pop()

    def _list_able(self, is_strict: bool) -> Iterator[int]:
        """Return the options of the next part that may do, the best first."""
        number = len(self._chosen)
        part, alike = self._parts[number], self._alike[number]
        used = {
            one.options[index].rp_uuid
            for one, index in zip(self._parts, self._chosen, strict=False)
            if one.group and part.group and self._is_isolated
        }
        fits = [self._count(part, one, used) for one in part.options]
        if not is_strict:
            able = [
                index
                for index, one in enumerate(part.options)
                if one.rp_uuid not in used
            ]
            if not used or len(able) >= alike:
                yield from sorted(able, key=lambda index: not fits[index])
            return
        start = 0
        if number and self._alike[number - 1] > 1:
            start = self._chosen[-1]
        left = sum(fits[start:])
        for index in range(start, len(fits)):
            if left < alike:
                return
            left -= fits[index]
            if fits[index]:
                yield index

    def _count(
        self,
        part: _Part,
        one: host_provider.Provider,
        used: Collection[str],
    ) -> int:
        """Return how many parts of a kind a provider has room for."""
        if one.rp_uuid in used:
            return 0
        fits = min(
            self._left[one.rp_uuid, name] // amount
            for name, amount in part.amounts.items()
        )
        is_alone = self._is_isolated and part.group
        return max(min(fits, 1) if is_alone else fits, 0)

    def _take(
        self, part: _Part, one: host_provider.Provider, sign: int
    ) -> None:
        for name, amount in part.amounts.items():
            self._left[one.rp_uuid, name] -= sign * amount

    def _add_up(self) -> Allocations:
        total: dict[str, dict[str, int]] = {}
        for part, index in zip(self._parts, self._chosen, strict=True):
            own = total.setdefault(part.options[index].rp_uuid, {})
            for name, amount in part.amounts.items():
                own[name] = own.get(name, 0) + amount
        return total


def has_room(view: host_view.HostView, allocations: Allocations) -> bool:
    """Return whether each place could give one server so much."""
    return all(
        view.tracked[rp_uuid, name].state.available >= amount
        for rp_uuid, amounts in allocations.items()
        for name, amount in amounts.items()
    )


def list_missing(
    view: host_view.HostView,
    providers: Sequence[host_provider.Provider],
    demand: server_demand.Demand,
) -> list[tuple[str, int, str]]:
    """Return what no provider of the host could ever serve, and why.

    :returns: (resource class, amount, reason) of one class of each group for
        which there is no provider; empty if there is a candidate
    """
    missing = []
    for group in demand.requirement.groups:
        alone = dataclasses.replace(demand.requirement, groups=(group,))
        found = CandidateSearch(
            view, providers, dataclasses.replace(demand, requirement=alone)
        )
        if any(found):
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
            'no provider of this host offers the resource class for a later '
            'time'
            if absent
            else 'no provider of this host has the resource class and the '
            'traits that the flavor asks for'
        )
        missing.append((name, group.resources[name], reason))
    return missing


def _list_parts(
    view: host_view.HostView,
    providers: Sequence[host_provider.Provider],
    demand: server_demand.Demand,
    group: requirements.RequestGroup,
) -> list[_Part]:
    """Return the parts of one group, with options whatever is free."""
    traits = demand.traits.get(group.suffix, server_demand.Traits())
    allowed = [one for one in providers if not one.traits & traits.forbidden]
    if group.suffix:
        allowed = [one for one in allowed if traits.required <= one.traits]
        options = _sort(view, allowed, [*group.resources], traits.required)
        return [_Part(group.suffix, group.resources, options)]
    parts = [
        _Part(
            '',
            {name: amount},
            _sort(view, allowed, [name], traits.required),
            traits.required,
        )
        for name, amount in group.resources.items()
    ]
    if traits.required:
        later = frozenset[str]()
        for index, part in reversed([*enumerate(parts)]):
            parts[index] = part._replace(required=traits.required - later)
            later = later.union(*(one.traits for one in part.options))
    return parts


def _sort(
    view: host_view.HostView,
    providers: Iterable[host_provider.Provider],
    names: Sequence[str],
    required: Set[str],
) -> list[host_provider.Provider]:
    """Return those that have all of some classes.

    Those with the most traits that are required first, then those that no
    other host uses, then those with the most available of the first class.
    """
    having = [*providers]
    for name in names:
        having = [one for one in having if (one.rp_uuid, name) in view.tracked]
    if len(having) == 1:
        return having
    return sorted(
        having,
        key=lambda one: (
            -len(one.traits & required),
            host_provider.SHARING_TRAIT in one.traits,
            -view.tracked[one.rp_uuid, names[0]].state.available,
        ),
    )
