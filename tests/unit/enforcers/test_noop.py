# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.enforcers import noop
from nova_ext_resources.plugins import loader
from tests.unit import builders
from tests.unit import test_ledger
from tests.unit import with_host


class NoopEnforcerTest(with_host.HostTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.enforcer = self.load(loader.ENFORCERS, 'noop')['noop']

    def test_everything_is_as_it_was_claimed(self) -> None:
        entry = test_ledger.make_entry()

        self.assertEqual(entry.assignments, self.enforcer.apply(entry))
        self.assertIsNone(self.enforcer.release(entry))

    def test_it_serves_every_class_and_cannot_tell_what_is_in_force(
        self,
    ) -> None:
        self.assertIsNone(noop.NoopEnforcer.RESOURCE_CLASSES)
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
