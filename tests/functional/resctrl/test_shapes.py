# SPDX-License-Identifier: Apache-2.0

"""The same as in process, with real system calls."""

from nova_ext_resources.testing import resctrl
from tests.functional.resctrl import mounting
from tests.unit import shapes


class MountedShapesTest(shapes.ShapesCases, mounting.MountedTestCase):
    def use(self, shape: str) -> None:
        mounting.require()
        self.machine = resctrl.ResctrlFixture(shape, fuse=True)
        self.useFixture(self.machine)
        self.kernel = self.machine.kernel
