# SPDX-License-Identifier: Apache-2.0

"""The folder ``/sys/devices/system/cpu`` of a machine, and its nodes."""

import os

from nova_ext_resources.testing.resctrl import numbers
from nova_ext_resources.testing.resctrl import shape as shape_mod


def write(
    shape: shape_mod.Shape, folder: str, online: set[int] | None = None
) -> str:
    """Make ``cpu`` and ``node`` below a folder.

    :param online: CPUs; None stands for all
    :returns: the path of ``cpu``
    """
    root = os.path.join(folder, 'cpu')
    everything = set(range(shape.num_cpus))
    listed = f'{numbers.format_cpu_list(everything)}\n'
    _put(root, 'possible', listed)
    _put(root, 'present', listed)
    has_siblings = shape.threads > 1
    _put(root, 'smt/control', 'on\n' if has_siblings else 'notsupported\n')
    _put(root, 'smt/active', f'{int(has_siblings)}\n')
    for cpu in everything:
        _write_cpu(shape, root, cpu)
    write_online(shape, folder, everything if online is None else online)
    for number, cpus in enumerate(shape.nodes):
        node = os.path.join(folder, 'node', f'node{number}')
        _put(node, 'cpulist', f'{numbers.format_cpu_list(cpus)}\n')
    return root


def write_online(
    shape: shape_mod.Shape, folder: str, online: set[int]
) -> None:
    """Show which CPUs are online; the others have no caches."""
    root = os.path.join(folder, 'cpu')
    offline = set(range(shape.num_cpus)) - online
    _put(root, 'online', f'{numbers.format_cpu_list(online)}\n')
    _put(root, 'offline', f'{numbers.format_cpu_list(offline)}\n')
    for cpu in range(shape.num_cpus):
        here = os.path.join(root, f'cpu{cpu}')
        # The first one cannot go offline: it has no such file.
        if cpu:
            _put(here, 'online', f'{int(cpu in online)}\n')
        _show_caches(shape, here, cpu, online)


def _show_caches(
    shape: shape_mod.Shape, here: str, cpu: int, online: set[int]
) -> None:
    for index, (level, size, domain) in enumerate(_list_caches(shape, cpu)):
        folder = os.path.join(here, 'cache', f'index{index}')
        names = {
            'level': str(level),
            'type': 'Unified',
            'id': str(domain.id),
            'size': f'{size >> 10}K',
            'shared_cpu_list': numbers.format_cpu_list(domain.cpus & online),
            'shared_cpu_map': numbers.format_cpu_mask(
                domain.cpus & online, shape.num_cpus
            ),
        }
        for name, text in names.items():
            if cpu in online:
                _put(folder, name, f'{text}\n')
            elif os.path.exists(os.path.join(folder, name)):
                os.unlink(os.path.join(folder, name))


def _list_caches(
    shape: shape_mod.Shape, cpu: int
) -> list[tuple[int, int, shape_mod.Domain]]:
    """Return (level, bytes, domain) of the caches a CPU has."""
    return [
        (cache.level, cache.size, domain)
        for cache in sorted(shape.caches, key=lambda one: one.level)
        for domain in cache.domains
        if cpu in domain.cpus
    ]


def _write_cpu(shape: shape_mod.Shape, root: str, cpu: int) -> None:
    package = next(
        (n for n, cpus in enumerate(shape.packages) if cpu in cpus), 0
    )
    topology = os.path.join(root, f'cpu{cpu}', 'topology')
    _put(topology, 'physical_package_id', f'{package}\n')
    _put(topology, 'core_id', f'{cpu}\n')


def _put(folder: str, name: str, text: str) -> None:
    path = os.path.join(folder, name)
    folder = os.path.dirname(path)
    # It is thousands of files in hundreds of folders.
    try:
        stream = open(path, 'w', encoding='utf-8')
    except FileNotFoundError:
        os.makedirs(folder)
        stream = open(path, 'w', encoding='utf-8')
    with stream:
        stream.write(text)
