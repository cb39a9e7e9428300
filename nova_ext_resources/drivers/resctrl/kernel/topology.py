# SPDX-License-Identifier: Apache-2.0

"""Which CPUs use which cache, from sysfs. Only reads.

The kernel shows the caches of CPUs that are online, and no others. A host may
switch off those that no server uses (``[libvirt] cpu_power_management``), so
what was seen once is known for the life of the process.
"""

from collections.abc import Iterable, Iterator
import contextlib
import os
import re
import threading

from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources.drivers.resctrl.kernel import schemata
from nova_ext_resources.objects import bitmask

_NO_SMT = frozenset({'off', 'forceoff'})

_INDEX = re.compile(r'index[0-9]+')

#: Of a last-level cache.
L3 = 3

#: Of all caches that the kernel may control.
LEVELS = (2, L3)

#: Where the kernel shows its CPUs.
PATH = '/sys/devices/system/cpu'

#: All caches that were seen, with their CPUs, by path.
_seen: dict[str, dict[schemata.Cache, frozenset[int]]] = {}

_seen_lock = threading.Lock()


def read_domains(cpu_path: str, level: int = L3) -> dict[int, frozenset[int]]:
    """Return cache id -> its CPUs that are online.

    The ids are those of the domains in a schemata file.

    :param cpu_path: ``/sys/devices/system/cpu``
    :raises ResctrlError: it cannot be read
    """
    domains: dict[int, frozenset[int]] = {}
    with _translated(f'read the caches of {cpu_path}'):
        # The kernel shows no caches of CPUs that are offline.
        for cpu in sorted(_list_online(cpu_path)):
            # CPUs that share a cache all show the same.
            if not any(cpu in cpus for cpus in domains.values()):
                for index in _list_indices(cpu_path, cpu, level):
                    shared = _read(index, 'shared_cpu_list')
                    number = int(_read(index, 'id'))
                    domains[number] = bitmask.parse_list(shared)
    return domains


def read_known(
    cpu_path: str, levels: Iterable[int]
) -> dict[schemata.Cache, frozenset[int]]:
    """Return the caches of some levels, with all CPUs that ever were online.

    :raises ResctrlError: those that are online cannot be read
    """
    wanted = frozenset(levels)
    found = {
        schemata.Cache(level, number): cpus
        for level in wanted
        for number, cpus in read_domains(cpu_path, level).items()
    }
    with _seen_lock:
        seen = _seen.setdefault(cpu_path, {})
        for cache, cpus in found.items():
            for other in seen:
                # Numbers are given anew when hardware is exchanged.
                if other.level == cache.level and other != cache:
                    seen[other] -= cpus
            seen[cache] = seen.get(cache, frozenset()) | cpus
        return {
            cache: cpus
            for cache, cpus in seen.items()
            if cpus and cache.level in wanted
        }


def read_unknown(
    cpu_path: str, known: Iterable[frozenset[int]]
) -> frozenset[int]:
    """Return CPUs that are offline and may be of a cache that is unknown.

    Not where hyper-threading is switched off: each cache has its other
    threads online.

    :param known: CPUs whose caches are known
    """
    try:
        offline = bitmask.parse_list(_read(cpu_path, 'offline'))
    except (OSError, ValueError):
        return frozenset()
    try:
        if _read(cpu_path, 'smt/control') in _NO_SMT:
            return frozenset()
    except OSError:
        pass
    # CPUs that could be plugged in are no CPUs yet.
    there = (one for one in offline if os.path.exists(f'{cpu_path}/cpu{one}'))
    return frozenset(there).difference(*known)


def has_siblings(cpu_path: str) -> bool:
    """Return whether cores may have several threads.

    They may be offline; and before 4.19 the kernel does not say.
    """
    try:
        control = _read(cpu_path, 'smt/control')
        return control == 'on' or _read(cpu_path, 'smt/active') == '1'
    except OSError:
        return True


def read_online(cpu_path: str) -> frozenset[int]:
    """Return the CPUs that are online.

    :raises ResctrlError: it cannot be read
    """
    with _translated(f'read {cpu_path}/online'):
        return _list_online(cpu_path)


def read_sizes(cpu_path: str) -> dict[int, int]:
    """Return last-level cache id -> its size in bytes, of those online.

    :raises ResctrlError: it cannot be read
    """
    sizes = {}
    with _translated(f'read the sizes of the caches of {cpu_path}'):
        for number, cpus in read_domains(cpu_path).items():
            for index in _list_indices(cpu_path, min(cpus), L3):
                # The kernel writes KiB, always (drivers/base/cacheinfo.c).
                size = _read(index, 'size').removesuffix('K')
                sizes[number] = int(size) << 10
    return sizes


def _list_online(cpu_path: str) -> frozenset[int]:
    try:
        return bitmask.parse_list(_read(cpu_path, 'online'))
    except FileNotFoundError as err:
        # Every kernel has this one.
        raise errors.ResctrlFailed(
            action=f'read {cpu_path}/online',
            reason='there is no such file; set [ext_resources_resctrl] '
            f'cpu_path to {PATH} (only tests need another value)',
        ) from err


def _list_indices(cpu_path: str, cpu: int, level: int) -> Iterator[str]:
    """Return the folders of the caches of a CPU that are of a level."""
    folder = os.path.join(cpu_path, f'cpu{cpu}', 'cache')
    for name in sorted(filter(_INDEX.fullmatch, os.listdir(folder))):
        index = os.path.join(folder, name)
        if _read(index, 'level') == str(level):
            yield index


@contextlib.contextmanager
def _translated(action: str) -> Iterator[None]:
    """:raises ResctrlFailed: a file cannot be read, or is malformed"""
    try:
        yield
    except (OSError, ValueError) as err:
        raise errors.ResctrlFailed(action=action, reason=str(err)) from err


def _read(folder: str, name: str) -> str:
    with open(os.path.join(folder, name), encoding='utf-8') as file:
        return file.read().strip()
