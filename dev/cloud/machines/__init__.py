# SPDX-License-Identifier: Apache-2.0

"""The machines of the compute hosts, by what manages their cache.

* ``base``: what a cloud asks of the machine of a compute host
* ``resctrl``: a model of a kernel's resctrl, mounted with FUSE
* ``rmd``: a simulated RMD daemon
"""

from collections.abc import Mapping
import contextlib

from dev.cloud import folder as folders
from dev.cloud.machines import base
from dev.cloud.machines import resctrl
from dev.cloud.machines import rmd

#: Backend, as in ``nova.conf`` -> the machine of a host.
BACKENDS: Mapping[str, type[base.Machine]] = {
    one.backend: one for one in (resctrl.Machine, rmd.Machine)
}


def start(
    backends: Mapping[str, str],
    folder: folders.Folder,
    stack: contextlib.ExitStack,
    hardware: base.Hardware = base.HARDWARE,
) -> dict[str, base.Machine]:
    """Start machines, and wait until each can be used.

    :param backends: host -> backend
    :param stack: stops them
    :raises CloudError: one did not start
    """
    made = {
        host: BACKENDS[backend](host, folder, hardware)
        for host, backend in backends.items()
    }
    for one in made.values():
        stack.callback(one.stop)
        one.start()
    for one in made.values():
        one.wait()
    return made
