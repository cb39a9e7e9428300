# SPDX-License-Identifier: Apache-2.0

"""Servers that Nova moves, takes down, or builds a second time."""

import pathlib
from typing import Any
from unittest import mock

import fixtures
from nova.compute import task_states
from nova import context as nova_context
from nova import exception as nova_exc
from nova import objects

from nova_ext_resources import exception
from nova_ext_resources.facts import operation
from nova_ext_resources.objects import assignment
from nova_ext_resources.virt.driver import errors
from nova_ext_resources.virt.driver import events
from tests.functional.virt import base


def find_instance(server: Any) -> Any:
    return objects.Instance.get_by_uuid(
        nova_context.get_admin_context(),
        server['id'],
        expected_attrs=['flavor', 'numa_topology'],
    )


class MovesTest(base.NovaTestCase):
    """Which servers are not moved while they run."""

    def setUp(self) -> None:
        super().setUp()
        self.services = {
            host: self.start_host(host) for host in ('host1', 'host2')
        }

    def test_what_is_not_offered_any_more_counts_as_well(self) -> None:
        server = self.boot(self.make_pinned_flavor(4))
        host = server['OS-EXT-SRV-ATTR:host']
        self.stop_compute(self.services[host])
        self.plugins = ''
        self._write_conf()
        again = self._start_compute(host)
        self.addCleanup(again.driver._ext.stop)
        instance = find_instance(server)
        plain = objects.Flavor(extra_specs={})

        self.assertTrue(
            again.driver._ext_claims.requests_resources(instance, plain)
        )

    def test_a_server_that_was_built_without_may_move(self) -> None:
        server = self.boot(self.make_flavor())
        driver = self.services['host1'].driver
        malformed = objects.Flavor(
            extra_specs={'resources:CUSTOM_LLC_WAYS': '-1'}
        )

        self.assertFalse(
            driver._ext_claims.requests_resources(
                find_instance(server), malformed
            )
        )


class OneHostTest(base.NovaTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.service = self.start_host('host1')
        self.driver = self.service.driver
        self.host = self.driver._ext.host
        self.context = nova_context.get_admin_context()

    def test_a_server_that_comes_up_again_keeps_its_claim(self) -> None:
        server = self.boot(self.make_pinned_flavor(4))
        instance = find_instance(server)

        self.driver.destroy(
            self.context, instance, None, destroy_secrets=False
        )

        self.assert_in_force(server, 4)
        self.driver.destroy(self.context, instance, None)
        self.assertEqual({}, self.host.entries)

    def test_a_rebuild_keeps_the_claim_and_an_evacuation_does_not(
        self,
    ) -> None:
        server = self.boot(self.make_pinned_flavor(4))
        instance = find_instance(server)
        instance.task_state = task_states.REBUILD_SPAWNING
        self.driver.destroy(self.context, instance, None)
        self.assert_in_force(server, 4)

        # One that failed is in Nova for ever, and proves nothing.
        migration = objects.Migration(
            self.context,
            instance_uuid=server['id'],
            migration_type='evacuation',
            status='failed',
            source_compute='host1',
            dest_compute='host2',
        )
        migration.create()
        self.driver.destroy(self.context, instance, None)
        self.assert_in_force(server, 4)

        # This host has come back in the middle.
        migration.status = 'accepted'
        migration.save()
        self.driver.destroy(self.context, instance, None)

        self.assertEqual({}, self.host.entries)

    def pin_otherwise(self, instance: Any) -> set[int]:
        """Have Nova's record name CPUs at the other cache; return them."""
        here = self.host.find_entry(instance.uuid).cpus
        there = {1, 25} if here == {13, 37} else {13, 37}
        (cell,) = instance.numa_topology.cells
        cell.cpu_pinning = dict(
            zip(sorted(cell.pcpuset), sorted(there), strict=True)
        )
        return there

    def test_a_server_that_starts_on_other_cpus_claims_for_them(self) -> None:
        """As Nova leaves it when a move breaks off."""
        server = self.boot(self.make_pinned_flavor(4))
        instance = find_instance(server)
        there = self.pin_otherwise(instance)

        self.driver._ext_claims.restore_and_apply(self.context, instance)

        entry = self.host.find_entry(server['id'])
        self.assertEqual(
            (there, assignment.State.APPLIED), (entry.cpus, entry.state)
        )
        (workload,) = self.list_workloads('host1')
        self.assertEqual({str(cpu) for cpu in there}, set(workload.core_ids))

    def test_one_that_keeps_its_cpus_is_refused(self) -> None:
        """Its guest would run where it has nothing."""
        server = self.boot(self.make_pinned_flavor(4))
        instance = find_instance(server)
        before = self.host.find_entry(server['id'])
        self.pin_otherwise(instance)

        err = self.assertRaises(
            nova_exc.InstanceFaultRollback,
            self.driver.resume,
            self.context,
            instance,
            None,
        )

        self.assertIn('reboot server', str(err.inner_exception))
        self.assertEqual(before, self.host.find_entry(server['id']))

    def test_it_is_not_started_without_what_it_was_promised(self) -> None:
        server = self.boot(self.make_pinned_flavor(4))
        instance = find_instance(server)
        before = self.host.find_entry(server['id'])
        self.pin_otherwise(instance)
        self.placement.delete(f'/allocations/{server["id"]}')

        err = self.assertRaises(
            errors.HostRefused,
            self.driver._ext_claims.restore_and_apply,
            self.context,
            instance,
        )

        self.assertIn('differ from its claimed CPUs', str(err))
        self.assertEqual(before, self.host.find_entry(server['id']))

    def test_a_placement_that_does_not_answer_is_not_one_without_it(
        self,
    ) -> None:
        server = self.boot(self.make_pinned_flavor(4))
        instance = find_instance(server)
        before = self.host.find_entry(server['id'])
        self.pin_otherwise(instance)
        down = mock.patch.object(
            self.driver._ext._placement,
            'get_allocations',
            side_effect=exception.PlacementUnavailable(
                action='read allocations', status=503, detail='down'
            ),
        )

        with down:
            err = self.assertRaises(
                nova_exc.ComputeResourcesUnavailable,
                self.driver._ext_claims.restore_and_apply,
                self.context,
                instance,
            )

        self.assertIn('503', str(err))
        self.assertEqual(before, self.host.find_entry(server['id']))

    def test_a_server_that_is_rebuilt_on_other_cpus_claims_for_them(
        self,
    ) -> None:
        server = self.boot(self.make_pinned_flavor(4))
        instance = find_instance(server)
        allocations = self._get_allocations_by_server_uuid(server['id'])
        there = self.pin_otherwise(instance)

        self.driver._ext_claims.claim(
            self.context, instance, allocations, operation.Operation.REBUILD
        )

        self.assertEqual(there, self.host.find_entry(server['id']).cpus)

    def test_a_server_that_a_lost_ledger_knew_leaves_nothing_behind(
        self,
    ) -> None:
        server = self.boot(self.make_pinned_flavor(4))
        path = self.host._ledger.path
        self.stop_compute(self.service)
        for suffix in ('', '-wal', '-shm'):
            pathlib.Path(f'{path}{suffix}').unlink(missing_ok=True)
        again = self._start_compute('host1')
        self.addCleanup(again.driver._ext.stop)
        ext = again.driver._ext
        ext.periodic.run_round()
        self.assertEqual(
            [server['id']], [one.subject for one in ext.host.problems]
        )

        ext.release(server['id'])
        ext.periodic.run_round()

        self.assertEqual((), ext.host.problems)
        self.assertEqual([], self.list_workloads('host1'))

    def test_a_report_that_fails_does_not_keep_a_claim(self) -> None:
        server = self.boot(self.make_pinned_flavor(4))
        self.flags(shelved_offload_time=0)
        self._shelve_server(server)
        self.assertEqual({}, self.host.entries)
        finish = objects.InstanceActionEvent.event_finish_with_failure

        def time_out(_cls: Any, *arguments: Any, **options: Any) -> Any:
            if arguments[2].startswith(events.CLAIM):
                raise TimeoutError('the conductor does not answer')
            return finish(*arguments, **options)

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.objects.InstanceActionEvent.event_finish_with_failure',
                time_out,
            )
        )

        self._unshelve_server(server)

        self.assert_in_force(server, 4)

    def test_a_server_that_is_built_anew_claims_anew(self) -> None:
        server = self.boot(self.make_pinned_flavor(4))
        allocations = self._get_allocations_by_server_uuid(server['id'])
        before = self.host.find_entry(server['id'])

        self.driver._ext_claims.claim(
            self.context,
            find_instance(server),
            allocations,
            operation.Operation.BOOT,
        )

        entry = self.host.find_entry(server['id'])
        self.assertGreater(entry.claimed_at, before.claimed_at)

    def test_the_scheduler_hears_of_the_units_that_rmd_chose(self) -> None:
        self.boot(self.make_pinned_flavor(4))

        self.assertEqual(self.host.stats(), self.read_view('host1'))
