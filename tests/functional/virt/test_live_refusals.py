# SPDX-License-Identifier: Apache-2.0

"""Live migrations that a host refuses."""

import types

import fixtures
from nova import context as nova_context
from nova import objects
from nova.virt import fake as nova_fake

from nova_ext_resources.virt import tracker
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
                'nova_ext_resources.virt.fake.FakeDriver.'
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
        host.state.drop([self.uuid])
        self.assert_still_on_host1()


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

            tracker.drop_live_claim(rt, None, instance, migration, 'host1')

            self.assertEqual(expected, dropped)
            has = tracker.has_live_claim(instance, migration)
            self.assertIs(bool(expected), has)
