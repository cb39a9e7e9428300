# SPDX-License-Identifier: Apache-2.0

"""A host, as the publisher reads one."""

from collections.abc import Callable, Iterable
from typing import Any

from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import pool
from nova_ext_resources.placement.publish import bare_metal
from nova_ext_resources.placement.publish import publisher


class Source(publisher.PublicationSource):
    """Each of these is called when it is read."""

    def __init__(
        self,
        wanted: Callable[[], Iterable[host_provider.Provider]] = tuple,
        *,
        pools: Callable[[], Iterable[pool.SharedPool]] = tuple,
        nodes: Callable[[], bare_metal.Trees] = dict,
        published: Callable[[], Any] = frozenset,
        is_complete: Callable[[], bool] = lambda: True,
        on_deleted: Callable[[], object] = lambda: None,
    ) -> None:
        self._wanted = wanted
        self._pools = pools
        self._nodes = nodes
        self._published = published
        self._is_complete = is_complete
        self._on_deleted = on_deleted

    def make_providers(self) -> Iterable[host_provider.Provider]:
        return self._wanted()

    def make_nodes(self) -> bare_metal.Trees:
        return self._nodes()

    @property
    def pools(self) -> Iterable[pool.SharedPool]:
        return self._pools()

    @property
    def published(self) -> Any:
        return self._published()

    @property
    def is_complete(self) -> bool:
        return self._is_complete()

    def note_deleted(self) -> None:
        self._on_deleted()
