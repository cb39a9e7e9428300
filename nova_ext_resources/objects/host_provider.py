# SPDX-License-Identifier: Apache-2.0

"""Resource providers: as found on a host, and as placement sees them."""

from collections.abc import Mapping
import dataclasses
import re
from typing import Any
import uuid

from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import reserved_units

#: On every provider that this package writes, so that audits can see who
#: owns it, as ``COMPUTE_MANAGED_PCI_DEVICE`` and ``OWNER_NOVA`` do.
OWNER_TRAIT = 'CUSTOM_OWNER_EXT_RESOURCES'

#: What traits begin with that Nova neither reports nor removes.
CUSTOM = 'CUSTOM_'

_CUSTOM_TRAIT = re.compile('CUSTOM_[A-Z0-9_]{1,248}')

#: On a provider whose inventory all providers of its aggregates may use: it
#: belongs to no host, though it has no parent.
SHARING_TRAIT = 'MISC_SHARES_VIA_AGGREGATE'


def make_rp_uuid(compute_node_uuid: str, key: str) -> str:
    """Return the uuid of a provider, the same after every reinstallation."""
    return str(uuid.uuid5(uuid.UUID(compute_node_uuid), key))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The compute node, Nova's own root provider, never written by us."""

    uuid: str
    hypervisor_hostname: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodeTraits:
    """What Nova's driver reports of the compute node for this package.

    :ivar removed: those that this host has once added, and does no longer
    """

    added: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()


def find_trait_error(name: str) -> str:
    """Explain why the compute node cannot get a trait; '' if it can."""
    if not _CUSTOM_TRAIT.fullmatch(name) or name == OWNER_TRAIT:
        return (
            f'trait {name!a} is not allowed on the compute node: Nova itself '
            f'reports traits that do not begin with {CUSTOM}, and '
            f'{OWNER_TRAIT} is only for providers of this package'
        )
    return ''


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostProvider:
    """One provider as an inventory provider plugin found it on the host.

    :ivar key: unique on this host, such as ``RDT`` or ``L3_0``; becomes
        the suffix of the provider's name and the seed of its uuid
    :ivar parent_key: key of the parent; None puts it below the node
    :ivar inventories: resource class -> inventory
    :ivar trackers: resource class -> name of the tracker that counts it;
        ``count`` where not named
    :ivar units: resource class -> facts for that tracker, JSON types only
        (see the tracker's page), such as the mask of free ways
    :ivar implied: resource class -> the class of the ``parent`` provider of
        which a server that holds the former always holds one, such as a
        class of service
    :ivar cpus: the CPUs that it is local to, as a list like ``0-11,24-35``;
        '' when it is local to none
    :ivar follows_tasks: whether the units serve a server wherever its
        threads run, pinned or not
    :ivar traits: without the owner trait
    :ivar aggregates: uuids of those that tie this host to shared pools
    :ivar is_unread: whether it could not be read, or not all of it, and is
        reported as servers hold it: then its traits are not known
    :ivar reserved: resource class -> what has its reserved units, as far as
        the plugin knows; a class that is missing is not explained
    """

    key: str
    parent_key: str | None = None
    inventories: Mapping[str, class_inventory.Inventory]
    trackers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    units: Mapping[str, Mapping[str, Any]] = dataclasses.field(
        default_factory=dict
    )
    implied: Mapping[str, str] = dataclasses.field(default_factory=dict)
    cpus: str = ''
    follows_tasks: bool = False
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()
    is_unread: bool = False
    reserved: Mapping[str, reserved_units.Reserved] = dataclasses.field(
        default_factory=dict
    )

    def make_rp_uuid(self, node: Node) -> str:
        return make_rp_uuid(node.uuid, self.key)

    def make_wanted(
        self,
        node: Node,
        inventories: Mapping[str, class_inventory.Inventory],
    ) -> 'Provider':
        """Return it as placement shall see it below a node."""
        return Provider(
            rp_uuid=self.make_rp_uuid(node),
            name=f'{node.hypervisor_hostname}_{self.key}',
            parent_uuid=(
                node.uuid
                if self.parent_key is None
                else make_rp_uuid(node.uuid, self.parent_key)
            ),
            inventories=inventories,
            traits=self.traits | {OWNER_TRAIT},
            aggregates=self.aggregates,
            is_unread=self.is_unread,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BareMetalNode:
    """A node of ironic, which is a compute node of its own.

    :ivar uuid: of ironic, which Nova gives its compute node, too
    :ivar providers: that are to be below it, parents before children
    """

    uuid: str
    providers: tuple[HostProvider, ...]

    def make_providers(self) -> tuple['Provider', ...]:
        """Return the tree that placement shall see below it."""
        node = Node(uuid=self.uuid, hypervisor_hostname=self.uuid)
        return tuple(
            one.make_wanted(node, one.inventories) for one in self.providers
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One provider as placement shall see it, or sees it.

    :ivar inventories: resource class -> inventory
    :ivar published_traits: in a wanted tree, the traits with which this host
        has ever published it; all others are an operator's
    :ivar is_unread: in a wanted tree, see :class:`HostProvider`
    :ivar generation: placement's optimistic lock; None where it is not
        known, that is, in a wanted tree
    """

    rp_uuid: str
    name: str
    parent_uuid: str | None = None
    inventories: Mapping[str, class_inventory.Inventory] = dataclasses.field(
        default_factory=dict
    )
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()
    published_traits: frozenset[str] = dataclasses.field(
        default=frozenset(), compare=False
    )
    is_unread: bool = dataclasses.field(default=False, compare=False)
    generation: int | None = None
