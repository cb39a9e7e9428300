# SPDX-License-Identifier: Apache-2.0

"""A server whose ledger was lost gets its entry, whatever fails meanwhile."""

from collections.abc import Callable
import dataclasses
import functools
import threading
import types
from typing import Any

import fixtures

from nova_ext_resources import exception
from nova_ext_resources.facts import guest
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_health
from tests.unit.host.reconcile import test_rebuild_entries
from tests.unit.host.service import test_wiring_rounds
from tests.unit.host import test_manager_meanwhile
from tests.unit.host import with_host

SERVER = test_rebuild_entries.SERVER
LEFT = test_rebuild_entries.OTHER

State = assignment.State


class ActingRestoreTestCase(test_manager_meanwhile.ActingHostTestCase):
    """One server that its ledger has lost."""

    def setUp(self) -> None:
        super().setUp()
        self.host.reconcile([SERVER])
        self.restore = test_rebuild_entries.make_restore(self.host)

    def set_writer(self, restore: Callable[..., Any]) -> None:
        writer: Any = types.SimpleNamespace(restore=restore)
        self.restore._writer = writer

    def run_round(self) -> list[str]:
        """Run a round; return the servers that have no entry yet."""
        self.host.refresh()
        self.host.heal()
        self.restore.run()
        return [one.subject for one in self.restore.problems]


class FailedOnceTest(ActingRestoreTestCase):
    """What fails once is tried again."""

    def test_an_enforcer_that_chooses_units(self) -> None:
        self.enforcer.CHOOSES_UNITS = True  # type: ignore[misc]
        self.enforcer.is_failing = True
        self.assertEqual([SERVER], self.run_round())
        self.enforcer.is_failing = False

        self.assertEqual([], self.run_round())

        self.assertEqual([SERVER], [*self.host.entries])

    def test_a_claim_that_is_not_applied(self) -> None:
        """Such as that of a hard reboot, which is refused then: it stays."""
        self.host.claim(with_host.make_claim(SERVER, 3))
        with self.host.starting(SERVER):
            self.run_round()
        self.enforcer.is_failing = True
        self.assertRaises(exception.EnforcementFailed, self.host.apply, SERVER)
        self.enforcer.is_failing = False
        self.assertEqual([SERVER], [*self.host.entries])

        self.host.heal()
        self.run_round()

        self.assertIs(State.APPLIED, self.host.entries[SERVER].state)
        self.assertEqual({SERVER}, self.enforcer.in_force)

    def test_who_was_released_and_is_back_has_its_entry(self) -> None:
        self.host.release(SERVER)
        self.host.undo(self.host.claim(with_host.make_claim(SERVER, 3)))

        self.run_round()

        self.assertEqual([SERVER], [*self.host.entries])

    def test_what_a_failed_claim_left_over_is_not_what_it_has(self) -> None:
        self.host.undo(self.host.claim(with_host.make_claim(SERVER, 3)))
        # The host has carried out a request late.
        self.enforcer.in_force.add(SERVER)

        self.assertEqual([], self.run_round())

        self.assertIs(State.CLAIMED, self.host.entries[SERVER].state)


class LateAnswerTest(ActingRestoreTestCase):
    """Placement fails when something has become of the claim."""

    def setUp(self) -> None:
        super().setUp()
        self.request = with_host.make_claim(SERVER, 3)

    def assert_kept(self, late: assignment.Entry | None) -> None:
        """What is held now stays when that claim is undone."""
        assert late is not None
        entries = self.host.entries
        in_force = set(self.enforcer.in_force)

        self.host.undo(late)

        self.assertEqual(entries, self.host.entries)
        self.assertEqual(in_force, self.enforcer.in_force)
        self.assertIn(SERVER, entries)

    def restore_claim(self) -> assignment.Entry | None:
        return self.host.restore(self.request, is_applied=False)

    def test_a_server_that_was_started_keeps_what_it_has(self) -> None:
        for self.enforcer.CHOOSES_UNITS in (False, True):  # type: ignore[misc]
            with self.subTest(chooses_units=self.enforcer.CHOOSES_UNITS):
                late = self.restore_claim()
                self.host.apply(SERVER)

                self.assert_kept(late)

                self.assertEqual({SERVER}, self.enforcer.in_force)
                self.host.release(SERVER)
                self.host.gone.discard(SERVER)

    def test_so_does_one_whose_guest_is_on_its_way(self) -> None:
        late = self.host.claim(self.request, is_move=True)
        self.host.prepare(SERVER)

        self.assert_kept(late)

    def test_a_later_claim_stays(self) -> None:
        for is_move in (False, True):
            late = self.host.claim(self.request, is_move=is_move)
            self.host.claim(self.request, is_move=is_move)

            self.assert_kept(late)

    def test_so_does_what_came_back_from_a_move(self) -> None:
        late = self.restore_claim()
        self.host.park(SERVER, LEFT)
        self.host.unpark(SERVER, LEFT)

        self.assert_kept(late)

    def test_so_does_one_whose_entry_was_made_anew(self) -> None:
        """Its claim was released meanwhile: no server of Nova had it."""
        late = self.host.claim(self.request)
        self.host.release_gone([late])
        self.enforcer.in_force.add(SERVER)
        self.patch(
            self.enforcer, 'recover_units', lambda _entry: late.assignments
        )
        self.host.restore(self.request, is_applied=True)

        self.assert_kept(late)

    def test_so_does_what_a_move_keeps(self) -> None:
        self.host.claim(self.request)
        self.host.apply(SERVER)
        late = self.host.claim(
            dataclasses.replace(self.request, consumer_uuid=LEFT),
            is_move=True,
        )
        self.host.park(SERVER, LEFT)

        self.assert_kept(late)

    def test_a_claim_that_nobody_used_is_released(self) -> None:
        for self.enforcer.CHOOSES_UNITS in (False, True):  # type: ignore[misc]
            for claim in (
                self.restore_claim,
                functools.partial(self.host.claim, self.request),
            ):
                late = claim()
                assert late is not None

                self.host.undo(late)

                self.assertEqual({}, self.host.entries)
                self.assertEqual(set(), self.enforcer.in_force)

    def test_no_alarm_says_that_a_started_server_has_no_entry(self) -> None:
        def restore(
            request: assignment.ClaimRequest, *, is_applied: bool
        ) -> None:
            late = self.host.restore(request, is_applied=is_applied)
            assert late is not None
            self.host.apply(SERVER)
            self.host.undo(late)
            raise exception.PlacementUnavailable(
                action='move', status=503, detail='down'
            )

        self.set_writer(restore)

        self.assertEqual([], self.run_round())

        self.assertEqual({SERVER}, self.enforcer.in_force)


class CannotTellTest(ActingRestoreTestCase):
    """An enforcer that cannot tell the units of what is applied."""

    def test_what_is_applied_is_in_doubt(self) -> None:
        self.enforcer.in_force.add(SERVER)

        self.assertEqual([SERVER], self.run_round())

        self.assertEqual({}, self.host.entries)

    def test_nothing_is_decided_while_it_cannot_even_list_it(self) -> None:
        def fail() -> Any:
            raise OSError('no such device')

        self.enforcer.acts['list_applied'] = fail

        self.assertEqual([], self.run_round())

        self.assertEqual({}, self.host.entries)
        self.run_round()
        self.assertEqual([SERVER], [*self.host.entries])


class InGuestsTest(ActingRestoreTestCase):
    """What the hypervisor knows, and the host does not keep."""

    def setUp(self) -> None:
        super().setUp()
        requests = {
            uuid: test_rebuild_entries.make_request(uuid)
            for uuid in (SERVER, LEFT)
        }
        self.restore = test_rebuild_entries.make_restore(
            self.host, requests=requests
        )
        self.order: list[str] = []
        self.set_writer(self.note)

    def note(
        self, request: assignment.ClaimRequest, *, is_applied: bool
    ) -> None:
        self.order.append(f'{request.consumer_uuid} {is_applied}')

    def answer(self, answer: Any) -> None:
        self.useFixture(
            fixtures.MockPatchObject(
                self.enforcer, 'list_in_guests', side_effect=[answer]
            )
        )

    def test_servers_whose_units_it_knows_come_first(self) -> None:
        for first, second in ((SERVER, LEFT), (LEFT, SERVER)):
            self.answer(frozenset({first}))
            self.order.clear()

            self.run_round()

            self.assertEqual([f'{first} True', f'{second} False'], self.order)

    def test_none_is_restored_before_it_answers(self) -> None:
        self.answer(OSError('libvirt is away'))

        self.assertEqual([SERVER, LEFT], self.run_round())

        self.assertEqual([], self.order)
        for one in self.restore.problems:
            self.assertIn('libvirt is away', one.text)
            self.assertIn('asked again', one.text)

    def test_servers_that_request_none_of_it_do_not_wait(self) -> None:
        self.useFixture(
            fixtures.MockPatchObject(
                self.enforcer, 'serves', return_value=False
            )
        )
        self.answer(OSError('libvirt is away'))

        self.run_round()

        self.assertEqual(2, len(self.order))


class UnallocatedTest(ActingRestoreTestCase):
    """Placement has lost what its flavor requests, too."""

    def allocate(self, **resources: int) -> None:
        self.restore._client = test_rebuild_entries.make_placement(
            lambda _: {'node': resources}
        )

    def test_it_is_reported_until_it_has_left(self) -> None:
        self.allocate(VCPU=2)

        self.assertEqual([SERVER], self.run_round())

        (problem,) = self.restore.problems
        self.assertIn(f'allocated no {with_host.WAYS}', problem.text)
        self.assertIn('Shelve', problem.text)
        self.assertNotIn('Reboot', problem.text)
        self.assertEqual([SERVER], self.run_round())
        self.host.release(SERVER)
        self.assertEqual([], self.run_round())

    def test_what_other_software_allocates_is_not_of_this_host(self) -> None:
        self.allocate(**{with_host.WAYS: 3})

        self.assertEqual([], self.run_round())

        self.assertEqual(frozenset(), self.restore.waiting)


class FollowTest(test_wiring_rounds.RoundsTestCase):
    def test_a_placement_that_fails_once(self) -> None:
        made = self.made._restore
        made._client = test_rebuild_entries.make_placement(
            test_rebuild_entries.read_allocations
        )
        elsewhere = dataclasses.replace(
            test_rebuild_entries.make_request(SERVER), cpus=frozenset({13})
        )
        made.expect({SERVER: elsewhere})
        self.made.host.heal()

        for _ in range(2):
            made.run()

            self.assertEqual({}, self.made.host.entries)
            self.assertEqual(
                [(alarm.NOT_RECORDED, SERVER)],
                [(one.alarm, one.subject) for one in made.problems],
            )


class LostTest(test_wiring_rounds.RoundsTestCase):
    """The whole ledger was lost, and a server runs."""

    def test_a_server_without_an_entry_fails_the_host(self) -> None:
        made = self.made._restore
        made._client = test_rebuild_entries.make_placement(
            test_rebuild_entries.read_allocations
        )
        made.expect(
            {
                SERVER: dataclasses.replace(
                    test_rebuild_entries.make_request(SERVER),
                    cpus=frozenset({13}),
                )
            }
        )

        self.made.periodic.run_round()

        self.assertEqual({}, self.made.host.entries)
        found = self.made.metrics.read_health()
        self.assertIn(alarm.NOT_RECORDED, [one.name for one in found.alarms])
        self.assertEqual(host_health.HealthStatus.FAILING, found.status)


class LeftoversTest(test_wiring_rounds.RoundsTestCase):
    """What is applied for a server without an entry is in its way."""

    def setUp(self) -> None:
        super().setUp()
        self.running: dict[str, guest.Guest] | None = {}
        self.made.host.close()
        self.made = self.make(list_guests=self.list_running)
        self.made.host.refresh()
        # It stands for what is applied for our server.
        self.made.host.claim(with_host.make_claim(LEFT, 8))
        self.useFixture(
            fixtures.MockPatchObject(
                self.made.host,
                'clear',
                lambda _uuid: self.made.host.release(LEFT),
            )
        )
        self.made._restore.problems = (
            alarm.Problem(
                alarm=alarm.NOT_RECORDED, subject=SERVER, text='in doubt'
            ),
        )

    def list_running(self) -> dict[str, guest.Guest]:
        if self.running is None:
            raise OSError('libvirt is away')
        return self.running

    def claim(self) -> None:
        self.made.claim(with_host.make_claim(SERVER, 4))

    def test_it_goes_where_no_guest_runs_on_it(self) -> None:
        self.claim()

        self.assertEqual([SERVER], [*self.made.host.entries])

    def test_it_stays_where_it_is_not_in_the_way(self) -> None:
        self.made.claim(with_host.make_claim(SERVER, 2))

        self.assertEqual({LEFT, SERVER}, {*self.made.host.entries})

    def test_it_stays_while_a_guest_runs_on_it(self) -> None:
        for running in ({SERVER: guest.Guest(name='one', number=1)}, None):
            self.running = running

            self.assertRaises(exception.ClaimError, self.claim)

            self.assertEqual([LEFT], [*self.made.host.entries])


class DeletedTest(test_wiring_rounds.RoundsTestCase):
    def test_who_is_deleted_while_it_is_restored_is_gone(self) -> None:
        host = self.made.host
        deleting = threading.Thread(target=self.made.release, args=[SERVER])
        # As long as its entry is being made.
        with host._servers.hold(SERVER):
            deleting.start()
            deleting.join(test_manager_meanwhile.PAUSE)
            host._transitions.claim(
                with_host.make_claim(SERVER, 3), host._published
            )

        deleting.join(test_manager_meanwhile.WAIT)
        self.assertEqual({}, host.entries)
