# SPDX-License-Identifier: Apache-2.0

"""Adapters for Nova's virt drivers.

* ``admission``: applies when a guest that is migrated live starts
* ``attempts``: which live migration of a server has claimed here
* ``cachetune``: refuses guests whose caches libvirt would control, too
* ``claims``: claims, applies and releases for Nova's instances
* ``collisions``: keeps from Nova what its files must not add to a provider
* ``errors``: which of Nova's errors each of ours becomes
* ``events``: reports refusals to the owner of a server
* ``evidence``: whether a server is certainly gone from a host
* ``fake``: Nova's fake driver with extended resources
* ``functions``: which PCI functions of the host a domain has, or lacks
* ``gate``: which releases of Nova and which driver a start accepts
* ``holders``: what Nova says of consumers that hold nothing on a host
* ``hostdevs``: writes devices into the guests of Nova's libvirt driver
* ``internals``: what of Nova this package uses, and whether Nova has it
* ``libvirt``: Nova's libvirt driver; applies resources wherever a guest starts
* ``live``: the driver's methods for live migrations
* ``migrations``: those of a host, and whether Nova goes on with them
* ``mixin``: the driver's methods for all that is not a move
* ``moves``: those for resizes and cold migrations
* ``node``: the compute node of a driver that has not started yet
* ``old_inventory``: moves what the compute node itself has to its children
* ``operations``: from the call of a method to what Nova does with a server
* ``pins``: refuses guests on other CPUs than their servers have claimed
* ``power``: whether Nova may switch CPUs off
* ``provider_config``: Nova's files of inventory that collide with plugins
* ``providers``: Nova's copy of what placement has of the host's providers
* ``refusals``: live migrations that a host refuses, and what Nova hears of it
* ``refused``: which classes of its files Nova could not add to its providers
* ``releases``: the releases of Nova that this package works with
* ``request``: what one of Nova's instances requests
* ``reshapes``: why placement refused a reshape of Nova's
* ``roles``: servers and moves of a host, as Nova knows them
* ``servers``: servers of a host, as Nova's database has them
* ``steering``: has Nova choose CPUs near the units of a server
* ``tracker``: Nova's own claims for moves, and ours together with them

The drivers are imported on first use: each needs libraries that the other
does not.
"""

import importlib
from typing import Any

#: The classes that ``compute_driver`` may name, and their modules.
DRIVERS = {
    'FakeDriver': 'nova_ext_resources.virt.fake',
    'LibvirtDriver': 'nova_ext_resources.virt.libvirt',
}


def __getattr__(name: str) -> Any:
    if name not in DRIVERS:
        raise AttributeError(f'module {__name__} has no attribute {name}')
    return getattr(importlib.import_module(DRIVERS[name]), name)
