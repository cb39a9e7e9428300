# SPDX-License-Identifier: Apache-2.0

"""The command line that mounts the model, as a deployer's tests use it."""

import json
import os
import signal
import subprocess
import sys
import time

from nova_ext_resources.testing.resctrl import fuse
from nova_ext_resources.testing.resctrl import mounted
from nova_ext_resources.testing.resctrl import shapes
from tests import base
from tests.functional.resctrl import mounting

#: Seconds for a process to end.
PATIENCE = 60

# Has what the command line has around its mount, and dies in it.
_KILLED = """
from nova_ext_resources.testing import unmount
import os, signal, sys
with unmount.unmounted(sys.argv[1]):
    os.kill(os.getpid(), signal.SIGKILL)
"""


class CommandLineTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        mounting.require()
        self.path = os.path.join(self.make_folder(), 'resctrl')
        os.mkdir(self.path)

    def start(
        self, *options: str, path: str = '', cwd: str | None = None
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [
                sys.executable,
                '-m',
                'nova_ext_resources.testing.resctrl',
                '--mount',
                path or self.path,
                *options,
            ],
            cwd=cwd,
            env={**os.environ, 'PYTHONPATH': os.getcwd()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(self._end, process)
        return process

    def _end(self, process: subprocess.Popen[str]) -> None:
        process.terminate()
        process.communicate(timeout=PATIENCE)

    def read(self, name: str) -> str:
        with open(os.path.join(self.path, name)) as stream:
            return stream.read()

    def test_it_tells_when_it_is_there_and_unmounts_when_told(self) -> None:
        process = self.start('--shape', 'epyc16')
        assert process.stdout
        told = process.stdout.readline()
        schemata = self.read('schemata')

        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)

        self.assertEqual(f'{self.path}\n', told)
        self.assertIn('L3:0=ffff;1=ffff;', schemata)
        self.assertEqual([], os.listdir(self.path))

    def test_relative_paths_are_those_of_the_caller(self) -> None:
        home = os.path.dirname(self.path)

        process = self.start(
            '--control', '--sysfs', 'sys', path='resctrl', cwd=home
        )
        assert process.stdin and process.stdout
        told = process.stdout.readline()
        process.stdin.write(
            json.dumps({'do': 'set_offline', 'arguments': ['1-3']}) + '\n'
        )
        process.stdin.flush()
        process.stdout.readline()

        self.assertEqual(f'{self.path}\n', told)
        with open(os.path.join(home, 'sys', 'cpu', 'offline')) as stream:
            self.assertEqual('1-3\n', stream.read())

    def test_nothing_is_mounted_after_it_is_killed(self) -> None:
        process = self.start()
        assert process.stdout
        process.stdout.readline()

        process.kill()
        process.wait(PATIENCE)

        self.assertEqual([], self.list_later())

    def test_what_others_have_mounted_there_by_then_stays(self) -> None:
        process = self.start('--shape', 'haswell')
        assert process.stdout
        process.stdout.readline()
        other = subprocess.Popen(
            [sys.executable, '-c', _KILLED, self.path], stdout=subprocess.PIPE
        )
        other.communicate(timeout=PATIENCE)

        time.sleep(0.5)

        self.assertEqual('L3:0=fffff\n', self.read('schemata'))

    def list_later(self) -> list[str] | None:
        """List the folder once it can be listed again; None when never."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                return os.listdir(self.path)
            except OSError:
                time.sleep(0.05)
        return None

    def test_a_shape_that_is_not_there_is_told_with_those_that_are(
        self,
    ) -> None:
        process = self.start('--shape', 'epyc')

        _out, told = process.communicate(timeout=PATIENCE)

        self.assertIn('epyc is no file, and none of the shapes', told)
        self.assertIn('epyc16', told)

    def test_it_can_be_interfered_with_from_outside(self) -> None:
        process = self.start('--shape', 'skylake2', '--control')
        assert process.stdin and process.stdout
        process.stdout.readline()

        process.stdin.write(
            json.dumps({'do': 'set_offline', 'arguments': ['1-3']}) + '\n'
        )
        process.stdin.flush()
        answered = process.stdout.readline()

        self.assertEqual({'result': None}, json.loads(answered))
        self.assertEqual('0,4-47\n', self.read('cpus_list'))

    def test_with_control_it_ends_with_its_input(self) -> None:
        process = self.start('--control')
        assert process.stdin and process.stdout
        process.stdout.readline()

        process.stdin.close()
        process.stdin = None

        self.assertEqual(0, process.wait(PATIENCE))
        self.assertEqual([], os.listdir(self.path))

    def test_a_captured_tree_is_mounted(self) -> None:
        process = self.start('--shape', 'haswell', '--tasks', 'made-up')
        assert process.stdout
        process.stdout.readline()
        captured = os.path.join(self.make_folder(), 'host')
        subprocess.run(['cp', '-r', self.path, captured], check=True)
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)

        again = self.start('--tree', captured)
        assert again.stdout
        again.stdout.readline()

        self.assertEqual('L3:0=fffff\n', self.read('schemata'))
        self.assertEqual('2\n', self.read('info/L3/min_cbm_bits'))

    def test_a_mount_whose_process_was_killed_is_cleared_away(self) -> None:
        process = mounted.Process(shapes.SHAPES['haswell'], self.path)
        process.start()
        assert process._process is not None
        process._process.kill()
        process._process.wait(PATIENCE)

        process.stop()

        self.assertEqual([], os.listdir(self.path))

    def test_a_place_that_cannot_be_mounted_on_is_told(self) -> None:
        process = mounted.Process(shapes.SHAPES['haswell'], '/dev/null')

        error = self.assertRaises(fuse.Unavailable, process.start)

        self.assertIn('/dev/null is no folder to mount on', str(error))
        process.stop()
