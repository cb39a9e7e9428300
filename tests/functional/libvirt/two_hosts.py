# SPDX-License-Identifier: Apache-2.0

"""Servers that change between two hosts with a real libvirt and QEMU."""

from typing import Any, ClassVar

from testtools import content

from dev.cloud import tree
from tests.functional.libvirt import host as hosts
from tests.functional.libvirt import pair
from tests.functional.libvirt import test_guests
from tests.functional.resctrl import mounting

KINDS = ('pinned', 'floating')


class TwoHostsTestCase(test_guests.NovaTestCase):
    """Servers are booted on ``self.source``."""

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

    def find_migration(self, uuid: str) -> Any:
        """Return the last one."""
        found = self.compute.migrations(instance_uuid=uuid)
        return max(found, key=lambda one: one.id)

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
        # A thread may begin in between, or end, as in a post-copy.
        threads = host.list_threads(uuid)
        inside = host.find_group(uuid)['threads']
        threads &= host.list_threads(uuid)
        return bool(threads) and threads <= inside

    def assert_inside(
        self, kind: str, host: hosts.Host, uuid: str, ways: int = pair.WAYS
    ) -> None:
        """Make sure of that; a floating guest's threads come in a moment."""
        if kind == 'floating':
            self.wait(lambda: self.is_inside(kind, host, uuid))
        self.assertTrue(self.is_inside(kind, host, uuid))
        self.assert_in_force(host, uuid, ways)

    def assert_in_force(
        self, host: hosts.Host, uuid: str, ways: int = pair.WAYS
    ) -> None:
        """Compare ledger and group."""
        held = host.list_held(uuid)[tree.WAYS]
        mask = int(held.units['mask'], 16)
        self.assertEqual(ways, mask.bit_count())
        domain = held.rp_key.removeprefix('L3_')
        self.assertEqual(mask, host.find_group(uuid)['ways'][domain])

    def assert_only_on(
        self, host: hosts.Host, uuid: str, ways: int = pair.WAYS
    ) -> None:
        """Compare ledger, placement and group on both hosts."""
        (other,) = {self.source, self.target} - {host}
        self.assertEqual({host.name: ways}, self.allocated(uuid))
        migrations = [
            one.uuid for one in self.compute.migrations(instance_uuid=uuid)
        ]
        # Nova deletes those after the server has its new host.
        self.wait(lambda: not any(map(self.allocated, migrations)))
        self.assert_in_force(host, uuid, ways)
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
