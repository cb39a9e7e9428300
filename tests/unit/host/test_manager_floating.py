# SPDX-License-Identifier: Apache-2.0

from typing import Any

from nova_ext_resources import exception
from nova_ext_resources.host import manager
from nova_ext_resources.objects import assignment
from tests.unit import guests
from tests.unit.host import backend
from tests.unit.host import floating
from tests.unit.host import test_with_resctrl


class FloatingHostTest(floating.FloatingCases):
    def test_128_threads_are_assigned_at_once(self) -> None:
        guest = self.run_guest(threads=128)
        self.start_floating()
        self.host.release(floating.SERVER)
        self.kernel.forget_operations()

        self.start_floating()

        self.assert_inside(guest)
        # One round moves them all, and the next finds nobody outside.
        written = [
            what
            for what, path, *_ in self.kernel.list_operations()
            if path.endswith('tasks') and what not in ('read', 'listdir')
        ]
        self.assertEqual(128, len(written))

    def test_a_server_that_runs_unseen_is_not_applied_in_each_round(
        self,
    ) -> None:
        self.start_floating()
        self.notice()
        for expected in (0, 1, 1, 1):
            self.kernel.forget_operations()
            self.answers = [dict(self.running)] * 2

            self.assertEqual(expected, len(self.heal()))

            locks = [
                exclusive
                for what, exclusive, *_ in self.kernel.list_operations()
                if what == 'lock'
            ]
            self.assertNotIn('True', locks)
            # One to search, and one to be sure that it runs on.
            self.assertEqual([], self.answers)
        self.assertEqual(1, self.log.output.count('could not find its'))
        guest = self.run_guest()
        self.assertEqual((), self.heal())
        self.assert_inside(guest)


class FloatingSuiteTest(test_with_resctrl.ResctrlSuiteTest):
    """What holds for every backend, with servers that float and run."""

    TASKS = 'proc'

    def setUp(self) -> None:
        super().setUp()
        self.guests: dict[str, guests.Guest] = {}

    def start(
        self,
        host: manager.HostManager,
        consumer_uuid: str,
        ways: int = 2,
        **fields: Any,
    ) -> assignment.Entry:
        if consumer_uuid not in self.guests:
            guest = self.useFixture(guests.Guest(consumer_uuid, 2))
            self.guests[consumer_uuid] = guest
        fields['cpus'] = None
        return super().start(host, consumer_uuid, ways, **fields)

    def test_a_write_of_which_the_kernel_forgets_half_is_noticed(
        self,
    ) -> None:
        # Without anything sold on the other domain, half is all it needs.
        self.start(self.host, backend.OTHER, domain=1)

        own = f'nova-{backend.SERVER}/schemata'
        self.kernel.fail(operation='write', path=own, half=True, error=None)

        err = self.assertRaises(
            exception.EnforcementFailed, self.start, self.host, backend.SERVER
        )

        self.assertIn('is expected, but the kernel shows', str(err))
        self.assertEqual({backend.OTHER}, set(self.list_ours()))

    def assert_agreement(self, host: manager.HostManager) -> None:
        super().assert_agreement(host)
        for uuid, group in self.list_ours().items():
            if not host.entries[uuid].cpus and uuid in self.guests:
                inside = set(group['tasks'])
                self.assertEqual(self.guests[uuid].list_threads(), inside)
