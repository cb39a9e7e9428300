# SPDX-License-Identifier: Apache-2.0

"""What the publisher reads of a host."""

from collections.abc import Collection, Iterable

from nova_ext_resources.host import manager
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import pool
from nova_ext_resources.placement.publish import bare_metal
from nova_ext_resources.placement.publish import publisher


class HostSource(publisher.PublicationSource):
    """All that the plugins of a host have found below its compute node."""

    def __init__(self, host: manager.HostManager) -> None:
        self._host = host

    def make_providers(self) -> Iterable[host_provider.Provider]:
        return self._host.providers()

    @property
    def pools(self) -> Iterable[pool.SharedPool]:
        return self._host.found.pools

    @property
    def is_complete(self) -> bool:
        return self._host.found.is_complete


class AgentSource(HostSource):
    """The same of an agent, which changes only what it has published itself.

    :param has_node: whether the host has a compute node
    """

    def __init__(self, host: manager.HostManager, *, has_node: bool) -> None:
        super().__init__(host)
        self._has_node = has_node

    def make_providers(self) -> Iterable[host_provider.Provider]:
        return super().make_providers() if self._has_node else ()

    def make_nodes(self) -> bare_metal.Trees:
        return self._host.nodes()

    @property
    def published(self) -> Collection[str]:
        return self._host.published

    @property
    def owned(self) -> Collection[str]:
        return self._host.published
