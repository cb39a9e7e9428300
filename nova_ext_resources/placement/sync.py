# SPDX-License-Identifier: Apache-2.0

"""Compare the wanted provider tree with the seen one. Pure: no I/O.

Only providers of ours are changed: those that carry the owner trait, and
those whose uuid is wanted. Everything else in the tree belongs to Nova or to
other software, and appears in no change. So do traits and aggregates that an
operator has given to providers of ours.
"""

from collections.abc import Collection, Iterable, Mapping
import dataclasses
import graphlib
import types

from nova_ext_resources import exception
from nova_ext_resources.objects import provider as provider_obj
from nova_ext_resources.placement import changes
from nova_ext_resources.placement import target

#: rp_uuid -> resource class -> consumer uuids
Holders = Mapping[str, Mapping[str, Collection[str]]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The changes to write, and those that are prevented.

    :ivar waves: the steps of a wave do not depend on each other, only on
        those of earlier waves
    """

    waves: tuple[tuple[changes.Step, ...], ...]
    held: tuple[changes.Held, ...] = ()

    @property
    def rp_uuids(self) -> frozenset[str]:
        """The providers that it changes."""
        return frozenset(step.rp_uuid for wave in self.waves for step in wave)

    @property
    def changes(self) -> tuple[changes.Change, ...]:
        """All changes, in an order in which placement takes them."""
        return tuple(
            change
            for wave in self.waves
            for step in wave
            for change in step.changes
        )


def plan(
    wanted: Iterable[provider_obj.Provider],
    seen: Iterable[provider_obj.Provider],
    *,
    holders: Holders | None = None,
    may_delete: bool = True,
    owned: Collection[str] | None = None,
    former: Mapping[str, provider_obj.Provider] = types.MappingProxyType({}),
) -> Plan:
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
    held_by = (holders or {}) if may_delete else {}
    goals = {
        rp_uuid: target.Goal(
            wanted=provider,
            held=held_by.get(rp_uuid, {}),
            may_delete=may_delete,
            former=former.get(rp_uuid),
        )
        for rp_uuid, provider in wanted_by_uuid.items()
    }
    leaving = ours.keys() - wanted_by_uuid.keys() if may_delete else set()
    if owned is None:
        staying = _find_staying(leaving, wanted_by_uuid, seen_by_uuid, held_by)
    else:
        staying = leaving = leaving & {*owned}
    for rp_uuid in staying:
        goals[rp_uuid] = target.Goal(
            wanted=dataclasses.replace(ours[rp_uuid], inventories={}),
            held=held_by.get(rp_uuid, {}),
            is_emptied=owned is not None,
        )
    return Plan(
        waves=_make_waves(goals, ours, leaving - staying),
        held=tuple(
            sorted(
                [
                    *_list_held_inventories(wanted_by_uuid, ours, held_by),
                    *_list_held_by_children(staying, ours, seen_by_uuid),
                ]
            )
        ),
    )


def find_shrinking(
    wanted: Iterable[provider_obj.Provider],
    seen: Iterable[provider_obj.Provider],
) -> tuple[str, ...]:
    """Return the providers of ours from which something vanishes."""
    wanted_by_uuid = {p.rp_uuid: p for p in wanted}
    ours = _find_ours(wanted_by_uuid, seen)
    return tuple(
        sorted(
            rp_uuid
            for rp_uuid, provider in ours.items()
            if target.list_vanished(wanted_by_uuid.get(rp_uuid), provider)
        )
    )


def _find_ours(
    wanted_uuids: Collection[str],
    seen: Iterable[provider_obj.Provider],
) -> dict[str, provider_obj.Provider]:
    # Whatever traits it has: the root is Nova's.
    return {
        provider.rp_uuid: provider
        for provider in seen
        if provider.parent_uuid is not None
        and (
            provider_obj.OWNER_TRAIT in provider.traits
            or provider.rp_uuid in wanted_uuids
        )
    }


def _find_staying(
    leaving: Collection[str],
    wanted: Mapping[str, provider_obj.Provider],
    seen: Mapping[str, provider_obj.Provider],
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


def _list_held_inventories(
    wanted: Mapping[str, provider_obj.Provider],
    ours: Mapping[str, provider_obj.Provider],
    holders: Holders,
) -> Iterable[changes.Held]:
    for rp_uuid, provider in ours.items():
        for name in target.list_vanished(wanted.get(rp_uuid), provider):
            consumers = holders.get(rp_uuid, {}).get(name)
            if consumers:
                yield changes.Held(
                    name=provider.name,
                    rp_uuid=rp_uuid,
                    resource_class=name,
                    consumers=tuple(sorted(consumers)),
                )


def _list_held_by_children(
    staying: Collection[str],
    ours: Mapping[str, provider_obj.Provider],
    seen: Mapping[str, provider_obj.Provider],
) -> Iterable[changes.Held]:
    for rp_uuid in staying:
        children = sorted(
            child.name
            for child in seen.values()
            if child.parent_uuid == rp_uuid and child.rp_uuid not in ours
        )
        if children:
            yield changes.Held(
                name=ours[rp_uuid].name,
                rp_uuid=rp_uuid,
                children=tuple(children),
            )


def _make_waves(
    goals: Mapping[str, target.Goal],
    ours: Mapping[str, provider_obj.Provider],
    going: Collection[str],
) -> tuple[tuple[changes.Step, ...], ...]:
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
            changes.Step(
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
