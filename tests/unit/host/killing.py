# SPDX-License-Identifier: Apache-2.0

"""A host's process is killed at any step; the next one mends it."""

import abc
import dataclasses
import itertools
import signal
import subprocess
import sys

from nova_ext_resources.host import manager
from nova_ext_resources.objects import assignment
from tests.unit.host import dying
from tests.unit.host import with_host

#: Far more than there are; a run that is longer does not end.
MAX_STEPS = 200


class KilledCases(with_host.BackendTestCase):
    """Inherit it with a test case that makes hosts of a backend."""

    #: What is killed.
    SCENARIO = 'come_and_go'

    #: Of the server that comes and goes.
    CPUS: frozenset[int] | None = frozenset({1, 2})

    @abc.abstractmethod
    def list_arguments(self) -> list[str]:
        """Return name and options of the backend, for the other process."""

    @abc.abstractmethod
    def restart(self) -> manager.HostManager:
        """Make a host that has looked at the backend."""

    @abc.abstractmethod
    def lose_everything(self) -> None:
        """Nothing is in force any more."""

    def wait_for_the_dead(self) -> None:
        """Wait until nothing that it has sent is under way."""

    def setUp(self) -> None:
        super().setUp()
        self.process = subprocess.Popen(
            [
                *(sys.executable, '-m', 'tests.unit.host.dying'),
                *(self.ledger_path, *self.list_arguments()),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(self.end)

    def end(self) -> None:
        self.process.communicate(timeout=120)

    def run_until(self, scenario: str, step: int) -> bool:
        """Run it in another process; tell whether that was killed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f'{scenario} {step}\n')
        self.process.stdin.flush()
        code = int(self.process.stdout.readline())
        self.assertIn(code, (0, -signal.SIGKILL))
        self.wait_for_the_dead()
        return code != 0

    def prepare(self) -> None:
        host = self.restart()
        dying.claim_neighbour(host)
        host.close()

    def assert_mended(
        self, host: manager.HostManager, before: assignment.Entry
    ) -> None:
        self.assertEqual((), host.problems)
        self.assert_agreement(host)
        self.assertEqual(before, host.entries[dying.NEIGHBOUR])

    def test_a_server_is_held_whole_or_not_at_all(self) -> None:
        self.prepare()
        seen = set()
        for step in itertools.count(1):
            self.assertLess(step, MAX_STEPS)
            was_killed = self.run_until(self.SCENARIO, step)
            with self.subTest(step=step):
                seen.add(self.read_rows().get(dying.SERVER, 'unknown'))
                self.check_restart()
            if not was_killed:
                break
        # It was killed in each state that there is.
        self.assertEqual({'unknown', 'claimed', 'applied', 'releasing'}, seen)

    def check_restart(self) -> None:
        """Once with Nova still having the server, then without it."""
        host = self.restart()
        before = host.entries[dying.NEIGHBOUR]
        state = host.entries.get(dying.SERVER)

        host.reconcile([dying.NEIGHBOUR, dying.SERVER])

        is_kept = state and state.state is not assignment.State.RELEASING
        self.assert_mended(host, before)
        self.assertEqual(bool(is_kept), dying.SERVER in host.entries)
        host.close()
        again = self.restart()
        again.reconcile([dying.NEIGHBOUR])
        self.assert_mended(again, before)
        self.assertEqual({dying.NEIGHBOUR: 'applied'}, self.read_rows())
        again.close()

    def test_a_server_that_leaves_is_held_once_at_every_moment(self) -> None:
        self.kill_move('leave')

    def test_so_is_one_that_comes_back(self) -> None:
        self.kill_move('come_back')

    def test_so_is_one_that_stays_on_its_host(self) -> None:
        self.kill_move('exchange')

    def test_so_is_one_that_claims_anew_while_its_guest_runs(self) -> None:
        self.kill_move('claim_again')

    def kill_move(self, scenario: str) -> None:
        self.prepare()
        for step in itertools.count(1):
            self.assertLess(step, MAX_STEPS)
            self.begin_move(scenario)
            was_killed = self.run_until(scenario, step)
            with self.subTest(step=step):
                self.check_move(2 if scenario == 'exchange' else 1)
            if not was_killed:
                break

    def begin_move(self, scenario: str) -> None:
        host = self.restart()
        host.claim(with_host.make_claim(dying.SERVER, 2, cpus=self.CPUS))
        host.apply(dying.SERVER)
        if scenario == 'come_back':
            dying.leave(host)
        elif scenario == 'exchange':
            made = with_host.make_claim(
                dying.MIGRATION, 2, cpus=frozenset({4})
            )
            host.claim(
                dataclasses.replace(made, server_uuid=dying.SERVER),
                is_move=True,
            )
        host.close()

    def check_move(self, number: int) -> None:
        """Once with the move in progress, then without the server."""
        host = self.restart()
        before = host.entries[dying.NEIGHBOUR]
        moving = {dying.SERVER, dying.MIGRATION}

        host.reconcile([dying.NEIGHBOUR, *moving])

        self.assertEqual((), host.problems)
        self.assert_consistent(host)
        self.assertEqual(before, host.entries[dying.NEIGHBOUR])
        self.assertEqual(number, len(moving & host.entries.keys()))
        applied = {
            uuid
            for uuid, one in host.entries.items()
            if one.state is assignment.State.APPLIED
        }
        self.assertEqual(applied, set(self.list_in_force()))
        host.close()
        again = self.restart()
        again.reconcile([dying.NEIGHBOUR])
        self.assert_mended(again, before)
        again.close()

    def test_mending_may_be_killed_as_well(self) -> None:
        self.prepare()
        for step in itertools.count(1):
            self.assertLess(step, MAX_STEPS)
            host = self.restart()
            before = host.entries[dying.NEIGHBOUR]
            host.claim(with_host.make_claim(dying.SERVER, 3, cpus=self.CPUS))
            host.close()
            self.lose_everything()

            was_killed = self.run_until('heal', step)

            with self.subTest(step=step):
                again = self.restart()
                again.reconcile([dying.NEIGHBOUR])
                self.assert_mended(again, before)
                again.close()
            if not was_killed:
                break
