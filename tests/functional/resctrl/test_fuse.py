# SPDX-License-Identifier: Apache-2.0

"""The model of resctrl, as other programs see it: mounted with FUSE."""

import atexit
import errno
import os
import stat
import subprocess
import threading
from typing import Any, ClassVar

from nova_ext_resources.testing import resctrl
from tests import base
from tests.functional.resctrl import mounting
from tests.unit.testing import resctrl_cases


class Mounted(resctrl_cases.WithTree):
    """Has a mount for each machine, and makes it new for each test."""

    machines: ClassVar[dict[str, resctrl.ResctrlFixture]] = {}

    def make_machine(self, shape: str | resctrl.Shape) -> Any:
        assert isinstance(shape, str)
        if shape not in self.machines:
            mounting.require()
            machine = resctrl.ResctrlFixture(shape, fuse=True)
            machine.setUp()
            self.machines[shape] = machine
        self.machines[shape].kernel.reset()
        return self.machines[shape]


@atexit.register
def unmount() -> None:
    while Mounted.machines:
        _name, machine = Mounted.machines.popitem()
        machine.cleanUp()


class SchemataTest(Mounted, resctrl_cases.SchemataCases):
    pass


class GroupTest(Mounted, resctrl_cases.GroupCases):
    pass


class ModeTest(Mounted, resctrl_cases.ModeCases):
    pass


class CpuTest(Mounted, resctrl_cases.CpuCases):
    pass


class TaskTest(Mounted, resctrl_cases.TaskCases):
    pass


class MonitorTest(Mounted, resctrl_cases.MonitorCases):
    pass


class FileTest(Mounted, resctrl_cases.FileCases):
    pass


class InterferenceTest(Mounted, resctrl_cases.InterferenceCases):
    pass


class MountTest(Mounted):
    """What only a mount has: open files, modes, the shell."""

    @property
    def path(self) -> str:
        path: str = self.machine.path
        return path

    def test_it_is_a_mount_of_its_own_type(self) -> None:
        with open('/proc/mounts') as stream:
            mounts = [line.split()[:3] for line in stream]

        self.assertIn(['resctrl', self.path, 'fuse.resctrl'], mounts)

    def test_the_shell_sees_the_error(self) -> None:
        os.mkdir(f'{self.path}/web')

        ended = subprocess.run(
            ['sh', '-c', f'echo L3:0=5 | cat > {self.path}/web/schemata'],
            capture_output=True,
            text=True,
            check=False,
        )

        self.assertIn('Invalid argument', ended.stderr)

    def test_a_folder_with_files_in_it_can_be_removed(self) -> None:
        os.mkdir(f'{self.path}/web')

        os.rmdir(f'{self.path}/web')

        self.assertFalse(os.path.exists(f'{self.path}/web'))

    def test_modes_are_those_of_the_kernel(self) -> None:
        self.addCleanup(os.umask, os.umask(0o022))
        os.mkdir(f'{self.path}/web')
        os.mkdir(f'{self.path}/web/mon_groups/cache', 0o700)
        for name, expected in (
            ('', 0o555),
            ('schemata', 0o644),
            ('size', 0o444),
            ('info', 0o555),
            ('info/L3', 0o555),
            ('mon_data', 0o555),
            ('mon_groups', 0o555),
            # A group has what its maker asks for, and so has all below it.
            ('web', 0o755),
            ('web/mon_groups', 0o755),
            ('web/mon_groups/cache', 0o700),
            ('web/mon_groups/cache/mon_data', 0o700),
        ):
            with self.subTest(name=name):
                mode = os.stat(f'{self.path}/{name}').st_mode

                self.assertEqual(oct(expected), oct(stat.S_IMODE(mode)))

    def test_root_makes_no_group_without_a_capability(self) -> None:
        if os.getuid():
            self.skipTest('root only: an own mount asks for no capability')
        os.mkdir(f'{self.path}/web')
        bare = ['setpriv', '--bounding-set=-all', '--inh-caps=-all']
        only = ['setpriv', '--bounding-set=-all,+dac_override']
        for before, command, expected in (
            (bare, f'mkdir {self.path}/db', 'Permission denied'),
            (bare, f'rmdir {self.path}/web', 'Permission denied'),
            (bare, f'mkdir {self.path}/mon_groups/db', 'Permission denied'),
            (bare, f'echo "L3:0=1" > {self.path}/web/schemata', ''),
            (bare, f'mkdir {self.path}/web/mon_groups/db', ''),
            (only, f'mkdir {self.path}/db', ''),
            (only, f'mkdir {self.path}/mon_groups/db', ''),
            (only, f'rmdir {self.path}/web', ''),
        ):
            with self.subTest(command=command, before=before):
                ended = subprocess.run(
                    [*before, 'sh', '-c', command],
                    capture_output=True,
                    text=True,
                    check=False,
                )

                self.assertEqual(bool(expected), bool(ended.returncode))
                self.assertIn(expected, ended.stderr)

    def test_nobody_makes_or_removes_files(self) -> None:
        made = self.assertRaises(
            OSError, os.open, f'{self.path}/new', os.O_CREAT | os.O_WRONLY
        )
        removed = self.assertRaises(
            OSError, os.unlink, f'{self.path}/schemata'
        )

        self.assertEqual(
            (errno.EACCES, errno.EPERM), (made.errno, removed.errno)
        )

    def test_a_monitoring_group_moves_to_another_parent(self) -> None:
        for name in ('web', 'db', 'web/mon_groups/cache'):
            os.mkdir(f'{self.path}/{name}')
        tid = self.machine.kernel.start_task()
        for name in ('web', 'web/mon_groups/cache'):
            with open(f'{self.path}/{name}/tasks', 'w') as stream:
                stream.write(f'{tid}\n')

        os.rename(
            f'{self.path}/web/mon_groups/cache',
            f'{self.path}/db/mon_groups/store',
        )

        with open(f'{self.path}/db/tasks') as stream:
            self.assertEqual(f'{tid}\n', stream.read())
        error = self.assertRaises(
            OSError, os.rename, f'{self.path}/web', f'{self.path}/www'
        )
        self.assertEqual(errno.EPERM, error.errno)

    def test_what_is_read_in_parts_is_of_one_moment(self) -> None:
        handle = os.open(f'{self.path}/schemata', os.O_RDONLY)
        self.addCleanup(os.close, handle)
        first = os.read(handle, 20)
        self.machine.kernel.write('schemata', 'L3:0=1;1=1\n')

        rest = os.read(handle, 4096)

        self.assertEqual(
            b'    MB:0=100;1=100\n    L3:0=7ff;1=7ff\n', first + rest
        )


class RealTasksTest(base.TestCase):
    """The threads of this machine in the groups of another."""

    def setUp(self) -> None:
        super().setUp()
        mounting.require()
        machine = self.useFixture(
            resctrl.ResctrlFixture('epyc16', fuse=True, tasks='proc')
        )
        self.fs = machine.file_system
        self.fs.mkdir('web')

    def start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(['sleep', '60'], stdin=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_a_process_that_ends_leaves_its_group(self) -> None:
        process = self.start()
        self.fs.write('web/tasks', f'{process.pid}\n')
        before = self.fs.read('web/tasks')

        process.kill()
        process.wait()

        self.assertEqual(f'{process.pid}\n', before)
        self.assertEqual('', self.fs.read('web/tasks'))

    def test_a_process_that_ended_is_refused(self) -> None:
        process = self.start()
        process.kill()
        process.wait()

        error = self.assertRaises(
            OSError, self.fs.write, 'web/tasks', f'{process.pid}\n'
        )

        self.assertEqual(errno.ESRCH, error.errno)

    def test_the_default_group_has_all_others(self) -> None:
        process = self.start()

        self.fs.write('web/tasks', f'{process.pid}\n')

        others = self.fs.read('tasks').split()
        self.assertIn(str(os.getpid()), others)
        self.assertNotIn(str(process.pid), others)

    def test_zero_is_the_one_who_writes(self) -> None:
        self.fs.write('web/tasks', '0\n')

        self.assertEqual(
            f'{threading.get_native_id()}\n', self.fs.read('web/tasks')
        )

    def test_a_new_thread_is_in_the_group_and_an_old_one_is_not(
        self,
    ) -> None:
        # The group of a process is that of its first thread.
        old = self._start_thread()
        if old == threading.get_native_id():
            self.skipTest('on eventlet, a process has one thread only')
        self.fs.write('web/tasks', f'{os.getpid()}\n')

        new = self._start_thread()

        members = self.fs.read('web/tasks').split()
        self.assertIn(str(new), members)
        self.assertNotIn(str(old), members)

    def _start_thread(self) -> int:
        ended = threading.Event()
        thread = threading.Thread(target=ended.wait)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(ended.set)
        assert thread.native_id is not None
        return thread.native_id
