# SPDX-License-Identifier: Apache-2.0

"""Compare the wanted provider tree with the seen one. Pure: no I/O.

Only providers of ours are changed: those that carry the owner trait, and
those whose uuid is wanted. Everything else in the tree belongs to Nova or to
other software, and appears in no change. So do traits and aggregates that an
operator has given to providers of ours.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
import dataclasses
import graphlib
import math
import operator
import types
from typing import Any

from nova_ext_resources import exception
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.publish import desired


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProviderChange:
    """One write to one provider."""

    rp_uuid: str
    name: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CreateProvider(ProviderChange):
    parent_uuid: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UpdateProvider(ProviderChange):
    """Rename a provider, or move it below another one."""

    parent_uuid: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Replace(ProviderChange):
    """Replace all traits, all aggregates or all inventories of a provider.

    :ivar field: ``traits``, ``aggregates`` or ``inventories``
    :ivar content: the wanted value of that field of the provider
    """

    field: str
    content: Any


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeleteProvider(ProviderChange):
    pass


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, order=True)
class UndeletedProvider:
    """Something that should be deleted, but is in use.

    :ivar resource_class: '' when it is the provider itself
    :ivar consumers: uuids of the servers that hold it, sorted
    :ivar children: names of other software's providers below it, sorted
    """

    name: str
    rp_uuid: str
    resource_class: str = ''
    consumers: tuple[str, ...] = ()
    children: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.explain()

    def explain(self, describe: Callable[[str], str] = str) -> str:
        """Explain it to an operator.

        :param describe: returns what a consumer is, by its uuid
        """
        if self.resource_class:
            consumers = ', '.join(map(describe, self.consumers))
            return (
                f'{self.resource_class} of provider {self.name} no longer '
                'exists or is no longer configured, but is still held by '
                f'{consumers}: the inventory is kept, closed to other '
                'servers, until these consumers are deleted or moved away'
            )
        return (
            f'provider {self.name} no longer exists or is no longer '
            'configured. The provider is kept until its child providers, '
            'which other software has created, are deleted: '
            f'{", ".join(self.children)}'
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSteps:
    """All changes of one provider.

    :ivar goal: what is wanted; None to delete it
    :ivar seen: the state in placement; None where it does not exist
    :ivar after: uuids of the providers whose steps come before
    """

    rp_uuid: str
    goal: desired.DesiredProvider | None
    seen: host_provider.Provider | None
    after: frozenset[str] = frozenset()

    @property
    def target(self) -> host_provider.Provider | None:
        """The wanted state; None to delete it."""
        return None if self.goal is None else self.goal.find_target(self.seen)

    @property
    def changes(self) -> tuple[ProviderChange, ...]:
        return diff(self.target, self.seen)


def diff(
    target: host_provider.Provider | None, seen: host_provider.Provider | None
) -> tuple[ProviderChange, ...]:
    """Return the writes from the seen state to the target, in their order.

    Traits come before inventories, so that a provider carries the owner trait
    before it has units.

    :raises InvalidResource: the target has no parent
    """
    if target is None:
        if seen is None:
            return ()
        return (DeleteProvider(rp_uuid=seen.rp_uuid, name=seen.name),)
    if target.parent_uuid is None:
        raise exception.InvalidResource(
            name=target.name,
            reason='has no parent; all providers of this package are below '
            "the compute node's own provider, which only Nova writes",
        )
    rp_uuid, name = target.rp_uuid, target.name
    changes: list[ProviderChange] = []
    if seen is None:
        changes.append(
            CreateProvider(
                rp_uuid=rp_uuid, name=name, parent_uuid=target.parent_uuid
            )
        )
        seen = host_provider.Provider(rp_uuid=rp_uuid, name=name)
    elif (name, target.parent_uuid) != (seen.name, seen.parent_uuid):
        changes.append(
            UpdateProvider(
                rp_uuid=rp_uuid, name=name, parent_uuid=target.parent_uuid
            )
        )
    return (*changes, *list_replacements(target, seen))


def list_replacements(
    target: host_provider.Provider, seen: host_provider.Provider
) -> list[Replace]:
    """Return the fields that differ, in the order of their writes."""
    return [
        Replace(
            rp_uuid=target.rp_uuid,
            name=target.name,
            field=field,
            content=getattr(target, field),
        )
        for field, is_same in (
            ('traits', operator.eq),
            ('aggregates', operator.eq),
            ('inventories', are_same),
        )
        if not is_same(getattr(target, field), getattr(seen, field))
    ]


def are_same(
    one: Mapping[str, class_inventory.Inventory],
    other: Mapping[str, class_inventory.Inventory],
) -> bool:
    """Return whether placement would see no difference.

    Placement's database may keep allocation ratios in single precision: an
    exact comparison would write them again and again.
    """
    return one.keys() == other.keys() and all(
        math.isclose(
            inventory.allocation_ratio,
            other[name].allocation_ratio,
            rel_tol=1e-5,
        )
        and inventory
        == dataclasses.replace(
            other[name], allocation_ratio=inventory.allocation_ratio
        )
        for name, inventory in one.items()
    )


#: rp_uuid -> resource class -> consumer uuids
Holders = Mapping[str, Mapping[str, Collection[str]]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PublishPlan:
    """The changes to write, and those that are prevented.

    :ivar waves: the steps of a wave do not depend on each other, only on
        those of earlier waves
    """

    waves: tuple[tuple[ProviderSteps, ...], ...]
    undeleted: tuple[UndeletedProvider, ...] = ()

    @property
    def rp_uuids(self) -> frozenset[str]:
        """The providers that it changes."""
        return frozenset(step.rp_uuid for wave in self.waves for step in wave)

    @property
    def changes(self) -> tuple[ProviderChange, ...]:
        """All changes, in an order in which placement takes them."""
        return tuple(
            change
            for wave in self.waves
            for step in wave
            for change in step.changes
        )


def plan(
    wanted: Iterable[host_provider.Provider],
    seen: Iterable[host_provider.Provider],
    *,
    holders: Holders | None = None,
    may_delete: bool = True,
    owned: Collection[str] | None = None,
    former: Mapping[str, host_provider.Provider] = types.MappingProxyType({}),
) -> PublishPlan:
    """Find the changes that make the seen tree the wanted one.

    :param wanted: with or without the owner trait, which all of them get
    :param seen: the whole tree; of providers of others only uuid, name and
        parent matter
    :param holders: the consumers of the providers that :func:`find_shrinking`
        names. What they hold is kept: the inventory closed, with everything
        reserved, and its provider with it.
    :param may_delete: whether what is not wanted is deleted. Not while a part
        of the host has not been read since the start: then providers and
        inventories that are not wanted stay as they are, and so do traits of
        providers that were not read as a whole.
    :param owned: None: all of ours that are not wanted go. Else only these
        are changed, and none goes: they are emptied, and stay. A nova-compute
        that is not ours fails while it remembers a provider that is gone.
    :param former: rp_uuid -> a provider as it was when the host deleted it:
        what an operator had added comes back with it
    :raises InvalidResource: a wanted provider has no parent, as only the
        compute node's own one may, or parents form a circle
    """
    wanted_by_uuid = {p.rp_uuid: p for p in wanted}
    seen_by_uuid = {p.rp_uuid: p for p in seen}
    ours = _find_ours(wanted_by_uuid, seen_by_uuid.values())
    consumers_by_uuid = (holders or {}) if may_delete else {}
    goals = {
        rp_uuid: desired.DesiredProvider(
            wanted=provider,
            consumers=consumers_by_uuid.get(rp_uuid, {}),
            may_delete=may_delete,
            former=former.get(rp_uuid),
        )
        for rp_uuid, provider in wanted_by_uuid.items()
    }
    leaving = ours.keys() - wanted_by_uuid.keys() if may_delete else set()
    if owned is None:
        staying = _find_staying(
            leaving, wanted_by_uuid, seen_by_uuid, consumers_by_uuid
        )
    else:
        staying = leaving = leaving & {*owned}
    for rp_uuid in staying:
        goals[rp_uuid] = desired.DesiredProvider(
            wanted=dataclasses.replace(ours[rp_uuid], inventories={}),
            consumers=consumers_by_uuid.get(rp_uuid, {}),
            is_emptied=owned is not None,
        )
    return PublishPlan(
        waves=_make_waves(goals, ours, leaving - staying),
        undeleted=tuple(
            sorted(
                [
                    *_list_allocated_inventories(
                        wanted_by_uuid, ours, consumers_by_uuid
                    ),
                    *_list_undeleted_parents(staying, ours, seen_by_uuid),
                ]
            )
        ),
    )


def find_shrinking(
    wanted: Iterable[host_provider.Provider],
    seen: Iterable[host_provider.Provider],
) -> tuple[str, ...]:
    """Return the providers of ours from which something vanishes."""
    wanted_by_uuid = {p.rp_uuid: p for p in wanted}
    ours = _find_ours(wanted_by_uuid, seen)
    return tuple(
        sorted(
            rp_uuid
            for rp_uuid, provider in ours.items()
            if desired.list_vanished(wanted_by_uuid.get(rp_uuid), provider)
        )
    )


def _find_ours(
    wanted_uuids: Collection[str],
    seen: Iterable[host_provider.Provider],
) -> dict[str, host_provider.Provider]:
    # Whatever traits it has: the root is Nova's.
    return {
        provider.rp_uuid: provider
        for provider in seen
        if provider.parent_uuid is not None
        and (
            host_provider.OWNER_TRAIT in provider.traits
            or provider.rp_uuid in wanted_uuids
        )
    }


def _find_staying(
    leaving: Collection[str],
    wanted: Mapping[str, host_provider.Provider],
    seen: Mapping[str, host_provider.Provider],
    holders: Holders,
) -> set[str]:
    """Return the leaving providers that must stay.

    They are held, or above a provider that stays.
    """
    parents = {
        **{p.rp_uuid: p.parent_uuid for p in seen.values()},
        **{p.rp_uuid: p.parent_uuid for p in wanted.values()},
    }
    staying: set[str] = set()
    visited: set[str] = set()
    for rp_uuid in parents:
        above: str | None = rp_uuid
        if rp_uuid in leaving and not any(holders.get(rp_uuid, {}).values()):
            continue
        while above is not None and above not in visited:
            visited.add(above)
            if above in leaving:
                staying.add(above)
            above = parents.get(above)
    return staying


def _list_allocated_inventories(
    wanted: Mapping[str, host_provider.Provider],
    ours: Mapping[str, host_provider.Provider],
    holders: Holders,
) -> Iterable[UndeletedProvider]:
    for rp_uuid, provider in ours.items():
        for name in desired.list_vanished(wanted.get(rp_uuid), provider):
            consumers = holders.get(rp_uuid, {}).get(name)
            if consumers:
                yield UndeletedProvider(
                    name=provider.name,
                    rp_uuid=rp_uuid,
                    resource_class=name,
                    consumers=tuple(sorted(consumers)),
                )


def _list_undeleted_parents(
    staying: Collection[str],
    ours: Mapping[str, host_provider.Provider],
    seen: Mapping[str, host_provider.Provider],
) -> Iterable[UndeletedProvider]:
    for rp_uuid in staying:
        children = sorted(
            child.name
            for child in seen.values()
            if child.parent_uuid == rp_uuid and child.rp_uuid not in ours
        )
        if children:
            yield UndeletedProvider(
                name=ours[rp_uuid].name,
                rp_uuid=rp_uuid,
                children=tuple(children),
            )


def _make_waves(
    goals: Mapping[str, desired.DesiredProvider],
    ours: Mapping[str, host_provider.Provider],
    going: Collection[str],
) -> tuple[tuple[ProviderSteps, ...], ...]:
    """Order parents before children; for deletion, the other way round."""
    after: dict[str, set[str]] = {}
    for rp_uuid, goal in goals.items():
        parent_uuid = goal.wanted.parent_uuid
        after[rp_uuid] = {parent_uuid} & goals.keys() if parent_uuid else set()
    for rp_uuid in going:
        # Children that move away from it count too.
        after[rp_uuid] = {
            child.rp_uuid
            for child in ours.values()
            if child.parent_uuid == rp_uuid
        }
    sorter = graphlib.TopologicalSorter(after)
    try:
        sorter.prepare()
    except graphlib.CycleError as err:
        raise exception.InvalidResource(
            name=', '.join(sorted(set(err.args[1]))),
            reason='the parents of these providers form a circle',
        ) from err
    waves = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        steps = [
            ProviderSteps(
                rp_uuid=rp_uuid,
                goal=goals.get(rp_uuid),
                seen=ours.get(rp_uuid),
                after=frozenset(after[rp_uuid]),
            )
            for rp_uuid in ready
        ]
        waves.append(tuple(step for step in steps if step.changes))
        sorter.done(*ready)
    return tuple(filter(None, waves))
