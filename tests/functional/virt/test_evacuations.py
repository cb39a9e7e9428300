# SPDX-License-Identifier: Apache-2.0

"""Servers that are evacuated, and the host that they were on."""

import threading
from typing import Any

from nova.compute import task_states
from nova import context as nova_context
from nova import objects
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_provider
from nova_ext_resources.virt.facts import consumer_roles
from tests.functional.virt import base
from tests.functional.virt import breaking
from tests.functional.virt import moving
from tests.functional.virt import test_failures


class EvacuationTestCase(base.NovaTestCase):
    """A pinned server on host1, which fails; host2 is there for it."""

    def setUp(self) -> None:
        super().setUp()
        self.services = {h: self.start_host(h) for h in ('host1', 'host2')}
        self.server = self.boot(self.make_pinned_flavor(4), host='host1')
        self.uuid = self.server['id']

    def get_host(self, name: str) -> Any:
        return self.services[name].driver._ext.host

    def make_rp_uuid(self, host: str, key: str) -> str:
        node = self.services[host].driver._ext.host.node
        return host_provider.make_rp_uuid(node.uuid, key)

    def list_allocated(self, host: str) -> dict[str, dict[str, int]]:
        """Return what placement has for the server below one host."""
        node = self.services[host].driver._ext.host.node
        keys = {
            node.uuid: host,
            **{
                host_provider.make_rp_uuid(node.uuid, key): key
                for key in ('RDT', 'L3_0', 'L3_1')
            },
        }
        allocated = self._get_allocations_by_server_uuid(self.uuid)
        return {
            keys[rp_uuid]: held['resources']
            for rp_uuid, held in allocated.items()
            if rp_uuid in keys
        }

    def fail_host(self) -> None:
        self.stop_compute(self.services['host1'])
        self.force_down(True)

    def force_down(self, is_down: bool) -> None:
        self.admin_api.put_service_force_down(
            self.services['host1'].service_ref.uuid, is_down
        )

    def bring_back(self) -> None:
        """Start host1 again; its guests have run all the time."""
        self.services['host1'] = self.start_again(self.services['host1'])
        self.force_down(False)

    def start_evacuation(self) -> None:
        self.admin_api.post_server_action(self.uuid, {'evacuate': {}})

    def assert_held_once(self, host: str, ways: int = 4) -> None:
        """Make sure that ledger, RMD and placement have the same, once."""
        self.assert_in_force(self.server, ways, self.get_host(host))
        allocated = self.list_allocated(host)
        entry = self.get_host(host).find_entry(self.uuid)
        self.assertEqual(
            {
                one.rp_key: {one.resource_class: one.amount}
                for one in entry.assignments
                if one.is_allocated
            },
            {key: held for key, held in allocated.items() if key != host},
        )


class OtherDomainTest(EvacuationTestCase):
    """The new host picks another domain than placement did."""

    def setUp(self) -> None:
        super().setUp()
        self.flags(cores=-1, group='quota')
        # It has all CPUs of one cell of host2.
        filler = self.boot(
            str(
                self._create_flavor(
                    vcpu=22,
                    memory_mb=64,
                    disk=0,
                    extra_spec={'hw:cpu_policy': 'dedicated'},
                )
            ),
            host='host2',
        )
        instance = objects.Instance.get_by_uuid(
            nova_context.get_admin_context(),
            filler['id'],
            expected_attrs=['numa_topology'],
        )
        (cell,) = instance.numa_topology.cells
        self.chosen, self.real = f'L3_{cell.id}', f'L3_{1 - cell.id}'
        self.useFixture(
            moving.OneDomainFirst(self.make_rp_uuid('host2', self.chosen))
        )
        self.before = self.list_allocated('host1')

    def test_the_source_keeps_its_own_and_the_new_host_moves_its_own(
        self,
    ) -> None:
        self.fail_host()
        waiting = self.useFixture(breaking.WaitingGuest())
        self.start_evacuation()
        self.assertTrue(waiting.began.wait(base.SECONDS))

        self.assertEqual(self.before, self.list_allocated('host1'))
        self.assert_held_once('host2')
        self.assertIn(self.real, self.list_allocated('host2'))

        waiting.go.set()
        self._wait_for_migration_status(self.server, ['done'])
        self.assertEqual(self.before, self.list_allocated('host1'))
        self.assert_held_once('host2')

    def test_one_that_fails_leaves_all_as_it_was(self) -> None:
        self.fail_host()
        with test_failures.BrokenGuest():
            self._evacuate_server(
                self.server,
                expected_host='host1',
                expected_state='ERROR',
                expected_migration_status='failed',
            )

        self.assertEqual({}, self.list_allocated('host2'))
        self.assertEqual({}, self.get_host('host2').entries)
        self.assertEqual(self.before, self.list_allocated('host1'))
        self.bring_back()
        self.assert_held_once('host1')
        (rp_uuid,) = (
            self.make_rp_uuid('host1', key)
            for key in self.before
            if key != 'host1'
        )
        usage = self._get_provider_usages(rp_uuid)
        self.assertEqual(4, usage['CUSTOM_LLC_WAYS'])
        tracked = self.get_host('host1').view.tracked
        state = tracked[rp_uuid, 'CUSTOM_LLC_WAYS'].state
        self.assertEqual((4, 2), (state.used, state.free))


class SourceComesBackTest(EvacuationTestCase):
    """The host that failed is back before its server runs elsewhere."""

    def setUp(self) -> None:
        super().setUp()
        self.fail_host()

    def assert_nothing_is_left(self) -> None:
        self.assertEqual({}, self.get_host('host1').entries)
        self.assertEqual([], self.list_workloads('host1'))
        self.assertEqual({}, self.list_allocated('host1'))

    def wait_for_new_host(self) -> None:
        # Not for the migration: Nova calls it completed when the failed host
        # is back.
        def is_applied() -> bool:
            entry = self.get_host('host2').find_entry(self.uuid)
            return bool(entry and entry.state is assignment.State.APPLIED)

        def is_reported() -> bool:
            # RMD applies with the claim, which placement hears of later.
            entry = self.get_host('host2').find_entry(self.uuid)
            keys = {
                one.rp_key for one in entry.assignments if one.is_allocated
            }
            return keys <= self.list_allocated('host2').keys()

        self.wait_until(is_applied)
        self.wait_until(is_reported)

    def test_what_it_has_left_is_explained(self) -> None:
        self.start_evacuation()
        self._wait_for_migration_status(self.server, ['done'])
        self._wait_for_server_parameter(
            self.server, {'OS-EXT-STS:task_state': None}
        )
        nobody = uuidsentinel.nobody

        words = consumer_roles.explain('host1', [self.uuid, nobody], ())

        self.assertEqual(
            'the consumer is a server that Nova has on host host2, after an '
            'evacuation from this host. Nova deletes this allocation when '
            'nova-compute of this host starts again',
            words[self.uuid],
        )
        self.assertIn('neither a server nor a migration', words[nobody])
        self.assertEqual({}, consumer_roles.explain('host2', [self.uuid], ()))

    def test_while_the_new_host_starts_the_guest(self) -> None:
        waiting = self.useFixture(breaking.WaitingGuest())
        self.start_evacuation()
        self.assertTrue(waiting.began.wait(base.SECONDS))

        self.bring_back()

        self.assert_nothing_is_left()
        waiting.go.set()
        self.wait_for_new_host()
        self.assert_nothing_is_left()
        self.assert_held_once('host2')

    def test_before_the_new_host_has_claimed_its_cpus(self) -> None:
        began, go = threading.Event(), threading.Event()
        self.addCleanup(go.set)
        manager = self.services['host2'].manager
        rebuild = manager._do_rebuild_instance_with_claim

        def wait(*args: Any, **kwargs: Any) -> None:
            began.set()
            go.wait(base.SECONDS)
            rebuild(*args, **kwargs)

        manager._do_rebuild_instance_with_claim = wait
        self.start_evacuation()
        self.assertTrue(began.wait(base.SECONDS))
        instance = objects.Instance.get_by_uuid(
            nova_context.get_admin_context(), self.uuid
        )
        self.assertIn(instance.task_state, task_states.rebuild_states)

        self.bring_back()

        self.assert_nothing_is_left()
        go.set()
        self.wait_for_new_host()
        self.assert_held_once('host2')
