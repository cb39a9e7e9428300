# SPDX-License-Identifier: Apache-2.0

"""Two hosts of Nova that use the same RMD by mistake."""

from typing import Any

from nova_ext_resources.objects import alarm
from tests.functional.virt import base


class SharedBackendTest(base.NovaTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.host = self.start_host('host1').driver._ext.host
        self.server = self.boot(self.make_pinned_flavor(4))

    def start_second(self) -> Any:
        """Start a host by a copy of the first one's options."""
        options = (self.folder / 'host1.conf').read_text()
        (self.folder / 'host2.conf').write_text(options)
        ext = self._start_compute('host2').driver._ext
        self.addCleanup(ext.stop)
        self.wait_until(lambda: ext.host._repair._is_compared)
        return ext.host

    def test_what_runs_on_the_first_stays(self) -> None:
        second = self.start_second()

        self.assert_in_force(self.server, 4)
        (problem,) = second.problems
        self.assertEqual(alarm.UNKNOWN_SETTINGS, problem.alarm)
        self.assertEqual(self.server['id'], problem.subject)
        self.assertIn('host1', problem.text)

    def test_what_can_be_restored_stays(self) -> None:
        self.flags(reclaim_instance_interval=3600)
        self.api.delete_server(self.server['id'])
        self._wait_for_state_change(self.server, 'SOFT_DELETED')

        second = self.start_second()

        self.assertEqual(1, len(self.list_workloads('host1')))
        (problem,) = second.problems
        self.assertIn('host1', problem.text)

    def test_what_is_left_of_a_deleted_one_goes(self) -> None:
        # As if the host had crashed, and lost its ledger.
        self.host.enforcement._enforcers.clear()
        self._delete_server(self.server)
        self.assertEqual(1, len(self.list_workloads('host1')))

        second = self.start_second()

        self.wait_until(lambda: not self.list_workloads('host1'))
        self.assertEqual((), second.problems)
