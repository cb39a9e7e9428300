# SPDX-License-Identifier: Apache-2.0

"""The machines of the compute hosts, by what manages their cache.

* ``base``: what a cloud asks of the machine of a compute host
* ``resctrl``: a model of a kernel's resctrl, mounted with FUSE
* ``rmd``: a simulated RMD daemon
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from cloud import folder as folders
from cloud.machines import base
from cloud.machines import resctrl
from cloud.machines import rmd

#: Host, folder and hardware -> the machine.
Make: TypeAlias = Callable[[str, folders.Folder, base.Hardware], base.Machine]

#: Backend, as in ``nova.conf`` -> what makes the machine of a host.
BACKENDS: Mapping[str, Make] = {
    'resctrl': resctrl.Machine,
    'rmd': rmd.Machine,
}
