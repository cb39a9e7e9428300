# SPDX-License-Identifier: Apache-2.0

"""A machine with resctrl for the time of a test."""

import os
from typing import Any

import fixtures

from nova_ext_resources.testing.resctrl import interference
from nova_ext_resources.testing.resctrl import kernel as kernel_mod
from nova_ext_resources.testing.resctrl import mounted
from nova_ext_resources.testing.resctrl import shape as shape_mod
from nova_ext_resources.testing.resctrl import shapes
from nova_ext_resources.testing.resctrl import sysfs
from nova_ext_resources.testing.resctrl import tasks as tasks_mod
from nova_ext_resources.testing.resctrl import tree


class ResctrlFixture(fixtures.Fixture):
    """Makes a machine, and shows it.

    :param shape: a name of :data:`.shapes.SHAPES`, or a shape
    :param fuse: True mounts it, in another process; None or False does not
    :param tasks: ``made-up`` for numbers that the test starts and ends,
        ``proc`` for the threads of this machine
    :ivar file_system: has the file operations, see :class:`.tree.Tree`
    :ivar kernel: to look behind the scenes and to interfere; has what
        :class:`.interference.Interference` has
    :ivar path: of the mount, None when it is not mounted
    """

    def __init__(
        self,
        shape: str | shape_mod.Shape = 'skylake2',
        *,
        fuse: bool | None = None,
        tasks: str = 'made-up',
    ) -> None:
        super().__init__()
        self.shape = shapes.SHAPES[shape] if isinstance(shape, str) else shape
        self._fuse = bool(fuse)
        self._tasks = tasks
        self.path: str | None = None
        self.kernel: Any = None
        self.file_system: Any = None

    def _setUp(self) -> None:
        self._folder = self.useFixture(fixtures.TempDir()).path
        self._online = set(range(self.shape.num_cpus))
        self._cpu_path: str | None = None
        if self._fuse:
            self._mount()
            return
        kernel = kernel_mod.Kernel(
            self.shape, tasks=tasks_mod.make(self._tasks)
        )
        kernel.on_cpus.append(self._follow_cpus)
        self.kernel = interference.Interference(kernel)
        self.file_system = tree.Tree(kernel)

    def _mount(self) -> None:
        # It brings oslo.privsep, which tests without a mount can do without.
        from nova_ext_resources.drivers.resctrl.kernel import file_system

        self.path = os.path.join(self._folder, 'resctrl')
        os.mkdir(self.path)
        process = mounted.Process(
            self.shape, self.path, tasks=self._tasks, sysfs=self._folder
        )
        self.addCleanup(process.stop)
        process.start()
        self._cpu_path = os.path.join(self._folder, 'cpu')
        self.kernel = process.kernel
        self.file_system = file_system.RealFileSystem(self.path)

    @property
    def cpu_path(self) -> str:
        """Return the folder; it is hundreds of files, made when asked for."""
        if self._cpu_path is None:
            self._cpu_path = sysfs.write(
                self.shape, self._folder, self._online
            )
        return self._cpu_path

    def _follow_cpus(self, online: set[int]) -> None:
        self._online = online
        if self._cpu_path is not None:
            sysfs.write_online(self.shape, self._folder, online)
