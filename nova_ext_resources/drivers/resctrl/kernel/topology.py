# SPDX-License-Identifier: Apache-2.0

"""Which CPUs use which cache, from sysfs. Only reads.

The kernel tells the caches of CPUs that are online, and no others. A host may
switch off those that no server uses (``[libvirt] cpu_power_management``), so
what was seen once is known for the life of the process.
"""

from collections.abc import Iterable, Iterator
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
    try:
        # CPUs that are offline say nothing of their caches.
        for cpu in sorted(bitmask.parse_list(_read(cpu_path, 'online'))):
            # CPUs that share a cache all say the same.
            if not any(cpu in cpus for cpus in domains.values()):
                domains.update(_read_caches(cpu_path, cpu, level))
    except (OSError, ValueError) as err:
        raise errors.ResctrlFailed(
            action=f'read the caches of {cpu_path}', reason=str(err)
        ) from err
    return domains


def read_caches(
    cpu_path: str, levels: Iterable[int]
) -> dict[schemata.Cache, frozenset[int]]:
    """Return the caches of some levels, see :func:`read_domains`.

    :raises ResctrlError: they cannot be read
    """
    return {
        schemata.Cache(level, number): cpus
        for level in levels
        for number, cpus in read_domains(cpu_path, level).items()
    }


def read_known(
    cpu_path: str, levels: Iterable[int]
) -> dict[schemata.Cache, frozenset[int]]:
    """Return the caches of some levels, with all CPUs that ever were online.

    :raises ResctrlError: those that are online cannot be read
    """
    wanted = frozenset(levels)
    found = read_caches(cpu_path, wanted)
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


def read_online(cpu_path: str) -> frozenset[int]:
    """Return the CPUs that are online.

    :raises ResctrlError: it cannot be read
    """
    try:
        return bitmask.parse_list(_read(cpu_path, 'online'))
    except (OSError, ValueError) as err:
        raise errors.ResctrlFailed(
            action=f'read {cpu_path}/online', reason=str(err)
        ) from err


def read_sizes(cpu_path: str) -> dict[int, int]:
    """Give last-level cache id -> its size in bytes, of those online.

    :raises ResctrlError: it cannot be read
    """
    sizes: dict[int, int] = {}
    for number, cpus in read_domains(cpu_path).items():
        folder = os.path.join(cpu_path, f'cpu{min(cpus)}', 'cache')
        try:
            sizes[number] = _read_size(folder)
        except (OSError, ValueError) as err:
            raise errors.ResctrlFailed(
                action=f'read the size of the caches in {folder}',
                reason=str(err),
            ) from err
    return sizes


def _read_size(folder: str) -> int:
    for name in sorted(filter(_INDEX.fullmatch, os.listdir(folder))):
        index = os.path.join(folder, name)
        if _read(index, 'level') == str(L3):
            # The kernel writes KiB, always (drivers/base/cacheinfo.c).
            return int(_read(index, 'size').removesuffix('K')) << 10
    raise ValueError(f'none is of level {L3}')


def _read_caches(
    cpu_path: str, cpu: int, level: int
) -> Iterator[tuple[int, frozenset[int]]]:
    folder = os.path.join(cpu_path, f'cpu{cpu}', 'cache')
    names = os.listdir(folder)
    for name in sorted(filter(_INDEX.fullmatch, names)):
        index = os.path.join(folder, name)
        if _read(index, 'level') == str(level):
            shared = bitmask.parse_list(_read(index, 'shared_cpu_list'))
            yield int(_read(index, 'id')), shared


def _read(folder: str, name: str) -> str:
    with open(os.path.join(folder, name), encoding='utf-8') as file:
        return file.read().strip()
