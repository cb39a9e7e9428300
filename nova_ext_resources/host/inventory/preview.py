# SPDX-License-Identifier: Apache-2.0

"""The tree that a start of nova-compute would publish. Pure."""

from collections.abc import Mapping
import dataclasses

from nova_ext_resources.claims import base
from nova_ext_resources.host.claims import memory
from nova_ext_resources.host.inventory import discovery
from nova_ext_resources.host.ledger import snapshot
from nova_ext_resources.objects import host_provider


def make_providers(
    found: discovery.DiscoveredResources,
    *,
    host: str,
    node: host_provider.Node,
    content: snapshot.Content,
    trackers: Mapping[str, base.Tracker],
) -> tuple[host_provider.Provider, ...]:
    """Return what placement shall have of a host, when nothing changes.

    What servers hold, and placement has not allocated, is only known to
    nova-compute, which reserves it: here it is not.

    :param found: what plugins have found, without what is withheld
    :param content: of the ledger
    :raises InvalidResource: a plugin reports what its tracker cannot track
    """
    state = memory.StateMemory(
        host=host,
        node=node,
        trackers=trackers,
        entries=content.entries,
        found=found,
        resource_classes=frozenset(),
    )
    state.rebuild(found, content.entries, may_refuse=False)
    nothing = frozenset[str]()
    return tuple(
        dataclasses.replace(
            one,
            published_traits=one.traits
            | content.published.get(one.rp_uuid, nothing),
        )
        for one in state.make_providers()
    )
