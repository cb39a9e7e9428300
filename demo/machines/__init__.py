# SPDX-License-Identifier: Apache-2.0

"""The machines of the compute hosts, by what manages their cache."""

from collections.abc import Callable, Mapping

from demo.cloud import folder as folders
from demo.machines import base
from demo.machines import resctrl
from demo.machines import rmd

#: Backend, as in ``nova.conf`` -> what makes the machine of a host.
BACKENDS: Mapping[str, Callable[[str, folders.Folder], base.Machine]] = {
    'resctrl': resctrl.Machine,
    'rmd': rmd.Machine,
}
