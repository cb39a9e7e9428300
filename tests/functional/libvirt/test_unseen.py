# SPDX-License-Identifier: Apache-2.0

"""Floating servers of Nova, whose QEMU says nothing of its server."""

import contextlib
import os
import pathlib
from typing import Any, ClassVar

import testtools

from dev.cloud.machines import resctrl
from dev.cloud import settings as cloud_settings
from tests.functional.libvirt import daemon
from tests.functional.libvirt import site as sites
from tests.functional.libvirt import test_guests
from tests.functional.resctrl import mounting

_OBSTACLE = daemon.find_obstacle()


class FloatingSite(sites.Site):
    """A host with resctrl, on which only libvirt's pid files name a guest."""

    BACKEND = 'resctrl'

    def _start_machine(self) -> Any:
        made = resctrl.Machine(sites.HOST, self.folder)
        self._stack.callback(made.stop)
        made.start()
        made.wait()
        return made

    def _start_libvirtd(self) -> daemon.Libvirtd:
        made = daemon.Libvirtd(
            self.folder.root / 'libvirt', sites.HOST, is_silent=True
        )
        # A link that a test takes away.
        self.pid_path = self.folder.root / 'pids'
        self.show()
        return self._stack.enter_context(made)

    def show(self) -> None:
        """Let nova-compute see the pid files."""
        self.pid_path.symlink_to(self.folder.root / 'libvirt/run/libvirt/qemu')

    def hide(self) -> None:
        self.pid_path.unlink()

    def _list_options(self) -> cloud_settings.Options:
        (options,) = self.machine.options().values()
        pid_path = str(self.pid_path)
        return {'ext_resources_resctrl': {**options, 'pid_path': pid_path}}

    def _list_extra_specs(self) -> dict[str, str]:
        return {'resources:CUSTOM_LLC_WAYS': str(sites.WAYS)}

    def find_pid(self, uuid: str) -> int | None:
        """Return the process of a guest, by the disk that it has open."""
        words = f'/{uuid}/disk'.encode()
        for path in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
            with contextlib.suppress(OSError):
                if words in path.read_bytes():
                    return int(path.parent.name)
        return None

    def find_group(self, uuid: str) -> dict[str, Any]:
        name = f'nova-{uuid}'
        return {'name': name} if name in self.machine.list_groups() else {}


@testtools.skipIf(bool(_OBSTACLE), _OBSTACLE)
class UnseenTest(test_guests.NovaTestCase):
    SITE = FloatingSite
    site: ClassVar[Any]

    @classmethod
    def setUpClass(cls) -> None:
        mounting.require()
        super().setUpClass()

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(self.site.starts.clear)

    def assert_inside(self, uuid: str) -> None:
        pid = self.site.find_pid(uuid)
        threads = set(map(int, os.listdir(f'/proc/{pid}/task')))
        inside = set(self.site.machine.list_threads(f'nova-{uuid}'))
        self.assertLess(2, len(threads))
        self.assertLessEqual(threads, inside)

    def test_every_start_finds_its_threads(self) -> None:
        uuid = self.boot()
        self.assert_inside(uuid)

        for name, down, up in (
            ('hard reboot', None, self.reboot_hard),
            ('soft reboot', None, self.reboot_soft),
            ('stop, start', self.stop, self.start),
            ('suspend, resume', self.suspend, self.resume),
            ('pause, unpause', self.pause, self.unpause),
            ('rescue', None, self.rescue),
            ('unrescue', None, self.unrescue),
        ):
            with self.subTest(name):
                if down:
                    down(uuid)
                up(uuid)

                self.assert_inside(uuid)

    def test_what_is_not_found_does_not_start(self) -> None:
        self.site.hide()
        try:
            uuid = self.ask()
            self.wait_status(uuid, 'ERROR')
        finally:
            self.site.show()

        self.assertIn(
            'resctrl: could not find its processes', self.list_reasons(uuid)
        )
        self.assertIsNone(self.site.find_pid(uuid))
        self.assertEqual([], self.site.starts)
        self.assertEqual({}, self.site.list_held(uuid))

    def test_what_is_not_found_stays_off(self) -> None:
        uuid = self.boot()
        self.stop(uuid)
        held = self.site.list_held(uuid)
        self.site.starts.clear()
        self.site.hide()
        try:
            self.compute.start_server(uuid)
            self.wait(lambda: self.show(uuid).task_state is None)
        finally:
            self.site.show()

        self.assertIsNone(self.site.find_pid(uuid))
        self.assertEqual([], self.site.starts)
        self.assertEqual(held, self.site.list_held(uuid))
        self.start(uuid)
        self.assert_inside(uuid)
