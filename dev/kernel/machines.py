# SPDX-License-Identifier: Apache-2.0

"""The machines that kernels run on: those of the model, emulated."""

from collections.abc import Iterable
import dataclasses

from nova_ext_resources.testing import resctrl
from nova_ext_resources.testing.resctrl import shape as shape_mod

#: A server processor that no kernel has exceptions for (Ice Lake).
ICE_LAKE = 'vendor=GenuineIntel,family=6,model=106,stepping=6'
#: Its kernel driver can lock a part of the cache.
BROADWELL = 'vendor=GenuineIntel,family=6,model=79,stepping=1'
MILAN = 'vendor=AuthenticAMD,family=25,model=1,stepping=1,xlevel=0x80000020'

#: Bit of each event in the leaf that names them.
_EVENTS = {'llc_occupancy': 1, 'mbm_total_bytes': 2, 'mbm_local_bytes': 4}

#: The last leaf of CPUID that has to do with RDT.
_LEVEL = 0x10

#: Bits of a counter above 24.
_WIDTH = 20

_LINE = 64

#: Of a core; they share its L2.
_THREADS = 2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One to emulate.

    :ivar name: of a shape of the model
    :ivar processor: what QEMU is told of it
    :ivar memory: in MiB
    :ivar has_pairs: whether CPUs that share an L2 follow each other
    """

    name: str
    processor: str = ICE_LAKE
    memory: int = 3072
    has_pairs: bool = False

    @property
    def shape(self) -> resctrl.Shape:
        return resctrl.SHAPES[self.name]

    @property
    def is_amd(self) -> bool:
        return 'AuthenticAMD' in self.processor

    def describe(self) -> str:
        """Return what the emulator reads from its environment."""
        words = [] if self.has_pairs else [f'cpus={self.shape.num_cpus}']
        if self.is_amd:
            words.append('amd=1')
        words += _describe_caches(self.shape)
        for one in self.shape.bandwidths:
            words.append(f'mb={_describe_bandwidth(one)}')
        if self.shape.monitoring:
            words.append(f'mon={_describe_monitoring(self.shape)}')
        return ' '.join(words)

    def list_words(self) -> list[str]:
        """Return its part of the emulator's command line."""
        sockets = len(self.shape.packages)
        dies = max(1, self._count_last_caches() // sockets)
        cores = self.shape.num_cpus // (sockets * dies * _THREADS)
        smp = (
            f'{self.shape.num_cpus},sockets={sockets},dies={dies},'
            f'cores={cores},threads={_THREADS}'
        )
        processor = f'max,level={_LEVEL},{self.processor},-svm'
        words = ['-cpu', processor, '-smp', smp]
        words += ['-m', str(self.memory)]
        return [*words, *self._list_nodes()]

    def _count_last_caches(self) -> int:
        found = [c for c in self.shape.caches if c.level == 3]
        return len(found[0].domains) if found else 0

    def _list_nodes(self) -> Iterable[str]:
        nodes = self.shape.nodes
        for number, cpus in enumerate(nodes):
            size = self.memory // len(nodes)
            yield '-object'
            yield f'memory-backend-ram,id=m{number},size={size}M'
            yield '-numa'
            yield ','.join(
                [
                    f'node,nodeid={number},memdev=m{number}',
                    *(f'cpus={first}-{last}' for first, last in _runs(cpus)),
                ]
            )


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return first and last of all that follow each other."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def _describe_caches(shape: resctrl.Shape) -> Iterable[str]:
    for one in shape.caches:
        flags = 4 * one.is_cdp_capable + 8 * one.has_sparse_masks
        yield (
            f'l{one.level}={one.ways},{one.num_closids},'
            f'{one.shareable_bits},{flags}'
        )
        if one.level == 3:
            yield f'size={one.ways},{one.size // one.ways // _LINE}'


def _describe_bandwidth(one: shape_mod.Bandwidth) -> str:
    if not one.is_linear:
        return f'{one.maximum.bit_length() - 1},{one.num_closids},0'
    flags = 4 + (one.throttle_mode == 'per-thread')
    return f'{one.maximum - one.granularity},{one.num_closids},{flags}'


def _describe_monitoring(shape: resctrl.Shape) -> str:
    one = shape.monitoring
    assert one is not None
    events = sum(_EVENTS.get(name, 0) for name in one.features)
    # The ids of a cache are dealt among its clusters.
    caches = {domain.cache_id for domain in one.domains}
    clusters = len(one.domains) // len(caches)
    return f'{one.num_rmids * clusters},{one.scale},{events},{_WIDTH}'


MACHINES = {
    one.name: one
    for one in (
        Machine(name='skylake2'),
        Machine(name='icelake_snc'),
        Machine(name='epyc16', processor=MILAN, memory=4096),
        # Two cores share an L2; those of the emulator are shared by threads.
        Machine(name='atom_l2', has_pairs=True),
        Machine(name='no_mba', processor=BROADWELL),
        Machine(name='granite', memory=4096),
    )
}
