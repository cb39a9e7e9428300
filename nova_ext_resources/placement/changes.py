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


"""What can happen to one provider, and what cannot. Pure: no I/O."""

from collections.abc import Mapping
import dataclasses
import math

from nova_ext_resources import exception
from nova_ext_resources.objects import inventory as inventory_obj
from nova_ext_resources.objects import provider as provider_obj


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
    """Rename it, or hang it below another provider."""

    parent_uuid: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SetTraits(Change):
    traits: frozenset[str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SetAggregates(Change):
    aggregates: frozenset[str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SetInventories(Change):
    inventories: Mapping[str, inventory_obj.Inventory]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeleteProvider(Change):
    pass


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Held:
    """Something that should go, and cannot, because it is in use.

    :ivar resource_class: '' when it is the provider itself
    :ivar consumers: the servers that hold it, sorted
    :ivar children: names of providers of others below it, sorted
    """

    name: str
    rp_uuid: str
    resource_class: str = ''
    consumers: tuple[str, ...] = ()
    children: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.resource_class:
            return (
                f'{self.resource_class} of provider {self.name} is no longer '
                f'there or no longer configured, but held by '
                f'{", ".join(self.consumers)}: it stays, closed to others, '
                'until these are deleted or moved away'
            )
        return (
            f'provider {self.name} is no longer there or no longer '
            f'configured, but others have put {", ".join(self.children)} '
            'below it: it stays until their owner deletes these'
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """All that happens to one provider.

    :ivar target: how it shall be; None to delete it
    :ivar seen: how it is; None where it is not there
    :ivar after: uuids of the providers whose steps come before
    """

    rp_uuid: str
    target: provider_obj.Provider | None
    seen: provider_obj.Provider | None
    after: frozenset[str] = frozenset()

    @property
    def changes(self) -> tuple[Change, ...]:
        return diff(self.target, self.seen)


def diff(
    target: provider_obj.Provider | None, seen: provider_obj.Provider | None
) -> tuple[Change, ...]:
    """Find the writes that make one provider another, in their order.

    Traits come before inventories: from its first unit on a provider can
    be told to be ours.

    :raises InvalidResource: the target has no parent
    """
    if target is None:
        if seen is None:
            return ()
        return (DeleteProvider(rp_uuid=seen.rp_uuid, name=seen.name),)
    if target.parent_uuid is None:
        raise exception.InvalidResource(
            name=target.name,
            reason='has no parent; every provider of ours is below the '
            "compute node's own one, which only Nova writes",
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
    if target.traits != seen.traits:
        changes.append(
            SetTraits(rp_uuid=rp_uuid, name=name, traits=target.traits)
        )
    if target.aggregates != seen.aggregates:
        changes.append(
            SetAggregates(
                rp_uuid=rp_uuid, name=name, aggregates=target.aggregates
            )
        )
    if not are_same(target.inventories, seen.inventories):
        changes.append(
            SetInventories(
                rp_uuid=rp_uuid, name=name, inventories=target.inventories
            )
        )
    return tuple(changes)


def are_same(
    one: Mapping[str, inventory_obj.Inventory],
    other: Mapping[str, inventory_obj.Inventory],
) -> bool:
    """Tell whether placement would see no difference.

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
