# SPDX-License-Identifier: Apache-2.0

"""The compute node of a driver that has not started yet."""

from collections.abc import Callable, Mapping
import functools

from nova_ext_resources.objects import provider


class LateNode(provider.Node):
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
