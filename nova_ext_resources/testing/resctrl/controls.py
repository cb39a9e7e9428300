# SPDX-License-Identifier: Apache-2.0

"""The lines of a schemata file: one control each."""

from collections.abc import Iterable
import errno

from nova_ext_resources.testing.resctrl import numbers
from nova_ext_resources.testing.resctrl import shape

#: What a group may have where the limit is in MB/s and nothing was asked.
UNLIMITED_MBPS = (1 << 32) - 1


class Refused(OSError):
    """The kernel says no, and why.

    :ivar words: what goes into ``last_cmd_status``; '' when it says nothing
    """

    def __init__(self, words: str = "", number: int = errno.EINVAL) -> None:
        super().__init__(number, words or 'refused without a word')
        self.words = words


class Control:
    """A resource, with the value of each class in each domain.

    :ivar values: domain -> value of each class; only domains with a CPU
        that is online
    """

    def __init__(
        self,
        name: str,
        num_closids: int,
        default: int,
        domains: Iterable[shape.Domain],
    ) -> None:
        self.name = name
        self.num_closids = num_closids
        self.default = default
        self.domains = {domain.id: domain for domain in domains}
        self.values: dict[int, list[int]] = {}

    def reset(self, domain: int) -> None:
        """Return all classes all of it, as when a domain comes online."""
        self.values[domain] = [self.default] * self.num_closids

    def follow(self, online: Iterable[int]) -> None:
        """Know the domains that have an online CPU, and no others."""
        here = set(online)
        for number, domain in self.domains.items():
            if not domain.cpus & here:
                self.values.pop(number, None)
            elif number not in self.values:
                self.reset(number)
        self.values = dict(sorted(self.values.items()))

    def parse(self, text: str) -> int:
        raise NotImplementedError

    def format(self, value: int, width: int) -> str:
        raise NotImplementedError

    def measure(self, value: int) -> int:
        """Return what the ``size`` file shows."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        raise NotImplementedError


class CacheControl(Control):
    """Ways, as a capacity bitmask.

    :ivar peer: with CDP, the control of the other kind of content
    """

    def __init__(self, cache: shape.Cache, kind: str = '') -> None:
        num_closids = cache.num_closids // 2 if kind else cache.num_closids
        super().__init__(
            f'{cache.name}{kind}', num_closids, cache.mask, cache.domains
        )
        self.cache = cache
        self.peer: CacheControl | None = None

    def parse(self, text: str) -> int:
        """Read a mask.

        :raises Refused: no such mask can be set
        """
        try:
            mask = numbers.parse_hex(text)
        except ValueError:
            raise Refused(f'Non-hex character in the mask {text}') from None
        self._check(mask)
        return mask

    def _check(self, mask: int) -> None:
        cache = self.cache
        if (cache.min_cbm_bits and not mask) or mask > cache.mask:
            raise Refused('Mask out of range')
        run = first_run(mask)
        if run != mask and not cache.has_sparse_masks:
            raise Refused(f'The mask {mask:x} has non-consecutive 1-bits')
        if run.bit_count() < cache.min_cbm_bits:
            raise Refused(
                f'Need at least {cache.min_cbm_bits} bits in the mask'
            )

    def format(self, value: int, width: int) -> str:
        return f'{value:0{width}x}'

    def measure(self, value: int) -> int:
        return self.cache.size // self.cache.ways * value.bit_count()

    @property
    def width(self) -> int:
        return (self.cache.ways + 3) // 4

    def get_used(self, domain: int, closid: int) -> int:
        """Return the ways of a class, whatever they hold."""
        value = self.values[domain][closid]
        if self.peer:
            value |= self.peer.values[domain][closid]
        return value


class BandwidthControl(Control):
    """A share of the bandwidth, or a limit in MB/s."""

    def __init__(
        self,
        bandwidth: shape.Bandwidth,
        *,
        is_mbps: bool,
        kernel: tuple[int, int],
    ) -> None:
        super().__init__(
            bandwidth.name,
            bandwidth.num_closids,
            UNLIMITED_MBPS if is_mbps else bandwidth.maximum,
            bandwidth.domains,
        )
        self.bandwidth = bandwidth
        self.is_mbps = is_mbps
        self._takes_any = kernel >= shape.MBPS_ANY_VALUE

    def parse(self, text: str) -> int:
        """Read a limit, and round it up to what hardware can do.

        :raises Refused: no such limit can be set
        """
        try:
            value = numbers.parse_decimal(text)
        except ValueError:
            raise Refused(self._blame(text)) from None
        if self._takes_any and value > UNLIMITED_MBPS:
            raise Refused(self._blame(text))
        if self.is_mbps and self._takes_any:
            return value
        lowest, highest = self.bandwidth.minimum, self.bandwidth.maximum
        if not self.is_mbps and not lowest <= value <= highest:
            raise Refused(
                f'MB value {value} out of range [{lowest},{highest}]'
            )
        step = self.bandwidth.granularity
        # NOTE: of MB/s, old kernels kept 32 bits of what they had rounded.
        return (value + step - 1) // step * step & UNLIMITED_MBPS

    def _blame(self, text: str) -> str:
        if self._takes_any:
            return f'Invalid MB value {text}'
        return f'Non-decimal digit in MB value {text}'

    def format(self, value: int, width: int) -> str:
        return f'{value:{width or 1}d}'

    def measure(self, value: int) -> int:
        return value

    @property
    def width(self) -> int:
        return 3 if self.bandwidth.is_linear else 4


def first_run(mask: int) -> int:
    """Return the lowest contiguous ones of a mask."""
    low = mask & -mask
    return mask & ~(mask + low) if low else 0
