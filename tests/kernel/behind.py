# SPDX-License-Identifier: Apache-2.0

"""What tests do behind the scenes, done to the kernel of this machine.

It has the methods of ``nova_ext_resources.testing.resctrl.interference``.
What a kernel cannot do raises :class:`unittest.SkipTest`.
"""

from collections.abc import Iterable
import contextlib
import os
import time
from typing import Any
import unittest

from nova_ext_resources.testing import resctrl
from nova_ext_resources.testing.resctrl import faults
from tests.kernel import counters as counters_mod
from tests.kernel import cpus as cpus_mod
from tests.kernel import mount as mount_mod
from tests.kernel import tasks as tasks_mod

#: Seconds in which the kernel looks at ids in limbo; it does so each second.
_SETTLE = 2.5


class Behind:
    """This machine, seen from behind.

    :ivar operations: those so far, each with its path
    """

    def __init__(self, shape: resctrl.Shape) -> None:
        self.shape = shape
        self.faults = faults.Faults()
        self.operations: list[list[str]] = []
        self._tasks = tasks_mod.Tasks()
        scale = shape.monitoring.scale if shape.monitoring else 1
        self._counters = counters_mod.Counters(scale)

    def reset(self) -> None:
        """Make the machine as it was at first."""
        self.end()
        self._counters.flush()
        if self.shape.options or not mount_mod.empty():
            self.remount()
        self.operations.clear()

    def end(self) -> None:
        """Take back what outlives a test."""
        self.faults.clear()
        self._tasks.end_all()
        cpus_mod.set_all_online()

    # The mount

    def remount(self, options: Iterable[str] | None = None) -> None:
        given = self.shape.options if options is None else options
        mount_mod.mount(given)

    def unmount(self) -> None:
        mount_mod.unmount()

    # Groups

    def list_groups(self) -> dict[str, dict[str, Any]]:
        return {
            group: mount_mod.describe(group, control)
            for group, control in mount_mod.list_groups()
        }

    def get_values(self, group: str, resource: str = 'L3') -> dict[str, int]:
        return mount_mod.read_values(group)[resource]

    def add_group(
        self,
        name: str,
        schemata: str = '',
        cpus: str = '',
        mode: str = 'shareable',
        tasks: Iterable[int] = (),
    ) -> None:
        os.mkdir(f'{mount_mod.ROOT}/{name}')
        if schemata:
            lines = schemata.rstrip('\n')
            mount_mod.write(f'{name}/schemata', f'{lines}\n')
        if cpus:
            mount_mod.write(f'{name}/cpus_list', f'{cpus}\n')
        for tid in tasks:
            mount_mod.write(f'{name}/tasks', f'{tid}\n')
        if 'mon_groups' not in name:
            mount_mod.write(f'{name}/mode', f'{mode}\n')

    def write(self, path: str, text: str) -> None:
        mount_mod.write(path, text)

    def remove_group(self, group: str) -> None:
        os.rmdir(f'{mount_mod.ROOT}/{group}')

    def count_free_classes(self) -> int:
        """Return how many groups can be made, by making them."""
        made: list[str] = []
        with contextlib.suppress(OSError):
            while True:
                path = f'{mount_mod.ROOT}/free{len(made)}'
                os.mkdir(path)
                made.append(path)
        for path in made:
            os.rmdir(path)
        return len(made)

    # CPUs

    def set_offline(self, cpus: str) -> None:
        cpus_mod.set_offline(cpus)

    def set_online(self, cpus: str) -> None:
        cpus_mod.set_online(cpus)

    # Tasks

    def start_task(self, tid: int | None = None, parent: int = 1) -> int:
        return self._tasks.start(tid, parent)

    def clone_task(self, parent: int, tid: int | None = None) -> int:
        if tid is not None:
            raise unittest.SkipTest('the number of a thread cannot be chosen')
        return self._tasks.clone(parent)

    def list_threads(self, pid: int) -> list[int]:
        return self._tasks.list_threads(pid)

    def exit_task(self, tid: int) -> None:
        self._tasks.exit(tid)

    # Monitoring

    def set_occupancy(self, group: str, domain: int, size: int) -> None:
        self._counters.set(group, domain, 'llc_occupancy', size)

    def add_traffic(
        self, group: str, domain: int, total: int, local: int = 0
    ) -> None:
        self._counters.add(group, domain, 'mbm_total_bytes', total)
        self._counters.add(group, domain, 'mbm_local_bytes', local)

    def set_reading(
        self, group: str, domain: int, event: str, text: str | None
    ) -> None:
        self._counters.set_reading(group, domain, event, text)

    def count_ids(self) -> dict[str, int]:
        raise unittest.SkipTest('a kernel does not say which ids are free')

    def look_at_limbo(self) -> None:
        time.sleep(_SETTLE)

    def flush_caches(self) -> None:
        self._counters.flush()
        time.sleep(_SETTLE)

    # Faults

    def fail(self, **fault: Any) -> None:
        if 'do' in fault:
            fault['do'] = tuple(fault['do'])
        self.faults.add(faults.Fault(**fault))

    def stop_failing(self) -> None:
        self.faults.clear()

    def list_operations(self) -> list[list[str]]:
        return list(self.operations)

    def forget_operations(self) -> None:
        self.operations.clear()
