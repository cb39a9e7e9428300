# SPDX-License-Identifier: Apache-2.0

"""Units of memory bandwidth: of allocations, and of the kernel. Pure.

The kernel speaks in one of three units (documentation, "Memory bandwidth
Allocation"): percent of the maximum; MB/s, when mounted with ``mba_MBps``; or
on AMD multiples of 1/8 GB/s. It does not say which; the numbers show it.
"""

import enum

from nova_ext_resources.drivers.resctrl.kernel import info as info_mod
from nova_ext_resources.drivers.resctrl.kernel import schemata

MAX_PERCENT = 100

#: 1/8 GB/s in MB/s. Where a GB is 1024 MB the server gets more, not less.
AMD_UNIT = 125

#: The largest number of AMD's, no limit at all, before Linux 6.9. Since then
#: the CPU is asked, and some take more.
AMD_MAXIMUM = 2048


class Unit(enum.StrEnum):
    """What one unit of the kernel's number is."""

    PERCENT = 'percent'
    MBPS = 'MB/s'
    EIGHTH_GBPS = '1/8 GB/s'


def find_unit(info: info_mod.BandwidthInfo, default: int) -> Unit:
    """Return the unit.

    :param default: the largest value of the default group, which is the
        maximum unless the host itself was limited
    """
    if not info.is_linear:
        return Unit.EIGHTH_GBPS
    return Unit.MBPS if default > MAX_PERCENT else Unit.PERCENT


def find_unit_of(info: info_mod.Info, known: schemata.Schemata) -> Unit | None:
    """Return the unit, None where bandwidth is not controlled.

    :param known: of the default group
    """
    values = known.get(schemata.BANDWIDTH)
    if info.bandwidth is None or not values:
        return None
    return find_unit(info.bandwidth, max(values.values()))


def to_kernel(info: info_mod.BandwidthInfo, unit: Unit, amount: int) -> int:
    """Round as the hardware does, upwards: never below the amount.

    What is beyond the largest number that the kernel takes is no limit.

    :param amount: in percent, or in MB/s for the other two units
    """
    if unit is Unit.MBPS:
        # The kernel regulates it by itself. Some versions round the number
        # to the granularity, which is in percent, all the same.
        return round_up(amount, info.granularity)
    if unit is Unit.EIGHTH_GBPS:
        amount = round_up(amount, AMD_UNIT) // AMD_UNIT
        most = max(info.highest, AMD_MAXIMUM)
    else:
        most = MAX_PERCENT
    value = round_up(max(amount, info.minimum, 1), info.granularity)
    return min(value, most)


def to_amount(unit: Unit, value: int) -> int:
    """Return what a number of the kernel is in percent or in MB/s."""
    return value * AMD_UNIT if unit is Unit.EIGHTH_GBPS else value


def round_amount(info: info_mod.BandwidthInfo, unit: Unit, amount: int) -> int:
    """Return what the hardware makes of an amount: no less."""
    return to_amount(unit, to_kernel(info, unit, amount))


def find_step(info: info_mod.BandwidthInfo, unit: Unit) -> int:
    """Return the step of what can be allocated, in percent or in MB/s."""
    return 1 if unit is Unit.MBPS else to_amount(unit, info.granularity)


def round_up(amount: int, step: int) -> int:
    return -(-amount // step) * step
