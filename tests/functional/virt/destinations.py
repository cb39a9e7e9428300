# SPDX-License-Identifier: Apache-2.0

"""Live migrations whose destination refuses, and another host is tried."""

from collections.abc import Callable
from typing import Any

import fixtures
from nova.conductor.tasks import live_migrate
from nova import context as nova_context
from nova import exception as nova_exc
from nova import objects
from nova.virt import fake as nova_fake

from tests.functional.virt import live
from tests.functional.virt import moving
from tests.functional.virt import test_move_refusals


class DestinationSuite(live.LiveFailureTestCase):
    """The claim on the destination fails, and another host is tried."""

    HOSTS = ('host1', 'host2', 'host3')

    def refuse(
        self,
        times: int,
        error: Callable[[str], Exception] = test_move_refusals.make_shortfall,
    ) -> list[str]:
        """Let the next claims be refused; return by which hosts."""
        refused: list[str] = []

        def wrap(name: str, claim: Callable[..., Any]) -> Callable[..., Any]:
            def refuse(request: Any, **options: Any) -> Any:
                if len(refused) >= times:
                    return claim(request, **options)
                refused.append(name)
                raise error(name)

            return refuse

        for name in self.HOSTS:
            host = self.get_host(name)
            self.useFixture(
                fixtures.MockPatchObject(host, 'claim', wrap(name, host.claim))
            )
        return refused

    def list_pinned(self, host: str) -> set[int]:
        """Return the CPUs that Nova counts as used."""
        found = self.get_manager(host).rt.compute_nodes[host].numa_topology
        topology = objects.NUMATopology.obj_from_db_obj(found)
        return {cpu for one in topology.cells for cpu in one.pinned_cpus}

    def assert_nothing_is_open(self, *hosts: str) -> None:
        """Nova counts nothing on hosts that have refused."""
        for host in hosts:
            manager = self.get_manager(host)
            self.assertEqual({}, manager.rt.tracked_migrations)
            self.assertEqual(set(), self.list_pinned(host))

    def test_another_host_is_tried(self) -> None:
        refused = self.refuse(times=1)

        server = self.migrate_live(self.server)

        (first,) = refused
        (second,) = {'host2', 'host3'} - {first}
        self.assertEqual(second, server['OS-EXT-SRV-ATTR:host'])
        self.assert_only_on(second)
        self.assert_nothing_is_open(first)

    def test_without_another_host_the_server_runs_on(self) -> None:
        refused = self.refuse(times=2)

        self.begin()

        self.assert_still_on_host1()
        self.assertEqual({'host2', 'host3'}, {*refused})
        self.assert_nothing_is_open(*refused)
        self.assertIsNone(moving.find_instance(self.uuid).migration_context)
        told = self.list_reasons(self.server, 'ext_resources_claim:')
        self.assertEqual(2, len(told))
        for reason in told:
            self.assertIn('This host cannot now serve', reason)
            self.assertIn('somebody sits there', reason)

    def test_a_malformed_flavor_is_tried_on_one_host_only(self) -> None:
        """As with a resize: it would be refused on each."""
        refused = self.refuse(2, error=test_move_refusals.make_invalid)

        self.begin()

        self.assert_still_on_host1()
        self.assertEqual(1, len(refused), refused)
        self.assert_nothing_is_open(*refused)
        (told,) = self.list_reasons(self.server, 'ext_resources_claim:')
        self.assertIn('it is below zero', told)
        fault = self.list_reasons(self.server, 'conductor_live_migrate')
        self.assertIn('it is below zero', '\n'.join(fault))

    def test_an_unexpected_error_does_not_harm_the_server(self) -> None:
        refused = self.refuse(2, error=lambda host: RuntimeError(host))

        self.begin()

        self.assert_still_on_host1()
        self.assertEqual({'host2', 'host3'}, {*refused})
        self.assert_nothing_is_open(*refused)

    def test_nor_does_one_while_the_claim_is_taken_back(self) -> None:
        self.refuse(2)
        for name in ('host2', 'host3'):
            self.break_method(
                self.get_manager(name).rt,
                'drop_move_claim',
                RuntimeError('no message bus'),
            )
            self.break_method(
                self.get_host(name), 'release', KeyError('plugin')
            )

        self.begin()

        server = self.wait_for_end('failed', 'error')
        self.assertEqual('host1', server['OS-EXT-SRV-ATTR:host'])
        told = self.list_reasons(self.server, 'ext_resources_claim:')
        self.assertEqual(2, len(told))

    def test_devices_are_free_again(self) -> None:
        """Nova claims them before our check, and tells this host no more."""
        freed: list[str] = []
        for name in self.HOSTS:
            tracker = self.get_manager(name).rt
            self.useFixture(
                fixtures.MockPatchObject(
                    tracker,
                    'free_pci_device_claims_for_instance',
                    lambda _context, _server, name=name: freed.append(name),
                )
            )
        refused = self.refuse(times=1)

        self.migrate_live(self.server)

        self.assertEqual(refused, freed)

    def test_a_server_that_has_nothing_moves_in_spite_of_its_flavor(
        self,
    ) -> None:
        """It was built when its extra specs were not ours."""
        plain = self.boot(self.make_flavor(), host='host1')
        instance = objects.Instance.get_by_uuid(
            nova_context.get_admin_context(),
            plain['id'],
            expected_attrs=['flavor'],
        )
        instance.flavor.extra_specs = {'resource:x': 'y'}
        instance.save()

        server = self.migrate_live(plain)

        self.assertNotEqual('host1', server['OS-EXT-SRV-ATTR:host'])
        self.assertEqual({self.uuid}, self.list_states('host1').keys())
        for host in ('host2', 'host3'):
            self.assertEqual({}, self.list_states(host))

    def test_a_check_that_fails_afterwards(self) -> None:
        self.break_method(
            nova_fake.FakeDriver,
            'check_source_migrate_data_at_dest',
            nova_exc.MigrationPreCheckError(reason='no devices'),
        )

        self.begin()

        self.assert_still_on_host1()
        self.assert_nothing_is_open('host2', 'host3')

    def test_a_host_that_is_passed_over_in_the_end(self) -> None:
        """Nova binds the ports there after its check, and tells nothing."""
        chosen: list[str] = []
        original = live_migrate.LiveMigrationTask._call_livem_checks_on_host

        def fail(task: Any, host: str, mapping: Any) -> None:
            original(task, host, mapping)
            chosen.append(host)
            if len(chosen) == 1:
                raise nova_exc.MigrationPreCheckError(reason='no ports')

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.conductor.tasks.live_migrate.LiveMigrationTask.'
                '_call_livem_checks_on_host',
                fail,
            )
        )
        transfer = self.begin_transfer()
        first, second = chosen
        self.compare(first)
        self.assertIn(self.uuid, self.list_states(first))

        transfer.go.set()
        self.wait_for_end('completed')
        self.compare(first)

        self.assertEqual({}, self.list_states(first))
        self.assert_only_on(second)
