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

"""A host's process is killed at any step of what it tells the kernel."""

from nova_ext_resources import host as host_mod
from nova_ext_resources.objects import assignment
from tests.functional.resctrl import mounting
from tests.unit import dying
from tests.unit import guests
from tests.unit import killing


class KilledPinnedHostTest(killing.KilledCases, mounting.MountedTestCase):
    def list_arguments(self) -> list[str]:
        machine = self.machine
        return [
            'resctrl',
            f'path={machine.path}',
            f'cpu_path={machine.cpu_path}',
        ]

    def restart(self) -> host_mod.HostResources:
        return self.make_resctrl_host()

    def lose_everything(self) -> None:
        self.kernel.remount()


class KilledFloatingHostTest(KilledPinnedHostTest):
    """The server's process lives on when the host's is killed."""

    TASKS = 'proc'
    SCENARIO = 'come_and_go_floating'
    CPUS = None

    def setUp(self) -> None:
        super().setUp()
        self.guest = self.useFixture(guests.Guest(dying.SERVER, 3))

    def assert_mended(
        self, host: host_mod.HostResources, before: assignment.Entry
    ) -> None:
        super().assert_mended(host, before)
        threads = {
            uuid: set(group['tasks'])
            for uuid, group in self.list_ours().items()
        }
        expected: dict[str, set[int]] = {uuid: set() for uuid in host.entries}
        if dying.SERVER in expected:
            expected[dying.SERVER] = self.guest.list_threads()
        self.assertEqual(expected, threads)
