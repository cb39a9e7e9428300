# SPDX-License-Identifier: Apache-2.0

"""A host's process is killed at any step of what it tells the kernel."""

from nova_ext_resources.host import manager
from nova_ext_resources.objects import assignment
from tests.functional.resctrl import mounting
from tests.unit import guests
from tests.unit.host import dying
from tests.unit.host import killing


class KilledPinnedHostTest(killing.KilledCases, mounting.MountedTestCase):
    def list_arguments(self) -> list[str]:
        machine = self.machine
        return [
            'resctrl',
            f'path={machine.path}',
            f'cpu_path={machine.cpu_path}',
        ]

    def restart(self) -> manager.HostManager:
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
        self, host: manager.HostManager, before: assignment.Entry
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
