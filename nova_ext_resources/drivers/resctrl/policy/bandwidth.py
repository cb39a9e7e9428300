# SPDX-License-Identifier: Apache-2.0

"""How much of the memory bandwidth of a cache each server has. Pure.

The kernel speaks in one of three units (documentation, "Memory bandwidth
Allocation"): percent of the maximum; MB/s, when mounted with ``mba_MBps``; or
on AMD multiples of 1/8 GB/s. It does not say which; the numbers show it.
Amounts are in percent or in MB/s, as they are allocated.
"""

from collections.abc import Mapping
import dataclasses
import enum

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.resctrl.kernel import info as info_mod

MAX_PERCENT = 100

#: 1/8 GB/s in MB/s. Where a GB is 1024 MB the server gets more, not less.
AMD_UNIT = 125

#: The largest number of AMD's, no limit at all, before Linux 6.9. Since then
#: the CPU is asked, and some take more.
AMD_MAXIMUM = 2048


class BandwidthUnit(enum.StrEnum):
    """What one unit of the kernel's number is."""

    PERCENT = 'percent'
    MBPS = 'MB/s'
    EIGHTH_GBPS = '1/8 GB/s'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthOwnership:
    """The memory bandwidth of one last-level cache.

    :ivar maximum: in MB/s, 0 if unknown
    :ivar limits: server -> the kernel's number in its group
    """

    info: info_mod.BandwidthInfo
    maximum: int = 0
    limits: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def unit(self) -> BandwidthUnit:
        if not self.info.is_linear:
            return BandwidthUnit.EIGHTH_GBPS
        if self.info.highest > MAX_PERCENT:
            return BandwidthUnit.MBPS
        return BandwidthUnit.PERCENT

    @property
    def resource_class(self) -> str:
        is_percent = self.unit is BandwidthUnit.PERCENT
        return classes.PERCENT if is_percent else classes.MBPS

    @property
    def total(self) -> int:
        """The amount that there is for all servers."""
        return (
            MAX_PERCENT if self.unit is BandwidthUnit.PERCENT else self.maximum
        )

    @property
    def step(self) -> int:
        """What amounts that can be allocated are multiples of."""
        if self.unit is BandwidthUnit.MBPS:
            return 1
        return self.to_amount(self.info.granularity)

    @property
    def least(self) -> int:
        """The least amount that can be allocated."""
        return _round_up(max(self.to_amount(self.info.minimum), 1), self.step)

    def get_amount(self, consumer_uuid: str) -> int:
        """Return what a server has now, 0 for nothing."""
        return self.to_amount(self.limits.get(consumer_uuid, 0))

    def to_kernel(self, amount: int) -> int:
        """Round as the hardware does, upwards: never below the amount.

        What is beyond the largest number that the kernel takes is no limit.
        """
        info, unit = self.info, self.unit
        if unit is BandwidthUnit.MBPS:
            # The kernel regulates it by itself. Some versions round the
            # number to the granularity, which is in percent, all the same.
            return _round_up(amount, info.granularity)
        most = MAX_PERCENT
        if unit is BandwidthUnit.EIGHTH_GBPS:
            amount = -(-amount // AMD_UNIT)
            most = max(info.highest, AMD_MAXIMUM)
        value = _round_up(max(amount, info.minimum, 1), info.granularity)
        return min(value, most)

    def to_amount(self, value: int) -> int:
        """Return what a number of the kernel is in percent or in MB/s."""
        return (
            value * AMD_UNIT
            if self.unit is BandwidthUnit.EIGHTH_GBPS
            else value
        )

    def round(self, amount: int) -> int:
        """Return what the hardware makes of an amount: no less."""
        return self.to_amount(self.to_kernel(amount))


def _round_up(amount: int, step: int) -> int:
    return -(-amount // step) * step
