# SPDX-License-Identifier: Apache-2.0

"""Servers that change their host with a real libvirt and QEMU."""

from collections.abc import Callable

import testtools

from dev.cloud import tree
from tests.functional.libvirt import daemon
from tests.functional.libvirt import host as hosts
from tests.functional.libvirt import pair
from tests.functional.libvirt import two_hosts

_OBSTACLE = daemon.find_obstacle()


@testtools.skipIf(bool(_OBSTACLE), _OBSTACLE)
class MovesTest(two_hosts.TwoHostsTestCase):
    # -- what is asked of Nova -----------------------------------------

    def resize(self, uuid: str, flavor: str) -> None:
        self.compute.resize_server(uuid, self.site.flavors[flavor])
        self.wait_status(uuid, 'VERIFY_RESIZE')

    def confirm(self, uuid: str) -> None:
        self.compute.confirm_server_resize(uuid)
        self.wait_status(uuid, 'ACTIVE')
        self.wait(lambda: self.find_migration(uuid).status == 'confirmed')

    def revert(self, uuid: str) -> None:
        self.compute.revert_server_resize(uuid)
        self.wait_status(uuid, 'ACTIVE')
        self.wait(lambda: self.find_migration(uuid).status == 'reverted')

    def force_down(self, host: hosts.Host, is_down: bool) -> None:
        (service,) = self.compute.services(
            binary='nova-compute', host=host.name
        )
        self.compute.update_service_forced_down(service, forced=is_down)

    def wait_back(self, host: hosts.Host) -> None:
        """Wait for a nova-compute that starts, and have Nova use it.

        Nova refuses the latter before it has ended evacuations from there.
        """
        self.wait(lambda: host.has_started)
        self.force_down(host, False)
        self.site.wait_for(host)

    def lose_host(self, uuid: str) -> None:
        """End nova-compute and the guest of the source."""
        self.source.kill_compute()
        self.source.find_domain(uuid).destroy()

    # -- what is seen --------------------------------------------------

    def assert_moved(self, kind: str, uuid: str, ways: int) -> None:
        """The target applies its own; the source keeps two, and does not."""
        migration = self.find_migration(uuid).uuid
        self.assert_inside(kind, self.target, uuid, ways)
        self.assertEqual({self.target.name: ways}, self.allocated(uuid))
        self.assertEqual({}, self.source.list_held(uuid))
        mask = self.source.list_held(migration)[tree.WAYS].units['mask']
        self.assertEqual(pair.WAYS, int(mask, 16).bit_count())
        self.assertEqual(
            {self.source.name: pair.WAYS}, self.allocated(migration)
        )
        for one in (uuid, migration):
            self.assertEqual({}, self.source.find_group(one))

    # -- the tests -----------------------------------------------------

    def play(self, act: Callable[[str, str], None]) -> None:
        """Have a server of each kind do something."""
        self.restart()
        for kind in two_hosts.KINDS:
            with self.subTest(kind):
                act(kind, self.boot_on_source(kind))

    def restart(self) -> None:
        """Have Nova free the CPUs of servers that had come and were deleted.

        A host counts their migrations until its next update of resources.
        """
        for host in (self.source, self.target):
            host.kill_compute()
            host.start_compute()
        for host in (self.source, self.target):
            self.wait_back(host)

    def test_resize(self) -> None:
        self.play(self.resize_and_back)

    def resize_and_back(self, kind: str, uuid: str) -> None:
        self.resize(uuid, f'more {kind}')
        self.assert_moved(kind, uuid, pair.MORE_WAYS)
        self.restart_compute(self.source)
        self.assert_moved(kind, uuid, pair.MORE_WAYS)
        self.revert(uuid)
        self.assert_inside(kind, self.source, uuid)
        self.assert_only_on(self.source, uuid)

        self.resize(uuid, f'more {kind}')
        self.confirm(uuid)
        self.assert_only_on(self.target, uuid, pair.MORE_WAYS)
        self.resize(uuid, kind)
        self.confirm(uuid)
        self.assert_inside(kind, self.source, uuid)
        self.assert_only_on(self.source, uuid)

    def test_cold_migration(self) -> None:
        self.play(self.migrate_cold)

    def migrate_cold(self, kind: str, uuid: str) -> None:
        self.compute.migrate_server(uuid)
        self.wait_status(uuid, 'VERIFY_RESIZE')
        self.assert_moved(kind, uuid, pair.WAYS)
        self.confirm(uuid)

        self.assert_only_on(self.target, uuid)

    def test_deleted_before_it_is_confirmed(self) -> None:
        self.play(self.delete_resized)

    def delete_resized(self, kind: str, uuid: str) -> None:
        self.resize(uuid, f'more {kind}')
        migration = self.find_migration(uuid).uuid

        self.compute.delete_server(uuid)
        self.wait(lambda: self.show(uuid) is None)

        self.wait(lambda: not self.allocated(migration))
        for one in (uuid, migration):
            self.assert_gone(one)

    def test_evacuate(self) -> None:
        self.play(self.evacuate)

    def evacuate(self, kind: str, uuid: str) -> None:
        self.lose_host(uuid)
        self.force_down(self.source, True)

        self.compute.evacuate_server(uuid)
        self.wait_status(uuid, 'SHUTOFF')
        self.start(uuid)
        self.assert_inside(kind, self.target, uuid)
        self.source.start_compute()
        self.wait_back(self.source)

        self.wait_released_on(self.source, uuid)
        self.wait(lambda: self.source.name not in self.allocated(uuid))
        self.assert_only_on(self.target, uuid)

    def test_shelve_and_unshelve_to_a_host(self) -> None:
        self.play(self.shelve)

    def shelve(self, kind: str, uuid: str) -> None:
        self.compute.shelve_server(uuid)
        self.wait_status(uuid, 'SHELVED_OFFLOADED')
        self.assert_gone(uuid)
        self.compute.unshelve_server(uuid, host=self.target.name)
        self.wait_status(uuid, 'ACTIVE')

        self.assert_inside(kind, self.target, uuid)
        self.assert_only_on(self.target, uuid)

    def test_restart_of_the_host(self) -> None:
        self.play(self.restart_host)

    def restart_host(self, kind: str, uuid: str) -> None:
        self.lose_host(uuid)
        self.assertEqual(set(), self.source.list_threads(uuid))

        self.source.start_compute()
        self.site.wait_for(self.source)

        self.wait(
            lambda: self.source.list_threads(uuid) and self.is_idle(uuid)
        )
        self.assert_inside(kind, self.source, uuid)
        self.assert_only_on(self.source, uuid)
