# SPDX-License-Identifier: Apache-2.0

"""Servers on a real kernel, by a nova-compute that is not root.

What another program does is done here, as root.
"""

import contextlib
import fcntl
import json
import os
import pathlib
import pwd
import subprocess
import sys
import threading
import time
from typing import Any

from oslo_utils.fixture import uuidsentinel

from tests import base
from tests.kernel import mount
from tests.kernel import site
from tests import machines
from tests.unit import guests

SERVER = uuidsentinel.server
GROUP = f'nova-{SERVER}'

_PIN = [1]


class NovaTestCase(base.TestCase):
    """Has a nova-compute on an empty host."""

    HELPER: tuple[str, ...] = site.ROOTWRAP
    IS_ROOTWRAP = True

    #: What nova-compute said before it could start.
    ERRORS = pathlib.Path('/tmp/nova.errors')

    process: subprocess.Popen[str]

    @classmethod
    def setUpClass(cls) -> None:
        """Start it once: an emulated machine takes a minute for that."""
        super().setUpClass()
        mount.mount(())
        site.set_up()
        site.allow(rootwrap=cls.IS_ROOTWRAP)
        words = ['setpriv', '--reuid', site.USER, '--regid', site.USER]
        words += ['--clear-groups', sys.executable, '-m', 'tests.kernel.nova']
        cls.process = subprocess.Popen(
            [*words, *cls.HELPER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=open(cls.ERRORS, 'w'),
            text=True,
            cwd=site.ROOT,
            env={**os.environ, 'HOME': '/tmp'},
        )
        cls.addClassCleanup(cls._end)
        said = cls._read()
        assert said == {'result': 'started'}, cls.ERRORS.read_text()

    @classmethod
    def _end(cls) -> None:
        assert cls.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            cls.process.stdin.close()
        try:
            cls.process.wait(60)
        except subprocess.TimeoutExpired:
            cls.process.kill()
            cls.process.wait()

    def setUp(self) -> None:
        super().setUp()
        self.machine = self.useFixture(machines.make('skylake2'))
        self.kernel = self.machine.kernel
        # Whatever a test has left.
        self.addCleanup(self.ask, 'delete', SERVER)

    @classmethod
    def _read(cls) -> Any:
        assert cls.process.stdout is not None
        line = cls.process.stdout.readline()
        return json.loads(line or '{}')

    def ask(self, name: str, *arguments: Any) -> Any:
        assert self.process.stdin is not None
        line = json.dumps([name, *arguments])
        self.process.stdin.write(f'{line}\n')
        self.process.stdin.flush()
        return self._read()

    def do(self, name: str, *arguments: Any) -> Any:
        """Have it done, and done well."""
        said = self.ask(name, *arguments)
        self.assertEqual(['result'], list(said), said)
        return said['result']

    def assert_ways(self, ways: int) -> None:
        """The server has so many ways, and nobody else has them."""
        groups = self.kernel.list_groups()
        mask = groups[GROUP]['values']['L3']['0']
        self.assertEqual(ways, mask.bit_count())
        self.assertEqual(0, mask & groups['']['values']['L3']['0'])


class SudoTest(NovaTestCase):
    """By sudo and the file that comes with us, without rootwrap."""

    HELPER: tuple[str, ...] = site.SUDO
    IS_ROOTWRAP = False

    def test_a_server_on_cpus_of_its_own_comes_and_goes(self) -> None:
        self.assertNotEqual(0, self.do('get_user'))
        self.assertIn('L3_0', self.do('list_offers'))

        self.do('boot', SERVER, 4, _PIN)

        self.assert_ways(4)
        self.assertEqual(_PIN, self.kernel.list_groups()[GROUP]['cpus'])
        self.do('delete', SERVER)
        self.assertEqual([''], list(self.kernel.list_groups()))

    def test_a_floating_server_comes_and_goes(self) -> None:
        user = pwd.getpwnam(site.HYPERVISOR).pw_uid
        guest = self.useFixture(guests.Guest(SERVER, 4, user=user))

        self.do('boot', SERVER, 3, None)

        self.assert_ways(3)
        self.assertEqual(
            guest.list_threads(),
            set(self.kernel.list_groups()[GROUP]['tasks']),
        )
        self.do('delete', SERVER)
        self.assertEqual([''], list(self.kernel.list_groups()))


class RootwrapTest(SudoTest):
    """By sudo and rootwrap, as distributions set Nova up."""

    HELPER = site.ROOTWRAP
    IS_ROOTWRAP = True

    def test_what_others_change_is_healed(self) -> None:
        self.do('boot', SERVER, 4, _PIN)
        for change in (
            lambda: self.kernel.write(f'{GROUP}/schemata', 'L3:0=1\n'),
            lambda: self.kernel.write(f'{GROUP}/cpus_list', '\n'),
            lambda: self.kernel.remove_group(GROUP),
            self.kernel.remount,
        ):
            change()

            self.assertEqual([], self.do('heal'))

            self.assert_ways(4)
            self.assertEqual(_PIN, self.kernel.list_groups()[GROUP]['cpus'])

    def test_a_lock_that_is_held_for_a_moment_is_waited_for(self) -> None:
        with self.hold_lock(seconds=3):
            began = time.monotonic()
            self.do('boot', SERVER, 4, _PIN)

        self.assertLess(2, time.monotonic() - began)
        self.assert_ways(4)

    def test_a_lock_that_is_held_on_and_on_is_an_error(self) -> None:
        with self.hold_lock(seconds=300):
            said = self.ask('boot', SERVER, 4, _PIN)

        self.assertIn('has held the lock', said.get('error', said))
        self.ask('delete', SERVER)
        self.assertEqual([], self.do('heal'))
        self.assertEqual([''], list(self.kernel.list_groups()))

    @contextlib.contextmanager
    def hold_lock(self, *, seconds: float) -> Any:
        """Hold it, for so long or until the block ends."""
        handle = os.open(mount.ROOT, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
        timer = threading.Timer(seconds, fcntl.flock, (handle, fcntl.LOCK_UN))
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
            os.close(handle)


class UnallowedTest(NovaTestCase):
    """sudo lets nova-compute start nothing."""

    HELPER = site.SUDO

    def test_nothing_is_offered(self) -> None:
        self.assertEqual({}, self.do('list_offers'))
        self.assertEqual([''], list(self.kernel.list_groups()))
