# SPDX-License-Identifier: Apache-2.0

"""The kernel of this machine, in place of the model."""

import os
from typing import Any
import unittest

import fixtures

from nova_ext_resources.testing import resctrl
from tests.kernel import behind
from tests.kernel import cpus
from tests.kernel import faulty
from tests.kernel import mount

#: Shape of the model that this machine is.
NAME = 'OS_TEST_RESCTRL'


class KernelFixture(fixtures.Fixture):
    """Has what :class:`.resctrl.ResctrlFixture` has.

    :param fuse: whether the test opens the mount by its path; then no
        operation can fail on demand
    :raises unittest.SkipTest: this machine is another one
    """

    def __init__(
        self,
        shape: str | resctrl.Shape = 'skylake2',
        *,
        fuse: bool | None = None,
        tasks: str = 'made-up',
    ) -> None:
        super().__init__()
        found = resctrl.SHAPES[shape] if isinstance(shape, str) else shape
        here = resctrl.SHAPES[os.environ[NAME]]
        if found.with_options() != here:
            raise unittest.SkipTest(
                f'needs the machine {found.name}, this is {here.name}'
            )
        self.shape = found
        self._is_by_path = bool(fuse)
        self.path = mount.ROOT
        self.cpu_path = str(cpus.PATH)
        self.kernel: Any = None
        self.file_system: Any = None

    def _setUp(self) -> None:
        self.kernel = behind.Behind(self.shape)
        self.addCleanup(self._end)
        self.kernel.reset()
        self.file_system = faulty.FaultyFileSystem(
            mount.ROOT, self.kernel.faults, self.kernel.operations, self.kernel
        )
        if self._is_by_path:
            self.kernel.fail = _refuse

    def _end(self) -> None:
        self.kernel.end()
        if self.shape.options or not os.path.ismount(mount.ROOT):
            # The next test wants it as it is without options.
            self.kernel.remount(())


def _refuse(**_fault: object) -> None:
    raise unittest.SkipTest('a kernel does not fail on demand')
