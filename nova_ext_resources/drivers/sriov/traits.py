# SPDX-License-Identifier: Apache-2.0

"""What a card can do, as traits. Pure.

Which packets a card takes work off (checksums, tunnels), drivers tell by
ethtool only, and not in sysfs: such traits are left to operators.
"""

from collections.abc import Iterable

import os_traits

from nova_ext_resources.drivers.sriov import physnets
from nova_ext_resources.drivers.sriov import sysfs

#: Followed by Mbit/s.
SPEED = 'NIC_SPEED_MBPS_'


def find(
    card: sysfs.PhysicalFunction, networks: Iterable[str]
) -> frozenset[str]:
    """Return all traits of a card.

    The speed is that of its link now, if all its ports have the same.

    :param networks: physical networks that it is at
    """
    traits = {os_traits.HW_NIC_SRIOV, *map(physnets.make_trait, networks)}
    if card.is_switchdev:
        traits.add(os_traits.HW_NIC_OFFLOAD_SWITCHDEV)
    if card.has_rdma:
        traits.add(os_traits.HW_NIC_OFFLOAD_RDMA)
    speeds = {one.speed for one in card.ports}
    speed = speeds.pop() if len(speeds) == 1 else None
    if speed is not None:
        traits.add(os_traits.normalize_name(f'{SPEED}{speed}'))
    return frozenset(traits)
