# SPDX-License-Identifier: Apache-2.0

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources import exception
from nova_ext_resources.facts import consumer_role
from nova_ext_resources.host import manager
from nova_ext_resources.host.reconcile import ended_migrations
from nova_ext_resources.objects import assignment
from tests.unit.host import moving
from tests.unit.host import with_host
from tests.unit.host import with_resctrl

SERVER = uuidsentinel.server
MIGRATION = uuidsentinel.migration
OTHER = uuidsentinel.other

State = assignment.State


class ResctrlMovesTest(moving.MovesSuite, with_resctrl.ResctrlHostTestCase):
    def make(self) -> manager.HostManager:
        return self.make_resctrl_host(reserved_ways=5)

    def test_settings_that_cannot_be_removed_now_go_later(self) -> None:
        self.start(self.host, SERVER, 4)
        self.kernel.fail(error='EIO', count=None)

        self.host.park(SERVER, MIGRATION)

        self.assertEqual({MIGRATION: State.PARKED}, self.list_states())
        self.kernel.stop_failing()
        self.host.heal()
        self.assertEqual({}, self.list_in_force())
        self.assertEqual({MIGRATION: State.PARKED}, self.list_states())

    def test_a_server_whose_ways_others_took_gets_none_that_are_held(
        self,
    ) -> None:
        self.start(self.host, SERVER, 4)
        self.host.park(SERVER, MIGRATION)
        self.host.claim(with_host.make_claim(OTHER, 2, cpus=frozenset({5})))
        (mask, *_none) = (
            int(one.units['mask'], 16)
            for one in self.host.entries[OTHER].assignments
            if 'mask' in one.units
        )
        self.kernel.add_group('foreign', f'L3:0={mask:x};1={mask:x}\n')

        self.assertRaises(exception.ClaimError, self.host.apply, OTHER)

    def test_what_cannot_be_released_now_is_tried_again(self) -> None:
        self.start(self.host, SERVER, 4)
        role = {SERVER: consumer_role.Role.LEFT}
        self.kernel.fail(error='EIO', count=None)

        ended_migrations.finish(self.host, self.host.entries, role)

        self.assertIs(State.RELEASING, self.host.entries[SERVER].state)
        self.assertIn(f'a move of server {SERVER} has', self.log.output)
        self.kernel.stop_failing()
        ended_migrations.finish(self.host, self.host.entries, role)
        self.assertEqual({}, self.host.entries)


class RmdMovesTest(moving.MovesSuite, with_host.RmdHostTestCase):
    """RMD would give the ways of a workload that is gone to others."""

    WAITS = State.APPLIED

    def make(self) -> manager.HostManager:
        return self.make_rmd_host()

    def test_what_rmd_has_not_granted_is_tried_again(self) -> None:
        self.start(self.host, SERVER, 4)
        self.simulator.refuse_connections()
        self.assertRaises(
            exception.EnforcementFailed,
            self.host.park,
            SERVER,
            MIGRATION,
        )
        self.assertEqual({MIGRATION: State.PARKED}, self.list_states())
        self.assertEqual(2, self.count_ways())
        self.simulator.accept_connections()

        self.host.reconcile([MIGRATION])

        self.assert_agreement(self.host)
        self.assertEqual({MIGRATION}, set(self.list_in_force()))
