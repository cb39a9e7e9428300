# SPDX-License-Identifier: Apache-2.0

"""From what a host publishes to a promise, and from there to a boot.

Real Nova services, with a real placement.
"""

from typing import Any

import fixtures
import nova.conf
from nova import context as nova_context
from oslo_config import cfg
from oslo_utils import timeutils

from nova_ext_resources.conf import reservation
from nova_ext_resources import exception
from nova_ext_resources.reservation import api
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation.site import loading
from nova_ext_resources.reservation.store import publications
from nova_ext_resources.scheduler import request
from nova_ext_resources.scheduler.reservation import inventory_snapshot
from tests.functional.virt import base

_CONF = """
[ext_resources_reservation]
connection = {url}
[ext_resources_placement]
auth_type = admin_token
endpoint = {placement}
token = admin
endpoint_override = {placement}
"""

WAYS = 'CUSTOM_LLC_WAYS'


class ReservedUnitsTest(base.NovaTestCase):
    """One host of two caches, whose ways RMD chooses."""

    def setUp(self) -> None:
        super().setUp()
        url = f'sqlite:///{self.folder}/reservations.db'
        reservation.register_opts(nova.conf.CONF)
        nova.conf.CONF.set_override('connection', url, reservation.GROUP.name)
        path = self.folder / 'reservations.conf'
        endpoint = self.placement.fixture.endpoint
        path.write_text(_CONF.format(url=url, placement=endpoint))
        self.conf = cfg.ConfigOpts()
        self.conf(['--config-file', str(path)], project='nova')
        # Makes the tables.
        self.load()
        self.flags(cores=-1, group='quota')
        self.flags(
            enabled_filters=[
                'ComputeFilter',
                'NUMATopologyFilter',
                'ExtendedResourcesFilter',
                'ReservationFilter',
            ],
            group='filter_scheduler',
        )
        self.scheduler_service.stop()
        self.scheduler_service = self.start_service('scheduler')
        self.service = self.start_host('host1')
        self.host = self.service.driver._ext.host

    def load(self) -> api.Reservations:
        """Read all hosts of placement, as each command does."""
        found = loading.from_conf(self.conf)
        self.addCleanup(found.close)
        return found

    def note(self) -> None:
        """Let time pass until a scheduler has noted what hosts publish."""
        self.publish(self.service)
        self.run_task()

    def run_task(self) -> None:
        """Run the task of the scheduler, which comes once a minute."""
        with fixtures.MonkeyPatch(
            f'{inventory_snapshot.__name__}.ROUND_SECONDS', 0
        ):
            inventory_snapshot.note_published(
                self.scheduler_service.manager,
                nova_context.get_admin_context(),
            )

    def reserve(self, name: str, ways: int, **fields: Any) -> Any:
        """Reserve servers like those of ``make_pinned_flavor``."""
        return self.load().create(
            {
                'name': name,
                'resources': {
                    'PCPU': 2,
                    'MEMORY_MB': 64,
                    # Of the image.
                    'DISK_GB': 10,
                    WAYS: ways,
                },
                'duration': '1h',
                **fields,
            }
        )

    def boot_reserved(self, name: str, ways: int) -> Any:
        body = self._build_server(
            flavor_id=self.make_pinned_flavor(ways), networks='none'
        )
        hints = {request.HINT: name}
        made = self.api.post_server(
            {'server': body, 'os:scheduler_hints': hints}
        )
        return self._wait_for_state_change(made, 'ACTIVE')

    def find_ways(self, server: Any) -> tuple[str, int]:
        """Return the cache of a server, and the mask of its ways."""
        entry = self.host.find_entry(server['id'])
        assert entry is not None
        [found] = [
            (one.rp_key, int(one.units['mask'], 16))
            for one in entry.assignments
            if one.resource_class == WAYS
        ]
        return found

    def fragment(self) -> None:
        """Leave two ways, and two more, on both sides of a server."""
        servers = [self.boot(self.make_pinned_flavor(2)) for _n in range(6)]
        by_cache: dict[str, list[tuple[int, Any]]] = {}
        for one in servers:
            cache, mask = self.find_ways(one)
            by_cache.setdefault(cache, []).append((mask, one))
        for found in by_cache.values():
            low, _middle, high = sorted(found, key=lambda one: one[0])
            for _mask, one in (low, high):
                self._delete_server(one)

    def list_amounts(self) -> tuple[int, int, int]:
        """Return how many ways are used, reserved, and available now."""
        reservations = self.load()
        now = reservations.now()
        [found] = [
            (one.used, one.reserved, one.available)
            for one in reservations.list_amounts(
                interval.Interval(now, now + 1)
            )
            if one.resource_class == WAYS
        ]
        return found

    def test_ways_that_lie_apart_are_not_promised_together(self) -> None:
        self.fragment()
        self.note()

        err = self.assertRaises(
            exception.ReservationRefused, self.reserve, 'lease', 4
        )

        self.assertIn('4 units are free, but not side by side', str(err))
        self.boot(self.make_pinned_flavor(4), 'ERROR')

    def test_what_is_promised_is_had_and_counts_once(self) -> None:
        self.fragment()
        self.note()
        self.reserve('lease', 2, servers=4)

        made = [self.boot_reserved('lease', 2) for _number in range(4)]

        self.assertEqual(4, len({self.find_ways(one) for one in made}))
        self.assertEqual((4, 8, 0), self.list_amounts())
        self.note()
        self.assertEqual((4, 8, 0), self.list_amounts())
        fleet = self.load()._survey.refresh()
        planned = {
            one.consumer: {
                (each.rp_key.rpartition('host1_')[2], each.units['mask'])
                for each in one.assignments
                if each.resource_class == WAYS
            }
            for one in fleet.bookings.values()
        }
        self.assertEqual(
            {
                one['id']: {(cache, f'{mask:x}')}
                for one in made
                for cache, mask in [self.find_ways(one)]
            },
            planned,
        )

    def test_ways_are_promised_where_cpus_are_free(self) -> None:
        for _number in range(3):
            self.boot(self.make_pinned_flavor(2))
        plain = self._create_flavor(
            vcpu=22,
            memory_mb=64,
            disk=0,
            extra_spec={'hw:cpu_policy': 'dedicated'},
        )
        self.boot(str(plain))
        # By amounts, there are both: ways of one cache, CPUs at the other.
        self.reserve('counted', 2)
        self.load().cancel('counted')
        self.note()

        self.assertRaises(
            exception.ReservationRefused, self.reserve, 'lease', 2
        )

        self.boot(self.make_pinned_flavor(2), 'ERROR')

    def test_a_host_that_is_gone_is_forgotten(self) -> None:
        self.note()
        self.stop_compute(self.service)
        [found] = self.admin_api.get_services(
            binary='nova-compute', host='host1'
        )
        self.admin_api.put_service_force_down(found['id'], True)
        self.admin_api.api_delete(f'/os-services/{found["id"]}')

        self.run_task()

        self.assertEqual({}, self.read())

    def read(self) -> dict[str, Any]:
        url = nova.conf.CONF.ext_resources_reservation.connection
        database = loading.open_database(url)
        self.addCleanup(database.close)
        now = int(timeutils.utcnow_ts())
        return dict(publications.read(database, now))

    def test_nobody_reads_what_was_not_noted(self) -> None:
        self.fragment()

        self.assertEqual({}, self.read())
        # As it was before: amounts are all that is known.
        self.reserve('lease', 4)
