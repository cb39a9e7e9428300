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

from nova_ext_resources import exception
from nova_ext_resources.objects import provider as provider_obj
from nova_ext_resources.placement import changes

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
    :raises InvalidResource: a wanted provider has no parent, as only the
        compute node's own one may, or parents form a circle
    """
    wanted_by_uuid = {p.rp_uuid: p for p in wanted}
    seen_by_uuid = {p.rp_uuid: p for p in seen}
    ours = _find_ours(wanted_by_uuid, seen_by_uuid.values())
    if not may_delete:
        wanted_by_uuid = {
            rp_uuid: _add(one, ours.get(rp_uuid))
            for rp_uuid, one in wanted_by_uuid.items()
        }
    held_by = (holders or {}) if may_delete else {}

    targets = {
        rp_uuid: _make_target(
            provider, ours.get(rp_uuid), held_by.get(rp_uuid, {})
        )
        for rp_uuid, provider in wanted_by_uuid.items()
    }
    leaving = ours.keys() - wanted_by_uuid.keys() if may_delete else set()
    if owned is None:
        staying = _find_staying(leaving, targets, seen_by_uuid, held_by)
    else:
        staying = leaving = leaving & {*owned}
    for rp_uuid in staying:
        emptied = dataclasses.replace(ours[rp_uuid], inventories={})
        target = _make_target(emptied, ours[rp_uuid], held_by.get(rp_uuid, {}))
        if owned is not None and not target.inventories:
            # It ties the host to no pool any more.
            target = dataclasses.replace(target, aggregates=frozenset())
        targets[rp_uuid] = target
    return Plan(
        waves=_make_waves(targets, ours, leaving - staying),
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
            if _list_vanished(wanted_by_uuid.get(rp_uuid), provider)
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


def _list_vanished(
    wanted: provider_obj.Provider | None, seen: provider_obj.Provider
) -> list[str]:
    kept = wanted.inventories if wanted else {}
    return sorted(seen.inventories.keys() - kept.keys())


def _add(
    wanted: provider_obj.Provider, seen: provider_obj.Provider | None
) -> provider_obj.Provider:
    """Add what is seen of a provider to what is wanted.

    Traits only where a part was not read: of one that was, they may have
    changed, as those of an FPGA region that was programmed anew.
    """
    if seen is None:
        return wanted
    is_whole = not wanted.is_unread and not _list_vanished(wanted, seen)
    return dataclasses.replace(
        wanted,
        inventories={**seen.inventories, **wanted.inventories},
        traits=wanted.traits if is_whole else wanted.traits | seen.traits,
    )


def _make_target(
    wanted: provider_obj.Provider,
    seen: provider_obj.Provider | None,
    held: Mapping[str, Collection[str]],
) -> provider_obj.Provider:
    """Add the owner trait, what operators added, and what is held, closed."""
    closed = {}
    added, aggregates = frozenset[str](), frozenset[str]()
    if seen is not None:
        added = seen.traits - wanted.published_traits
        aggregates = seen.aggregates
        for name in _list_vanished(wanted, seen):
            if held.get(name):
                left = seen.inventories[name]
                closed[name] = dataclasses.replace(left, reserved=left.total)
    return dataclasses.replace(
        wanted,
        traits=wanted.traits | added | {provider_obj.OWNER_TRAIT},
        aggregates=wanted.aggregates | aggregates,
        inventories={**wanted.inventories, **closed},
        generation=None,
    )


def _find_staying(
    leaving: Collection[str],
    targets: Mapping[str, provider_obj.Provider],
    seen: Mapping[str, provider_obj.Provider],
    holders: Holders,
) -> set[str]:
    """Return the leaving providers that must stay.

    They are held, or above a provider that stays.
    """
    parents = {
        **{p.rp_uuid: p.parent_uuid for p in seen.values()},
        **{p.rp_uuid: p.parent_uuid for p in targets.values()},
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
        for name in _list_vanished(wanted.get(rp_uuid), provider):
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
    targets: Mapping[str, provider_obj.Provider],
    ours: Mapping[str, provider_obj.Provider],
    going: Collection[str],
) -> tuple[tuple[changes.Step, ...], ...]:
    """Order parents before children; for deletion, the other way round."""
    after: dict[str, set[str]] = {}
    for rp_uuid, target in targets.items():
        parent_uuid = target.parent_uuid
        after[rp_uuid] = (
            {parent_uuid} & targets.keys() if parent_uuid else set()
        )
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
                target=targets.get(rp_uuid),
                seen=ours.get(rp_uuid),
                after=frozenset(after[rp_uuid]),
            )
            for rp_uuid in ready
        ]
        waves.append(tuple(step for step in steps if step.changes))
        sorter.done(*ready)
    return tuple(filter(None, waves))
