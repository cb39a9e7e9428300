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

"""Units that are counted, and units that are in force."""

import dataclasses

from oslo_config import cfg
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.objects import assignment
from nova_ext_resources.plugins import base as plugins_base
from nova_ext_resources.plugins import loader
from tests.unit import with_host

WAYS = with_host.WAYS
DOMAINS = with_host.DOMAINS

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other


class ChoosingEnforcer(plugins_base.Enforcer):
    """Gives out other ways than were claimed, as RMD does."""

    RESOURCE_CLASSES = None

    def __init__(self, options: cfg.ConfigOpts.GroupAttr, host: str) -> None:
        super().__init__(options, host)
        self.chosen: dict[str, str] = {}
        self.got: list[str] = []
        self.in_force: set[str] = set()

    def apply(
        self, entry: assignment.Entry
    ) -> tuple[assignment.Assignment, ...]:
        ways, *others = entry.assignments
        self.got.append(ways.units['mask'])
        self.in_force.add(entry.consumer_uuid)
        mask = self.chosen.get(entry.consumer_uuid, ways.units['mask'])
        return dataclasses.replace(ways, units={'mask': mask}), *others

    def release(self, entry: assignment.Entry) -> None:
        self.in_force.discard(entry.consumer_uuid)

    def list_applied(self) -> frozenset[str]:
        return frozenset(self.in_force)


class OnPaperTest(with_host.HostTestCase):
    """Somebody's units are another's in truth, and counted elsewhere."""

    def setUp(self) -> None:
        super().setUp()
        options = loader.register_opts(self.conf, 'choosing', ())
        self.enforcer = ChoosingEnforcer(options, 'host1')
        self.host = with_host.make_host(
            self.load_fake(), {'choosing': self.enforcer}, self.open_ledger()
        )
        self.host.refresh()
        self.host.claim(with_host.make_claim(SERVER, 2))
        self.host.apply(SERVER)
        self.host.claim(with_host.make_claim(OTHER, 2))
        (self.mask,) = self.enforcer.got
        self.enforcer.chosen[OTHER] = self.mask
        self.host.apply(OTHER)

    def mask_of(self, entries: dict[str, assignment.Entry]) -> str:
        return str(entries[SERVER].assignments[0].units['mask'])

    def test_all_ways_that_are_sold_are_counted(self) -> None:
        self.assertNotEqual(self.mask, self.mask_of(self.host.booked))
        self.assertEqual(
            4, self.host.view.tracked[DOMAINS[0], WAYS].state.used
        )

    def test_an_enforcer_gets_what_the_ledger_says(self) -> None:
        self.assertEqual(self.mask, self.mask_of(self.host.entries))
        self.enforcer.in_force.discard(SERVER)

        for is_new in (False, True):
            if is_new:
                self.host.refresh()
            self.host.apply(SERVER)
            self.assertEqual(self.mask, self.enforcer.got[-1])
        self.assert_consistent(self.host)

    def test_nothing_stays_counted_when_both_are_gone(self) -> None:
        for uuid in (SERVER, OTHER):
            self.host.release(uuid)

        self.assertEqual({}, self.host.booked)
        self.assertEqual(
            0, self.host.view.tracked[DOMAINS[0], WAYS].state.used
        )
