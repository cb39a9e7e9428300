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

"""Servers whose CPUs float, on a mount: real system calls and threads."""

from tests.functional.resctrl import mounting
from tests.unit import floating


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
