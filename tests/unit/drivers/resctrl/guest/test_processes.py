# SPDX-License-Identifier: Apache-2.0

import os
import subprocess
import sys
from typing import Any

import fixtures
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.resctrl.guest import processes
from nova_ext_resources.drivers.resctrl.guest import threads
from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources.facts import guest
from tests import base
from tests.unit import guests

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other

#: A user of this machine, and PF_KTHREAD.
STRANGER = 54321
_KERNEL = 0x200040

#: The name of the server's guest, and its cgroup with systemd.
NAME = 'instance-00000001'
_HOLD = """
import fcntl, sys
file = open(sys.argv[1], 'a+')
fcntl.lockf(file, getattr(fcntl, sys.argv[2]))
print('locked', flush=True)
sys.stdin.read()
"""

_SCOPE = 'machine.slice/machine-qemu\\x2d1\\x2dinstance\\x2d00000001.scope'


class MadeUp:
    """Folders that look like ``/proc`` and ``/sys/fs/cgroup``."""

    def __init__(self, folder: str) -> None:
        self.proc = os.path.join(folder, 'proc')
        self.cgroup = os.path.join(folder, 'cgroup')
        self.pid_path = os.path.join(folder, 'run')
        self.guests: dict[str, guest.Guest] = {}
        os.mkdir(self.cgroup)
        os.mkdir(self.pid_path)
        self.add(1, 'init')

    def _put(self, path: str, text: str) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w') as file:
            file.write(text)

    def add(
        self,
        pid: int,
        line: str = '',
        *,
        tids: tuple[int, ...] = (),
        start: int = 5,
        parent: int = 1,
        comm: str = 'qemu-system-x86',
        cgroup: str = '0::/',
        state: str = 'S',
        uid: int | None = None,
        flags: int = 0,
    ) -> None:
        files = {
            'cmdline': line.replace(' ', '\0') + '\0' if line else '',
            'comm': f'{comm}\n',
            'cgroup': f'{cgroup}\n',
            'status': f'Name:\ta\nUid:\t{os.getuid() if uid is None else uid}'
            '\t0\t0\t0\n',
        }
        for name, text in files.items():
            self._put(f'{self.proc}/{pid}/{name}', text)
        for one in cgroup.splitlines():
            self._make_cgroup(*one.split(':')[1:])
        stat = f'{pid} (a ) S (b) {state} {parent} 0 0 0 0 {flags} '
        stat += '0 ' * 12
        for tid in (pid, *tids):
            self._put(f'{self.proc}/{tid}/stat', f'{stat}{start} 0 0\n')
            os.makedirs(f'{self.proc}/{pid}/task/{tid}')

    def _make_cgroup(self, controllers: str, path: str) -> None:
        """Make its folder, as the kernel has it for root alone."""
        if '..' not in path:
            folder = self.cgroup
            parts = [controllers.removeprefix('name='), *path.split('/')]
            for part in filter(None, parts):
                folder = os.path.join(folder, part)
                os.makedirs(folder, exist_ok=True)

    def add_server(
        self, pid: int, uuid: str = SERVER, **fields: object
    ) -> None:
        line = f'/usr/bin/qemu-system-x86_64 -name guest=i -uuid {uuid} -S'
        self.add(pid, line, **fields)  # type: ignore[arg-type]

    def add_cgroup(self, path: str, tids: str, file: str) -> None:
        self._put(f'{self.cgroup}/{path}/{file}', tids)

    def add_guest(self, uuid: str = SERVER, name: str = NAME) -> None:
        """Have the hypervisor run a server; the first has number 1."""
        number = len(self.guests) + 1
        self.guests[uuid] = guest.Guest(name=name, number=number)

    def make_processes(self, **options: Any) -> processes.Processes:
        options = {
            'pid_path': self.pid_path,
            'list_guests': lambda: dict(self.guests),
            **options,
        }
        return processes.Processes(self.proc, self.cgroup, **options)

    def scan(self, **options: Any) -> processes.Scan:
        return self.make_processes(**options).scan()

    def list_threads(self, uuid: str = SERVER) -> frozenset[int]:
        return self.scan().get(uuid).list_threads()


class MadeUpTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.made = MadeUp(self.make_folder())

    def test_a_server_is_known_by_its_command_line(self) -> None:
        self.made.add_server(100, tids=(101, 102))
        self.made.add_server(200, OTHER, tids=(201,))
        self.made.add(300, f'grep {SERVER}')
        self.made.add(301, f'tail -uuid={SERVER}')
        self.made.add(302, 'qemu-system-x86_64 -uuid')

        self.assertEqual({100, 101, 102}, self.made.list_threads())
        self.assertEqual({200, 201}, self.made.list_threads(OTHER))
        self.assertEqual({SERVER, OTHER}, set(self.made.scan().servers))

    def test_both_processes_of_a_server_that_migrates_belong_to_it(
        self,
    ) -> None:
        self.made.add_server(100, tids=(101,))
        self.made.add(200, f'qemu-kvm --uuid {SERVER.upper()}', tids=(201,))

        self.assertEqual({100, 101, 200, 201}, self.made.list_threads())

    def test_servers_that_share_a_group_are_taken_together(self) -> None:
        self.made.add_server(100, tids=(101,))
        self.made.add_server(200, OTHER, tids=(201,))
        self.made.add(300, 'postgres')

        both = self.made.scan().get(SERVER, OTHER)

        self.assertEqual({100, 101, 200, 201}, both.list_threads())
        self.assertEqual({300}, both.list_foreign({100, 201, 300}))

    def test_a_server_that_is_off_has_no_threads(self) -> None:
        self.assertEqual(frozenset(), self.made.list_threads())

    def test_kernel_threads_that_work_for_it_belong_to_it(self) -> None:
        self.made.add_server(100, tids=(101,))
        for pid, comm in (
            (300, 'vhost-100'),
            (301, 'vhost-101'),
            (302, 'kvm-pit/100'),
            (303, 'kvm-nx-lpage-recovery-100'),
            (304, 'vhost-999'),
            (305, 'kworker/100'),
            (306, 'vhost-1000'),
        ):
            self.made.add(pid, comm=comm, parent=2, flags=_KERNEL)

        self.assertEqual(
            {100, 101, 300, 301, 302, 303}, self.made.list_threads()
        )

    def test_a_process_that_only_says_it_is_one_is_not(self) -> None:
        self.made.add_server(100, tids=(101,))
        self.made.add(300, comm='vhost-100')
        self.made.add(301, comm='vhost-100', uid=STRANGER, parent=2)

        self.assertEqual({100, 101}, self.made.list_threads())

    def test_whoever_names_a_server_is_no_process_of_it(self) -> None:
        log = self.useFixture(fixtures.FakeLogger())
        self.made.add_server(100, tids=(101,))
        for pid, path in (
            (200, ''),
            (201, f'user.slice/user@5.service/{_SCOPE}'),
            (203, '../machine.slice/machine-qemu-1.scope'),
            (204, 'machine.slice/other.scope'),
        ):
            self.made.add_server(pid, uid=STRANGER, cgroup=f'0::/{path}')
        os.chmod(f'{self.made.cgroup}/user.slice/user@5.service', 0o777)
        found = self.made.make_processes()

        for _ in range(2):
            self.assertEqual(
                {100, 101}, found.scan().get(SERVER).list_threads()
            )

        self.assertEqual(1, log.output.count('does not count as its process'))
        self.assertIn(str(STRANGER), log.output)

    def test_a_user_has_cgroups_of_its_own_and_proves_nothing_by_them(
        self,
    ) -> None:
        if os.getuid():
            self.skipTest('needs to be root')
        self.made.add_guest()
        for path in (_SCOPE, f'docker/1/machine/qemu-1-{NAME}.libvirt-qemu'):
            self.made.add_server(100, uid=STRANGER, cgroup=f'0::/{path}')
            for folder in (path, os.path.dirname(path)):
                with self.subTest(folder):
                    whole = f'{self.made.cgroup}/{folder}'
                    os.chown(whole, STRANGER, -1)

                    self.assertEqual(frozenset(), self.made.list_threads())

                    os.chown(whole, 0, -1)
                    self.assertEqual({100}, self.made.list_threads())
            os.rename(f'{self.made.proc}/100', f'{self.made.proc}/old')
            self.made.proc += '2'
            self.made.add(1, 'init')

    def test_the_cgroup_of_a_machine_vouches_for_any_user(self) -> None:
        for path in (
            _SCOPE,
            f'{_SCOPE}/libvirt/emulator',
            f'vm.slice/vm-a.slice/{_SCOPE}',
            f'machine/qemu-1-{NAME}.libvirt-qemu/emulator',
            f'vm.partition/a.partition/qemu-1-{NAME}.libvirt-qemu',
            f'docker/1/machine/qemu-1-{NAME}.libvirt-qemu',
            f'kubepods/pod1/2/machine/qemu-1-{NAME}.libvirt-qemu',
            f'system.slice/docker-1.scope/{_SCOPE}',
        ):
            with self.subTest(path):
                made = MadeUp(self.make_folder())
                made.add_guest()
                made.add_server(100, uid=STRANGER, cgroup=f'0::/{path}')

                self.assertEqual({100}, made.list_threads())

    def test_the_cgroup_of_another_guest_vouches_for_nobody(self) -> None:
        """A guest that has broken out runs as QEMU's user, in its cgroup."""
        self.made.add_guest()
        self.made.add_guest(OTHER, 'instance-00000002')
        other = _SCOPE.replace('1', '2')
        self.made.add_server(100, cgroup=f'0::/{_SCOPE}')
        self.made.add_server(200, OTHER, cgroup=f'0::/{other}')
        self.made.add_server(201, cgroup=f'0::/{other}')

        self.assertEqual({100}, self.made.list_threads())
        self.assertEqual({200}, self.made.list_threads(OTHER))

    def test_threads_of_another_pid_namespace_are_left_out(self) -> None:
        self.made.add_server(100, cgroup=f'0::/{_SCOPE}')
        self.made.add_cgroup(_SCOPE, '100\n0\n150\n', 'cgroup.threads')

        self.assertEqual({100, 150}, self.made.list_threads())

    def test_a_number_that_is_used_again_is_another_process(self) -> None:
        self.made.add_server(100, tids=(101,))
        server = self.made.scan().get(SERVER)
        os.rename(f'{self.made.proc}/100', f'{self.made.proc}/old')
        self.made.add(100, 'postgres', tids=(102,), start=6)

        self.assertEqual(frozenset(), server.list_threads())

    def test_all_of_the_machines_cgroup_belongs_to_it(self) -> None:
        for version, (line, root, file) in {
            'v2': (f'0::/{_SCOPE}/libvirt/emulator', '', 'cgroup.threads'),
            'hybrid': (f'0::/{_SCOPE}', 'unified', 'cgroup.threads'),
            'v1': (
                f'4:cpuset:/{_SCOPE}/emulator\n1:name=systemd:/{_SCOPE}',
                'cpuset',
                'tasks',
            ),
            'v1, systemd': (f'1:name=systemd:/{_SCOPE}', 'systemd', 'tasks'),
            'without systemd': (
                '4:cpuset:/machine/qemu-1-i.libvirt-qemu/emulator',
                'cpuset',
                'tasks',
            ),
        }.items():
            with self.subTest(version):
                made = MadeUp(self.make_folder())
                made.add_server(100, tids=(101,), cgroup=line)
                inner = (
                    _SCOPE
                    if 'scope' in line
                    else 'machine/qemu-1-i.libvirt-qemu'
                )
                made.add_cgroup(f'{root}/{inner}/emulator', '100\n', file)
                made.add_cgroup(f'{root}/{inner}/emulator/tpm', '150\n', file)
                made.add_cgroup(f'{root}/{inner}/vcpu0', '101\n', file)
                made.add_cgroup(f'{root}/machine.slice', '999\n', file)

                self.assertEqual({100, 101, 150}, made.list_threads())

    def test_a_cgroup_that_is_not_its_own_is_left_alone(self) -> None:
        for path in ('', 'system.slice/libvirtd.service', 'machine.slice'):
            with self.subTest(path):
                made = MadeUp(self.make_folder())
                made.add_server(100, cgroup=f'0::/{path}')
                made.add_cgroup(path, '100\n1\n999\n', 'cgroup.threads')

                self.assertEqual({100}, made.list_threads())

    def test_a_cgroup_with_another_server_in_it_is_left_alone(self) -> None:
        self.made.add_server(100, cgroup=f'0::/{_SCOPE}')
        self.made.add_server(200, OTHER, cgroup=f'0::/{_SCOPE}')
        self.made.add_cgroup(_SCOPE, '100\n200\n150\n', 'cgroup.threads')

        self.assertEqual({100}, self.made.list_threads())

    def test_hidden_processes_are_an_error_and_not_a_server_that_is_off(
        self,
    ) -> None:
        os.remove(f'{self.made.proc}/1/stat')

        err = self.assertRaises(errors.ResctrlFailed, self.made.scan)

        self.assertIn('hidepid', str(err))

    def test_strangers_are_who_neither_belong_to_it_nor_are_ending(
        self,
    ) -> None:
        self.made.add_server(100, tids=(101,))
        self.made.add(150, 'script', parent=100)
        self.made.add(151, 'script', parent=150)
        self.made.add(300, 'postgres', tids=(301,))
        self.made.add(400, 'postgres', state='Z')
        server = self.made.scan().get(SERVER)

        foreign = server.list_foreign({100, 101, 150, 151, 300, 301, 400, 999})

        self.assertEqual({300, 301}, foreign)


class SourcesTest(base.TestCase):
    """Where a server is found whose command line is not believed."""

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.made = MadeUp(self.make_folder())
        self.made.add_guest()

    def hold(self, name: str = NAME, kind: str = 'LOCK_EX') -> int:
        """Have a process lock a pid file; return its number."""
        path = f'{self.made.pid_path}/{name}.pid'
        process = subprocess.Popen(
            [sys.executable, '-I', '-S', '-c', _HOLD, path, kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.addCleanup(process.communicate)
        assert process.stdout is not None
        process.stdout.readline()
        return process.pid

    def explain(self, **options: Any) -> str:
        found = self.made.make_processes(**options)
        scan = found.scan()
        return found.explain_absence(scan, [SERVER, OTHER]).get(SERVER, '')

    def test_by_its_name_where_there_is_no_uuid(self) -> None:
        for value in (f'guest={NAME},debug-threads=on', NAME):
            with self.subTest(value):
                self.made.proc += '2'
                self.made.add(1, 'init')
                self.made.add(100, f'qemu-kvm -name {value} -S')

                self.assertEqual({100}, self.made.list_threads())

    def test_a_name_is_compared_as_a_whole(self) -> None:
        """Words of a tenant may be in it, and a comma is written twice."""
        self.made.add_guest(OTHER, 'a,b')
        self.made.add(100, f'qemu-kvm -name guest={NAME}0 -S')
        self.made.add(101, f'qemu-kvm -name guest=a,guest={NAME} -S')
        self.made.add(102, f'qemu-kvm -append -name -name guest={NAME} -S')
        self.made.add(200, 'qemu-kvm -name guest=a,,b,debug-threads=on -S')

        self.assertEqual(frozenset(), self.made.list_threads())
        self.assertEqual({200}, self.made.list_threads(OTHER))

    def test_a_uuid_counts_more_than_a_name(self) -> None:
        self.made.add(100, f'qemu-kvm -name guest={NAME} -uuid {OTHER} -S')

        self.assertEqual(frozenset(), self.made.list_threads())
        self.assertEqual({100}, self.made.list_threads(OTHER))

    def test_a_name_alone_proves_nothing(self) -> None:
        line = f'qemu-kvm -name guest={NAME} -S'
        self.made.add(100, line, uid=STRANGER)

        self.assertEqual(frozenset(), self.made.list_threads())

    def test_by_a_user_that_the_options_name(self) -> None:
        self.made.add_server(100, uid=STRANGER)

        for users in ([str(STRANGER)], ['nobody', str(STRANGER)]):
            scan = self.made.scan(users=users)
            self.assertEqual({100}, scan.get(SERVER).list_threads())
        scan = self.made.scan(users=['no such user'])
        self.assertEqual(frozenset(), scan.get(SERVER).list_threads())

    def test_by_the_lock_of_its_pid_file(self) -> None:
        pid = self.hold()
        self.made.add(pid, 'wrapped', tids=(7,), uid=STRANGER)
        self.made.add(100, 'postgres')

        self.assertEqual({pid, 7}, self.made.list_threads())
        self.assertEqual('', self.explain())

    def test_the_lock_vouches_for_a_user(self) -> None:
        pid = self.hold()
        self.made.add_server(pid, uid=STRANGER)

        self.assertEqual({pid}, self.made.list_threads())
        self.assertNotIn('does not count as its process', self.log.output)

    def test_the_number_in_a_pid_file_proves_nothing(self) -> None:
        """It may be of another PID namespace, or used again."""
        self.made.add(100, 'postgres')
        with open(f'{self.made.pid_path}/{NAME}.pid', 'w') as file:
            file.write('100')

        self.assertEqual(frozenset(), self.made.list_threads())

    def test_a_lock_that_any_reader_can_have_proves_nothing(self) -> None:
        pid = self.hold(kind='LOCK_SH')
        self.made.add(pid, 'sleep')

        self.assertEqual(frozenset(), self.made.list_threads())

    def test_a_pid_file_that_others_can_write_proves_nothing(self) -> None:
        pid = self.hold()
        self.made.add(pid, 'sleep')
        os.chmod(f'{self.made.pid_path}/{NAME}.pid', 0o666)

        self.assertEqual(frozenset(), self.made.list_threads())

    def test_a_pid_file_of_another_user_proves_nothing(self) -> None:
        if os.getuid():
            self.skipTest('needs to be root')
        pid = self.hold()
        self.made.add(pid, 'sleep')
        os.chown(f'{self.made.pid_path}/{NAME}.pid', STRANGER, -1)

        self.assertEqual(frozenset(), self.made.list_threads())

    def test_a_link_or_a_folder_is_no_pid_file(self) -> None:
        pid = self.hold('target')
        self.made.add(pid, 'sleep')
        path = f'{self.made.pid_path}/{NAME}.pid'
        os.symlink(f'{self.made.pid_path}/target.pid', path)
        self.assertEqual(frozenset(), self.made.list_threads())
        os.unlink(path)
        os.mkdir(path)
        self.assertEqual(frozenset(), self.made.list_threads())

    def test_a_name_leaves_no_folder(self) -> None:
        pid = self.hold()
        self.made.add(pid, 'sleep')
        self.made.guests.clear()
        self.made.pid_path += '/below'
        os.mkdir(self.made.pid_path)
        self.made.add_guest(SERVER, f'../{NAME}')

        self.assertEqual(frozenset(), self.made.list_threads())

    def test_the_pid_file_of_another_libvirt_is_left_alone(self) -> None:
        pid = self.hold()
        self.made.add_server(pid, OTHER, uid=STRANGER)

        self.assertEqual(frozenset(), self.made.list_threads())

    def test_a_process_that_is_not_visible_is_not_found(self) -> None:
        self.hold()

        self.assertEqual(frozenset(), self.made.list_threads())

    def test_by_the_cgroup_of_its_machine(self) -> None:
        for path in (
            _SCOPE,
            f'machine/qemu-1-{NAME}.libvirt-qemu/emulator',
            f'docker/1/machine/qemu-1-{NAME}.libvirt-qemu',
        ):
            with self.subTest(path):
                made = MadeUp(self.make_folder())
                made.add_guest()
                made.add(100, 'wrapped', uid=STRANGER, cgroup=f'0::/{path}')
                made.add(101, 'swtpm', uid=STRANGER, cgroup=f'0::/{path}')
                made.add(200, 'postgres')

                self.assertEqual({100, 101}, made.list_threads())

    def test_the_cgroup_of_another_name_is_left_alone(self) -> None:
        path = _SCOPE.replace('1.scope', '10.scope')
        self.made.add(100, 'wrapped', cgroup=f'0::/{path}')

        self.assertEqual(frozenset(), self.made.list_threads())

    def test_the_cgroup_of_another_libvirt_is_left_alone(self) -> None:
        self.made.add(100, 'swtpm', uid=STRANGER, cgroup=f'0::/{_SCOPE}')
        self.made.add_server(101, OTHER, cgroup=f'0::/{_SCOPE}')

        self.assertEqual(frozenset(), self.made.list_threads())

    def test_a_name_of_which_libvirt_leaves_characters_out(self) -> None:
        self.made.guests.clear()
        self.made.add_guest(SERVER, 'vm_1..a')
        path = 'machine.slice/machine-qemu\\x2d1\\x2dvm1.a.scope'
        self.made.add(100, 'wrapped', uid=STRANGER, cgroup=f'0::/{path}')

        self.assertEqual({100}, self.made.list_threads())

    # -- what is said when nothing is found ----------------------------

    def test_a_server_that_is_found_or_off_is_not_absent(self) -> None:
        self.made.add_server(100)
        self.assertEqual('', self.explain())
        self.made.guests.clear()
        self.assertEqual('', self.explain())

    def test_what_was_searched_is_named(self) -> None:
        self.made.add(2, flags=_KERNEL, parent=0)

        text = self.explain()

        self.assertIn(f'"-uuid {SERVER}"', text)
        self.assertIn(f'guest={NAME}', text)
        self.assertIn(f'{self.made.pid_path}/{NAME}.pid', text)
        self.assertIn('set [ext_resources_resctrl] pid_path', text)

    def test_a_user_that_is_not_known_is_named(self) -> None:
        self.made.add(2, flags=_KERNEL, parent=0)
        self.made.add_server(100, uid=STRANGER)

        text = self.explain()

        self.assertIn(f'user {STRANGER} of process 100', text)
        self.assertIn('[ext_resources_resctrl] qemu_users', text)

    def test_a_pid_namespace_of_its_own_is_named(self) -> None:
        self.assertIn('--pid=host', self.explain())
        self.made.add(2, 'sh')
        self.assertIn('--pid=host', self.explain())

    def test_a_guest_that_ended_or_started_meanwhile_is_not_absent(
        self,
    ) -> None:
        for now in ({}, {SERVER: guest.Guest(name=NAME, number=9)}):
            with self.subTest(now):
                answers = iter([dict(self.made.guests), now])

                text = self.explain(list_guests=lambda: next(answers))  # noqa: B023

                self.assertEqual('', text)


class RealProcessTest(base.TestCase):
    def start(self, uuid: str = SERVER, threads: int = 4) -> guests.Guest:
        return self.useFixture(guests.Guest(uuid, threads))

    def find(self, uuid: str = SERVER) -> threads.Server:
        return processes.Processes().scan().get(uuid)

    def test_all_threads_are_found_whenever_they_started(self) -> None:
        guest = self.start(threads=16)
        server = self.find()
        self.assertEqual(guest.list_threads(), server.list_threads())
        self.assertEqual(16, len(server.list_threads()))

        late, ended = guest.do('clone'), guest.do('end')

        self.assertEqual(late, ended)
        guest.do('clone')
        self.assertEqual(guest.list_threads(), server.list_threads())

    def test_a_process_of_another_user_is_not_believed(self) -> None:
        guest = self.useFixture(guests.Guest(SERVER, user=STRANGER))

        self.assertEqual(frozenset(), self.find().list_threads())

        self.assertEqual(4, len(guest.list_threads()))

    def test_who_ends_after_he_was_found_has_no_threads(self) -> None:
        guest = self.start()
        server = self.find()

        guest.end()

        self.assertEqual(frozenset(), server.list_threads())
        self.assertEqual(frozenset(), server.list_foreign({guest.pid}))

    def test_processes_that_come_and_go_do_no_harm(self) -> None:
        for _ in range(5):
            guest = self.start()
            guest.do('churn')
            server = self.find()
            for _ in range(20):
                self.assertLessEqual(3, len(server.list_threads()))
            guest.process.kill()
            self.find().list_threads()
            guest.end()

    def test_what_a_server_has_started_is_no_stranger(self) -> None:
        guest, other = self.start(), self.start(OTHER)
        child = guest.do('child')

        foreign = self.find().list_foreign({child, other.pid, os.getpid()})

        self.assertEqual({other.pid, os.getpid()}, foreign)

    def test_128_threads_are_all_listed(self) -> None:
        self.start(threads=128)

        threads = self.find().list_threads()

        self.assertEqual(128, len(threads))
