# SPDX-License-Identifier: Apache-2.0

"""Changes of one provider, and what prevents them. Pure: no I/O."""

from collections.abc import Callable, Mapping
import dataclasses
import math
import operator
from typing import Any

from nova_ext_resources import exception
from nova_ext_resources.objects import inventory as inventory_obj
from nova_ext_resources.objects import provider as provider_obj
from nova_ext_resources.placement import target as target_mod


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One write to one provider."""

    rp_uuid: str
    name: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CreateProvider(Change):
    parent_uuid: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UpdateProvider(Change):
    """Rename a provider, or move it below another one."""

    parent_uuid: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Replace(Change):
    """Replace all traits, all aggregates or all inventories of a provider.

    :ivar field: ``traits``, ``aggregates`` or ``inventories``
    :ivar content: the wanted value of that field of the provider
    """

    field: str
    content: Any


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeleteProvider(Change):
    pass


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Held:
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
                'exists or is no longer configured, but is held by '
                f'{consumers}: it is kept, closed to other servers, until '
                'these are deleted or moved away'
            )
        return (
            f'provider {self.name} no longer exists or is no longer '
            'configured, but other software has created '
            f'{", ".join(self.children)} below it: it is kept until these '
            'are deleted'
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """All changes of one provider.

    :ivar goal: what is wanted; None to delete it
    :ivar seen: the state in placement; None where it does not exist
    :ivar after: uuids of the providers whose steps come before
    """

    rp_uuid: str
    goal: target_mod.Goal | None
    seen: provider_obj.Provider | None
    after: frozenset[str] = frozenset()

    @property
    def target(self) -> provider_obj.Provider | None:
        """The wanted state; None to delete it."""
        return None if self.goal is None else self.goal.find_target(self.seen)

    @property
    def changes(self) -> tuple[Change, ...]:
        return diff(self.target, self.seen)


def diff(
    target: provider_obj.Provider | None, seen: provider_obj.Provider | None
) -> tuple[Change, ...]:
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
    changes: list[Change] = []
    if seen is None:
        changes.append(
            CreateProvider(
                rp_uuid=rp_uuid, name=name, parent_uuid=target.parent_uuid
            )
        )
        seen = provider_obj.Provider(rp_uuid=rp_uuid, name=name)
    elif (name, target.parent_uuid) != (seen.name, seen.parent_uuid):
        changes.append(
            UpdateProvider(
                rp_uuid=rp_uuid, name=name, parent_uuid=target.parent_uuid
            )
        )
    return (*changes, *list_replacements(target, seen))


def list_replacements(
    target: provider_obj.Provider, seen: provider_obj.Provider
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
    one: Mapping[str, inventory_obj.Inventory],
    other: Mapping[str, inventory_obj.Inventory],
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
