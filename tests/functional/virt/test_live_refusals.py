# SPDX-License-Identifier: Apache-2.0

"""Live migrations that a host refuses."""

import types
from typing import Any

import fixtures
from nova.compute import rpcapi
from nova import context as nova_context
from nova import objects
from nova.virt import fake as nova_fake

from nova_ext_resources.objects.documents import stats
from nova_ext_resources.virt.hooks import resource_tracker
from tests import base
from tests.functional.virt import backends
from tests.functional.virt import destinations
from tests.functional.virt import live


class StaticDestinationTest(backends.Static, destinations.DestinationSuite):
    pass


class PinnedDestinationTest(backends.Rmd, destinations.DestinationSuite):
    pass


class OldCpusTest(backends.Rmd, live.LiveFailureTestCase):
    def test_a_server_with_cpus_of_its_former_host_is_refused(self) -> None:
        """As where Nova of one of the hosts cannot do better."""
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.virt.driver.fake.FakeDriver.'
                'check_can_live_migrate_source',
                nova_fake.FakeDriver.check_can_live_migrate_source,
            )
        )

        self.begin()

        self.assert_still_on_host1()
        faults = objects.InstanceFaultList.get_by_instance_uuids(
            nova_context.get_admin_context(), [self.uuid]
        )
        self.assertTrue(any('upgrade Nova' in one.message for one in faults))


class StrayGuestTest(backends.Static, live.LiveFailureTestCase):
    def test_a_guest_that_nova_has_lost_keeps_what_it_has(self) -> None:
        host = self.get_host('host2')
        entry = self.get_host('host1').entries[self.uuid]
        # Its loop compares both with each other.
        host._ledger.put(entry)
        host.state.put(entry)
        driver = self.services['host2'].driver
        driver.instances[self.uuid] = object()

        self.begin()

        self.wait_for_end('error')
        self.assertEqual(entry, host.entries[self.uuid])
        faults = objects.InstanceFaultList.get_by_instance_uuids(
            nova_context.get_admin_context(), [self.uuid]
        )
        self.assertTrue(any('lost track' in one.message for one in faults))
        del driver.instances[self.uuid]
        host.release(self.uuid)
        self.assert_still_on_host1()


class OtherReleaseTest(backends.Static, live.LiveFailureTestCase):
    """Of one of the hosts, Nova knows less."""

    def forget(self, host: str, *keys: str) -> None:
        """Let a host have no such keys in its stats, as with less software."""
        node = objects.ComputeNode.get_first_node_by_host_for_old_compat(
            nova_context.get_admin_context(), host
        )
        self.assertLessEqual({*keys}, node.stats.keys())
        found = {k: v for k, v in node.stats.items() if k not in keys}
        self.get_manager(host).rt.stats[host] = found
        node.stats = found
        node.save()

    def test_a_conductor_that_names_no_migration_is_told_why(self) -> None:
        """As where ``[upgrade_levels] compute`` holds it to old calls."""
        check = rpcapi.ComputeAPI.check_can_live_migrate_destination

        def check_unnamed(*args: Any) -> Any:
            return check(*args[:-2], None, None)

        self.useFixture(
            fixtures.MockPatchObject(
                rpcapi.ComputeAPI,
                'check_can_live_migrate_destination',
                check_unnamed,
            )
        )

        plain = self.boot(self.make_flavor(), host='host1')

        self.begin()

        self.assert_still_on_host1()
        self.assertEqual({}, self.get_host('host2').entries)
        faults = objects.InstanceFaultList.get_by_instance_uuids(
            nova_context.get_admin_context(), [self.uuid]
        )
        self.assertTrue(
            any('[upgrade_levels]' in one.message for one in faults)
        )
        moved = self.migrate_live(plain)
        self.assertEqual('host2', moved['OS-EXT-SRV-ATTR:host'])

    def test_an_older_source_would_not_release(self) -> None:
        self.forget('host1', stats.LIVE_KEY)
        # Before nova-compute was upgraded, the host had this alone.
        self.begin()

        self.assert_still_on_host1()
        faults = objects.InstanceFaultList.get_by_instance_uuids(
            nova_context.get_admin_context(), [self.uuid]
        )
        self.assertTrue(
            any(
                'upgrade nova-ext-resources there' in one.message
                for one in faults
            )
        )

    def test_a_destination_without_this_package_gets_no_guest(self) -> None:
        transfer = self.useFixture(live.Transfer())
        self.forget('host2', stats.LIVE_KEY, stats.KEY)

        self.begin()

        self.wait_for_end('failed')
        self.assertFalse(transfer.began.is_set())
        (told, _own) = self.list_reasons(self.server, 'ext_resources_claim:')
        self.assertIn('without nova-ext-resources', told)
        self.compare('host2')
        self.assert_still_on_host1()

    def test_so_if_the_source_has_lost_its_entry(self) -> None:
        transfer = self.useFixture(live.Transfer())
        self.forget('host2', stats.LIVE_KEY, stats.KEY)
        self.get_host('host1').state.drop([self.uuid])

        self.begin()

        self.wait_for_end('failed')
        self.assertFalse(transfer.began.is_set())


class FormerClaimTest(base.TestCase):
    def test_what_nova_has_left_of_a_former_migration_is_left_alone(
        self,
    ) -> None:
        found = types.SimpleNamespace(migration_id=1)
        dropped: list[object] = []
        instance = types.SimpleNamespace(
            migration_context=found,
            flavor=None,
            drop_migration_context=lambda: dropped.append('context'),
        )
        rt = types.SimpleNamespace(
            drop_move_claim=lambda *_args, **_kwargs: dropped.append('CPUs'),
            free_pci_device_claims_for_instance=lambda *_args: None,
        )
        for number, expected in ((2, []), (1, ['CPUs', 'context'])):
            migration = types.SimpleNamespace(id=number)

            resource_tracker.drop_live_claim(
                rt, None, instance, migration, 'host1'
            )

            self.assertEqual(expected, dropped)
            has = resource_tracker.has_live_claim(instance, migration)
            self.assertIs(bool(expected), has)
