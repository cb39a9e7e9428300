# SPDX-License-Identifier: Apache-2.0

"""Reserved room that is held in a real placement, beside a real Nova.

Its scheduler has no ReservationFilter.
"""

from typing import Any
from unittest import mock

from nova_ext_resources import exception
from nova_ext_resources.objects import planned_hold
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.api import responses
from nova_ext_resources import plugins
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation.manager import turn as turn_mod
from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation import planner
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import slots
from tests.functional.reservation import test_servers
from tests.unit.reservation import hosts
from tests.unit.reservation.manager import managers

START, END, LEAD = test_servers.START, test_servers.END, 500

#: When slots are held from.
HELD = START - LEAD


class BlockingTestCase(test_servers.ManagerTestCase):
    """Ten CPUs on a host, for servers of two."""

    def setUp(self) -> None:
        super().setUp()
        self.flags(shelved_offload_time=-1)
        self.flavor = self.make_flavor(hw__cpu_policy='shared')
        self.turn = self.make_turn()

    def start_host(self, host: str, **settings: Any) -> Any:
        self.flags(initial_cpu_allocation_ratio=2.5)
        self.service = super().start_host(host, **settings)
        return self.service

    def make_turn(self, lead: int | None = LEAD) -> turn_mod.Turn:
        blocking = None
        if lead is not None:
            blocking = turn_mod.Blocking(
                lead=lead, grammar=plugins.load_grammar()
            )
        return managers.make_turn(
            self.url, self.time, cloud=self.site, blocking=blocking
        )

    def pass_at(self, clock: int, turn: turn_mod.Turn | None = None) -> bool:
        self.time.clock = clock
        return (turn or self.turn).run()

    def find(self, server: Any) -> nova_server.NovaServer:
        found = self.site.find_server(server['id'])
        assert found is not None
        return found

    def reserve_for(self, server: Any, number: int) -> None:
        """Reserve servers of the flavor and the project of one."""
        found = self.find(server)
        request = hosts.make_request(
            'lease',
            hosts.span(START, END),
            found.flavor.make_demand(plugins.load_grammar()),
            least=number,
            project=found.project,
        )
        admission = self.site.make_admission(self.database)
        plan = admission.admit(request, now=0, reason='test')
        self.assertIsInstance(plan, planner.Plan, str(plan))

    def boot_for(self, key: str) -> Any:
        """Boot a server that says for which reservation it is."""
        server = self.boot(self.flavor)
        self.api.api_post(
            f'/servers/{server["id"]}/metadata',
            {'metadata': {nova_server.RESERVATION: key}},
        )
        return self.show(server)

    def show(self, server: Any) -> Any:
        return self.admin_api.get_server(server['id'])

    def wait_shelved(self, server: Any, clock: int) -> None:
        def is_shelved() -> bool:
            self.pass_at(clock)
            shown = self.show(server)
            return bool(
                shown['status'] == 'SHELVED_OFFLOADED'
                and shown['OS-EXT-STS:task_state'] is None
                and not self.site.has_allocations(server['id'])
            )

        self.wait_until(is_shelved)

    def wait_for(self, server: Any, status: str) -> None:
        def is_so() -> bool:
            shown = self.show(server)
            return bool(
                shown['status'] == status
                and shown['OS-EXT-STS:task_state'] is None
            )

        self.wait_until(is_so)

    def list_words(self) -> list[str]:
        found = managers.list_changes(self.url, 'lease')
        return [one.reason for one in found]

    def get_slots(self) -> servers.PlannedServers:
        with self.database.transaction() as connection:
            return servers.read_servers(
                connection, ['lease'], interval.ALWAYS
            )['lease']

    def get_client(self) -> placement_client.Client:
        return placement_client.Client(self.site._adapter)


class BlockingTest(BlockingTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.server = self.boot_for('lease')
        # All but what the server has until it is shelved.
        self.reserve_for(self.server, 4)
        self.wait_shelved(self.server, 0)

    def test_others_are_kept_out_and_the_server_comes_at_the_start(
        self,
    ) -> None:
        self.boot(self.flavor)
        self.pass_at(HELD)
        self.assertEqual(4, self.site.count_holds())

        refused = self.boot(self.flavor, state='ERROR')
        self.assertIn('No valid host', self.show(refused)['fault']['message'])

        self.pass_at(START)
        self.wait_for(self.server, 'ACTIVE')
        self.pass_at(START + 1)
        self.assertEqual('active', self.list_states()[-1])
        self.assertEqual(
            [self.server['id'], None, None, None], self.list_consumers()
        )
        self.assertEqual(3, self.site.count_holds())
        self.assertEqual('one', self.find(self.server).host)

        self.pass_at(END)
        self.assertEqual(0, self.site.count_holds())
        self.assertEqual('ended', self.list_states()[-1])
        self.boot(self.flavor)

    def test_what_a_hold_is_in_placement(self) -> None:
        self.pass_at(HELD)

        for slot in self.get_slots():
            found = self.get_client().get_allocations(
                planned_hold.make_consumer(slot.key)
            )
            self.assertEqual(
                (
                    planned_hold.CONSUMER_TYPE,
                    planned_hold.PROJECT,
                    self.server['tenant_id'],
                ),
                (found.consumer_type, found.project_id, found.user_id),
            )
            self.assertEqual(
                slot.places,
                {
                    (rp_uuid, name): amount
                    for rp_uuid, amounts in found.resources.items()
                    for name, amount in amounts.items()
                },
            )

    def test_no_place_for_another_reservation_is_lost_by_it(self) -> None:
        self.pass_at(HELD)

        taken = slots.list_places(self.database, HELD)
        (host,) = self.site.list_hosts(taken)

        free = {
            name: one.state.free
            for (_uuid, name), one in host.view.tracked.items()
        }
        self.assertEqual(10, free['VCPU'])

    def test_a_manager_is_killed_before_nova_is_asked(self) -> None:
        self.pass_at(HELD)
        with mock.patch.object(
            self.site, 'unshelve', side_effect=KeyboardInterrupt
        ):
            self.assertRaises(KeyboardInterrupt, self.pass_at, START)
        self.assertEqual(3, self.site.count_holds())
        self.assertEqual(
            [self.server['id'], None, None, None], self.list_consumers()
        )

        self.turn = self.make_turn()
        self.pass_at(START + 1)

        self.wait_for(self.server, 'ACTIVE')
        self.pass_at(START + 2)
        self.assertEqual(3, self.site.count_holds())

    def test_another_one_takes_the_room_in_between(self) -> None:
        self.pass_at(HELD)
        unshelve = self.site.unshelve
        stranger = '0f4a1a52-3d0e-4b57-9d3f-5d3f6c6f0a11'

        def steal(uuid: str, node: str) -> None:
            places = self.get_slots()[0].places
            resources: dict[str, dict[str, int]] = {}
            for (rp_uuid, name), amount in places.items():
                resources.setdefault(rp_uuid, {})[name] = amount
            # Also what nobody has reserved.
            resources[next(iter(resources))]['VCPU'] += 2
            self.get_client().put_allocations(
                responses.Allocations(
                    consumer_uuid=stranger,
                    resources=resources,
                    project_id='p',
                    user_id='u',
                )
            )
            unshelve(uuid, node)

        with mock.patch.object(self.site, 'unshelve', steal):
            self.pass_at(START)
        self.assertIn('room is missing on host one', self.list_words()[-1])
        self.wait_for(self.server, 'SHELVED_OFFLOADED')
        self.pass_at(START + 1)
        self.assertEqual([None] * 4, self.list_consumers())
        self.assertIn(
            'could not be unshelved on host one', self.list_words()[-1]
        )
        self.pass_at(START + 60)
        self.assertEqual('degraded', self.list_states()[-1])

        self.get_client().delete_allocations(stranger)
        self.pass_at(START + 130)
        self.wait_for(self.server, 'ACTIVE')
        self.pass_at(START + 230)

        self.assertEqual(3, self.site.count_holds())
        self.assertEqual('active', self.list_states()[-1])

    def test_nova_refuses(self) -> None:
        self.pass_at(HELD)
        with mock.patch.object(
            self.site._compute,
            '_find_service_host',
            return_value='no-such-host',
        ):
            self.pass_at(START)

        self.assertEqual([None] * 4, self.list_consumers())
        self.assertEqual(4, self.site.count_holds())
        self.assertIn('no-such-host', self.list_words()[-1])

    def test_what_is_left_of_a_reservation_that_is_gone(self) -> None:
        self.pass_at(HELD)
        admission = self.site.make_admission(self.database)
        admission.change(
            'lease', state.State.CANCELLED, now=HELD, reason='test'
        )

        self.pass_at(HELD + 1, self.make_turn(None))

        self.assertEqual(0, self.site.count_holds())
        self.boot(self.flavor)


class HostsTest(BlockingTestCase):
    def test_a_server_is_unshelved_on_the_host_of_its_slot(self) -> None:
        """The other host has as much room, and comes first."""
        server = self.boot_for('lease')
        self.start_host('two')
        (one,) = [
            each
            for each in self.admin_api.get_services(binary='nova-compute')
            if each['host'] == 'one'
        ]
        self.admin_api.put_service(one['id'], {'status': 'disabled'})
        self.reserve_for(server, 1)
        self.admin_api.put_service(one['id'], {'status': 'enabled'})
        self.assertEqual(['two'], self.list_hosts())
        self.wait_shelved(server, 0)
        self.pass_at(HELD)

        self.pass_at(START)
        self.wait_for(server, 'ACTIVE')

        self.assertEqual('two', self.find(server).host)

    def test_a_host_raises_no_alarm_for_what_is_held(self) -> None:
        ext = self.service.driver._ext
        place = next(
            place
            for place in ext.host.view.tracked
            if place[1] == 'CUSTOM_LLC_WAYS'
        )
        self.site.take_hold(
            planned_hold.make_consumer('lease/0'), 'p', {place: 2}
        )
        stranger = '0f4a1a52-3d0e-4b57-9d3f-5d3f6c6f0a11'
        self.get_client().put_allocations(
            responses.Allocations(
                consumer_uuid=stranger,
                resources={place[0]: {place[1]: 2}},
                project_id='p',
                user_id='u',
            )
        )

        with mock.patch.object(ext.stale_allocations._debounce, '_age', 0.0):
            ext.stale_allocations.run_round()

        self.assertEqual(
            [stranger], [one.subject for one in ext.stale_allocations.problems]
        )
        ext.missing_allocations.run_round()
        self.assertEqual((), ext.missing_allocations.problems)


class PlacementTest(BlockingTestCase):
    """What is held, as a real placement has it."""

    def setUp(self) -> None:
        super().setUp()
        client = self.get_client()
        (self.root,) = [
            one.rp_uuid
            for one in client.list_providers()
            if not one.parent_uuid
        ]
        self.consumer = planned_hold.make_consumer('lease/0')

    def take(self, cpus: int) -> None:
        self.site.take_hold(self.consumer, '', {(self.root, 'VCPU'): cpus})

    def get_held(self) -> Any:
        return self.get_client().get_allocations(self.consumer).resources

    def test_it_is_replaced_and_taken_once(self) -> None:
        for cpus in (2, 2, 3):
            self.take(cpus)

        self.assertEqual({self.root: {'VCPU': 3}}, self.get_held())
        self.assertEqual(1, self.site.count_holds())

    def test_what_does_not_fit_leaves_nothing_elsewhere(self) -> None:
        self.take(2)

        self.assertRaises(exception.AllocationRejected, self.take, 11)

        self.assertEqual({}, self.get_held())
        self.assertEqual(0, self.site.count_holds())

    def test_those_of_servers_are_no_holds(self) -> None:
        self.boot(self.flavor)
        self.take(2)
        # Its uuid looks alike.
        other = planned_hold.make_consumer('other')
        self.get_client().put_allocations(
            responses.Allocations(
                consumer_uuid=other,
                resources={self.root: {'VCPU': 1}},
                project_id=planned_hold.PROJECT,
                user_id='u',
                consumer_type='INSTANCE',
            )
        )

        self.assertEqual(1, self.site.count_holds())
        self.assertEqual({self.consumer}, self.site.list_holds())
        self.site.release_hold(self.consumer)
        self.site.release_hold(self.consumer)
        self.assertEqual(0, self.site.count_holds())
