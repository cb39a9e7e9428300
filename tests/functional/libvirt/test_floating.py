# SPDX-License-Identifier: Apache-2.0

"""All threads of a real QEMU, which libvirt has started, are in its group."""

import contextlib
import os
import pathlib
from typing import Any, ClassVar

import fixtures
from oslo_utils.fixture import uuidsentinel
import testtools

from nova_ext_resources.drivers.resctrl.kernel import processes
from tests.functional.libvirt import daemon
from tests.functional.resctrl import mounting

SERVER = uuidsentinel.server

_OBSTACLE = daemon.find_obstacle()

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
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
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
        self.host = self.make_resctrl_host()
        connection = self.libvirtd.connect()
        self.addCleanup(connection.close)
        self.domain = self.create(connection)

    def create(self, connection: Any) -> Any:
        """Start a guest as Nova does: its threads are there and wait."""
        import libvirt

        domain = connection.createXML(_DOMAIN, libvirt.VIR_DOMAIN_START_PAUSED)
        self.addCleanup(self.destroy)
        return domain

    def destroy(self) -> None:
        import libvirt

        # It is gone altogether where the test has ended it.
        with contextlib.suppress(libvirt.libvirtError):
            self.domain.destroy()

    def list_threads(self) -> dict[int, str]:
        """Return each thread of QEMU and its name."""
        (process,) = processes.Processes().scan().servers[SERVER]
        folder = f'/proc/{process.pid}/task'
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
