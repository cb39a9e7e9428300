# SPDX-License-Identifier: Apache-2.0

"""How fast CPUs run now, from sysfs. Only reads."""

from collections.abc import Iterable, Mapping
import os
import statistics

#: The file has kHz (kernel documentation, "CPU Performance Scaling").
_UNIT = 1000


def read_frequencies(cpu_path: str, cpus: Iterable[int]) -> dict[int, float]:
    """Return CPU -> Hz, for those that report it.

    :param cpu_path: ``/sys/devices/system/cpu``
    """
    found = {}
    for cpu in cpus:
        path = os.path.join(cpu_path, f'cpu{cpu}', 'cpufreq/scaling_cur_freq')
        try:
            with open(path, encoding='ascii') as file:
                text = file.read().strip()
        except (OSError, UnicodeDecodeError):
            # The CPU is offline, or that of a guest: most hypervisors
            # show no frequency.
            continue
        # Some drivers write "<unknown>".
        if text.isdecimal():
            found[cpu] = float(int(text) * _UNIT)
    return found


def find_mean(
    frequencies: Mapping[int, float], cpus: Iterable[int] | None
) -> float | None:
    """Return the mean of the CPUs whose frequency is known."""
    known = [frequencies[cpu] for cpu in cpus or () if cpu in frequencies]
    return statistics.fmean(known) if known else None
