# SPDX-License-Identifier: Apache-2.0

"""Tests of the passes of a manager, one after the other."""

import os
import signal
import socket
import subprocess
import sys
import threading

import fixtures

from nova_ext_resources import exception
from nova_ext_resources.reservation.manager import loop
from nova_ext_resources.reservation.manager import signals
from nova_ext_resources.reservation.manager import systemd
from tests import base


class LoopTest(base.TestCase):
    def run_loop(self, answers: str) -> list[float]:
        """Run a pass per letter, of which ``F`` fails; return the pauses."""
        left, pauses = list(answers), list[float]()

        def turn() -> None:
            if left.pop(0) == 'F':
                raise exception.StoreUnavailable(reason='it went away')

        def wait(seconds: float) -> None:
            pauses.append(seconds)
            if not left:
                raise signals.Signalled(signal.SIGTERM)

        self.assertEqual(signal.SIGTERM, loop.run(turn, 15, wait=wait))
        return pauses

    def test_passes_are_an_interval_apart(self) -> None:
        self.assertEqual([15, 15, 15], self.run_loop('...'))

    def test_failures_are_put_off_longer_and_longer(self) -> None:
        pauses = self.run_loop('F' * 20 + '.')

        self.assertEqual(15, pauses.pop())
        for number, pause in enumerate(pauses):
            self.assertLessEqual(pause, min(2**number, loop.LONGEST_PAUSE))
        self.assertGreater(max(pauses), 2)
        self.assertEqual(20, len(set(pauses)), 'managers come back in step')

    def test_a_failure_is_logged_and_forgotten(self) -> None:
        log = self.useFixture(fixtures.FakeLogger())

        pauses = self.run_loop('F.F')

        self.assertLessEqual(pauses[-1], loop.FIRST_PAUSE)
        self.assertEqual(2, log.output.count('it went away'))
        self.assertIn('no server is told to leave', log.output)

    def test_a_bug_ends_the_loop(self) -> None:
        def turn() -> None:
            raise KeyError('bug')

        self.assertRaises(KeyError, loop.run, turn, 15)


class SignalsTest(base.TestCase):
    def run_in_thread(self, *numbers: int) -> list[object]:
        """Send signals to a thread before it waits."""
        found: list[object] = []

        def run() -> None:
            signals.block()
            for one in numbers:
                signal.pthread_kill(threading.get_ident(), one)
            try:
                signals.wait(0.01)
                found.append('time')
            except signals.Signalled as err:
                found.append(err.number)
            # None is left for the process.
            signal.sigtimedwait(signals.STOP | signals.RELOAD, 0)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return found

    def test_a_signal_before_the_wait_is_not_lost(self) -> None:
        for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(one=one):
                self.assertEqual([one], self.run_in_thread(one))

    def test_time_passes_without_a_signal(self) -> None:
        self.assertEqual(['time'], self.run_in_thread())


class SystemdTest(base.TestCase):
    def test_lines_arrive(self) -> None:
        path = os.path.join(self.make_folder(), 'notify')
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
            server.bind(path)
            with fixtures.EnvironmentVariable('NOTIFY_SOCKET', path):
                systemd.notify(systemd.READY, 'STATUS=well')

            self.assertEqual(b'READY=1\nSTATUS=well', server.recv(100))

    def test_an_abstract_name(self) -> None:
        name = f'ext-{os.getpid()}'
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
            server.bind(f'\0{name}')
            with fixtures.EnvironmentVariable('NOTIFY_SOCKET', f'@{name}'):
                systemd.notify(systemd.STOPPING)

            self.assertEqual(b'STOPPING=1', server.recv(100))

    def test_whoever_does_not_read_stops_nothing(self) -> None:
        self.patch(systemd, 'PATIENCE', 0.01)
        path = os.path.join(self.make_folder(), 'notify')
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
            server.bind(path)
            with fixtures.EnvironmentVariable('NOTIFY_SOCKET', path):
                for _number in range(50):
                    systemd.notify(systemd.ALIVE)

    def test_without_systemd_nothing_happens(self) -> None:
        for path in (None, '', '/nowhere/notify', 'vsock:2:1234'):
            with fixtures.EnvironmentVariable('NOTIFY_SOCKET', path):
                systemd.notify(systemd.READY)


class ImportTest(base.TestCase):
    def test_the_program_does_not_load_nova(self) -> None:
        program = (
            'import sys\n'
            'import nova_ext_resources.cmd.reservations\n'
            'print([one for one in sys.modules if one.split(".")[0] in '
            '("nova", "eventlet")])'
        )
        found = subprocess.run(
            [sys.executable, '-c', program],
            capture_output=True,
            check=True,
            text=True,
        )

        self.assertEqual('[]', found.stdout.strip())
