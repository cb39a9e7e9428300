# SPDX-License-Identifier: Apache-2.0

"""The same as in process, with real system calls."""

from tests.functional.resctrl import mounting
from tests.unit import shapes


class MountedShapesTest(shapes.ShapesCases, mounting.MountedTestCase):
    def use(self, shape: str) -> None:
        self.machine = mounting.make(shape)
        self.useFixture(self.machine)
        self.kernel = self.machine.kernel
