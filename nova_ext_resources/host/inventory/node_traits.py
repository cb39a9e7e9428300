# SPDX-License-Identifier: Apache-2.0

"""Which traits Nova's driver adds to its compute node, or removes. Pure."""

from collections.abc import Mapping

from nova_ext_resources.host.inventory import discovery
from nova_ext_resources.objects import host_provider

#: Stands for the compute node among what was ever published. Its own uuid
#: cannot: what servers have allocated of that is no claim of theirs here.
_RECORD = 'NODE_TRAITS'


def find_record(node: host_provider.Node) -> str:
    """Return the uuid under which the ledger records traits of the node."""
    return host_provider.make_rp_uuid(node.uuid, _RECORD)


def find(
    found: discovery.DiscoveredResources,
    published: Mapping[str, frozenset[str]],
    node: host_provider.Node,
) -> host_provider.NodeTraits:
    """Return what Nova shall add and remove.

    What is not recorded yet is not added, so that it can be removed later,
    also when its plugin is no longer enabled. While a plugin has not read the
    host since the start, only what another one says is gone is removed.

    :param published: uuid -> traits, of all that the ledger records
    """
    known = published.get(find_record(node), frozenset())
    gone = known - found.node_traits
    if found.missing:
        prefixes = tuple(found.node_prefixes)
        gone = frozenset(one for one in gone if one.startswith(prefixes))
    return host_provider.NodeTraits(
        added=known & found.node_traits, removed=gone
    )


def preview(
    found: discovery.DiscoveredResources,
    published: Mapping[str, frozenset[str]],
    node: host_provider.Node,
    seen: frozenset[str],
) -> host_provider.NodeTraits:
    """Return what would change if all that is found were recorded.

    :param seen: the traits that the compute node has now
    """
    record = find_record(node)
    known = published.get(record, frozenset()) | found.node_traits
    wanted = find(found, {record: known}, node)
    return host_provider.NodeTraits(
        added=wanted.added - seen, removed=wanted.removed & seen
    )
