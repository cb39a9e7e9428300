# SPDX-License-Identifier: Apache-2.0

"""What moves between two hosts leave that do not end as they should."""

import contextlib
from typing import Any

import fixtures
from nova import objects

from nova_ext_resources.objects import alarm
from tests.functional.virt import breaking
from tests.functional.virt import moving


class LeftoversTest(breaking.BreakingTestCase):
    def reset(self) -> None:
        self.act(self.server, 'os-resetState', state='active')

    @contextlib.contextmanager
    def lost(self, host: str, method: str) -> Any:
        """Lose a message of a host to another.

        Nova saves that it has done its part before it sends the message.
        """
        rpc = self.services[host].manager.compute_rpcapi
        with fixtures.MockPatchObject(rpc, method) as losing:
            yield
            self.wait_until(lambda: losing.mock.called)

    def compare_all(self) -> None:
        for _ in range(2):
            for host in self.HOSTS:
                self.compare(host)

    def list_alarms(self, host: str) -> list[tuple[str, str]]:
        problems = self.get_ext(host).periodic._absent.problems
        return [(one.alarm, one.subject) for one in problems]

    def test_a_revert_of_which_the_source_does_not_hear(self) -> None:
        self.migrate(self.server)
        with self.lost('host2', 'finish_revert_resize'):
            self.act(self.server, 'revertResize')
            self._wait_for_migration_status(self.server, ['reverted'])
            self.wait_until(
                lambda: self.uuid not in self.get_host('host2').entries
            )
        self.compare_all()
        self.assertEqual(1, len(self.get_host('host1').entries))

        self.reset()
        self.compare_all()

        self.assertEqual({}, self.get_host('host1').entries)

    def test_a_server_that_is_back_while_nova_is_asked(self) -> None:
        self.fail_to_park(times=1)
        self.migrate(self.server)
        list_servers = objects.InstanceList.get_by_host
        returned: list[Any] = []

        def revert_then(context: Any, host: str, **kwargs: Any) -> Any:
            found = list_servers(context, host, **kwargs)
            # Nova itself and others here ask for more of the servers.
            if host == 'host1' and not kwargs and not returned:
                self.revert(self.server)
                returned.append(self.get_host('host1').entries[self.uuid])
            return found

        with fixtures.MockPatchObject(
            objects.InstanceList, 'get_by_host', revert_then
        ):
            self.compare('host1')

        # Not one that was released and claimed again.
        self.assertEqual(
            returned, list(self.get_host('host1').entries.values())
        )
        self.assert_only_on('host1')

    def test_what_the_source_could_not_keep(self) -> None:
        self.fail_to_park(times=1)
        with moving.failing('spawn'):
            self.begin()
            self.wait_for_error()

        self.compare_all()

        self.assert_only_on('host2')

    def test_a_server_that_is_back_when_its_first_move_is_confirmed(
        self,
    ) -> None:
        """Its state was set by hand, so Nova lets it move again."""
        self.resize(self.server, self.make_own_flavor(1))
        self.reset()
        self.compare_all()
        self.assertEqual(
            [(alarm.MIGRATION_UNCLEAR, self.uuid)], self.list_alarms('host1')
        )
        server = self.migrate(self.server)
        self.assertEqual('host1', server['OS-EXT-SRV-ATTR:host'])
        before = self.get_host('host1').entries[self.uuid]

        # Nova's fake driver destroys the guest that is back; libvirt's does
        # not.
        with fixtures.MonkeyPatch(
            'nova.virt.fake.FakeDriver.confirm_migration', lambda *_: None
        ):
            self.act(self.server, 'confirmResize')
            self._wait_for_state_change(self.server, 'ACTIVE')
        self.compare_all()

        self.assertEqual(
            {self.uuid: before}, dict(self.get_host('host1').entries)
        )
        # Nova never ends the second one.
        self.assertEqual(
            [(alarm.MIGRATION_UNCLEAR, self.uuid)], self.list_alarms('host2')
        )
