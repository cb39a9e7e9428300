# SPDX-License-Identifier: Apache-2.0

"""What a manager does with the servers of a real Nova."""

from typing import Any

from keystoneauth1 import adapter
from keystoneauth1 import noauth
from keystoneauth1 import session
from oslo_config import cfg

from nova_ext_resources.claims import lease
from nova_ext_resources.conf import reader
from nova_ext_resources.reservation import due
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import lending
from nova_ext_resources.reservation.manager import owners
from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planner
from nova_ext_resources.reservation.site import compute
from nova_ext_resources.reservation.site import loading
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import slots
from tests.functional.virt import base
from tests.unit.reservation import hosts
from tests.unit.reservation.manager import managers
from tests.unit.reservation.store import migrated
from tests.unit.reservation.store import stores

START, END = 1000, 9000

#: When servers are removed at the end.
GOING = END + due.MAX_SKEW


class ManagerTestCase(base.NovaTestCase):
    """With a reservation of two servers, and one server that has a slot.

    :ivar site: of the real services
    :ivar time: of the manager
    """

    def setUp(self) -> None:
        super().setUp()
        self.start_host('one')
        conf = cfg.ConfigOpts()
        reader.parse(conf, [str(self.folder / 'ext.conf')], [])
        self.site = loading.ManagedSite(conf)
        self.site.__dict__['_compute'] = self.make_compute()
        self.url = f'sqlite:///{self.folder}/reservations.db'
        self.database = databases.Database(self.url)
        migrated.make_tables(self.database)
        self.time = managers.Time(START)

    def make_compute(
        self, user: str = 'admin', roles: str = 'admin,member,reader'
    ) -> compute.Compute:
        headers = {
            'X-Auth-User': user,
            'X-User-Id': user,
            'X-Auth-Project-Id': self.admin_api.project_id,
            'X-Roles': roles,
        }
        own = session.Session(
            auth=noauth.NoAuth(endpoint=self.api_fixture.base_url),
            timeout=60,
            additional_headers=headers,
        )
        return compute.Compute(adapter.Adapter(own, service_type='compute'))

    def reserve(self, at_end: plan_request.AtEnd) -> Any:
        self.admit(START, at_end=at_end)
        server = self.boot(self.make_flavor(hw__cpu_policy='shared'))
        slots.take(
            self.database,
            'lease',
            server['id'],
            lambda held: held[0],
            now=START,
        )
        return server

    def admit(self, start: int, cpus: int = 1, **fields: Any) -> None:
        """Reserve on the host that placement has."""
        request = hosts.make_request(
            'lease',
            hosts.span(start, END),
            hosts.make_demand(_={'VCPU': cpus}),
            least=2,
            **fields,
        )
        admission = self.site.make_admission(self.database)
        plan = admission.admit(request, now=0, reason='test')
        self.assertIsInstance(plan, planner.Plan, str(plan))

    def run_at(self, clock: int) -> bool:
        self.time.clock = clock
        turn = managers.make_turn(
            self.url, self.time, cloud=self.site, is_once=True
        )
        return bool(turn.run())

    def list_states(self) -> list[str]:
        return managers.list_states(self.url, 'lease')

    def list_hosts(self) -> list[str]:
        return [one.host for one in stores.dump(self.url)['servers']]

    def list_consumers(self) -> list[str | None]:
        rows = stores.dump(self.url)['servers']
        return [one.consumer for one in rows]


class ServersTest(ManagerTestCase):
    def test_a_server_is_shelved_and_offloaded_at_the_end(self) -> None:
        self.flags(shelved_offload_time=-1)
        server = self.reserve(plan_request.AtEnd.SHELVE)
        self.run_at(START)

        self.assertFalse(self.run_at(GOING))
        self.wait_until(lambda: self.run_at(GOING + 1))

        self.assertEqual(['pending', 'active', 'ended'], self.list_states())
        shown = self.admin_api.get_server(server['id'])
        self.assertEqual('SHELVED_OFFLOADED', shown['status'])
        self.assertFalse(self.site.has_allocations(server['id']))

    def test_one_that_is_only_shelved_keeps_its_room(self) -> None:
        """Which is why there is no choice to leave it so."""
        self.flags(shelved_offload_time=-1)
        server = self.boot(self.make_flavor(hw__cpu_policy='shared'))

        self._shelve_server(server, expected_state='SHELVED')

        self.assertTrue(self.site.has_allocations(server['id']))

    def test_a_server_is_deleted_at_the_end(self) -> None:
        server = self.reserve(plan_request.AtEnd.DELETE)

        self.assertFalse(self.run_at(GOING))
        self.wait_until(lambda: self.run_at(GOING + 1))

        self.assertEqual(['pending', 'ended'], self.list_states())
        # Nova shows it as DELETED for a moment.
        self.wait_until(lambda: self.site.find_server(server['id']) is None)

    def test_the_slot_of_a_server_that_is_deleted_is_free(self) -> None:
        server = self.reserve(plan_request.AtEnd.KEEP)
        self.run_at(START + 300)
        self.assertEqual([server['id'], None], self.list_consumers())

        self._delete_server(server)
        self.wait_until(lambda: self.site.find_server(server['id']) is None)
        self.run_at(START + 600)

        self.assertEqual([None, None], self.list_consumers())

    def test_the_user_may_see_all_servers(self) -> None:
        self.reserve(plan_request.AtEnd.KEEP)

        self.assertEqual('', self.site.find_missing_right())
        member = self.make_compute('member', 'member,reader')
        self.assertIn('403', member.find_missing_right())

    def test_a_host_that_is_disabled(self) -> None:
        self.assertEqual({'one': True}, self.site.list_enabled())
        service = self.admin_api.get_services(binary='nova-compute')[0]

        self.admin_api.put_service(service['id'], {'status': 'disabled'})

        self.assertEqual({'one': False}, self.site.list_enabled())

    def test_a_reservation_whose_host_is_disabled(self) -> None:
        self.start_host('two')
        self.admit(START)
        self.assertEqual(['one', 'one'], self.list_hosts())
        service = self.admin_api.get_services(binary='nova-compute')[0]
        self.assertEqual('one', service['host'])

        self.admin_api.put_service(service['id'], {'status': 'disabled'})
        self.run_at(1)

        self.assertEqual(['pending', 'pending'], self.list_states())
        self.assertEqual(['two', 'two'], self.list_hosts())

    def test_a_reservation_whose_host_is_down(self) -> None:
        self.start_host('two')
        self.admit(START)
        self.assertEqual(['one', 'one'], self.list_hosts())
        service = self.admin_api.get_services(binary='nova-compute')[0]
        self.assertEqual('one', service['host'])

        self.admin_api.put_service(service['id'], {'forced_down': True})

        # Placement does not have it.
        self.assertEqual({'one': True, 'two': True}, self.site.list_enabled())
        self.assertEqual({'one'}, self.site.list_down())
        found = [one.name for one in self.site.list_hosts()]
        self.assertEqual(['two'], found)
        self.run_at(1)
        self.assertEqual(['two', 'two'], self.list_hosts())
        (moved,) = self.list_states()[1:]
        self.assertEqual('pending', moved)


class DrainingTest(ManagerTestCase):
    def test_a_borrower_goes_in_time(self) -> None:
        flavor = self.make_flavor(
            hw__cpu_policy='shared',
            resource__lease__preemptible='true',
            resource__lease__drain_seconds='60',
        )
        # Before, so that all of the host is promised beside it.
        capacity = self.find_capacity()
        start = 10_000_000_000
        self.admit_all(start, capacity)
        server = self.boot(flavor)
        self.assertTrue(self.site.has_allocations(server['id']))
        told = start - lending.LEAVE_SECONDS - 60

        self.run_at(told - 1)
        self.assertEqual(['pending'], self.list_states())
        self.run_at(told)
        self.assertEqual(['pending', 'pending'], self.list_states())
        shown = self.api.get_server(server['id'])
        self.assertEqual(
            {
                owners.LEAVES_AT: interval.format_time(told + 60),
                owners.LEAVES_BY: 'shelve',
            },
            shown['metadata'],
        )
        self.run_at(told + 59)
        shown = self.admin_api.get_server(server['id'])
        self.assertEqual(
            ('ACTIVE', None), (shown['status'], shown['OS-EXT-STS:task_state'])
        )
        self.run_at(told + 60)
        self.wait_until(lambda: self.is_gone(server, told + 61))
        self.run_at(start)

        shown = self.admin_api.get_server(server['id'])
        self.assertEqual('SHELVED_OFFLOADED', shown['status'])
        self.assertEqual('active', self.list_states()[-1])

    def test_one_that_says_itself_when_it_ends(self) -> None:
        flavor = self.make_flavor(hw__cpu_policy='shared')
        capacity = self.find_capacity()
        start = 10_000_000_000
        self.admit_all(start, capacity)
        server = self.boot_with_hint(flavor, lease.HINT, '3600')
        told = start - lending.LEAVE_SECONDS - lease.DEFAULT_DRAIN

        found = self.site.find_server(server['id'])
        assert found is not None
        self.assertEqual(['3600'], [*found.hints[lease.HINT]])
        self.run_at(told - 1)
        self.assertEqual(['pending'], self.list_states())
        self.run_at(told)
        shown = self.api.get_server(server['id'])
        self.assertIn(owners.LEAVES_AT, shown['metadata'])
        self.wait_until(
            lambda: self.is_gone(server, told + lease.DEFAULT_DRAIN)
        )
        self.run_at(start)

        self.assertEqual('active', self.list_states()[-1])

    def test_one_that_stays_after_its_reservation(self) -> None:
        """Another one of the host was promised before that."""
        start = 10_000_000_000
        told, gone = start - lease.DEFAULT_DRAIN, start + due.MAX_SKEW
        capacity = self.find_capacity()
        self.admit_all(START, 1, 'before', start, cpus_each=2)
        server = self.boot_with_hint(
            self.make_flavor(hw__cpu_policy='shared'),
            nova_server.RESERVATION,
            'before',
        )
        slots.take(
            self.database,
            'before',
            server['id'],
            lambda held: held[0],
            now=START,
        )
        self.admit_all(start, capacity)

        self.run_at(told - 1)
        self.assertEqual(['pending'], self.list_states())
        self.run_at(told)
        self.run_at(gone - 1)
        shown = self.admin_api.get_server(server['id'])
        self.assertEqual('ACTIVE', shown['status'])
        self.assertEqual(
            interval.format_time(gone), shown['metadata'][owners.LEAVES_AT]
        )
        self.wait_until(lambda: self.is_gone(server, gone))
        self.run_at(gone + 1)

        shown = self.admin_api.get_server(server['id'])
        self.assertEqual('SHELVED_OFFLOADED', shown['status'])
        self.assertEqual('active', self.list_states()[-1])

    def boot_with_hint(self, flavor: str, hint: str, value: str) -> Any:
        body = self._build_server(flavor_id=flavor, networks='none')
        hints = {hint: value}
        return self._wait_for_state_change(
            self.api.post_server(
                {'server': body, 'os:scheduler_hints': hints}
            ),
            'ACTIVE',
        )

    def is_gone(self, server: Any, clock: int) -> bool:
        self.run_at(clock)
        return not self.site.has_allocations(server['id'])

    def find_capacity(self) -> int:
        (host,) = self.site.list_hosts()
        return next(
            one.state.free
            for (_uuid, name), one in host.view.tracked.items()
            if name == 'VCPU'
        )

    def admit_all(
        self,
        start: int,
        number: int,
        key: str = 'lease',
        end: int = interval.FOREVER,
        *,
        cpus_each: int = 1,
    ) -> None:
        """Reserve a host for servers."""
        request = hosts.make_request(
            key,
            hosts.span(start, end),
            hosts.make_demand(_={'VCPU': cpus_each}),
            least=number,
        )
        admission = self.site.make_admission(self.database)
        plan = admission.admit(request, now=0, reason='test')
        self.assertIsInstance(plan, planner.Plan, str(plan))
