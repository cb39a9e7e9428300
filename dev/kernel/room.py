# SPDX-License-Identifier: Apache-2.0

"""How many guests this machine has room for at a time."""

from collections.abc import Sequence
import os
import pathlib
import re

from dev.kernel import machines
from dev.kernel import plan

#: In MiB, beside the memory of a guest: its emulator, with the code that it
#: has translated, and what runs here on its behalf.
BESIDE = 1024

_MEMINFO = pathlib.Path('/proc/meminfo')


def count_guests(
    jobs: Sequence[plan.Job], meminfo: pathlib.Path = _MEMINFO
) -> int:
    """Return how many of these run at a time, at least one.

    A guest takes a CPU, as its own CPUs take turns in one thread, and its
    memory.
    """
    each = max(machines.MACHINES[one.machine].memory for one in jobs) + BESIDE
    fitting = read_available(meminfo) // each
    return max(1, min(len(jobs), len(os.sched_getaffinity(0)), fitting))


def read_available(meminfo: pathlib.Path) -> int:
    """Return the memory that new processes can have, in MiB (proc(5))."""
    text = meminfo.read_text(encoding='ascii')
    found = re.search(r'^MemAvailable: +([0-9]+) kB$', text, re.MULTILINE)
    return int(found[1]) // 1024 if found else 0
