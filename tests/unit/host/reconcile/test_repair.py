# SPDX-License-Identifier: Apache-2.0

import dataclasses
import logging

import fixtures

from nova_ext_resources import exception
from nova_ext_resources.facts import guest
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from tests.unit.host import test_manager_meanwhile
from tests.unit.host import with_host

SERVER = test_manager_meanwhile.SERVER
OTHER = test_manager_meanwhile.OTHER
State = assignment.State


class HealTest(test_manager_meanwhile.ActingHostTestCase):
    """What healing does, and what it leaves alone."""

    def heal(self) -> list[tuple[str, str]]:
        """Return what it has asked of the enforcer."""
        self.enforcer.calls.clear()
        self.host.heal()
        return self.enforcer.calls

    def list_problems(self) -> list[tuple[str, str]]:
        return [(one.alarm, one.subject) for one in self.host.problems]

    def test_what_is_as_it_should_be_is_left_alone(self) -> None:
        self.start()

        self.assertEqual([], self.heal())

    def test_what_is_lost_is_restored(self) -> None:
        self.start()
        self.enforcer.in_force.clear()

        self.assertEqual([('apply', SERVER)], self.heal())

    def fail_to_act(self) -> None:
        raise OSError('the kernel refuses')

    def list_repairs(self) -> list[str]:
        lines = self.log.output.splitlines()
        return [one for one in lines if 'again' in one or 'finished' in one]

    def test_one_line_says_what_was_restored(self) -> None:
        self.start()
        self.heal()
        self.assertEqual([], self.list_repairs())
        self.enforcer.in_force.clear()

        self.heal()

        (line,) = self.list_repairs()
        for words in ('Host host1', f'server {SERVER}', 'CUSTOM_LLC_WAYS'):
            self.assertIn(words, line)
        self.heal()
        self.assertEqual([line], self.list_repairs())

    def list_recoveries(self) -> list[tuple[str, str]]:
        return [(one.alarm, one.subject) for one in self.host.recoveries]

    def test_a_loss_is_reported_though_it_is_repaired_at_once(self) -> None:
        self.start()
        self.heal()
        self.assertEqual([], self.list_recoveries())
        self.enforcer.in_force.clear()

        self.heal()

        self.assertEqual([], self.list_problems())
        self.assertEqual(
            [(alarm.APPLIED_AGAIN, SERVER)], self.list_recoveries()
        )
        self.assertTrue(self.host.is_settled)
        self.host.release(SERVER)
        self.assertEqual([], self.list_recoveries())

    def test_so_is_one_that_was_found_when_this_process_began(self) -> None:
        self.start()
        self.host.claim(with_host.make_claim(OTHER, cpus=frozenset({3})))
        self.host.apply(OTHER)
        self.enforcer.in_force.discard(SERVER)

        self.heal()

        self.assertEqual(
            [(alarm.APPLIED_AGAIN, SERVER)], self.list_recoveries()
        )

    def test_a_host_that_was_booted_has_lost_nothing(self) -> None:
        self.start()
        self.enforcer.in_force.clear()

        self.assertEqual([('apply', SERVER)], self.heal())

        self.assertEqual([], self.list_recoveries())

    def test_a_guest_that_has_run_on_has_lost_what_it_had(self) -> None:
        """As when resctrl was mounted anew while nova-compute was down."""
        self.start()
        self.start(OTHER, cpu=3)
        self.enforcer.in_force.clear()
        one = guest.Guest(name='instance-1', number=1)
        self.host._repair._list_guests = lambda: {SERVER: one}

        self.heal()

        self.assertEqual(
            [(alarm.APPLIED_AGAIN, SERVER)], self.list_recoveries()
        )

    def test_whether_it_has_is_unknown_without_the_hypervisor(self) -> None:
        self.start()
        self.enforcer.in_force.clear()
        self.host._repair._list_guests = lambda: None

        self.assertEqual([('apply', SERVER)], self.heal())

        self.assertEqual([], self.list_recoveries())

    def test_nor_has_a_server_that_is_being_started(self) -> None:
        self.start()
        self.heal()
        self.enforcer.in_force.clear()

        with self.host.starting(SERVER):
            self.assertEqual([('apply', SERVER)], self.heal())

        self.assertEqual([], self.list_recoveries())

    def begin_again(
        self, running: dict[str, guest.Guest] | None, state: assignment.State
    ) -> None:
        """Start a process that finds an entry in a state."""
        self.start()
        self.host._ledger.set_state([SERVER], state)
        self.host.close()
        self.host = self.make_host()
        self.host._repair._list_guests = lambda: running

    def test_a_start_releases_nothing_of_a_guest_that_runs(self) -> None:
        one = guest.Guest(name='instance-1', number=1)
        self.begin_again({SERVER: one}, State.RELEASING)

        self.host.heal(None)

        self.assertIn(SERVER, self.enforcer.in_force)
        self.assertEqual({SERVER: 'claimed'}, self.read_rows())
        self.host.reconcile([SERVER])
        self.assertEqual({SERVER: 'applied'}, self.read_rows())
        self.host.release(SERVER)
        self.assertEqual({}, self.read_rows())

    def test_a_start_goes_on_with_the_release_of_one_that_is_off(self) -> None:
        self.begin_again({}, State.RELEASING)

        self.host.heal(None)

        self.assertEqual({}, self.read_rows())

    def test_nothing_is_released_before_the_hypervisor_answers(self) -> None:
        self.begin_again(None, State.RELEASING)
        self.host.heal(None)
        self.assertIn(SERVER, self.enforcer.in_force)

        self.host._repair._list_guests = dict
        self.host.heal(None)

        self.assertEqual({}, self.read_rows())

    def test_what_nova_releases_meanwhile_is_released(self) -> None:
        one = guest.Guest(name='instance-1', number=1)
        self.begin_again({SERVER: one}, State.RELEASING)
        self.enforcer.is_failing = True
        self.assertRaises(
            exception.EnforcementFailed, self.host.release, SERVER
        )
        self.enforcer.is_failing = False

        self.host.heal(None)

        self.assertEqual({}, self.read_rows())

    def test_what_could_not_be_restored_is_not_said_to_be(self) -> None:
        self.start()
        self.enforcer.in_force.clear()
        self.enforcer.acts['apply'] = self.fail_to_act

        self.heal()

        self.assertEqual([], self.list_repairs())
        self.assertEqual([], self.list_recoveries())

    def test_one_line_says_that_a_release_was_finished(self) -> None:
        self.start()
        self.enforcer.acts['release'] = self.fail_to_act
        self.assertRaises(
            exception.ExtResourcesError, self.host.release, SERVER
        )
        self.enforcer.acts.clear()

        self.heal()

        (line,) = self.list_repairs()
        self.assertIn(f'server {SERVER}', line)

    def test_who_has_gone_meanwhile_is_released_once(self) -> None:
        self.start()
        self.enforcer.acts['list_applied'] = lambda: self.host.release(SERVER)

        self.assertEqual([('release', SERVER)], self.heal())
        self.assertNotIn('which has no claim', self.log.output)
        self.assertEqual([], self.list_problems())

    def test_who_has_come_meanwhile_is_started_once(self) -> None:
        self.enforcer.acts['list_applied'] = self.start

        self.assertEqual([('apply', SERVER)], self.heal())

    def test_who_was_started_again_meanwhile_is_started_once(self) -> None:
        self.host.claim(with_host.make_claim(SERVER))
        self.enforcer.acts['list_applied'] = lambda: self.host.apply(SERVER)

        self.assertEqual([('apply', SERVER)], self.heal())

    def test_who_has_come_meanwhile_is_no_stranger(self) -> None:
        # It is in force already when the host is asked.
        self.enforcer.in_force.add(SERVER)
        self.enforcer.acts['list_applied'] = self.start

        self.heal()

        self.assertEqual([], self.list_problems())

    def test_a_claim_is_applied_when_nothing_under_way_will_do_it(
        self,
    ) -> None:
        self.host.reconcile([])
        with self.host.starting(SERVER), self.host.starting(SERVER):
            self.host.claim(with_host.make_claim(SERVER))
            self.assertEqual([], self.heal())
        self.host.claim(with_host.make_claim(OTHER, cpus=frozenset({3})))

        calls = self.heal()

        self.assertEqual({('apply', SERVER), ('apply', OTHER)}, {*calls})
        self.assertEqual([], self.heal())
        self.assertEqual((), self.host.problems)

    def test_none_is_applied_before_nova_has_named_its_servers(self) -> None:
        self.host.claim(with_host.make_claim(SERVER))

        self.assertEqual([], self.heal())

    def test_a_stranger_is_reported_and_left_alone(self) -> None:
        self.enforcer.in_force.add(SERVER)

        self.assertEqual([], self.heal())
        self.assertEqual(
            [(alarm.UNKNOWN_SETTINGS, SERVER)], self.list_problems()
        )

    def test_none_is_a_stranger_while_it_may_get_its_entry_back(self) -> None:
        self.enforcer.in_force.add(SERVER)
        for waiting in (None, frozenset({SERVER})):
            self.host.heal(waiting)

            self.assertEqual([], self.list_problems())
        self.host.heal(frozenset({OTHER}))
        self.assertEqual(
            [(alarm.UNKNOWN_SETTINGS, SERVER)], self.list_problems()
        )

    def test_leftovers_of_who_was_released_go_and_are_no_strangers(
        self,
    ) -> None:
        self.start()
        self.host.release(SERVER)
        self.enforcer.in_force.add(SERVER)

        self.assertEqual([('release', SERVER)], self.heal())
        self.assertEqual(set(), self.enforcer.in_force)
        self.assertEqual([], self.list_problems())

    def test_leftovers_that_do_not_go_are_reported(self) -> None:
        self.start()
        self.host.release(SERVER)
        self.enforcer.in_force.add(SERVER)
        self.enforcer.is_failing = True

        self.heal()

        self.assertIn((alarm.STALE_SETTINGS, SERVER), self.list_problems())

    def test_what_a_server_lacks_after_its_repair_is_reported(self) -> None:
        self.start(SERVER)
        self.start(OTHER, cpu=2)
        self.enforcer.in_force.clear()
        self.enforcer.faults[SERVER] = 'its ways are not its own'
        # Repaired after one that is released in the same round.
        self.host.state.put(
            dataclasses.replace(
                self.host.entries[OTHER], state=assignment.State.RELEASING
            )
        )

        calls = self.heal()

        self.assertEqual([('release', OTHER), ('apply', SERVER)], calls)
        self.assertEqual([(alarm.NOT_APPLIED, SERVER)], self.list_problems())
        self.assertIn('its ways are not its own', str(self.host.problems[0]))
        self.enforcer.faults.clear()
        self.heal()
        self.assertEqual([], self.list_problems())

    def test_one_that_cannot_be_mended_keeps_nobody_else_waiting(
        self,
    ) -> None:
        self.start(SERVER)
        self.start(OTHER, cpu=2)
        self.enforcer.in_force.clear()
        self.enforcer.is_failing = True

        calls = self.heal()

        self.assertEqual({('apply', SERVER), ('apply', OTHER)}, set(calls))
        self.assertEqual(
            {
                (alarm.NOT_APPLIED, SERVER),
                (alarm.NOT_APPLIED, OTHER),
            },
            set(self.list_problems()),
        )

    def test_units_that_nobody_understands_are_reported(self) -> None:
        self.start()
        entry = self.host.entries[SERVER]
        self.host._ledger.put(
            dataclasses.replace(
                entry,
                assignments=tuple(
                    dataclasses.replace(one, units={})
                    for one in entry.assignments
                ),
            )
        )
        self.host.close()
        self.host = self.make_host()

        self.heal()

        self.assertEqual(
            [(alarm.UNREADABLE_UNITS, SERVER)], self.list_problems()
        )

    def test_units_that_two_servers_hold_are_reported(self) -> None:
        self.start(SERVER)
        self.start(OTHER, cpu=2)
        ways = self.host.entries[SERVER].assignments[0]
        entry = self.host.entries[OTHER]
        self.host.state.put(
            dataclasses.replace(
                entry, assignments=(ways, *entry.assignments[1:])
            )
        )

        self.assertEqual([], self.heal())

        self.assertEqual(
            [(alarm.UNITS_HELD_TWICE, OTHER)], self.list_problems()
        )
        for words in (SERVER, OTHER, ways.resource_class, ways.rp_key):
            self.assertIn(words, str(self.host.problems[0]))
        self.host.release(SERVER)
        self.heal()
        self.assertEqual([], self.list_problems())


class SmallerHostTest(with_host.HostTestCase):
    def test_more_than_the_host_has_is_reported_until_it_is_given_back(
        self,
    ) -> None:
        log = self.useFixture(fixtures.FakeLogger(level=logging.ERROR))
        host = self.make_noop_host()
        for uuid, ways in ((SERVER, 6), (OTHER, 4)):
            host.claim(with_host.make_claim(uuid, ways))
            host.apply(uuid)
        host.heal()
        self.assertEqual((), host.problems)
        host.close()

        host = self.make_noop_host(ways=8)
        host.heal()
        host.heal()

        (problem,) = host.problems
        self.assertEqual(alarm.OVERALLOCATED, problem.alarm)
        self.assertEqual('L3_0 CUSTOM_LLC_WAYS', problem.subject)
        self.assertEqual(1, log.output.count('servers hold 10'))
        host.release(OTHER)
        # A boot that takes long does not hide that.
        host.claim(with_host.make_claim(OTHER, 1))
        host.heal()
        self.assertEqual((), host.problems)
