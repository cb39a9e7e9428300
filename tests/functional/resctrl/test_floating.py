# SPDX-License-Identifier: Apache-2.0

"""Servers whose CPUs float, on a mount: real system calls and threads."""

from tests.functional.resctrl import mounting
from tests.unit.host import floating


class FloatingMountedTest(mounting.MountedTestCase, floating.FloatingCases):
    def test_128_threads_are_assigned_again_and_again(self) -> None:
        guest = self.run_guest(threads=128)
        for _ in range(3):
            self.start_floating()

            self.assert_inside(guest)
            self.host.release(floating.SERVER)


class FloatingMountedListTest(FloatingMountedTest):
    """With a kernel that takes lists of threads, and other domains."""

    SHAPE = 'epyc16'
