# SPDX-License-Identifier: Apache-2.0

"""Adapters for Nova's virt drivers.

Only this folder, ``scheduler/`` and ``cmd/compute`` import Nova.

* ``compat``: releases of Nova, and what of its internals is used
* ``driver``: Nova's drivers with extended resources
* ``facts``: what Nova says of servers, moves and consumers
* ``guards``: refuses guests that would take what others hold
* ``hooks``: what of Nova's resource tracker is replaced or wrapped
* ``provider_config``: Nova's own providers, beside those of plugins

The drivers are imported on first use: each needs libraries that the other
does not.
"""

import importlib
from typing import Any

#: The classes that ``compute_driver`` may name, and their modules.
DRIVERS = {
    'FakeDriver': 'nova_ext_resources.virt.driver.fake',
    'LibvirtDriver': 'nova_ext_resources.virt.driver.libvirt',
}


def __getattr__(name: str) -> Any:
    if name not in DRIVERS:
        raise AttributeError(f'module {__name__} has no attribute {name}')
    return getattr(importlib.import_module(DRIVERS[name]), name)
