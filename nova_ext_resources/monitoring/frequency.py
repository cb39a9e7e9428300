# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""How fast CPUs run now, from sysfs. Only reads."""

from collections.abc import Iterable, Mapping
import os
import statistics

#: The file has kHz (kernel documentation, "CPU Performance Scaling").
_UNIT = 1000


def read_frequencies(cpu_path: str, cpus: Iterable[int]) -> dict[int, float]:
    """Give CPU -> Hz, for those that tell it.

    :param cpu_path: ``/sys/devices/system/cpu``
    """
    found = {}
    for cpu in cpus:
        path = os.path.join(cpu_path, f'cpu{cpu}', 'cpufreq/scaling_cur_freq')
        try:
            with open(path, encoding='ascii') as file:
                text = file.read().strip()
        except (OSError, UnicodeDecodeError):
            # It is offline, or a guest's: most hypervisors show none.
            continue
        # Some drivers write "<unknown>".
        if text.isdecimal():
            found[cpu] = float(int(text) * _UNIT)
    return found


def find_mean(
    frequencies: Mapping[int, float], cpus: Iterable[int] | None
) -> float | None:
    """Give the mean of the CPUs that told theirs."""
    known = [frequencies[cpu] for cpu in cpus or () if cpu in frequencies]
    return statistics.fmean(known) if known else None
