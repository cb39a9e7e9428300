# SPDX-License-Identifier: Apache-2.0

"""All threads of a real QEMU, which libvirt has started, are in its group."""

import contextlib
import os
import pathlib
import subprocess
import sys
import types
from typing import Any, ClassVar

import fixtures
from oslo_utils.fixture import uuidsentinel
import testtools

from nova_ext_resources.drivers.resctrl.guest import pid_files
from nova_ext_resources import exception
from nova_ext_resources.facts import guest
from nova_ext_resources.objects import assignment
from tests.functional.libvirt import daemon
from tests.functional.resctrl import mounting
from tests.unit.host import with_host

SERVER = uuidsentinel.server

_OBSTACLE = daemon.find_obstacle()

#: A user that this machine does not have.
_USER = 54321

_LABEL = f"""
<seclabel type='static' model='dac' relabel='no'>
  <label>+{_USER}:+{_USER}</label>
</seclabel>
"""

#: Searches for a server that runs.
_SEARCH = f"""
from nova_ext_resources.drivers.resctrl.guest import processes
from nova_ext_resources.facts import guest
guests = {{'{SERVER}': guest.Guest(name='instance-00000001', number=1)}}
found = processes.Processes(list_guests=lambda: guests)
print(found.explain_absence(found.scan(), guests)['{SERVER}'])
"""

_DOMAIN = f"""
<domain type='qemu'>
  <name>instance-00000001</name>
  <uuid>{SERVER}</uuid>
  <memory unit='MiB'>32</memory>
  <vcpu current='2'>3</vcpu>
  <iothreads>2</iothreads>
  <os><type arch='x86_64' machine='pc'>hvm</type></os>
  <features><acpi/></features>
  <devices>
    <emulator>{daemon.EMULATOR}</emulator>
    <memballoon model='none'/>
  </devices>
</domain>
"""


@testtools.skipIf(bool(_OBSTACLE), _OBSTACLE)
class FloatingGuestTest(mounting.MountedTestCase):
    TASKS = 'proc'

    libvirtd: ClassVar[daemon.Libvirtd]
    folder: ClassVar[fixtures.TempDir]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.folder = fixtures.TempDir()
        cls.folder.setUp()
        cls.libvirtd = daemon.Libvirtd(pathlib.Path(cls.folder.path), 'lvf')
        cls.libvirtd.start()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.libvirtd.stop()
        cls.folder.cleanUp()
        super().tearDownClass()

    def setUp(self) -> None:
        super().setUp()
        pid_path = os.path.join(self.folder.path, 'run', 'libvirt', 'qemu')
        self.host = self.make_resctrl_host(pid_path=pid_path)
        self.connection = self.libvirtd.connect()
        self.addCleanup(self.connection.close)
        self.domain = self.create(_DOMAIN)
        self.addCleanup(self.destroy)

    def create(self, xml: str) -> Any:
        """Start a guest as Nova does: its threads are there and wait."""
        import libvirt

        return self.connection.createXML(xml, libvirt.VIR_DOMAIN_START_PAUSED)

    def create_again(self, xml: str) -> None:
        self.domain.destroy()
        self.domain = self.create(xml)

    def list_running(self) -> dict[str, guest.Guest]:
        """Ask libvirt as our driver does."""
        found: dict[str, guest.Guest] = self.make_driver()._list_running()
        return found

    def make_driver(self) -> Any:
        """Return ours; Nova has not started it."""
        from nova.virt.libvirt import host

        from nova_ext_resources.virt.driver import incoming_guests
        from nova_ext_resources.virt.driver import libvirt as libvirt_driver

        made: Any = object.__new__(libvirt_driver.LibvirtDriver)
        made._host = host.Host(self.libvirtd.uri)
        made._compute_event_callback = None
        made._ext = types.SimpleNamespace(host=self.host)
        made._ext_incoming = incoming_guests.IncomingGuests(self.host)
        return made

    def destroy(self) -> None:
        import libvirt

        # It is gone altogether where the test has ended it.
        with contextlib.suppress(libvirt.libvirtError):
            self.domain.destroy()

    def list_threads(self) -> dict[int, str]:
        """Return each thread of QEMU and its name."""
        path = pathlib.Path(self.folder.path, 'run/libvirt/qemu')
        pid = pid_files.find_holder(f'{path}/{self.domain.name()}.pid', {0})
        folder = f'/proc/{pid}/task'
        return {
            int(tid): pathlib.Path(folder, tid, 'comm').read_text().strip()
            for tid in os.listdir(folder)
        }

    def list_inside(self) -> set[int]:
        return set(self.list_ours()[SERVER]['tasks'])

    def assert_inside(self) -> None:
        self.assertEqual(set(self.list_threads()), self.list_inside())

    def test_every_thread_is_in_before_the_guest_runs(self) -> None:
        self.start(self.host, SERVER, cpus=None)

        self.assert_inside()
        names = ' '.join(self.list_threads().values())
        for name in ('CPU 0', 'CPU 1', 'IO iothread2', 'IO mon_iothread'):
            self.assertIn(name, names)
        self.domain.resume()
        self.assert_inside()
        self.assert_agreement(self.host)

    def test_a_guest_that_is_migrated_live_is_in_when_its_process_starts(
        self,
    ) -> None:
        """Here it starts paused, as the destination's process does."""
        from nova.virt import event as virtevent

        self.domain.destroy()
        self.host.claim(with_host.make_claim(SERVER, cpus=None), is_move=True)
        self.host.prepare(SERVER)
        self.assertEqual(set(), self.list_inside())
        driver = self.make_driver()

        self.domain = self.create(_DOMAIN)
        for transition in (
            virtevent.EVENT_LIFECYCLE_PAUSED,
            virtevent.EVENT_LIFECYCLE_STARTED,
        ):
            self.assertEqual(set(), self.list_inside())
            driver.emit_event(virtevent.LifecycleEvent(SERVER, transition))
        # In a thread of its own.
        self.assertEqual(set(), self.list_inside())
        driver._ext_incoming.do_round()

        self.assert_inside()
        self.assertIs(
            assignment.Purpose.MIGRATION_DEST,
            self.host.entries[SERVER].purpose,
        )
        self.domain.resume()
        self.assert_inside()
        self.host.apply(SERVER)
        self.assert_agreement(self.host)

    def test_the_driver_reports_what_runs(self) -> None:
        number = self.domain.ID()
        one = guest.Guest(name='instance-00000001', number=number)
        for act in (self.domain.resume, self.domain.suspend):
            self.assertEqual({SERVER: one}, self.list_running())
            act()

        self.domain.destroy()

        self.assertEqual({}, self.list_running())

    def test_a_guest_of_a_user_that_is_not_known_is_found(self) -> None:
        self.create_again(_DOMAIN.replace('</domain>', f'{_LABEL}</domain>'))

        self.start(self.host, SERVER, cpus=None)

        self.assert_inside()
        self.assertLess(4, len(self.list_inside()))

    def test_a_guest_that_its_command_line_does_not_name_is_found(
        self,
    ) -> None:
        path = pathlib.Path(self.folder.path, 'qemu-wrapped')
        path.write_text(daemon.WRAPPER.format(emulator=daemon.EMULATOR))
        path.chmod(0o755)
        self.create_again(_DOMAIN.replace(daemon.EMULATOR, str(path)))

        self.start(self.host, SERVER, cpus=None)

        self.assert_inside()
        self.assertLess(4, len(self.list_inside()))

    def test_a_guest_that_is_not_found_does_not_start(self) -> None:
        self.create_again(_DOMAIN.replace('</domain>', f'{_LABEL}</domain>'))
        self.host.close()
        self.host = self.make_resctrl_host(pid_path='/nowhere')

        err = self.assertRaises(
            exception.EnforcementFailed,
            self.start,
            self.host,
            SERVER,
            cpus=None,
        )

        self.assertIn(f'add user {_USER} of process', str(err))
        self.assertEqual({}, self.list_ours())

    def test_a_pid_namespace_of_its_own_is_named(self) -> None:
        command = (*daemon.UNSHARE, sys.executable, '-c', _SEARCH)

        found = subprocess.run(command, capture_output=True, text=True)

        self.assertIn('--pid=host', found.stdout, found.stderr)

    def test_a_cpu_that_is_plugged_in_later_is_in_as_well(self) -> None:
        self.start(self.host, SERVER, cpus=None)
        self.domain.resume()

        self.domain.setVcpus(3)

        self.assertIn('CPU 2', ' '.join(self.list_threads().values()))
        self.assert_inside()
        self.host.refresh()
        self.host.heal()
        self.assertEqual((), self.host.problems)

    def test_a_guest_that_is_destroyed_leaves_an_empty_group(self) -> None:
        self.start(self.host, SERVER, cpus=None)

        self.domain.destroy()

        self.host.refresh()
        self.host.heal()
        self.assertEqual(set(), self.list_inside())
        self.assertEqual((), self.host.problems)
