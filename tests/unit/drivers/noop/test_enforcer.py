# SPDX-License-Identifier: Apache-2.0

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.noop import enforcer
from nova_ext_resources import plugins
from tests.unit import builders
from tests.unit.host.ledger import test_ledger
from tests.unit.host import with_host


class NoopEnforcerTest(with_host.HostTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.enforcer = self.load(plugins.ENFORCERS, 'noop')['noop']

    def test_everything_is_as_it_was_claimed(self) -> None:
        entry = test_ledger.make_entry()

        self.assertEqual(entry.assignments, self.enforcer.apply(entry))
        self.assertIsNone(self.enforcer.release(entry))

    def test_it_serves_every_class_and_cannot_tell_what_is_in_force(
        self,
    ) -> None:
        self.assertIsNone(enforcer.NoopEnforcer.RESOURCE_CLASSES)
        self.assertIsNone(self.enforcer.list_applied())

    def test_nothing_is_taken_for_lost(self) -> None:
        host = self.make_noop_host()
        host.claim(with_host.make_claim(uuidsentinel.server))
        host.apply(uuidsentinel.server)
        entry = host.entries[uuidsentinel.server]

        host.heal()

        self.assertIs(entry, host.entries[uuidsentinel.server])
        self.assertEqual((), host.problems)
        self.assertIn(builders.WAYS, host.view.resource_classes)
