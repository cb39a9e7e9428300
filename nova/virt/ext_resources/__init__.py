# SPDX-License-Identifier: Apache-2.0

"""Lets ``compute_driver = ext_resources.LibvirtDriver`` load.

Nova looks for drivers below ``nova.virt`` only; this module is all that
the package puts there.
"""

from typing import Any

from nova_ext_resources import virt


def __getattr__(name: str) -> Any:
    return getattr(virt, name)
