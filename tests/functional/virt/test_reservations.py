# SPDX-License-Identifier: Apache-2.0

"""Reservations that real Nova services keep, with a real placement."""

from typing import Any

import fixtures
import nova.conf
from nova import exception as nova_exc
from oslo_config import cfg
from oslo_utils import uuidutils

from nova_ext_resources.claims import lease
from nova_ext_resources.conf import reservation
from nova_ext_resources.reservation import api
from nova_ext_resources.reservation.site import loading
from nova_ext_resources.scheduler import request
from nova_ext_resources.scheduler.reservation import filter as filter_mod
from nova_ext_resources.scheduler.reservation import slots
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

#: VCPU of all flavors here.
VCPUS = 2


class ReservationsTest(base.NovaTestCase):
    """Two hosts of four VCPU, and a scheduler with ReservationFilter."""

    def setUp(self) -> None:
        super().setUp()
        self.url = f'sqlite:///{self.folder}/reservations.db'
        reservation.register_opts(nova.conf.CONF)
        nova.conf.CONF.set_override(
            'connection', self.url, reservation.GROUP.name
        )
        self.flags(cores=-1, group='quota')
        self.flags(cpu_allocation_ratio=1.0)
        self.flags(
            enabled_filters=[
                'ComputeFilter',
                'ExtendedResourcesFilter',
                'ReservationFilter',
            ],
            available_filters=[
                'nova.scheduler.filters.all_filters',
                'nova_ext_resources.scheduler.filters.ExtendedResourcesFilter',
                'nova_ext_resources.scheduler.reservation.filter.ReservationFilter',
            ],
            # No ReservationWeigher: where nothing else decides, the first is
            # chosen.
            weight_classes=['nova.scheduler.weights.all_weighers'],
            group='filter_scheduler',
        )
        self.scheduler_service.stop()
        self.scheduler_service = self.start_service('scheduler')
        self.services = {
            host: self.start_host(host) for host in ('host1', 'host2')
        }
        self.flavor = self.make_flavor()
        self.reservations = self.load()

    def load(self) -> api.Reservations:
        """Read all hosts of placement, as the commands do."""
        path = self.folder / 'reservations.conf'
        endpoint = self.placement.fixture.endpoint
        path.write_text(_CONF.format(url=self.url, placement=endpoint))
        conf = cfg.ConfigOpts()
        conf(['--config-file', str(path)], project='nova')
        return loading.from_conf(conf)

    def count_vcpus(self, host: str) -> int:
        """Return how many VCPU a host has free."""
        rp_uuid = self._get_provider_uuid_by_host(host)
        found = self._get_provider_inventory(rp_uuid)['VCPU']
        used = self._get_provider_usages(rp_uuid)['VCPU']
        total = int(found['total'] * found['allocation_ratio'])
        return total - int(found['reserved']) - int(used)

    def fill(self, left: int) -> None:
        """Reserve all of host1 but so much, in one server."""
        self.reserve(
            'lease', servers=1, vcpus=self.count_vcpus('host1') - left
        )
        [slot] = self.reservations.get('lease').servers
        self.assertEqual('host1', slot.host)

    def reserve(
        self, name: str, servers: int, vcpus: int = VCPUS, **fields: Any
    ) -> None:
        self.reservations.create(
            {
                'name': name,
                'resources': {'VCPU': vcpus, 'MEMORY_MB': 64, 'DISK_GB': 10},
                'servers': servers,
                **fields,
            }
        )

    def boot_reserved(
        self, name: str, state: str = 'ACTIVE', **kwargs: Any
    ) -> Any:
        return self.boot(
            self.flavor,
            state,
            scheduler_hints={request.HINT: name},
            **kwargs,
        )

    def boot_together(self, name: str, count: int, state: str) -> list[Any]:
        body = self._build_server(flavor_id=self.flavor, networks='none')
        body.update(min_count=count, max_count=count)
        hints = {request.HINT: name}
        self.api.post_server({'server': body, 'os:scheduler_hints': hints})
        return [
            self._wait_for_state_change(server, state)
            for server in self.api.get_servers(detail=False)
        ]

    def boot(self, flavor: str, state: str = 'ACTIVE', **kwargs: Any) -> Any:
        hints = kwargs.pop('scheduler_hints', None)
        body = self._build_server(flavor_id=flavor, networks='none', **kwargs)
        post = {'server': body}
        if hints:
            post['os:scheduler_hints'] = hints
        return self._wait_for_state_change(self.api.post_server(post), state)

    def find_slots(self) -> dict[str, str]:
        """Return server -> the host of its slot."""
        return {
            slot.consumer: slot.host
            for record in self.reservations.list_reservations()
            for slot in record.servers
            if slot.consumer is not None
        }

    def list_hosts(self, servers: list[Any]) -> list[str]:
        return sorted(
            self.admin_api.get_server(one['id'])['OS-EXT-SRV-ATTR:host']
            for one in servers
        )

    def test_others_are_refused_where_a_promise_would_be_broken(
        self,
    ) -> None:
        self.fill(left=VCPUS)

        found = [self.boot(self.flavor) for _number in range(3)]

        self.assertEqual(['host1', 'host2', 'host2'], self.list_hosts(found))
        # Placement has room for it.
        self.assertEqual(VCPUS, self.count_vcpus('host1'))
        refused = self.boot(self.flavor, 'ERROR')
        self.assertIn(
            'All suitable hosts have promised their free resources',
            refused['fault']['message'],
        )
        self.assertEqual(
            ['host1'], self.list_hosts([self.boot_reserved('lease')])
        )

    def test_a_claim_that_another_scheduler_was_in_the_way_of(self) -> None:
        self.fill(left=VCPUS)
        self.stop_host('host2')
        narrow = filter_mod.ReservationFilter.filter_all

        def narrow_and_lose(*args: Any) -> list[Any]:
            found = narrow(*args)
            self.claim_elsewhere('host1')
            return found

        with fixtures.MonkeyPatch(
            f'{filter_mod.__name__}.ReservationFilter.filter_all',
            narrow_and_lose,
        ):
            server = self.boot(self.flavor, 'ERROR')

        # Both fit beside each other, but not beside what is promised.
        self.assertEqual(VCPUS, self.count_vcpus('host1'))
        self.assertEqual(
            {}, self._get_allocations_by_server_uuid(server['id'])
        )
        self.boot_reserved('lease')

    def test_an_alternate_of_which_something_is_promised_is_none(
        self,
    ) -> None:
        self.reserve('lease', servers=1, starts_at='+1h')
        [slot] = self.reservations.get('lease').servers
        self.assertEqual('host1', slot.host)
        self.fail_builds('host2')

        server = self.boot(self.flavor, 'ERROR')

        # It would have fit, and a minute later, it may not any more.
        self.assertEqual(
            {}, self._get_allocations_by_server_uuid(server['id'])
        )
        self.assertIn('Exhausted all hosts', server['fault']['message'])
        self.reservations.cancel('lease')
        other = self.boot(self.flavor)
        self.assertEqual(['host1'], self.list_hosts([other]))

    def test_a_server_that_ends_goes_where_something_is_promised(
        self,
    ) -> None:
        self.reserve(
            'lease',
            servers=1,
            vcpus=self.count_vcpus('host1'),
            starts_at='+4h',
        )
        [slot] = self.reservations.get('lease').servers
        self.assertEqual('host1', slot.host)
        self.put_first('host2')
        ends = self.make_flavor(resource__lease__max_seconds=3600)
        self.assertEqual(['host2'], self.list_hosts([self.boot(ends)]))

        self.flags(
            weight_classes=[
                'nova_ext_resources.scheduler.weighers.ReservationWeigher'
            ],
            group='filter_scheduler',
        )
        self.scheduler_service.stop()
        self.scheduler_service = self.start_service('scheduler')

        self.assertEqual(['host1'], self.list_hosts([self.boot(ends)]))
        self.assertEqual(['host2'], self.list_hosts([self.boot(self.flavor)]))

    def fail_builds(self, host: str) -> None:
        """Let servers go to a host first, and fail there."""
        self.flags(
            build_failure_weight_multiplier=0.0, group='filter_scheduler'
        )
        self.put_first(host)

        def fail(*_args: Any, **_kwargs: Any) -> None:
            raise nova_exc.ComputeResourcesUnavailable(reason='it is broken')

        manager = self.services[host].manager
        self.useFixture(
            fixtures.MockPatchObject(manager.driver, 'spawn', fail)
        )

    def put_first(self, host: str) -> None:
        """Let a host be the first of those with the best weight."""
        narrow = filter_mod.ReservationFilter.filter_all

        def put_first(*args: Any) -> list[Any]:
            return sorted(narrow(*args), key=lambda one: one.host != host)

        self.useFixture(
            fixtures.MonkeyPatch(
                f'{filter_mod.__name__}.ReservationFilter.filter_all',
                put_first,
            )
        )

    def claim_elsewhere(self, host: str) -> None:
        """Claim as another scheduler does."""
        rp_uuid = self._get_provider_uuid_by_host(host)
        made = self.placement.put(
            f'/allocations/{uuidutils.generate_uuid()}',
            {
                'allocations': {rp_uuid: {'resources': {'VCPU': VCPUS}}},
                'project_id': 'project',
                'user_id': 'user',
                'consumer_generation': None,
            },
            version='1.28',
        )
        self.assertEqual(204, made.status, made.body)

    def stop_host(self, host: str) -> None:
        self.services[host].stop()
        self.admin_api.put_service_force_down(self._find_service(host), True)

    def _find_service(self, host: str) -> str:
        return str(
            self.admin_api.get_services(binary='nova-compute', host=host)[0][
                'id'
            ]
        )

    def test_reserved_servers_of_one_request_land_on_reserved_hosts(
        self,
    ) -> None:
        self.reserve('lease', servers=3)

        servers = self.boot_together('lease', 3, 'ACTIVE')

        planned = [one.host for one in self.reservations.get('lease').servers]
        self.assertEqual(['host1', 'host1', 'host2'], sorted(planned))
        self.assertEqual(sorted(planned), self.list_hosts(servers))
        self.assertEqual(
            {
                one['id']: self.admin_api.get_server(one['id'])[
                    'OS-EXT-SRV-ATTR:host'
                ]
                for one in servers
            },
            self.find_slots(),
        )

    def test_more_than_were_reserved_are_refused_as_a_whole(self) -> None:
        self.reserve('lease', servers=2)

        self.boot_together('lease', 3, 'ERROR')

        self.assertEqual({}, self.find_slots())
        for host in self.services:
            rp_uuid = self._get_provider_uuid_by_host(host)
            self.assertEqual(0, self._get_provider_usages(rp_uuid)['VCPU'])

    def test_the_owner_reads_why(self) -> None:
        self.reserve('lease', servers=1, starts_at='+1h')

        server = self.boot_reserved('lease', 'ERROR')

        self.assertIn(
            'There is no reservation lease for this project now: it is '
            'unknown, has not started yet, or is over',
            server['fault']['message'],
        )

    def test_the_owner_reads_what_is_wrong_with_a_hint(self) -> None:
        flavor = self.make_flavor(resource__lease__max_seconds=3600)
        for hint, wanted in (
            ('1h', 'is 1h; write one whole number of seconds'),
            ('3601', 'servers of this flavor end after 3600 seconds'),
        ):
            server = self.boot(
                flavor, 'ERROR', scheduler_hints={lease.HINT: hint}
            )

            self.assertIn(wanted, server['fault']['message'])
        self.boot(flavor, scheduler_hints={lease.HINT: '60'})

    def test_the_slot_of_a_deleted_server_is_taken_again(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch(f'{slots.__name__}.ABANDONED_SECONDS', 0)
        )
        self.reserve('lease', servers=1)
        first = self.boot_reserved('lease')
        self.boot_reserved('lease', 'ERROR')
        self._delete_server(first)

        second = self.boot_reserved('lease')

        self.assertEqual([second['id']], [*self.find_slots()])

    def test_a_server_moves_to_another_slot(self) -> None:
        self.reserve('lease', servers=3)
        server = self.boot_reserved('lease')
        self.assertEqual(['host1'], self.list_hosts([server]))

        self._migrate_server(server, api=self.admin_api)
        self._confirm_resize(server)

        self.assertEqual({server['id']: 'host2'}, self.find_slots())

    def test_a_server_moves_without_another_slot(self) -> None:
        self.fill(left=VCPUS)
        server = self.boot_reserved('lease')

        self._migrate_server(server, api=self.admin_api)
        self._confirm_resize(server)

        self.assertEqual(['host2'], self.list_hosts([server]))
        self.assertEqual({server['id']: 'host1'}, self.find_slots())

    def test_a_server_of_a_reservation_that_is_over_is_evacuated(
        self,
    ) -> None:
        self.fill(left=VCPUS)
        server = self.boot_reserved('lease')
        self.reservations.cancel('lease')
        self.stop_host('host1')

        self._evacuate_server(server, expected_host='host2')

    def test_the_database_is_away(self) -> None:
        self.reserve('lease', servers=1)
        self.boot(self.flavor)
        self.break_database()

        self.boot(self.flavor)
        server = self.boot_reserved('lease', 'ERROR')

        self.assertIn('does not answer', server['fault']['message'])

    def break_database(self) -> None:
        """Let no connection be opened any more."""
        manager = self.scheduler_service.manager.host_manager
        [followed] = [
            one._followed
            for one in manager.enabled_filters
            if isinstance(one, filter_mod.ReservationFilter)
        ]
        followed.database.close()
        followed.database = loading.open_database('sqlite:////nowhere/x.db')
