# SPDX-License-Identifier: Apache-2.0

"""Three hosts that reach one pool, which belongs to none of them."""

import json
import pathlib
import time
from typing import Any

import fixtures

from nova_ext_resources.drivers.shared_pool import inventory
from nova_ext_resources.objects import pool
from nova_ext_resources.placement.pools import removal
from tests.functional.virt import base
from tests.functional.virt import moving

CLASS = 'CUSTOM_RACK1_GB'
SEAT = 'CUSTOM_SEAT'
TOTAL = 10

POOLS = """
pools:
  - name: rack1
    resource_class: CUSTOM_RACK1_GB
    source: file
    location: {path}
    others_use: not_allocated
"""

_SEATS = """
resources:
  - name: CUSTOM_SEAT
    units: seats
    description: Seats of this host.
    inventory:
      total: 100
"""

POOL = pool.SharedPool(name='rack1', resource_class=CLASS)


class PoolTestCase(moving.MovesTestCase):
    """``self.set_pool`` says what the pool's source shows."""

    HOSTS: tuple[str, ...] = ('host1', 'host2', 'host3')
    plugins = 'static,shared_pool'
    enforcers = ''

    def setUp(self) -> None:
        self.is_written = False
        # A busy machine may take longer than a round waits.
        self.useFixture(
            fixtures.MockPatchObject(inventory, 'PATIENCE', base.SECONDS)
        )
        # Each round may sweep again.
        self.useFixture(fixtures.MockPatchObject(removal, 'INTERVAL', 0.0))
        super().setUp()

    def start_host(self, host: str, **settings: Any) -> Any:
        if not self.is_written:
            self.is_written = True
            self.path = self.folder / 'rack1.json'
            self.set_pool(total=TOTAL)
            (self.folder / 'seats.yaml').write_text(_SEATS)
            (self.folder / 'pools.yaml').write_text(
                POOLS.format(path=self.path)
            )
        self.host_options = (
            '[ext_resources_static]\n'
            f'definitions_file = {self.folder}/seats.yaml\n'
            '[ext_resources_shared_pool]\n'
            f'pools_file = {self.find_pools_file(host)}\n'
            # Each round reads it again.
            'interval = 1\n'
        )
        return super().start_host(host, **settings)

    def find_pools_file(self, host: str) -> pathlib.Path:
        return self.folder / 'pools.yaml'

    def set_pool(self, text: str = '', **numbers: int) -> None:
        self.path.write_text(text or json.dumps(numbers))

    def list_applied(self, host: str) -> None:
        return None

    def make_pool_flavor(self, amount: int, **specs: Any) -> str:
        return self.make_flavor(
            **{
                f'resources_POOL__{CLASS}': amount,
                f'resources__{SEAT}': 1,
                **specs,
            }
        )

    def count_used(self) -> int:
        """Return how much of the pool is allocated to anything."""
        usages = self._get_provider_usages(POOL.rp_uuid)
        return int(usages.get(CLASS, 0))

    def find_numbers(self) -> tuple[int, int]:
        """Return total and reserved, as placement has them."""
        found = self._get_provider_inventory(POOL.rp_uuid)[CLASS]
        return found['total'], found['reserved']

    def publish_all(self) -> None:
        for service in self.services.values():
            self.publish(service)

    def publish_when_read(self) -> None:
        """Run a round in which each host reads its pools anew."""
        for service in self.services.values():
            plugin = service.driver._ext.host._discovery._plugins[
                'shared_pool'
            ]
            for reader in plugin._readers.values():
                reader._began_at = float('-inf')
                reader.start()
                reader.wait(time.monotonic() + base.SECONDS)
        self.publish_all()

    def list_alarms(self, host: str) -> list[tuple[str, str]]:
        ext = self.services[host].driver._ext
        found = ext.metrics.read_health().alarms
        return [(one.name, one.subject) for one in found]

    def wait_for_used(self, amount: int) -> None:
        """Nova deletes what a move had after it has ended."""
        self.wait_until(lambda: self.count_used() == amount)

    def assert_counted(self, amount: int) -> None:
        """The pool has so much allocated, and no host minds."""
        self.wait_for_used(amount)
        for host in self.HOSTS:
            held = {
                one.resource_class
                for entry in self.get_host(host).entries.values()
                for one in entry.assignments
            }
            self.assertLessEqual(held, {SEAT})
            self.compare(host)
            self.assertEqual([], self.list_alarms(host))
            self.assert_no_difference(host)

    def evacuate(self, server: Any) -> None:
        """Let the host of a server fail, and begin to evacuate the server."""
        service = self.services[server['OS-EXT-SRV-ATTR:host']]
        self.stop_compute(service)
        self._force_down(service, True)
        self.admin_api.post_server_action(server['id'], {'evacuate': {}})

    def bring_back(self, host: str) -> None:
        self.services[host] = self.start_again(self.services[host])
        self._force_down(self.services[host], False)

    def _force_down(self, service: Any, is_down: bool) -> None:
        uuid = service.service_ref.uuid
        self.admin_api.put_service_force_down(uuid, is_down)
