# SPDX-License-Identifier: Apache-2.0

"""A host as placement shows it: a tree of providers, and what is left."""

from collections.abc import Iterable, Iterator, Mapping
import dataclasses
import re

from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """How much of one resource class a provider has.

    :ivar capacity: units that can be allocated in all
    :ivar used: units that are allocated
    :ivar inventory: None where only the capacity was read
    """

    capacity: int
    used: int = 0
    inventory: class_inventory.Inventory | None = None

    @property
    def free(self) -> int:
        """Units left; none where more is allocated than there is."""
        return max(self.capacity - self.used, 0)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TreeProvider:
    """One provider of a host.

    :ivar amounts: resource class -> amount
    :ivar holders: resource class -> consumer -> amount that is allocated to
        it; empty where that was not read
    """

    rp_uuid: str
    name: str
    parent_uuid: str | None = None
    traits: frozenset[str] = frozenset()
    amounts: Mapping[str, Amount] = dataclasses.field(default_factory=dict)
    holders: Mapping[str, Mapping[str, int]] = dataclasses.field(
        default_factory=dict
    )

    @property
    def is_ours(self) -> bool:
        """Whether this package writes it."""
        return host_provider.OWNER_TRAIT in self.traits


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostTree:
    """One host.

    :ivar providers: the root first, each parent before its children, and
        children sorted by name; ``L3_2`` comes before ``L3_10``
    :ivar shared: sharing providers that it reaches, where they were read
    """

    providers: tuple[TreeProvider, ...]
    shared: tuple[TreeProvider, ...] = ()

    @property
    def root(self) -> TreeProvider:
        return self.providers[0]

    @property
    def name(self) -> str:
        """The hypervisor's hostname."""
        return self.root.name

    @property
    def offering(self) -> tuple[TreeProvider, ...]:
        """All providers of which a server on this host may have something."""
        return self.providers + self.shared

    def find_depth(self, one: TreeProvider) -> int:
        """Return how many providers are above one."""
        by_uuid = {each.rp_uuid: each for each in self.providers}
        depth = 0
        while one.parent_uuid in by_uuid:
            one = by_uuid[one.parent_uuid]
            depth += 1
        return depth

    def make_key(self, one: TreeProvider) -> str:
        """Return the name of a provider without that of its host."""
        return one.name.removeprefix(f'{self.name}_')


def group(providers: Iterable[TreeProvider]) -> Iterator[HostTree]:
    """Return the trees, sorted by name.

    A provider whose parent is unknown, because it was deleted meanwhile,
    belongs to no tree.
    """
    children: dict[str | None, list[TreeProvider]] = {}
    for one in providers:
        children.setdefault(one.parent_uuid, []).append(one)

    def walk(one: TreeProvider) -> Iterator[TreeProvider]:
        yield one
        for child in sorted(children.get(one.rp_uuid, ()), key=_sort_key):
            yield from walk(child)

    for root in sorted(children.get(None, ()), key=_sort_key):
        yield HostTree(providers=tuple(walk(root)))


def _sort_key(one: TreeProvider) -> list[tuple[int, str]]:
    """Sort numbers in names by their values."""
    return sort_name(one.name)


def sort_name(name: str) -> list[tuple[int, str]]:
    """Return a key by which ``a2`` comes before ``a10``."""
    return [
        (int(part), '') if part.isdecimal() else (-1, part)
        for part in re.split('([0-9]+)', name)
    ]
