# SPDX-License-Identifier: Apache-2.0

"""Which resource classes a compute node itself offers.

Where it offers one that this host has below it, too, such as one of a provider
configuration file of Nova's, each unit would be offered twice.
"""

from collections.abc import Collection, Sequence

import tenacity

from nova_ext_resources import exception
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import placement_client


class RootClasses:
    """Reads them only where the generation of the compute node has changed.

    Every server that comes or goes changes it, and so does whatever moves a
    class there. At each change, because the publisher may write in the same
    round: it must not open below what the compute node has just got.

    :param call: repeats a call to placement, see :mod:`.api.retry`
    """

    def __init__(
        self, client: placement_client.Client, call: tenacity.Retrying
    ) -> None:
        self._client = client
        self._call = call
        self._seen: frozenset[str] = frozenset()
        self._read_at: tuple[str, int | None] | None = None

    def read(
        self,
        node: host_provider.Node,
        listed: Sequence[host_provider.Provider],
        wanted: Collection[str],
    ) -> frozenset[str]:
        """Return which of the wanted classes the compute node offers.

        Used by one thread.

        :param listed: the tree, with generations
        :raises PlacementError: placement could not be read
        """
        for root in listed:
            read_at = root.rp_uuid, root.generation
            is_root = root.rp_uuid == node.uuid
            if is_root and wanted and read_at != self._read_at:
                self._seen = self._call(self._list_classes, node.uuid)
                self._read_at = read_at
        return self._seen & frozenset(wanted)

    def check(self, below: host_provider.Provider) -> None:
        """Compare the compute node with what was read of it last.

        Used by any thread; placement is asked once.

        :param below: what shall be written, closed as it was right then
        :raises PlacementRefused: it is no longer right
        :raises PlacementError: placement could not be read
        """
        if self._read_at is None:
            return
        now = self._list_classes(self._read_at[0])
        moved = sorted((now ^ self._seen) & below.inventories.keys())
        if moved:
            raise exception.PlacementRefused(
                action=f'set inventories of {below.name}',
                detail=f'{", ".join(moved)} of the compute node itself '
                'changed after this round had read the inventory. The next '
                'round reads the inventory again, some seconds later.',
            )

    def _list_classes(self, rp_uuid: str) -> frozenset[str]:
        try:
            found = self._client.list_inventories(rp_uuid)
        except exception.NotFound:
            return frozenset()
        return frozenset(
            name for name in found if name.startswith(host_provider.CUSTOM)
        )
