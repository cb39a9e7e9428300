# SPDX-License-Identifier: Apache-2.0

"""What a server holds while it moves, on each of the two hosts or on one."""

import dataclasses
from typing import Any

import fixtures
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources import exception
from nova_ext_resources.facts import consumer_role
from nova_ext_resources.host import manager
from nova_ext_resources.host.reconcile import ended_migrations
from nova_ext_resources.objects import assignment
from tests.unit.host import backend
from tests.unit.host import with_host

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other
MIGRATION = uuidsentinel.migration

State = assignment.State
Purpose = assignment.Purpose
Role = consumer_role.Role

#: On which the server is pinned after a move to its own host.
NEW_CPUS = frozenset({3, 4})


class MovesSuite(with_host.BackendTestCase):
    """Six ways of each domain can be allocated."""

    #: State of what waits for a guest.
    WAITS = State.PARKED

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.host = self.make()

    def make(self) -> manager.HostManager:
        raise NotImplementedError

    def restart(self) -> manager.HostManager:
        self.host.close()
        self.host = self.make()
        return self.host

    def assert_same(
        self, before: assignment.Entry, after: assignment.Entry
    ) -> None:
        """Compare entries, whatever the order of what they hold."""
        before, after = (
            dataclasses.replace(
                one,
                assignments=tuple(
                    sorted(one.assignments, key=lambda held: held.rp_key)
                ),
            )
            for one in (before, after)
        )
        self.assertEqual(before, after)

    def claim_move(
        self, ways: int, *, is_here: bool = False, migration: str = MIGRATION
    ) -> Any:
        """Claim as a destination; ``is_here``: which is the source, too."""
        made = with_host.make_claim(
            migration if is_here else SERVER,
            ways,
            cpus=NEW_CPUS if migration == MIGRATION else frozenset({6}),
        )
        return self.host.claim(
            dataclasses.replace(made, server_uuid=SERVER), is_move=True
        )

    def list_states(self) -> dict[str, State]:
        return {u: one.state for u, one in self.host.entries.items()}

    def list_purposes(self) -> dict[str, Purpose]:
        return {u: one.purpose for u, one in self.host.entries.items()}

    def list_waiting(self, *uuids: str) -> set[str]:
        """Return what is applied of those that wait for a guest."""
        return set(uuids) if self.WAITS is State.APPLIED else set()

    def count_ways(self) -> int:
        """Return how many more ways a server could get."""
        self.assert_consistent(self.host)
        state = self.host.view.tracked[with_host.DOMAINS[0], with_host.WAYS]
        return int(state.state.available)

    def test_the_source_holds_and_does_not_apply(self) -> None:
        self.start(self.host, SERVER, 4)
        before = backend.find_inventory(
            self.host, with_host.DOMAINS[0], with_host.WAYS
        )

        self.host.park(SERVER, MIGRATION)

        self.assertEqual({MIGRATION: self.WAITS}, self.list_states())
        self.assertEqual(SERVER, self.host.entries[MIGRATION].server_uuid)
        self.assertEqual(
            self.list_waiting(MIGRATION), set(self.list_in_force())
        )
        self.assertEqual(2, self.count_ways())
        self.host.refresh()
        self.assertEqual(2, self.count_ways())
        after = backend.find_inventory(
            self.host, with_host.DOMAINS[0], with_host.WAYS
        )
        self.assertEqual(before, after)

    def test_nobody_else_gets_what_is_held(self) -> None:
        self.start(self.host, SERVER, 4)
        self.host.park(SERVER, MIGRATION)

        self.start(self.host, OTHER, 2, cpus=frozenset({5}))

        self.assertEqual(0, self.count_ways())
        self.host.unpark(SERVER, MIGRATION)
        self.assert_agreement(self.host)
        self.assertEqual({OTHER, SERVER}, set(self.list_in_force()))

    def test_a_revert_applies_it_again(self) -> None:
        before = self.start(self.host, SERVER, 4)
        self.host.park(SERVER, MIGRATION)

        self.host.unpark(SERVER, MIGRATION)

        self.assert_same(before, self.host.entries[SERVER])
        self.assert_agreement(self.host)

    def test_so_it_does_after_a_restart(self) -> None:
        before = self.start(self.host, SERVER, 4)
        self.host.park(SERVER, MIGRATION)
        self.restart().reconcile([MIGRATION])
        self.assertEqual({MIGRATION: self.WAITS}, self.list_states())
        self.assertEqual((), self.host.problems)

        self.host.unpark(SERVER, MIGRATION)

        self.assert_same(before, self.host.entries[SERVER])
        self.assert_agreement(self.host)

    def test_what_a_move_holds_that_nova_does_not_know_is_released(
        self,
    ) -> None:
        self.start(self.host, SERVER, 4)
        self.host.park(SERVER, MIGRATION)

        self.restart().reconcile([SERVER])

        self.assertEqual({}, self.host.entries)
        self.assertEqual({}, self.list_in_force())
        self.assertEqual(6, self.count_ways())

    def test_a_confirmation_releases_it(self) -> None:
        self.start(self.host, SERVER, 4)
        self.host.park(SERVER, MIGRATION)

        self.host.release(MIGRATION)

        self.assertEqual({}, self.host.entries)
        self.assertEqual({}, self.list_in_force())
        self.assertEqual(6, self.count_ways())

    def test_the_destination_holds_from_its_claim_on(self) -> None:
        self.claim_move(4)
        self.assertEqual({SERVER: self.WAITS}, self.list_states())
        self.restart().reconcile([SERVER])
        self.assertEqual({SERVER: self.WAITS}, self.list_states())
        self.assertEqual(self.list_waiting(SERVER), set(self.list_in_force()))

        self.host.apply(SERVER)

        self.assert_agreement(self.host)
        self.assertEqual({SERVER: State.APPLIED}, self.list_states())

    def assert_as_many(
        self, before: assignment.Entry, after: assignment.Entry
    ) -> None:
        """Compare what they hold; RMD chooses the units again."""
        held, now = (
            sorted((one.rp_key, one.amount) for one in entry.assignments)
            for entry in (before, after)
        )
        self.assertEqual(held, now)

    def bring(self) -> assignment.Entry:
        """Have a move bring what its guest never came for."""
        self.start(self.host, SERVER, 1)
        self.claim_move(3, is_here=True)
        self.host.park(SERVER, MIGRATION)
        return self.host.entries[SERVER]

    def test_a_move_keeps_what_a_former_one_has_brought(self) -> None:
        brought = self.bring()
        self.claim_move(2, is_here=True, migration=OTHER)
        for is_retry in (False, True):
            self.host.park(SERVER, OTHER, is_retry=is_retry)

            self.assertEqual(
                {
                    SERVER: Purpose.MIGRATION_DEST,
                    OTHER: Purpose.MIGRATION_SOURCE,
                },
                self.list_purposes(),
            )
            self.assert_as_many(brought, self.host.entries[OTHER])

    def test_so_does_one_that_brings_nothing(self) -> None:
        brought = self.bring()
        self.host.release(MIGRATION)

        self.host.park(SERVER, OTHER)

        self.assertEqual(
            {OTHER: Purpose.MIGRATION_SOURCE}, self.list_purposes()
        )
        self.assert_as_many(brought, self.host.entries[OTHER])

    def test_what_a_move_brought_before_a_kill_can_be_given_back(self) -> None:
        # Killed before the guest came; Nova has the server here.
        for is_here, kept in (
            (False, {MIGRATION: Purpose.MIGRATION_SOURCE}),
            (
                True,
                {
                    MIGRATION: Purpose.MIGRATION_SOURCE,
                    SERVER: Purpose.MIGRATION_DEST,
                },
            ),
        ):
            with self.subTest(is_here=is_here):
                self.host.claim(with_host.make_claim(SERVER, 2), is_move=True)
                self.restart().reconcile([SERVER])
                if is_here:
                    self.claim_move(4, is_here=True)

                self.host.park(SERVER, MIGRATION)

                self.assertEqual(kept, self.list_purposes())
                self.host.unpark(SERVER, MIGRATION)
                self.assertEqual({SERVER: Purpose.OWN}, self.list_purposes())
                self.assert_agreement(self.host)
                self.host.release(SERVER)

    def test_a_live_migration_is_applied_before_its_guest_comes(self) -> None:
        self.claim_move(4)

        self.host.prepare(SERVER)

        self.assertEqual({SERVER: State.APPLIED}, self.list_states())
        self.assertEqual(
            {SERVER: Purpose.MIGRATION_DEST}, self.list_purposes()
        )
        self.assertEqual([SERVER], [*self.list_in_force()])
        self.restart().reconcile([SERVER])
        self.assertEqual(
            {SERVER: Purpose.MIGRATION_DEST}, self.list_purposes()
        )
        self.host.apply(SERVER)
        self.assertEqual({SERVER: State.APPLIED}, self.list_states())
        self.assertEqual({SERVER: Purpose.OWN}, self.list_purposes())
        self.assert_agreement(self.host)

    def test_one_that_arrives_unprepared_is_applied_then(self) -> None:
        self.claim_move(4)

        ended_migrations.finish(
            self.host, self.host.entries, {SERVER: Role.ARRIVED}
        )

        self.assertEqual({SERVER: State.APPLIED}, self.list_states())
        self.assertEqual({SERVER: Purpose.OWN}, self.list_purposes())
        self.assert_agreement(self.host)

    def test_nothing_is_prepared_that_is_not_held(self) -> None:
        err = self.assertRaises(
            exception.EnforcementFailed, self.host.prepare, SERVER
        )

        self.assertIn('migrate the server again', str(err))
        self.host.apply(SERVER)
        self.assertEqual({}, self.host.entries)

    def test_on_one_host_the_guest_runs_on_until_it_is_off(self) -> None:
        before = self.start(self.host, SERVER, 2)

        self.claim_move(4, is_here=True)

        self.assert_same(before, self.host.entries[SERVER])
        self.assertEqual(
            {SERVER} | self.list_waiting(MIGRATION), set(self.list_in_force())
        )
        self.assertEqual(0, self.count_ways())

        self.host.park(SERVER, MIGRATION)

        kept, own = self.host.entries[MIGRATION], self.host.entries[SERVER]
        self.assertEqual(
            (before.cpus, NEW_CPUS, SERVER),
            (kept.cpus, own.cpus, kept.server_uuid),
        )
        self.assertEqual(0, self.count_ways())
        self.host.apply(SERVER)
        self.assertIs(State.APPLIED, self.host.entries[SERVER].state)
        self.assertEqual(
            {SERVER} | self.list_waiting(MIGRATION), set(self.list_in_force())
        )

        self.host.release(MIGRATION)

        self.assert_agreement(self.host)
        self.assertEqual(2, self.count_ways())

    def test_on_one_host_a_revert_brings_the_former_units(self) -> None:
        before = self.start(self.host, SERVER, 2)
        self.claim_move(4, is_here=True)
        self.host.park(SERVER, MIGRATION)
        self.host.apply(SERVER)
        self.host.release(SERVER)

        self.host.unpark(SERVER, MIGRATION)

        after = self.host.entries[SERVER]
        self.assertEqual([SERVER], list(self.host.entries))
        self.assertEqual(before.cpus, after.cpus)
        self.assertEqual(4, self.count_ways())
        self.assert_agreement(self.host)

    def test_on_one_host_what_was_never_exchanged_is_not_given_back(
        self,
    ) -> None:
        before = self.start(self.host, SERVER, 2)
        self.claim_move(4, is_here=True)

        self.host.unpark(SERVER, MIGRATION)

        self.assert_same(before, self.host.entries[SERVER])
        self.assertEqual(
            Purpose.MIGRATION_DEST, self.host.entries[MIGRATION].purpose
        )

    def test_the_guest_is_off_once_only(self) -> None:
        # A flavor without resources has no entry on its side.
        for old, new in ((2, 4), (2, 0), (0, 4)):
            with self.subTest(old=old, new=new):
                if old:
                    self.start(self.host, SERVER, old)
                if new:
                    self.claim_move(new, is_here=True)
                self.host.park(SERVER, MIGRATION)
                before = dict(self.host.entries)

                self.host.park(SERVER, MIGRATION, is_retry=True)

                self.assertEqual(before, dict(self.host.entries))
                self.assertEqual(
                    {
                        **(
                            {MIGRATION: Purpose.MIGRATION_SOURCE}
                            if old
                            else {}
                        ),
                        **({SERVER: Purpose.MIGRATION_DEST} if new else {}),
                    },
                    self.list_purposes(),
                )
                self.host.apply(SERVER)
                self.assertEqual(
                    Purpose.OWN if new else None,
                    self.list_purposes().get(SERVER),
                )
                purposes = self.list_purposes()
                self.restart()
                self.assertEqual(purposes, self.list_purposes())
                self.host.refresh()
                self.host.release(SERVER)
                self.host.release(MIGRATION)

    def test_a_refused_claim_leaves_the_guest_as_it_is(self) -> None:
        before = self.start(self.host, SERVER, 4)

        self.assertRaises(
            exception.ClaimError, self.claim_move, 4, is_here=True
        )

        self.assertEqual({SERVER: before}, dict(self.host.entries))
        self.assert_agreement(self.host)

    def test_to_a_flavor_without_resources_and_from_one(self) -> None:
        before = self.start(self.host, SERVER, 4)
        self.host.park(SERVER, MIGRATION)
        self.assertEqual({MIGRATION: self.WAITS}, self.list_states())
        self.host.unpark(SERVER, MIGRATION)
        self.assert_same(before, self.host.entries[SERVER])
        self.host.release(SERVER)

        self.claim_move(4, is_here=True)
        self.host.park(SERVER, MIGRATION)
        self.host.apply(SERVER)

        self.assertEqual({SERVER: State.APPLIED}, self.list_states())
        self.assert_agreement(self.host)

    def test_a_claim_replaces_what_former_moves_have_left(self) -> None:
        self.start(self.host, SERVER, 4)
        self.host.park(SERVER, MIGRATION)

        self.claim_move(6)

        self.assertEqual({SERVER: self.WAITS}, self.list_states())
        self.assertEqual(0, self.count_ways())

    def test_what_a_move_has_left_is_released_or_given_back(self) -> None:
        for role, left in (
            (Role.SOURCE, [MIGRATION]),
            (Role.RETURNED, [SERVER]),
            (Role.LEFT, []),
        ):
            with self.subTest(role):
                self.start(self.host, SERVER, 4)
                self.host.park(SERVER, MIGRATION)

                ended_migrations.finish(
                    self.host, self.host.entries, {MIGRATION: role}
                )

                self.assertEqual(left, [*self.host.entries])
                self.assertEqual(2 if left else 6, self.count_ways())
                self.host.release(SERVER)
                self.host.release(MIGRATION)

    def test_who_is_being_started_keeps_what_a_move_has_left(self) -> None:
        before = self.start(self.host, SERVER, 4)
        role = {SERVER: Role.LEFT}
        said = self.log.output

        with self.host.starting(SERVER):
            ended_migrations.finish(self.host, self.host.entries, role)

        self.assert_same(before, self.host.entries[SERVER])
        self.assertEqual(said, self.log.output)
        ended_migrations.finish(self.host, self.host.entries, role)
        self.assertEqual({}, self.host.entries)

    def test_what_has_changed_since_nova_was_asked_is_left_alone(
        self,
    ) -> None:
        self.start(self.host, SERVER, 4)
        self.host.park(SERVER, MIGRATION)
        before = self.host.entries
        self.host.unpark(SERVER, MIGRATION)
        self.host.park(SERVER, MIGRATION)
        self.host.unpark(SERVER, MIGRATION)

        ended_migrations.finish(
            self.host, before, {MIGRATION: Role.LEFT, SERVER: Role.LEFT}
        )

        self.assert_agreement(self.host)
        self.assertEqual([SERVER], [*self.host.entries])

    def test_without_anything_held_the_own_entry_is_applied(self) -> None:
        before = self.start(self.host, SERVER, 4)

        self.host.unpark(SERVER, MIGRATION)
        self.assert_same(before, self.host.entries[SERVER])
        self.host.release(SERVER)
        self.host.unpark(SERVER, MIGRATION)

        self.assertEqual({}, self.host.entries)
