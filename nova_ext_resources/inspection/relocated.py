# SPDX-License-Identifier: Apache-2.0

"""Which hosts still have a class on the compute node itself. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping
import dataclasses
import enum

from nova_ext_resources.objects.documents import host_tree
from nova_ext_resources.objects import host_provider


class RelocationState(enum.StrEnum):
    """How far a class of a host is moved.

    ``NOT_MOVED``: only the compute node has it, as without this package.
    ``WAITING``: below the compute node, all of it is reserved.
    ``HALF``: consumers hold it on the compute node and below.
    ``TWICE``: both offer it.
    ``MOVED``: only providers below the compute node have it.
    """

    NOT_MOVED = 'not moved'
    WAITING = 'blocked'
    HALF = 'half moved'
    TWICE = 'offered twice'
    MOVED = 'moved'


#: What to do.
REMEDIES = {
    RelocationState.NOT_MOVED: 'enable this package on the host, and restart '
    'nova-compute',
    RelocationState.WAITING: 'see the alarm old_inventory of the host',
    RelocationState.HALF: 'see the alarm old_inventory of the host',
    RelocationState.TWICE: (
        'check whether nova-compute, or the agent, of the host runs'
    ),
    RelocationState.MOVED: '',
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RelocationRow:
    """One resource class of one host.

    :ivar capacity: what the compute node itself offers
    :ivar holders: consumer -> amount that it holds there
    :ivar below: what the providers below it offer
    :ivar used_below: what is held there
    """

    host: str
    resource_class: str
    capacity: int
    holders: Mapping[str, int]
    below: int
    used_below: int
    is_below: bool
    is_on_root: bool

    @property
    def state(self) -> RelocationState:
        if not self.is_on_root:
            return RelocationState.MOVED
        if not self.is_below:
            return RelocationState.NOT_MOVED
        if self.below:
            return RelocationState.TWICE
        return (
            RelocationState.HALF
            if self.used_below
            else RelocationState.WAITING
        )


def list_classes(trees: Iterable[host_tree.HostTree]) -> frozenset[str]:
    """Return the custom classes of providers of this package."""
    return frozenset(
        name
        for tree in trees
        for one in tree.providers
        if one.is_ours
        for name in one.amounts
        if name.startswith(host_provider.CUSTOM)
    )


def list_rows(
    trees: Iterable[host_tree.HostTree],
    classes: Collection[str],
    holders: Mapping[str, Mapping[str, Mapping[str, int]]],
) -> Iterator[RelocationRow]:
    """Return a row for each of these classes of each host that has it.

    :param holders: uuid of a compute node -> resource class -> consumer ->
        amount
    """
    for tree in trees:
        own = holders.get(tree.root.rp_uuid, {})
        for name in sorted(classes):
            row = _make_row(tree, name, own.get(name, {}))
            if row.is_on_root or row.is_below:
                yield row


def _make_row(
    tree: host_tree.HostTree, name: str, holders: Mapping[str, int]
) -> RelocationRow:
    root, *others = tree.providers
    nothing = host_tree.Amount(capacity=0)
    below = [one.amounts[name] for one in others if name in one.amounts]
    return RelocationRow(
        host=tree.name,
        resource_class=name,
        capacity=root.amounts.get(name, nothing).capacity,
        holders=holders,
        below=sum(one.capacity for one in below),
        used_below=sum(one.used for one in below),
        is_below=bool(below),
        is_on_root=name in root.amounts,
    )
