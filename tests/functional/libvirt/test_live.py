# SPDX-License-Identifier: Apache-2.0

"""Live migrations between two hosts with a real libvirt and QEMU."""

import testtools

from tests.functional.libvirt import daemon
from tests.functional.libvirt import host as hosts
from tests.functional.libvirt import two_hosts

_OBSTACLE = daemon.find_obstacle()

#: MiB per second: the transfer takes 20 seconds, and one.
_SLOW, _FAST = 1, 1000

KINDS = two_hosts.KINDS


@testtools.skipIf(bool(_OBSTACLE), _OBSTACLE)
class LiveMigrationTest(two_hosts.TwoHostsTestCase):
    def begin(self, uuid: str, source: hosts.Host, target: hosts.Host) -> None:
        """Begin a slow transfer, and wait until it is under way."""
        source.find_domain(uuid).migrateSetMaxSpeed(_SLOW)
        self.compute.live_migrate_server(
            uuid, host=None, block_migration='auto'
        )
        self.wait(lambda: target.find_domain(uuid))
        # Before libvirt starts a process, which it does now.
        self.assertNotEqual({}, target.find_group(uuid))
        self.wait(lambda: self.is_transferred(uuid, target))

    def is_transferred(self, uuid: str, target: hosts.Host) -> bool:
        import libvirt

        self.assertNotEqual('ERROR', self.show(uuid).status)
        waiting = [
            libvirt.VIR_DOMAIN_PAUSED,
            libvirt.VIR_DOMAIN_PAUSED_MIGRATION,
        ]
        domain = target.find_domain(uuid)
        return (
            domain is not None
            and domain.state() == waiting
            and self.find_migration(uuid).status == 'running'
        )

    def go_on(self, uuid: str, source: hosts.Host) -> None:
        source.find_domain(uuid).migrateSetMaxSpeed(_FAST)
        self.wait_status(uuid, 'ACTIVE')

    def abort(self, uuid: str) -> None:
        migration = self.find_migration(uuid)
        self.compute.abort_server_migration(migration.id, uuid)
        self.wait(lambda: self.is_idle(uuid))

    def test_there_and_back(self) -> None:
        for kind in KINDS:
            with self.subTest(kind):
                uuid = self.boot_on_source(kind)
                for here, there in (
                    (self.source, self.target),
                    (self.target, self.source),
                ):
                    self.begin(uuid, here, there)
                    for host in (here, there):
                        self.assert_inside(kind, host, uuid)
                    self.assertTrue(self.is_paused(there.find_domain(uuid)))

                    self.go_on(uuid, here)

                    self.assertTrue(self.is_inside(kind, there, uuid))
                    self.assert_only_on(there, uuid)

    def test_it_is_aborted(self) -> None:
        """Nova sets the server to ERROR, and its guest runs on."""
        for kind in KINDS:
            with self.subTest(kind):
                uuid = self.boot_on_source(kind)
                self.begin(uuid, self.source, self.target)

                self.abort(uuid)

                self.assertFalse(self.is_paused(self.source.find_domain(uuid)))
                self.assertTrue(self.is_inside(kind, self.source, uuid))
                if kind == 'floating':
                    # Nova does not tell a host with the same storage, which
                    # compares itself with Nova when it starts.
                    self.restart_compute(self.target)
                self.wait_released_on(self.target, uuid)
                self.assert_only_on(self.source, uuid)

    def test_nova_compute_of_the_target_is_killed(self) -> None:
        """It has not seen that the guest's process has started."""
        uuid = self.boot_on_source('floating')
        self.begin(uuid, self.source, self.target)
        with self.source.frozen(uuid):
            self.target.kill_compute()
            self.target.lose_threads(uuid)
            for host in (self.source, self.target):
                self.assert_in_force(host, uuid)

            self.target.start_compute()
            self.site.wait_for(self.target)

            for host in (self.source, self.target):
                self.assert_inside('floating', host, uuid)
            self.assertTrue(self.is_paused(self.target.find_domain(uuid)))
        self.go_on(uuid, self.source)
        self.assertTrue(self.is_inside('floating', self.target, uuid))
        self.assert_only_on(self.target, uuid)

    def test_post_copy(self) -> None:
        """QEMU starts threads of its own then."""
        uuid = self.boot_on_source('floating')
        self.begin(uuid, self.source, self.target)
        self.assert_inside('floating', self.target, uuid)
        migration = self.find_migration(uuid)

        self.compute.force_complete_server_migration(migration.id, uuid)

        self.wait(lambda: not self.is_paused(self.target.find_domain(uuid)))
        self.assertTrue(self.is_inside('floating', self.target, uuid))
        self.wait_status(uuid, 'ACTIVE')
        self.assert_only_on(self.target, uuid)
