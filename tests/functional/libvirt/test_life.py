# SPDX-License-Identifier: Apache-2.0

"""What a server does on its host, with resctrl, a real libvirt and QEMU."""

import testtools

from tests.functional.libvirt import daemon
from tests.functional.libvirt import two_hosts

_OBSTACLE = daemon.find_obstacle()


@testtools.skipIf(bool(_OBSTACLE), _OBSTACLE)
class LifeTest(two_hosts.TwoHostsTestCase):
    def rebuild(self, uuid: str) -> None:
        image = self.site.upload('other')
        self.compute.rebuild_server(uuid, image=image)
        self.wait_status(uuid, 'ACTIVE')

    def test_every_start_of_a_process_finds_its_ways_in_force(self) -> None:
        for kind in two_hosts.KINDS:
            with self.subTest(kind):
                self.start_again_and_again(kind, self.boot_on_source(kind))

    def start_again_and_again(self, kind: str, uuid: str) -> None:
        held = self.source.list_held(uuid)
        for down, up in (
            (None, self.reboot_hard),
            (None, self.reboot_soft),
            (self.stop, self.start),
            (self.suspend, self.resume),
            (self.pause, self.unpause),
            (None, self.rescue),
            (None, self.unrescue),
            (None, self.snapshot),
            (None, self.rebuild),
        ):
            if down:
                down(uuid)
                self.assertEqual(held, self.source.list_held(uuid))

            up(uuid)

            self.assertTrue(self.is_inside(kind, self.source, uuid), up)
            self.assertEqual(held, self.source.list_held(uuid))
            self.assert_only_on(self.source, uuid)
