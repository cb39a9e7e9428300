# SPDX-License-Identifier: Apache-2.0

"""Live migrations between two hosts with a real libvirt and QEMU."""

from typing import Any, ClassVar

import testtools
from testtools import content

from cloud import tree
from tests.functional.libvirt import daemon
from tests.functional.libvirt import host as hosts
from tests.functional.libvirt import pair
from tests.functional.libvirt import test_guests
from tests.functional.resctrl import mounting

_OBSTACLE = daemon.find_obstacle()

#: MiB per second: the transfer takes 20 seconds, and one.
_SLOW, _FAST = 1, 1000

KINDS = ('pinned', 'floating')


@testtools.skipIf(bool(_OBSTACLE), _OBSTACLE)
class LiveMigrationTest(test_guests.NovaTestCase):
    SITE: ClassVar[type[Any]] = pair.Pair
    site: ClassVar[Any]

    @classmethod
    def setUpClass(cls) -> None:
        mounting.require()
        super().setUpClass()

    def setUp(self) -> None:
        super().setUp()
        self.source, self.target = self.site.hosts.values()

    def attach_log(self, error: Any) -> None:
        super().attach_log(error)
        for one in (self.source, self.target):
            self.addDetail(
                one.log.name, content.content_from_file(str(one.log))
            )

    # -- what is asked of Nova -----------------------------------------

    def boot_on_source(self, kind: str) -> str:
        server = self.compute.create_server(
            name=self.id().rsplit('.')[-1],
            flavor_id=self.site.flavors[kind],
            image_id=self.site.image_id,
            networks='none',
            availability_zone=f'nova:{self.source.name}',
        )
        uuid = str(server.id)
        self.addCleanup(self.delete, uuid)
        self.wait_status(uuid, 'ACTIVE')
        self.assert_runs(uuid)
        self.assert_only_on(self.source, uuid)
        return uuid

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

    def find_migration(self, uuid: str) -> Any:
        """Return the last one."""
        found = self.compute.migrations(instance_uuid=uuid)
        return max(found, key=lambda one: one.id)

    def abort(self, uuid: str) -> None:
        migration = self.find_migration(uuid)
        self.compute.abort_server_migration(migration.id, uuid)
        self.wait(lambda: self.is_idle(uuid))

    def restart_compute(self, host: hosts.Host) -> None:
        host.kill_compute()
        host.start_compute()
        self.site.wait_for(host)

    def wait_released_on(self, host: hosts.Host, uuid: str) -> None:
        self.wait(lambda: not host.list_held(uuid))

    # -- what is seen --------------------------------------------------

    def is_inside(self, kind: str, host: hosts.Host, uuid: str) -> bool:
        """Return whether all that a guest runs on is in its group."""
        group = host.find_group(uuid)
        if kind == 'pinned':
            return bool(group) and group['cpus'] == str(host.cpu)
        # A thread may begin in between: read those that are inside last.
        threads = host.list_threads(uuid)
        return bool(threads) and threads <= host.find_group(uuid)['threads']

    def assert_inside(self, kind: str, host: hosts.Host, uuid: str) -> None:
        """Make sure of that; a floating guest's threads come in a moment."""
        if kind == 'floating':
            self.wait(lambda: self.is_inside(kind, host, uuid))
        self.assertTrue(self.is_inside(kind, host, uuid))
        self.assert_in_force(host, uuid)

    def assert_in_force(self, host: hosts.Host, uuid: str) -> None:
        """Compare ledger and group."""
        held = host.list_held(uuid)[tree.WAYS]
        mask = int(held.units['mask'], 16)
        self.assertEqual(pair.WAYS, mask.bit_count())
        domain = held.rp_key.removeprefix('L3_')
        self.assertEqual(mask, host.find_group(uuid)['ways'][domain])

    def assert_only_on(self, host: hosts.Host, uuid: str) -> None:
        """Compare ledger, placement and group on both hosts."""
        (other,) = {self.source, self.target} - {host}
        self.assertEqual({host.name: pair.WAYS}, self.allocated(uuid))
        migrations = [
            one.uuid for one in self.compute.migrations(instance_uuid=uuid)
        ]
        # Nova deletes those after the server has its new host.
        self.wait(lambda: not any(map(self.allocated, migrations)))
        self.assert_in_force(host, uuid)
        self.assert_nothing_on(other, uuid)

    def allocated(self, uuid: str) -> dict[str, int]:
        found: dict[str, int] = self.site.list_allocated(uuid)
        return found

    def assert_nothing_on(self, host: hosts.Host, uuid: str) -> None:
        self.assertIsNone(host.find_domain(uuid))
        self.assertEqual({}, host.list_held(uuid))
        self.assertEqual({}, host.find_group(uuid))

    def assert_gone(self, uuid: str) -> None:
        for host in self.site.hosts.values():
            self.assert_nothing_on(host, uuid)
        self.assertEqual({}, self.allocated(uuid))

    # -- the tests -----------------------------------------------------

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
