# SPDX-License-Identifier: Apache-2.0

"""A guest has come, and Nova has its server on the former host for good."""

import threading
from typing import Any

import fixtures
from nova.compute import power_state
from nova import context as nova_context
from nova import objects
from nova.virt import fake as nova_fake

from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from tests.functional.virt import backends
from tests.functional.virt import base
from tests.functional.virt import live
from tests.functional.virt import moving

Purpose = assignment.Purpose


class ElsewhereTest(backends.Static, live.LiveFailureTestCase):
    """The former host is killed before it tells the new one."""

    def setUp(self) -> None:
        super().setUp()
        called = threading.Event()
        target = self.services['host2'].driver

        def kill(*_args: Any, **_kwargs: Any) -> None:
            # As libvirt does when it has transferred the guest.
            target.instances[self.uuid] = nova_fake.FakeInstance(
                'guest', power_state.RUNNING, self.uuid
            )
            called.set()
            raise base.Killed

        rpc = self.get_manager('host1').compute_rpcapi
        self.useFixture(
            fixtures.MockPatchObject(
                rpc, 'post_live_migration_at_destination', kill
            )
        )
        self.begin()
        self.assertTrue(called.wait(base.SECONDS))

    def restart_the_source(self) -> None:
        self.restart('host1')
        server = self.wait_for_end('error')
        self.assertEqual('host1', server['OS-EXT-SRV-ATTR:host'])

    def list_alarms(self, host: str) -> list[tuple[str, str]]:
        return [(one.alarm, one.subject) for one in self.list_absent(host)]

    def list_absent(self, host: str) -> tuple[alarm.Problem, ...]:
        problems: tuple[alarm.Problem, ...] = self.get_ext(
            host
        ).periodic._absent.problems
        return problems

    def test_the_guest_keeps_what_it_has(self) -> None:
        self.restart_the_source()
        self.compare('host1')
        self.compare('host2')
        self.restart('host2')
        self.compare('host2')

        self.assertEqual({}, self.list_states('host1'))
        self.assert_only_entry('host2', Purpose.MIGRATION_DEST)
        self.admin_api.delete_server(self.uuid)
        self._wait_until_deleted(self.server)
        context = nova_context.get_admin_context()
        self.get_manager('host2')._cleanup_running_deleted_instances(context)
        self.assertEqual({}, self.list_states('host2'))

    def test_no_later_move_takes_it_away(self) -> None:
        """Nor does one that fails, and releases what it has claimed."""
        self.restart_the_source()
        before = dict(self.get_host('host2').entries)

        self.act(self.server, 'migrate', host='host2')
        self.wait_until(
            lambda: (
                self.find_migration(self.server).status == 'error'
                and self.find_migration(self.server).migration_type
                == 'migration'
            )
        )

        reasons = str(self.list_reasons(self.server, ''))
        self.assertIn('this host has a guest of server', reasons)
        self.assertEqual(before, dict(self.get_host('host2').entries))

    def test_it_is_reported_after_two_answers(self) -> None:
        self.restart_the_source()

        seen = []
        for _ in range(2):
            self.compare('host2')
            seen.append(self.list_alarms('host2'))

        self.assertEqual(
            [[], [(alarm.GUEST_HERE_SERVER_ELSEWHERE, self.uuid)]], seen
        )
        (told,) = self.list_absent('host2')
        self.assertIn(f'{self.uuid} is on host host2, while', told.text)
        self.assertIn('Nova has the server on host host1,', told.text)
        self.assert_only_entry('host2', Purpose.MIGRATION_DEST)
        self.compare('host1')
        self.compare('host1')
        self.assertEqual([], self.list_alarms('host1'))

    def test_nothing_is_while_the_migration_may_go_on(self) -> None:
        for _ in range(2):
            self.compare('host2')

        self.assertEqual([], self.list_alarms('host2'))
        self.assert_only_entry('host2', Purpose.MIGRATION_DEST)

    def test_it_is_over_when_novas_record_is_corrected(self) -> None:
        """As the page of alarms says."""
        self.restart_the_source()
        for _ in range(2):
            self.compare('host2')
        node = objects.ComputeNode.get_by_host_and_nodename(
            nova_context.get_admin_context(), 'host2', 'host2'
        )

        instance = moving.find_instance(self.uuid)
        instance.host, instance.node = node.host, node.hypervisor_hostname
        instance.compute_id = node.id
        instance.save()
        self.compare('host2')

        self.assertEqual([], self.list_alarms('host2'))
        migration = self.find_migration(self.server).uuid
        self.placement.delete(f'/allocations/{migration}')
        self.assert_only_on('host2')

    def test_it_is_over_when_the_guest_is_destroyed(self) -> None:
        self.restart_the_source()
        for _ in range(2):
            self.compare('host2')

        del self.services['host2'].driver.instances[self.uuid]
        self.compare('host2')

        self.assertEqual([], self.list_alarms('host2'))
        self.assertEqual({}, self.list_states('host2'))
