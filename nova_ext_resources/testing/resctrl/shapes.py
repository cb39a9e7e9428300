# SPDX-License-Identifier: Apache-2.0

"""Machines that exist, by name."""

from collections.abc import Iterable, Mapping
import types

from nova_ext_resources.testing.resctrl import shape

MIB = 1 << 20
EVENTS = ('llc_occupancy', 'mbm_total_bytes', 'mbm_local_bytes')
#: AMD can say what these two count.
CONFIGURABLE_EVENTS = (
    'llc_occupancy',
    'mbm_total_bytes',
    'mbm_total_bytes_config',
    'mbm_local_bytes',
    'mbm_local_bytes_config',
)


def _deal(
    parts: int, cores: int, threads: int = 2
) -> tuple[frozenset[int], ...]:
    """Number CPUs as Linux does: all first threads, then all second ones."""
    size = cores // parts
    return tuple(
        frozenset(
            thread * cores + part * size + core
            for thread in range(threads)
            for core in range(size)
        )
        for part in range(parts)
    )


def _domains(
    parts: Iterable[frozenset[int]],
) -> tuple[shape.Domain, ...]:
    return tuple(
        shape.Domain(id=number, cpus=cpus) for number, cpus in enumerate(parts)
    )


def _monitored(
    parts: Iterable[frozenset[int]], per_cache: int = 1
) -> tuple[shape.MonitorDomain, ...]:
    return tuple(
        shape.MonitorDomain(id=number, cache_id=number // per_cache, cpus=cpus)
        for number, cpus in enumerate(parts)
    )


def _skylake2() -> shape.Shape:
    sockets = _deal(2, 24)
    return shape.Shape(
        name='skylake2',
        kernel=(5, 15),
        num_cpus=48,
        threads=2,
        caches=(
            shape.Cache(
                level=3,
                ways=11,
                num_closids=16,
                shareable_bits=0x600,
                is_cdp_capable=True,
                size=25952256,
                domains=_domains(sockets),
            ),
        ),
        # NOTE: half as many classes as the cache has: 8 is what counts.
        bandwidths=(
            shape.Bandwidth(
                num_closids=8, throttle_mode='max', domains=_domains(sockets)
            ),
        ),
        monitoring=shape.Monitoring(
            num_rmids=192, features=EVENTS, domains=_monitored(sockets)
        ),
        nodes=sockets,
        packages=sockets,
    )


def _icelake_snc() -> shape.Shape:
    sockets = _deal(2, 32)
    clusters = _deal(4, 32)
    return shape.Shape(
        name='icelake_snc',
        kernel=(6, 11),
        num_cpus=64,
        threads=2,
        caches=(
            shape.Cache(
                level=3,
                ways=12,
                num_closids=15,
                shareable_bits=0xC00,
                is_cdp_capable=True,
                size=24 * MIB,
                domains=_domains(sockets),
            ),
        ),
        bandwidths=(
            shape.Bandwidth(
                num_closids=15, throttle_mode='max', domains=_domains(sockets)
            ),
        ),
        # Two clusters share the counters of a socket.
        monitoring=shape.Monitoring(
            num_rmids=112,
            features=EVENTS,
            domains=_monitored(clusters, per_cache=2),
        ),
        nodes=clusters,
        packages=sockets,
    )


def _epyc16() -> shape.Shape:
    complexes = _deal(16, 64)
    sockets = _deal(2, 64)
    return shape.Shape(
        name='epyc16',
        kernel=(6, 8),
        num_cpus=128,
        threads=2,
        caches=(
            shape.Cache(
                level=3,
                ways=16,
                num_closids=16,
                min_cbm_bits=0,
                has_sparse_masks=True,
                is_cdp_capable=True,
                size=16 * MIB,
                domains=_domains(complexes),
            ),
        ),
        bandwidths=(
            shape.Bandwidth(
                num_closids=16,
                minimum=0,
                granularity=1,
                maximum=2048,
                is_linear=False,
                domains=_domains(complexes),
            ),
        ),
        monitoring=shape.Monitoring(
            num_rmids=256,
            features=CONFIGURABLE_EVENTS,
            scale=64,
            domains=_monitored(complexes),
        ),
        nodes=sockets,
        packages=sockets,
    )


def _atom_l2() -> shape.Shape:
    modules = _deal(8, 16, threads=1)
    return shape.Shape(
        name='atom_l2',
        kernel=(5, 15),
        num_cpus=16,
        caches=(
            shape.Cache(
                level=2,
                ways=8,
                num_closids=4,
                size=2 * MIB,
                domains=_domains(modules),
            ),
        ),
        nodes=_deal(1, 16, threads=1),
        packages=_deal(1, 16, threads=1),
        can_pseudo_lock=True,
    )


def _no_mba() -> shape.Shape:
    sockets = _deal(2, 20)
    return shape.Shape(
        name='no_mba',
        kernel=(5, 4),
        num_cpus=40,
        threads=2,
        caches=(
            shape.Cache(
                level=3,
                ways=20,
                num_closids=16,
                shareable_bits=0xC0000,
                is_cdp_capable=True,
                size=25 * MIB,
                domains=_domains(sockets),
            ),
        ),
        monitoring=shape.Monitoring(
            num_rmids=56,
            features=EVENTS,
            scale=32768,
            domains=_monitored(sockets),
        ),
        nodes=sockets,
        packages=sockets,
        can_pseudo_lock=True,
    )


def _haswell() -> shape.Shape:
    """Two ways at least, four classes, and nothing is monitored."""
    socket = _deal(1, 12)
    return shape.Shape(
        name='haswell',
        kernel=(4, 19),
        num_cpus=24,
        threads=2,
        caches=(
            shape.Cache(
                level=3,
                ways=20,
                num_closids=4,
                min_cbm_bits=2,
                shareable_bits=0xC0000,
                size=30 * MIB,
                domains=_domains(socket),
            ),
        ),
        nodes=socket,
        packages=socket,
    )


def _granite() -> shape.Shape:
    """Masks with gaps, L2 and L3, and a kernel that no longer pads."""
    sockets = _deal(2, 32)
    cores = _deal(32, 32)
    return shape.Shape(
        name='granite',
        kernel=(6, 16),
        num_cpus=64,
        threads=2,
        caches=(
            shape.Cache(
                level=3,
                ways=16,
                num_closids=15,
                has_sparse_masks=True,
                is_cdp_capable=True,
                size=336 * MIB,
                domains=_domains(sockets),
            ),
            shape.Cache(
                level=2,
                ways=16,
                num_closids=8,
                has_sparse_masks=True,
                is_cdp_capable=True,
                size=2 * MIB,
                domains=_domains(cores),
            ),
        ),
        bandwidths=(
            shape.Bandwidth(
                num_closids=15,
                throttle_mode='per-thread',
                domains=_domains(sockets),
            ),
        ),
        monitoring=shape.Monitoring(
            num_rmids=320, features=EVENTS, domains=_monitored(sockets)
        ),
        nodes=sockets,
        packages=sockets,
    )


def _list_shapes() -> Iterable[shape.Shape]:
    yield _skylake2()
    yield _icelake_snc()
    yield _epyc16()
    yield _atom_l2()
    yield _no_mba()
    yield _haswell()
    yield _granite()


def _named() -> Mapping[str, shape.Shape]:
    named = {one.name: one for one in _list_shapes()}
    named['cdp'] = named['skylake2'].with_options('cdp')
    named['mbps'] = named['skylake2'].with_options('mba_MBps')
    return types.MappingProxyType(named)


#: By the names that the command line and the fixture take. ``cdp`` and
#: ``mbps`` are ``skylake2``, mounted with an option.
SHAPES = _named()
