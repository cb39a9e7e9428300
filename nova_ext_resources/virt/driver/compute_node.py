# SPDX-License-Identifier: Apache-2.0

"""The compute node of a driver that has not started yet."""

from collections.abc import Callable, Mapping
import functools
from typing import Any

from nova import context as nova_context
from nova import objects

from nova_ext_resources.objects import host_provider


class LateNode(host_provider.Node):
    """Asks the driver for its node when that is first needed.

    :param find: returns uuid -> name, as a driver's
        ``get_nodenames_by_uuid`` does after its ``init_host``
    """

    def __init__(self, find: Callable[[], Mapping[str, str]]) -> None:
        # Not by assignment: a node cannot be changed.
        object.__setattr__(self, '_find', find)

    @functools.cached_property
    def _found(self) -> tuple[str, str]:
        find: Callable[[], Mapping[str, str]] = self.__dict__['_find']
        return next(iter(find().items()))

    @property
    def uuid(self) -> str:
        return self._found[0]

    @property
    def hypervisor_hostname(self) -> str:
        return self._found[1]


def check(compute: Any, host: str) -> None:
    """Have Nova check host name, cell and identity of its compute node.

    Nova does so after the driver's ``init_host`` (ComputeManager
    ``init_host`` of Nova 34), and again after this. By then a driver that
    was asked for its node would have made up a new identity in place of a
    lost one, and Nova would not miss the lost one.

    :param compute: Nova's ``ComputeManager``, its driver being ready
    :raises nova.exception.InvalidConfiguration: Nova refuses the start
    """
    context = nova_context.get_admin_context()
    known = objects.Service.get_by_host_and_binary(
        context, host, 'nova-compute'
    )
    if known:
        compute._ensure_existing_node_identity(known)
    else:
        compute._sanity_check_new_host()
    compute._check_for_host_rename(compute._get_nodes(context))
