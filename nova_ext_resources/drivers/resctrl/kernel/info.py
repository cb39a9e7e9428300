# SPDX-License-Identifier: Apache-2.0

"""What the kernel says of the hardware, below ``info/``. Pure."""

from collections.abc import Iterator, Mapping
import dataclasses

from nova_ext_resources.objects import bitmask

#: All that is read below ``info/L3`` and its like. Others may be there that
#: cannot be read at all times.
FILES = frozenset(
    {
        'bandwidth_gran',
        'bit_usage',
        'cbm_mask',
        'delay_linear',
        'io_alloc',
        'min_bandwidth',
        'min_cbm_bits',
        'num_closids',
        'shareable_bits',
        'sparse_masks',
        'thread_throttle_mode',
    }
)

#: Ways that I/O devices fill by a class of service of their own (kernel
#: documentation, "io_alloc").
IO_WAYS = 'io_alloc_cbm'

_IO_CLASS = 'io_alloc'

#: On ARM (MPAM) the hardware has 2**n bands, each of so many percent, rounded
#: upwards or, on some kernels, downwards. One percent is fine enough.
_BANDS = frozenset(
    step for n in range(1, 7) for step in (100 >> n, -(-100 >> n)) if step > 1
)

#: In percent: what any number of bands but two can do without rounding.
_QUARTER = 25

#: What is locked into the cache for good (kernel documentation, "Cache
#: Pseudo-Locking"); the letters of ``bit_usage`` are listed there too.
_LOCKED = 'P'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CacheInfo:
    """The controls of ways of one cache level.

    With code/data prioritization there are two, with the same properties.

    :ivar full: mask of all ways
    :ivar min_bits: the fewest ways that the kernel takes
    :ivar shareable: ways that other parts of the hardware, such as I/O,
        fill too, if there are others
    :ivar is_open: they may fill every way. So it is on ARM (MPAM), where the
        kernel does not confine devices: that says nothing of what they do
    :ivar is_sparse: a mask need not be contiguous
    :ivar locked: domain -> ways that are pseudo-locked
    :ivar io: domain -> ways that I/O devices fill by a class of service of
        their own, the highest one
    :ivar has_io_class: whether they have that class
    :ivar has_cdp: whether code and data have masks of their own
    """

    num_closids: int
    full: int
    min_bits: int = 1
    shareable: int = 0
    is_open: bool = False
    is_sparse: bool = False
    locked: Mapping[int, int] = dataclasses.field(default_factory=dict)
    io: Mapping[int, int] = dataclasses.field(default_factory=dict)
    has_io_class: bool = False
    has_cdp: bool = False

    @property
    def ways(self) -> int:
        return self.full.bit_count()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthInfo:
    """The control ``MB``.

    :ivar minimum: the least that the kernel takes, in its own units
    :ivar granularity: the step of the values that the hardware does not
        round, in the same units
    :ivar slack: how far the kernel may show them off, where it rounds them to
        a band of the hardware
    :ivar is_linear: Intel's; AMD counts in absolute units and shows 0
    :ivar is_of_cores: the smallest limit of the threads of a core holds for
        all of them. So it is on Intel's CPUs unless the kernel, since 5.12,
        says otherwise; AMD limits threads ("thread_throttle_mode")
    :ivar highest: the largest value of the default group, which is the
        maximum unless the host itself was limited
    """

    num_closids: int
    minimum: int
    granularity: int
    slack: int = 0
    is_linear: bool = True
    is_of_cores: bool = False
    highest: int = 0

    def find_written(self, shown: int) -> int:
        """Return what was written, of what the kernel shows."""
        near = round(shown / self.granularity) * self.granularity
        return near if abs(near - shown) <= self.slack else shown


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ControlInfo:
    """All controls that are in use.

    :ivar levels: level of a cache -> what its controls can do
    """

    levels: Mapping[int, CacheInfo] = dataclasses.field(default_factory=dict)
    bandwidth: BandwidthInfo | None = None

    @property
    def num_closids(self) -> int:
        """Classes of service.

        A group takes one of every control: that with the fewest decides.
        """
        numbers = [one.num_closids for one in self.levels.values()]
        numbers += [self.bandwidth.num_closids] if self.bandwidth else []
        return min(numbers, default=0)

    @property
    def has_io_class(self) -> bool:
        """Whether I/O devices have a class of service."""
        return any(one.has_io_class for one in self.levels.values())


def parse_cache(texts: Mapping[str, str]) -> CacheInfo:
    """Make it of file name -> content of a folder like ``info/L3``.

    :raises (KeyError, ValueError): one is missing or malformed
    """
    full = bitmask.parse_mask(texts['cbm_mask'].strip())
    if not bitmask.is_contiguous(full):
        raise ValueError(f'cbm_mask {full:x} has holes')
    shareable = bitmask.parse_mask(texts.get('shareable_bits', '0').strip())
    return CacheInfo(
        num_closids=int(texts['num_closids']),
        full=full,
        # AMD shows 0, where a mask without ways may be written.
        min_bits=max(int(texts.get('min_cbm_bits', '1')), 1),
        shareable=0 if shareable == full else shareable,
        is_open=shareable == full,
        # Kernels before 6.7 do not say; they want contiguous masks on Intel
        # and take any on AMD. Contiguous ones are right on both.
        is_sparse=texts.get('sparse_masks', '0').strip() == '1',
        locked=dict(_parse_locked(texts.get('bit_usage', ''))),
        io=dict(_parse_io(texts.get(IO_WAYS, ''))),
        has_io_class=has_io_class(texts),
    )


def has_io_class(texts: Mapping[str, str]) -> bool:
    """Return whether I/O devices have a class of service, see FILES."""
    return texts.get(_IO_CLASS, '').strip() == 'enabled'


def parse_bandwidth(texts: Mapping[str, str]) -> BandwidthInfo:
    """Make it of file name -> content of ``info/MB``.

    :raises (KeyError, ValueError): one is missing or malformed
    """
    is_linear = texts.get('delay_linear', '1').strip() == '1'
    mode = texts.get('thread_throttle_mode', '').strip()
    step = max(int(texts['bandwidth_gran']), 1)
    # Intel's CPUs have no bands, and that file.
    is_banded = step in _BANDS and not mode
    granularity = max(step, _QUARTER) if is_banded else step
    return BandwidthInfo(
        num_closids=int(texts['num_closids']),
        minimum=int(texts['min_bandwidth']),
        granularity=granularity,
        slack=min(step, granularity - 1) if is_banded else 0,
        is_linear=is_linear,
        is_of_cores=is_linear and mode != 'per-thread',
    )


def _parse_io(text: str) -> Iterator[tuple[int, int]]:
    """Read ``0=ffff;1=f``: domains and their ways."""
    for domain, mask in _split(text, IO_WAYS):
        yield domain, bitmask.parse_mask(mask)


def _parse_locked(text: str) -> Iterator[tuple[int, int]]:
    """Read ``0=SSSS;1=SSPP``: the highest way comes first."""
    for domain, letters in _split(text, 'bit_usage'):
        yield (
            domain,
            bitmask.from_numbers(
                number
                for number, letter in enumerate(reversed(letters))
                if letter == _LOCKED
            ),
        )


def _split(text: str, name: str) -> Iterator[tuple[int, str]]:
    for part in filter(None, text.strip().split(';')):
        domain, equals, value = part.partition('=')
        if not equals:
            raise ValueError(f'{part!r} of {name} is not DOMAIN=VALUE')
        yield int(domain), value.strip()
