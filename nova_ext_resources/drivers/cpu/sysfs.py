# SPDX-License-Identifier: Apache-2.0

"""Frequency and idle states of CPUs, as the kernel shows them. Only reads.

Only CPUs that are online count. Files of a CPU vanish when it goes offline,
and those of a frequency policy whose CPUs are all offline answer EBUSY since
Linux 5.19. The latter is in no documentation: ``show`` in
*drivers/cpufreq/cpufreq.c*.

Sources: kernel documentation, *admin-guide/pm/cpufreq*, *intel_pstate*,
*amd-pstate* and *cpuidle*, and *ABI/testing/sysfs-devices-system-cpu*.
"""

from collections.abc import Iterator
import dataclasses
import errno
import re

from nova_ext_resources.drivers.devices import files
from nova_ext_resources.objects import bitmask

_POLICY = re.compile('policy[0-9]+')
_STATE = re.compile('state[0-9]+')

#: What drivers, governors, preferences and idle states are called.
_NAME = re.compile('[A-Za-z0-9][A-Za-z0-9 _.+-]{0,63}')

#: Nova takes CPUs offline and back, with each server that starts or stops.
_ATTEMPTS = 5

#: What files answer that vanish, or whose CPUs go offline.
_GONE = frozenset({errno.ENOENT, errno.EBUSY, errno.ENODEV})

#: The idle state in which a CPU runs and waits.
_POLL = 'POLL'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How some CPUs change their frequency.

    :ivar cpus: those of its CPUs that are online
    :ivar driver: of the kernel, such as ``intel_pstate``
    :ivar preference: of energy to performance, such as
        ``balance_performance``; '' where the hardware has none
    :ivar boost: whether it may exceed the nominal frequency; None where the
        policy itself has no such switch
    """

    cpus: frozenset[int]
    driver: str
    governor: str
    preference: str = ''
    boost: bool | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CpuScan:
    """All that was read.

    :ivar cpus: those that are online
    :ivar turbo: whether CPUs may exceed their nominal frequency, by the
        switch for all of them; None where there is no such switch
    :ivar idle_states: names of those that a CPU may enter
    :ivar has_smt: whether a core runs several threads now
    """

    cpus: frozenset[int]
    policies: tuple[Policy, ...] = ()
    turbo: bool | None = None
    idle_states: frozenset[str] = frozenset()
    has_smt: bool = False


def read(root: str) -> CpuScan:
    """Read the settings, while no CPU comes or goes.

    :param root: ``/sys``
    :raises (OSError, ValueError): they cannot be read
    :raises Unsteady: CPUs come or go all the time
    """
    folder = f'{root}/devices/system/cpu'
    for left in reversed(range(_ATTEMPTS)):
        cpus = _read_online(folder)
        try:
            seen = _read_settings(folder, cpus)
        except OSError as err:
            if err.errno not in _GONE:
                raise
            if not left and cpus == _read_online(folder):
                raise
        else:
            if cpus == _read_online(folder):
                return seen
    raise files.Unsteady(f'{folder}: CPUs go online or offline all the time')


def _read_settings(folder: str, cpus: frozenset[int]) -> CpuScan:
    return CpuScan(
        cpus=cpus,
        policies=tuple(_read_policies(f'{folder}/cpufreq')),
        turbo=_read_turbo(folder),
        idle_states=frozenset(
            name
            for cpu in sorted(cpus)
            for name in _read_idle_states(f'{folder}/cpu{cpu}/cpuidle')
        ),
        has_smt=files.read_optional(f'{folder}/smt', 'active') == '1',
    )


def _read_online(folder: str) -> frozenset[int]:
    return bitmask.parse_list(files.read(folder, 'online'))


def _read_policies(folder: str) -> Iterator[Policy]:
    for name in files.list_folder(folder):
        if not _POLICY.fullmatch(name):
            continue
        path = f'{folder}/{name}'
        if cpus := _read_affected(path):
            boost = files.read_optional(path, 'boost')
            yield Policy(
                cpus=cpus,
                driver=_read_name(path, 'scaling_driver'),
                governor=_read_name(path, 'scaling_governor'),
                preference=_read_optional_name(
                    path, 'energy_performance_preference'
                ),
                boost=None if not boost else boost == '1',
            )


def _read_affected(folder: str) -> frozenset[int]:
    """Return the CPUs of a policy that are online; none if all are offline."""
    try:
        return frozenset(map(int, files.read(folder, 'affected_cpus').split()))
    except OSError as err:
        if err.errno != errno.EBUSY:
            raise
        return frozenset()


def _read_turbo(folder: str) -> bool | None:
    """Return whether turbo is on, by the driver's switch for all CPUs."""
    if off := files.read_optional(f'{folder}/intel_pstate', 'no_turbo'):
        return off == '0'
    if on := files.read_optional(f'{folder}/cpufreq', 'boost'):
        return on == '1'
    return None


def _read_idle_states(folder: str) -> Iterator[str]:
    for one in files.list_folder(folder):
        if not _STATE.fullmatch(one):
            continue
        path = f'{folder}/{one}'
        name = _read_name(path, 'name')
        if files.read(path, 'disable') == '0' and name != _POLL:
            yield name


def _read_name(folder: str, name: str) -> str:
    """Return what a file names.

    :raises (OSError, ValueError): it cannot be read, or it is no name
    """
    found = files.read(folder, name)
    if not _NAME.fullmatch(found):
        raise ValueError(
            f'{folder}/{name}: {files.show(found)} is not a valid name'
        )
    return found


def _read_optional_name(folder: str, name: str) -> str:
    return (
        _read_name(folder, name) if files.read_optional(folder, name) else ''
    )
