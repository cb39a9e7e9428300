# SPDX-License-Identifier: Apache-2.0

"""Looks behind the scenes of the model, and interferes with it.

All arguments and results are what JSON can carry, so that it can be done to
a model in another process too. A group is named by its folder: '' is the
default one, ``web/mon_groups/cache`` a monitoring group.
"""

from collections.abc import Iterable, Sequence
import dataclasses
import errno
from typing import Any

from nova_ext_resources.testing.resctrl import faults
from nova_ext_resources.testing.resctrl import groups
from nova_ext_resources.testing.resctrl import kernel as kernel_mod
from nova_ext_resources.testing.resctrl import monitoring
from nova_ext_resources.testing.resctrl import mount
from nova_ext_resources.testing.resctrl import numbers
from nova_ext_resources.testing.resctrl import tasks as tasks_mod


class Interference:
    """What other software, the hardware and bad luck do."""

    def __init__(self, kernel: kernel_mod.Kernel) -> None:
        self._kernel = kernel
        kernel.act = self.call

    def call(self, name: str, *arguments: Any, **named: Any) -> Any:
        """Do something by its name.

        :raises ValueError: nothing has this name
        """
        if name.startswith('_') or name == 'call' or name not in dir(self):
            raise ValueError(f'{name} cannot be done')
        with self._kernel.mutex:
            return getattr(self, name)(*arguments, **named)

    @property
    def _mount(self) -> mount.Mount:
        return self._kernel.mounted

    def _find(self, group: str) -> groups.Group:
        found = self._kernel.find_group(group)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, 'no such group', group)
        return found

    def reset(self) -> None:
        """Make the machine as it was at first."""
        self._kernel.reset()

    # The mount

    def remount(self, options: Iterable[str] | None = None) -> None:
        """Unmount and mount it, with other options if any are given."""
        self._kernel.remount(None if options is None else frozenset(options))

    def unmount(self) -> None:
        """Leave an empty folder."""
        self._kernel.unmount()

    # Groups

    def list_groups(self) -> dict[str, dict[str, Any]]:
        """Return each group: class, mode, CPUs, tasks, values."""
        with self._kernel.mutex:
            return {
                group.path: self._describe(group)
                for group in self._mount.list_groups()
            }

    def _describe(self, group: groups.Group) -> dict[str, Any]:
        is_default = group is self._mount.root
        return {
            'closid': group.closid,
            'rmid': group.rmid,
            'mode': group.mode,
            'cpus': sorted(group.cpus),
            # Of the default group: every other task of the machine.
            'tasks': [] if is_default else self._mount.list_tasks(group),
            'values': {
                name: {
                    str(domain): _find_value(group, name, domain, values)
                    for domain, values in control.values.items()
                }
                for name, control in self._mount.schemata.controls.items()
            },
        }

    def get_values(self, group: str, resource: str = 'L3') -> dict[str, int]:
        """Return mask or limit by domain; domains are text, as in JSON."""
        values: dict[str, int] = self.list_groups()[group]['values'][resource]
        return values

    def add_group(
        self,
        name: str,
        schemata: str = '',
        cpus: str = '',
        mode: str = 'shareable',
        tasks: Iterable[int] = (),
    ) -> None:
        """Make a group as other software would."""
        with self._kernel.mutex:
            self._mount.make_group(name)
            group = self._find(name)
            if schemata:
                self._mount.write_schemata(group, schemata.rstrip('\n'))
            if cpus:
                count = self._kernel.shape.num_cpus
                self._mount.write_cpus(
                    group, numbers.parse_cpu_list(cpus, count)
                )
            for tid in tasks:
                self._mount.write_tasks(group, f'{tid}\n', tid)
            self._mount.write_mode(group, mode)

    def write(self, path: str, text: str) -> None:
        """Write as other software would: no fault hits it."""
        with self._kernel.mutex:
            self._kernel.write_unseen(path, text.encode())

    def remove_group(self, group: str) -> None:
        """Remove a group behind everybody's back."""
        with self._kernel.mutex:
            found = self._find(group)
            if found.parent is None:
                self._mount.remove_group(found)
            else:
                self._mount.remove_monitor_group(found)

    def count_free_classes(self) -> int:
        return self._mount.num_free_closids

    # CPUs

    def set_offline(self, cpus: str) -> None:
        """Take CPUs like ``0-3,8`` offline."""
        count = self._kernel.shape.num_cpus
        self._kernel.set_offline(numbers.parse_cpu_list(cpus, count))

    def set_online(self, cpus: str) -> None:
        count = self._kernel.shape.num_cpus
        self._kernel.set_online(numbers.parse_cpu_list(cpus, count))

    # Caches

    def set_io_ways(self, ways: int) -> None:
        """Let I/O devices fill these ways of L3 (``io_alloc_cbm``).

        They have a class of service already.
        """
        with self._kernel.mutex:
            for control in self._mount.schemata.caches:
                if control.cache.level == 3:
                    control.cache = dataclasses.replace(
                        control.cache, io_ways=ways
                    )

    # Tasks

    @property
    def _tasks(self) -> tasks_mod.MadeUpTasks:
        tasks = self._kernel.tasks
        if not isinstance(tasks, tasks_mod.MadeUpTasks):
            raise ValueError('the tasks are those of this machine')
        return tasks

    def start_task(self, tid: int | None = None, parent: int = 1) -> int:
        """Fork a process; it starts in its parent's group."""
        with self._kernel.mutex:
            return self._tasks.start(tid, parent)

    def clone_task(self, parent: int, tid: int | None = None) -> int:
        """Start a thread; it starts in the group of the one that does it."""
        with self._kernel.mutex:
            self._mount.poll_tasks()
            return self._tasks.clone(parent, tid)

    def list_threads(self, pid: int) -> list[int]:
        """Return the threads of a process that was started."""
        return self._tasks.list_threads(pid)

    def exit_task(self, tid: int) -> None:
        with self._kernel.mutex:
            self._tasks.exit(tid)

    # Monitoring

    @property
    def _monitor(self) -> monitoring.Monitor:
        if self._mount.monitor is None:
            raise ValueError('nothing is monitored here')
        return self._mount.monitor

    def _rmid(self, group: str) -> int:
        rmid = self._find(group).rmid
        if rmid is None:
            raise ValueError(f'{group} is not monitored')
        return rmid

    def set_occupancy(self, group: str, domain: int, size: int) -> None:
        """Have a group fill so many bytes of a cache."""
        self._monitor.set_value(
            self._rmid(group), domain, monitoring.OCCUPANCY, size
        )

    def add_traffic(
        self, group: str, domain: int, total: int, local: int = 0
    ) -> None:
        """Have a group move so many bytes more."""
        rmid = self._rmid(group)
        self._monitor.add(rmid, domain, 'mbm_total_bytes', total)
        self._monitor.add(rmid, domain, 'mbm_local_bytes', local)

    def set_reading(
        self, group: str, domain: int, event: str, text: str | None
    ) -> None:
        """Have a counter say ``Unavailable`` or ``Error``; None ends it."""
        self._monitor.set_reading(self._rmid(group), domain, event, text)

    def count_ids(self) -> dict[str, int]:
        """Return how many monitoring ids are free, and how many in limbo."""
        return {
            'free': self._monitor.num_free,
            'limbo': len(self._monitor.limbo),
        }

    def look_at_limbo(self) -> None:
        """Do now what the kernel does each second."""
        self._monitor.look(force=True)

    def flush_caches(self) -> None:
        """Empty the caches of what is in limbo, and look."""
        self._monitor.flush()

    # Faults

    def fail(self, **fault: Any) -> None:
        """Have something go wrong; see :class:`.faults.Fault`."""
        if 'do' in fault:
            fault['do'] = tuple(fault['do'])
        self._kernel.faults.add(faults.Fault(**fault))

    def stop_failing(self) -> None:
        self._kernel.faults.clear()

    def list_operations(self) -> list[list[str]]:
        """Return (operation, path) of each file operation so far."""
        return [list(one) for one in tuple(self._kernel.operations)]

    def forget_operations(self) -> None:
        self._kernel.operations.clear()


def _find_value(
    group: groups.Group, name: str, domain: int, values: Sequence[int]
) -> int:
    """Return a value of a group; another one may have had its class since."""
    if group.locked is None:
        return values[group.closid]
    *place, mask = group.locked
    return mask if place == [name, domain] else 0
