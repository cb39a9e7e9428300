# SPDX-License-Identifier: Apache-2.0

"""Tests of the program that manages reservations, as a process."""

import contextlib
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time

from nova_ext_resources.cmd import reservations
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import schema
from tests.unit.reservation import hosts
from tests.unit.reservation.manager import managers
from tests.unit.reservation.store import stores

_MODULE = 'nova_ext_resources.cmd.reservations'

#: Seconds, on a busy machine.
PATIENCE = 60


class ProgramTests(stores.StoreTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.config = pathlib.Path(self.make_folder(), 'nova.conf')
        self.write('interval = 1', 'clock_wait = 0', 'end_notice = 0')

    def write(self, *lines: str, url: str = '') -> None:
        self.config.write_text(
            '\n'.join(
                [
                    '[ext_resources_reservation]',
                    f'connection = {url or self.url}',
                    *lines,
                ]
            )
        )

    def run_once(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.make_command('--once', *arguments),
            capture_output=True,
            check=False,
            text=True,
            timeout=PATIENCE,
        )

    def make_command(self, *arguments: str) -> list[str]:
        return [
            *(sys.executable, '-m', _MODULE),
            f'--config-file={self.config}',
            *arguments,
        ]

    def admit_now(self, key: str, seconds: int) -> None:
        """Reserve from this second on."""
        now = int(time.time())
        during = hosts.span(now, now + seconds)
        self.admit(stores.make_admission(self.url), key, during, now=now)


class ConnectionTest(ProgramTests):
    def test_a_service_needs_a_database_that_is_named(self) -> None:
        folder = self.make_folder()
        self.config.write_text(f'[DEFAULT]\nstate_path = {folder}\n')

        done = subprocess.run(
            self.make_command(),
            capture_output=True,
            check=False,
            text=True,
            timeout=PATIENCE,
        )

        self.assertEqual(1, done.returncode, done.stderr)
        self.assertIn('[ext_resources_reservation] connection', done.stderr)
        self.assertEqual([], [*pathlib.Path(folder).iterdir()])
        # As a command it uses what the commands use.
        self.run_once()
        self.assertNotEqual([], [*pathlib.Path(folder).iterdir()])


class OnceTest(ProgramTests):
    def test_one_pass(self) -> None:
        self.admit_now('lease', 1000)
        self.admit_now('short', 1)
        time.sleep(1)

        done = self.run_once()

        # What needs no cloud is done; the rest is not.
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertIn('no credentials for placement are set', done.stderr)
        self.assertIn('Reservation lease is active: its start', done.stderr)
        states = [
            managers.list_states(self.url, one) for one in ('lease', 'short')
        ]
        self.assertEqual([['pending', 'active'], ['pending', 'ended']], states)

    def test_tables_are_made_and_brought_up_to_date(self) -> None:
        url = f'sqlite:///{self.make_folder()}/reservations.db'
        self.write(url=url)
        before = self.run_once()
        self.assertIn('--upgrade-tables', before.stderr)
        command = self.make_command('--upgrade-tables')

        for _again in range(2):
            done = subprocess.run(
                command,
                capture_output=True,
                check=False,
                text=True,
                timeout=PATIENCE,
            )

            self.assertEqual(0, done.returncode, done.stderr)
        schema.check(databases.Database(url))

    def test_tables_of_a_database_that_is_away(self) -> None:
        self.write(url='sqlite:////nowhere/x.db')

        done = subprocess.run(
            self.make_command('--upgrade-tables'),
            capture_output=True,
            check=False,
            text=True,
            timeout=PATIENCE,
        )

        self.assertEqual(1, done.returncode)
        self.assertNotIn('Traceback', done.stderr)

    def test_a_database_that_is_away(self) -> None:
        self.write(url='sqlite:////nowhere/x.db')

        done = self.run_once()

        self.assertEqual(1, done.returncode)
        self.assertIn('run the command again', done.stderr)

    def test_options_that_are_wrong(self) -> None:
        for line, wanted in (
            ('intervall = 5', 'intervall has no effect'),
            ('interval = soon', 'whole number'),
            ('interval = 0', 'greater than or equal to 1'),
            ('keep_ended = -1', 'greater than or equal to 0'),
        ):
            with self.subTest(line=line):
                self.write(line)

                done = self.run_once()

                self.assertEqual(1, done.returncode)
                self.assertIn(wanted, done.stderr.replace('\n', ' '))
                self.assertNotIn('Traceback', done.stderr)

    def test_a_file_that_is_not_there(self) -> None:
        self.config.unlink()

        done = self.run_once()

        self.assertEqual(1, done.returncode)
        self.assertIn('nova.conf', done.stderr)

    def test_a_log_that_cannot_be(self) -> None:
        text = self.config.read_text()
        self.config.write_text(f'[DEFAULT]\nlog_file = /nowhere/x\n{text}')

        done = self.run_once()

        self.assertEqual(1, done.returncode)
        self.assertIn('[DEFAULT] log_file = /nowhere/x cannot', done.stderr)
        self.assertNotIn('Traceback', done.stderr)

    def test_help_says_what_it_does(self) -> None:
        text = reservations.make_parser().format_help()

        self.assertIn('changes of reservations', text)
        self.assertIn('SHELVES AND DELETES SERVERS', ' '.join(text.split()))


class DaemonTest(ProgramTests):
    """Sends real signals to a real process."""

    def setUp(self) -> None:
        super().setUp()
        path = pathlib.Path(self.make_folder(), 'notify')
        self.systemd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.systemd.close)
        self.systemd.settimeout(PATIENCE)
        self.systemd.bind(str(path))
        self.log = pathlib.Path(self.make_folder(), 'log')
        with self.log.open('w') as log:
            self.process = subprocess.Popen(
                self.make_command(),
                stderr=log,
                env={'NOTIFY_SOCKET': str(path)},
            )
        self.addCleanup(self.stop)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def wait_for(self, line: str) -> None:
        """Wait until the process has reported a line to systemd."""
        seen = b''
        with contextlib.suppress(TimeoutError):
            while line.encode() not in seen:
                seen = self.systemd.recv(4096)
            return
        self.fail(f'no {line}: {self.log.read_text()}')

    def wait_for_state(self, key: str, state: str) -> None:
        until = time.monotonic() + PATIENCE
        while managers.list_states(self.url, key)[-1] != state:
            self.assertLess(time.monotonic(), until, self.log.read_text())
            time.sleep(0.05)

    def test_a_reservation_starts_and_ends(self) -> None:
        self.wait_for('READY=1')
        self.admit_now('lease', 3)

        self.wait_for_state('lease', 'active')
        self.wait_for_state('lease', 'ended')

        self.process.send_signal(signal.SIGTERM)
        self.wait_for('STOPPING=1')
        self.assertEqual(0, self.process.wait(PATIENCE))
        self.assertIn('Ended by SIGTERM', self.log.read_text())

    def test_options_are_read_again(self) -> None:
        self.wait_for('the last pass succeeded')
        other = self.make_url()
        schema.upgrade(databases.Database(other))
        self.write('interval = 0')

        self.process.send_signal(signal.SIGHUP)
        self.wait_for('READY=1')
        self.wait_for('the last pass succeeded')
        self.write('interval = 1', 'clock_wait = 0', url=other)
        self.process.send_signal(signal.SIGHUP)
        self.wait_for('READY=1')
        self.wait_for('the last pass succeeded')
        self.url = other
        self.admit_now('lease', 1000)

        self.wait_for_state('lease', 'active')
        self.assertIn(
            'The new configuration cannot be used', self.log.read_text()
        )

    def test_a_log_whose_folder_is_gone_ends_nothing(self) -> None:
        """Neither what is logged, nor a reload; and it is seen elsewhere."""
        self.wait_for('the last pass succeeded')
        folder = pathlib.Path(self.make_folder(), 'logs')
        folder.mkdir()
        path = folder / 'manager.log'
        self.write_log(path)
        self.process.send_signal(signal.SIGHUP)
        self.wait_for('READY=1')
        self.admit_now('first', 1000)
        self.wait_for_state('first', 'active')
        # That is logged after it is stored.
        until = time.monotonic() + PATIENCE
        while 'Reservation first is active' not in path.read_text():
            self.assertLess(time.monotonic(), until, path.read_text())
            time.sleep(0.05)

        shutil.rmtree(folder)
        self.admit_now('second', 1000)
        self.wait_for_state('second', 'active')
        self.process.send_signal(signal.SIGHUP)
        self.wait_for('READY=1')
        self.admit_now('third', 1000)
        self.wait_for_state('third', 'active')

        self.assertIsNone(self.process.poll())
        told = self.log.read_text()
        self.assertEqual(1, told.count('Create the folder again'))
        self.assertIn('Reservation second is active', told)
        self.assertIn('stays in effect: [DEFAULT] log_f', told)
        folder.mkdir()
        self.process.send_signal(signal.SIGHUP)
        self.wait_for('READY=1')
        self.wait_for('the last pass succeeded')
        self.assertIn('The configuration was read again', path.read_text())

    def write_log(self, path: pathlib.Path) -> None:
        self.write('interval = 1', 'clock_wait = 0')
        text = self.config.read_text()
        self.config.write_text(f'[DEFAULT]\nlog_file = {path}\n{text}')

    def test_another_one_goes_on_after_a_kill(self) -> None:
        self.wait_for('the last pass succeeded')
        self.stop()
        self.admit_now('lease', 1)
        time.sleep(1)

        self.run_once()

        self.assertEqual(
            ['pending', 'ended'], managers.list_states(self.url, 'lease')
        )
