# SPDX-License-Identifier: Apache-2.0

import errno
import os
import stat
import threading

import fixtures

from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources.drivers.resctrl.kernel import file_system
from nova_ext_resources.drivers.resctrl.kernel import group_files
from nova_ext_resources.drivers.resctrl.kernel import system
from tests import base


class RealFileSystemTest(base.TestCase):
    """On a folder that is not resctrl: what the calls themselves do."""

    def setUp(self) -> None:
        super().setUp()
        self.root = self.make_folder()
        self.files = file_system.RealFileSystem(self.root, timeout=0.05)
        os.mkdir(os.path.join(self.root, 'info'))
        self.put('schemata', 'L3:0=7ff\n')

    def put(self, path: str, text: str) -> None:
        with open(os.path.join(self.root, path), 'w') as file:
            file.write(text)

    def test_nothing_keeps_who_may_write_from_writing(self) -> None:
        self.assertEqual('', self.files.find_problem())

    def test_a_read_only_mount_is_seen_without_a_write(self) -> None:
        found = os.statvfs(self.root)
        read_only = os.statvfs_result(
            (*found[:8], found.f_flag | os.ST_RDONLY, found.f_namemax)
        )
        self.patch(os, 'statvfs', lambda _path: read_only)

        self.assertIn('mount -o remount,rw', self.files.find_problem())

    def test_who_may_not_write_needs_a_helper_that_can_start(self) -> None:
        self.patch(os, 'access', lambda *_arguments: False)
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.drivers.resctrl.kernel.privsep.'
                'find_problem',
                lambda: 'there is none',
            )
        )

        self.assertEqual('there is none', self.files.find_problem())

    def test_a_file_is_read_whole(self) -> None:
        self.put('tasks', '12345\n' * 50_000)

        self.assertEqual(300_000, len(self.files.read('tasks')))

    def test_what_is_written_is_there_at_once(self) -> None:
        self.files.write('schemata', 'L3:0=00f\n')

        self.assertEqual('L3:0=00f\n', self.files.read('schemata'))

    def test_groups_are_made_listed_and_removed(self) -> None:
        self.files.mkdir('db')

        self.assertEqual(
            ['db', 'info', 'schemata'], sorted(self.files.listdir(''))
        )
        self.files.rmdir('db')
        self.assertRaises(FileNotFoundError, self.files.rmdir, 'db')

    def test_a_new_mount_has_other_rights(self) -> None:
        """The kernel uses the numbers of the former one again."""
        before = self.files.get_rights()
        self.files.mkdir('db')
        self.put('schemata', 'L3:0=00f\n')
        self.assertEqual(before, self.files.get_rights())
        path = os.path.join(self.root, 'info')

        os.utime(path)

        after = self.files.get_rights()
        self.assertNotEqual(before, after)
        self.assertEqual(after, self.files.get_rights())

    def test_nobody_else_may_make_anything_in_a_group(self) -> None:
        self.addCleanup(os.umask, os.umask(0))

        self.files.mkdir('db')

        mode = os.stat(os.path.join(self.root, 'db')).st_mode
        self.assertEqual(0o755, stat.S_IMODE(mode))

    def test_what_is_no_number_of_a_thread_is_refused(self) -> None:
        self.put('tasks', '')
        for tid in (0, -1):
            with self.subTest(tid=tid):
                err = self.assertRaises(
                    OSError, self.files.assign, 'tasks', [100, tid]
                )

                self.assertEqual(errno.EINVAL, err.errno)
                self.assertEqual('', self.files.read('tasks'))

    def test_a_symbolic_link_is_not_followed(self) -> None:
        os.symlink('/etc/hostname', os.path.join(self.root, 'link'))

        err = self.assertRaises(OSError, self.files.write, 'link', 'x')

        self.assertEqual(errno.ELOOP, err.errno)

    def test_the_kernels_words_are_in_the_error(self) -> None:
        self.put('info/last_cmd_status', 'Out of CLOSIDs\n')

        err = self.assertRaises(errors.NoFreeClosid, self.fail_with, 'ENOSPC')

        self.assertIn('Out of CLOSIDs', str(err))
        self.assertIn('make group x', str(err))

    def test_each_number_has_its_error(self) -> None:
        for name, expected in (
            ('EINVAL', errors.ResctrlRefused),
            ('EBUSY', errors.ResctrlBusy),
            ('ENODEV', errors.GroupGone),
            ('ENOENT', errors.GroupGone),
            ('EIO', errors.ResctrlFailed),
            ('EPERM', errors.ResctrlFailed),
        ):
            with self.subTest(name=name):
                self.assertRaises(expected, self.fail_with, name)

    def test_what_is_not_allowed_says_what_to_do(self) -> None:
        for name, expected in (
            ('EACCES', 'CAP_DAC_OVERRIDE'),
            ('EPERM', 'documentation of the enforcer resctrl'),
            ('EROFS', 'mount -o remount,rw'),
            ('EROFS', 'ProtectKernelTunables=no'),
            ('EROFS', 'without "ro"'),
        ):
            with self.subTest(name=name):
                err = self.assertRaises(
                    errors.ResctrlFailed, self.fail_with, name
                )

                self.assertIn(expected, str(err))

    def fail_with(self, name: str) -> None:
        number = getattr(errno, name)
        with file_system.translated(self.files, 'make group x'):
            raise OSError(number, os.strerror(number))

    def test_a_writer_waits_for_readers_and_gives_up_in_time(self) -> None:
        other = file_system.RealFileSystem(self.root)
        with other.lock(exclusive=False):
            with group_files.GroupFiles(self.files).locked(exclusive=False):
                pass
            err = self.assertRaises(errors.ResctrlBusy, self.hold)

        self.assertIn('another program has held the lock', str(err))
        self.hold()

    def hold(self) -> None:
        with group_files.GroupFiles(self.files).locked(exclusive=True):
            pass

    def test_threads_exclude_each_other(self) -> None:
        patient = file_system.RealFileSystem(self.root)
        inside, most = [], []

        def work() -> None:
            for _ in range(20):
                with group_files.GroupFiles(patient).locked(exclusive=True):
                    inside.append(1)
                    most.append(len(inside))
                    inside.pop()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        self.assertEqual((80, 1), (len(most), max(most)))

    def test_no_mount_is_told_with_what_to_do(self) -> None:
        root = os.path.join(self.root, 'nowhere')
        missing = file_system.RealFileSystem(root)

        err = self.assertRaises(errors.ResctrlMissing, self.lock_it, missing)

        self.assertIn(f'could not read {root}', str(err))
        self.assertIn(f'mount -t resctrl resctrl {root})', str(err))

    def lock_it(self, files_: file_system.FileSystem) -> None:
        with group_files.GroupFiles(files_).locked(exclusive=False):
            self.fail('there is nothing to lock')


class CheckTest(base.TestCase):
    """What the privileged helper does before it writes."""

    def setUp(self) -> None:
        super().setUp()
        # Any mount will do, as long as this one passes for resctrl.
        self.root = '/proc'
        self.mounts = os.path.join(self.make_folder(), 'mountinfo')
        self.folder = self.open_folder(self.root)

    def open_folder(self, path: str) -> int:
        folder = os.open(path, os.O_PATH)
        self.addCleanup(os.close, folder)
        return folder

    def write_mounts(self, kind: str) -> None:
        device = os.stat(self.root).st_dev
        number = f'{os.major(device)}:{os.minor(device)}'
        with open(self.mounts, 'w') as file:
            file.write(
                '22 27 0:20 / /proc rw - proc proc rw\n'
                f'36 35 {number} / /sys/fs/resctrl rw,nosuid shared:11 - '
                f'{kind} resctrl rw\n'
            )

    def test_a_mount_of_resctrl_may_be_written(self) -> None:
        self.write_mounts('resctrl')

        system.check(self.folder, self.mounts)

    def test_any_other_file_system_may_not(self) -> None:
        self.write_mounts('tmpfs')

        self.assertRaises(
            PermissionError, system.check, self.folder, self.mounts
        )

    def test_the_real_system_does_not_let_any_folder_be_written(self) -> None:
        self.assertRaises(PermissionError, system.check, self.folder)

    def test_a_folder_in_the_mount_is_not_the_mount(self) -> None:
        self.write_mounts('resctrl')
        inside = self.open_folder(f'{self.root}/sys')

        self.assertRaises(PermissionError, system.check, inside, self.mounts)
