# SPDX-License-Identifier: Apache-2.0

"""Which resource classes a compute node itself offers.

Where it offers one that this host has below it, too, such as one of a provider
configuration file of Nova's, each unit would be offered twice.
"""

from collections.abc import Collection, Sequence

import tenacity

from nova_ext_resources import exception
from nova_ext_resources.objects import provider as provider_obj
from nova_ext_resources.placement import client as placement_client

#: Publications after which a compute node is read again that offered nothing
#: of this host before, if its generation has changed: every server that comes
#: or goes changes it. Its classes change only when nova-compute starts, which
#: also starts the publisher, unless an agent publishes.
PAUSE = 10


class RootClasses:
    """Reads them only when they may have changed; used by one thread.

    :param call: repeats a call to placement, see :mod:`.retry`
    """

    def __init__(
        self, client: placement_client.Client, call: tenacity.Retrying
    ) -> None:
        self._client = client
        self._call = call
        self._seen: frozenset[str] = frozenset()
        self._generation: int | None = None
        self._publications = 0

    def read(
        self,
        node: provider_obj.Node,
        listed: Sequence[provider_obj.Provider],
        wanted: Collection[str],
    ) -> frozenset[str]:
        """Return which of the wanted classes the compute node offers.

        :param listed: the tree, with generations
        :raises PlacementError: placement could not be read
        """
        self._publications += 1
        for root in listed:
            if root.rp_uuid == node.uuid and self._may_differ(root, wanted):
                self._seen = self._list_classes(node.uuid)
                self._generation = root.generation
                self._publications = 0
        return self._seen & frozenset(wanted)

    def _may_differ(
        self, root: provider_obj.Provider, wanted: Collection[str]
    ) -> bool:
        if self._generation is None:
            return bool(wanted)
        if self._generation == root.generation:
            return False
        is_old = not self._seen.isdisjoint(wanted)
        return is_old or self._publications >= PAUSE

    def _list_classes(self, rp_uuid: str) -> frozenset[str]:
        try:
            found = self._call(self._client.list_inventories, rp_uuid)
        except exception.NotFound:
            return frozenset()
        return frozenset(
            name for name in found if name.startswith(provider_obj.CUSTOM)
        )
