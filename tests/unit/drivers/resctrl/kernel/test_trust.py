# SPDX-License-Identifier: Apache-2.0

"""Which of the processes that name a server are believed, and why not."""

from collections.abc import Sequence
import shutil
from typing import Any

import fixtures
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.resctrl.guest import processes
from nova_ext_resources.facts import guest
from tests import base
from tests.unit.drivers.resctrl.guest import test_processes

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other

STRANGER = test_processes.STRANGER

#: As libvirt names what it has started, see :func:`make_scope`.
LONG = 'instance-' + 'a' * 80


def make_scope(machine: str, above: str = '') -> str:
    """Return the cgroup of a machine, as it is with systemd."""
    escaped = machine.replace('-', '\\x2d')
    return f'0::/{above}machine.slice/machine-{escaped}.scope'


class TrustTestCase(base.TestCase):
    #: What the kernel shows above the cgroup of a machine.
    above = ''

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.made = test_processes.MadeUp(self.make_folder())
        self.made.add(2, flags=0x200000, parent=0)

    def notice(self, uuid: str, name: str, number: int) -> None:
        self.made.guests[uuid] = guest.Guest(name=name, number=number)

    def add(self, pid: int, uuid: str, machine: str, **fields: Any) -> None:
        """Start what names a server, in the cgroup of a machine."""
        cgroup = make_scope(machine, self.above)
        self.made.add_server(pid, uuid, cgroup=cgroup, **fields)

    def scan(
        self, *answers: Sequence[str] | None
    ) -> tuple[processes.Scan, processes.Processes]:
        """Scan once for each answer of the hypervisor; return the last."""
        left = list(answers)

        def list_guests() -> dict[str, guest.Guest] | None:
            uuids = left.pop(0) if len(left) > 1 else left[0]
            if uuids is None:
                return None
            return {uuid: self.made.guests[uuid] for uuid in uuids}

        made = self.made.make_processes(list_guests=list_guests)
        for _ in answers:
            scan = made.scan()
        return scan, made

    def assert_found(
        self, expected: set[int], scan: processes.Scan, uuid: str = SERVER
    ) -> None:
        self.assertEqual(expected, scan.get(uuid).list_threads())


class MachineTest(TrustTestCase):
    """Which guest the cgroup of a machine belongs to."""

    def test_names_that_differ_in_what_is_left_out(self) -> None:
        """Where tenants choose the names: these share all that is kept."""
        self.notice(SERVER, 'web-1', 17)
        self.notice(OTHER, 'we-b1', 7)
        self.add(100, SERVER, 'qemu-17-web-1', uid=STRANGER)
        self.add(200, OTHER, 'qemu-7-we-b1', uid=STRANGER)
        self.add(201, SERVER, 'qemu-7-we-b1')

        scan, _ = self.scan([SERVER, OTHER])

        self.assert_found({100}, scan)
        self.assert_found({200}, scan, OTHER)

    def test_numbers_that_run_into_names(self) -> None:
        self.notice(SERVER, '7-web', 1)
        self.notice(OTHER, 'web', 17)
        self.add(100, SERVER, 'qemu-1-7-web', uid=STRANGER)
        self.add(200, OTHER, 'qemu-17-web', uid=STRANGER)

        scan, _ = self.scan([SERVER, OTHER])

        self.assert_found({100}, scan)
        self.assert_found({200}, scan, OTHER)

    def test_a_name_that_was_cut_belongs_to_its_guest(self) -> None:
        """To 64 characters; no dash is left at the end."""
        for name in (LONG, 'a' * 56 + '-' + 'b' * 9):
            machine = f'qemu-7-{name}'[:64].rstrip('-')
            with self.subTest(machine):
                self.made.proc += '2'
                self.made.add(1, 'init')
                self.notice(SERVER, name, 7)
                cgroup = make_scope(machine)
                self.made.add(100, 'wrapped', uid=STRANGER, cgroup=cgroup)

                scan, _ = self.scan([SERVER])

                self.assert_found({100}, scan)

    def test_a_name_that_was_cut_belongs_to_no_other_number(self) -> None:
        self.notice(SERVER, LONG, 7)
        self.made.add(100, 'wrapped', cgroup=make_scope(f'qemu-8-{LONG}'[:64]))

        scan, _ = self.scan([SERVER])

        self.assert_found(set(), scan)

    def test_the_same_number_in_another_libvirt(self) -> None:
        self.notice(SERVER, LONG, 7)
        for machine in ('qemu-7-inst', f'qemu-7-b{LONG}'[:64]):
            with self.subTest(machine):
                self.made.proc += '2'
                self.made.add(1, 'init')
                self.made.add(100, 'wrapped', cgroup=make_scope(machine))

                scan, _ = self.scan([SERVER])

                self.assert_found(set(), scan)

    def test_a_name_of_which_nothing_is_left(self) -> None:
        self.notice(SERVER, '\u4e00', 7)
        self.made.add(100, 'wrapped', cgroup=make_scope('qemu-7'))

        scan, _ = self.scan([SERVER])

        self.assert_found({100}, scan)


class PosingTest(TrustTestCase):
    """A guest that broke out of QEMU says that it is another server."""

    def setUp(self) -> None:
        super().setUp()
        self.notice(SERVER, 'instance-00000001', 1)
        self.notice(OTHER, 'instance-00000002', 2)
        self.add(100, SERVER, 'qemu-1-instance-00000001', uid=STRANGER)
        self.add(200, OTHER, 'qemu-2-instance-00000002', uid=STRANGER)
        self.add(201, SERVER, 'qemu-2-instance-00000002')

    def test_it_is_not_believed(self) -> None:
        scan, _ = self.scan([SERVER, OTHER])

        self.assert_found({100}, scan)

    def test_nor_after_the_hypervisor_fell_silent(self) -> None:
        scan, _ = self.scan([SERVER, OTHER], None)

        self.assert_found({100}, scan)
        self.assert_found({200}, scan, OTHER)

    def test_one_that_starts_in_silence_is_found(self) -> None:
        self.add(300, 'third', 'qemu-3-a')

        scan, _ = self.scan([SERVER, OTHER], None)

        self.assert_found({300}, scan, 'third')

    def test_nor_while_nothing_was_ever_known(self) -> None:
        """Then nobody in the cgroup of a machine is."""
        scan, _ = self.scan(None)

        self.assert_found(set(), scan)
        self.assertTrue(scan.get(SERVER).has_unseen)

    def test_nor_in_a_name_that_was_cut(self) -> None:
        self.notice('third', LONG, 9)
        self.add(202, SERVER, f'qemu-9-{LONG}'[:64])

        scan, _ = self.scan([SERVER, OTHER, 'third'])

        self.assert_found({100}, scan)

    def test_the_machine_of_no_guest_vouches_for_no_user(self) -> None:
        self.add(300, SERVER, 'qemu-3-a', uid=STRANGER)

        scan, _ = self.scan([SERVER, OTHER])

        self.assert_found({100}, scan)

    def test_nor_takes_it_away_what_the_user_vouches_for(self) -> None:
        """One that migrates within the host, from another libvirt."""
        self.add(300, SERVER, 'qemu-3-a')

        scan, _ = self.scan([SERVER, OTHER])

        self.assert_found({100, 300}, scan)

    def test_the_guest_that_it_broke_out_of_is_named(self) -> None:
        self.scan([SERVER, OTHER])

        self.assertIn('Process 201 names a server', self.log.output)
        self.assertIn(f'isolate server {OTHER}', self.log.output)
        self.assertIn('qemu-2-instance-00000002', self.log.output)
        self.assertNotIn('qemu_users', self.log.output)


class UnseenCgroupTest(PosingTest):
    """The same where nova-compute has a cgroup namespace of its own.

    The kernel shows it the cgroups of others relative to its own
    (cgroup_namespaces(7)): the name is there, and nothing proves who made it.
    """

    above = '../../'

    def add(self, pid: int, uuid: str, machine: str, **fields: Any) -> None:
        """Start what its user vouches for, because the cgroup cannot."""
        super().add(pid, uuid, machine)

    def add_stranger(self, machine: str) -> None:
        cgroup = make_scope(machine, self.above)
        self.made.add_server(300, cgroup=cgroup, uid=STRANGER)

    def test_the_machine_of_no_guest_vouches_for_no_user(self) -> None:
        self.add_stranger('qemu-3-a')

        scan, _ = self.scan([SERVER, OTHER])

        self.assert_found({100}, scan)

    def test_nor_does_that_of_its_own_guest(self) -> None:
        self.add_stranger('qemu-1-instance-00000001')

        scan, _ = self.scan([SERVER, OTHER])

        self.assert_found({100}, scan)
        self.assertIn(f'add user {STRANGER} of process 300', self.log.output)

    def test_nor_does_it_for_what_names_nobody(self) -> None:
        self.notice('third', 'a', 3)
        cgroup = make_scope('qemu-3-a', self.above)
        self.made.add(300, 'wrapped', cgroup=cgroup)

        scan, _ = self.scan([SERVER, OTHER, 'third'])

        self.assert_found(set(), scan, 'third')

    def test_that_it_may_be_a_users_cgroup_is_said(self) -> None:
        self.scan([SERVER, OTHER])

        self.assertIn('unless a user of this host has made', self.log.output)


class MissingCgroupsTest(UnseenCgroupTest):
    """The same without the host's ``/sys/fs/cgroup``."""

    above = ''

    def scan(
        self, *answers: Sequence[str] | None
    ) -> tuple[processes.Scan, processes.Processes]:
        shutil.rmtree(self.made.cgroup)
        return super().scan(*answers)


class AnswersTest(TrustTestCase):
    """Several threads ask the hypervisor, and one of them waits longer."""

    def setUp(self) -> None:
        super().setUp()
        self.notice(SERVER, 'instance-00000001', 1)
        self.add(100, SERVER, 'qemu-1-instance-00000001', uid=STRANGER)

    def test_an_earlier_question_is_answered_last(self) -> None:
        """Its answer, without the server, is not the one to remember."""
        asked: list[None] = []

        def list_guests() -> dict[str, guest.Guest] | None:
            asked.append(None)
            if len(asked) == 1:
                made.read_guests()
                return {}
            return self.made.guests if len(asked) == 2 else None

        made = self.made.make_processes(list_guests=list_guests)
        made.read_guests()

        self.assert_found({100}, made.scan())

    def test_another_question_is_answered_before_a_scan(self) -> None:
        """What a scan was asked for is what it knows."""
        made = self.made.make_processes(list_guests=dict)
        made.read_guests()

        scan = made.scan_for(self.made.guests)

        self.assert_found({100}, scan)


class AdviceTest(TrustTestCase):
    """What is advised for a server of which no process is believed."""

    def setUp(self) -> None:
        super().setUp()
        self.notice(SERVER, 'instance-00000001', 1)
        self.notice(OTHER, 'instance-00000002', 2)

    def explain(self) -> str:
        scan, made = self.scan([SERVER, OTHER])
        return made.explain_absence(scan, [SERVER])[SERVER]

    def test_a_user_that_is_not_known(self) -> None:
        self.made.add_server(100, uid=STRANGER)

        text = self.explain()

        for one in (text, self.log.output):
            self.assertIn(f'add user {STRANGER} of process 100', one)
            self.assertIn('[ext_resources_resctrl] qemu_users', one)

    def test_the_machine_of_another_guest(self) -> None:
        self.add(100, SERVER, 'qemu-2-instance-00000002', uid=STRANGER)

        text = self.explain()

        self.assertIn(f'isolate server {OTHER}', text)
        self.assertIn('set [ext_resources_resctrl] pid_path', text)
        self.assertNotIn('qemu_users', text)

    def test_the_machine_of_no_guest(self) -> None:
        self.add(100, SERVER, 'qemu-3-a', uid=STRANGER)

        text = self.explain()

        for one in (text, self.log.output):
            self.assertIn('which libvirt runs the machine qemu-3-a', one)
            self.assertNotIn('qemu_users', one)

    def test_silence(self) -> None:
        self.add(100, SERVER, 'qemu-3-a')

        self.scan(None)

        self.assertIn('restore the connection', self.log.output)
        self.assertNotIn('qemu_users', self.log.output)

    def test_each_reason_is_logged_once(self) -> None:
        self.made.add_server(100, uid=STRANGER)
        self.add(101, SERVER, 'qemu-3-a', uid=STRANGER)
        self.add(102, SERVER, 'qemu-3-a', uid=STRANGER)

        self.scan([SERVER], [SERVER])

        self.assertEqual(
            2, self.log.output.count('does not count as its process')
        )
