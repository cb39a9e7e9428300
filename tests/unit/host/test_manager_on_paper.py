# SPDX-License-Identifier: Apache-2.0

"""Units that two servers have for a while, and how they are counted."""

import dataclasses

from oslo_config import cfg
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers import base
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources import plugins
from tests.unit.host import with_host

WAYS = with_host.WAYS
DOMAINS = with_host.DOMAINS

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other
THIRD = uuidsentinel.third


class ChoosingEnforcer(base.Enforcer):
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
    """The host gave the units of one server to another."""

    def setUp(self) -> None:
        super().setUp()
        options = plugins.register_opts(self.conf, 'choosing', ())
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

    def count_used(self) -> int:
        used: int = self.host.view.tracked[DOMAINS[0], WAYS].state.used
        return used

    def test_all_ways_that_are_allocated_are_counted(self) -> None:
        self.assertEqual(4, self.count_used())

        self.host.refresh()

        self.assertEqual(4, self.count_used())

    def test_no_more_ways_are_allocated_than_there_are(self) -> None:
        self.assertRaises(
            exception.CapacityExceeded,
            self.host.claim,
            with_host.make_claim(THIRD, 8),
        )
        self.host.claim(with_host.make_claim(THIRD, 7))

        self.assertEqual(11, self.count_used())

    def test_the_units_are_counted_as_they_are_when_one_gets_others(
        self,
    ) -> None:
        self.enforcer.chosen[OTHER] = '600'
        self.host.apply(OTHER)

        self.assertEqual(4, self.count_used())
        self.assert_consistent(self.host)

    def test_an_enforcer_gets_what_the_ledger_says(self) -> None:
        self.enforcer.in_force.discard(SERVER)

        for is_new in (False, True):
            if is_new:
                self.host.refresh()
            self.host.apply(SERVER)
            self.assertEqual(self.mask, self.enforcer.got[-1])
            self.assertEqual(4, self.count_used())

    def test_nothing_stays_counted_when_both_are_gone(self) -> None:
        for uuid in (SERVER, OTHER):
            self.host.release(uuid)

        self.assertEqual(0, self.count_used())
