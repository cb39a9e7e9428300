# SPDX-License-Identifier: Apache-2.0

"""Tests that servers that outlive their slots are not forgotten."""

from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation import planner as planner_mod
from nova_ext_resources.reservation import state as state_mod
from nova_ext_resources.reservation.store import admission as admission_mod
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import slots
from tests.unit.reservation import hosts
from tests.unit.reservation.store import stores

#: All of the only host.
_ALL = hosts.make_demand(_={'VCPU': 8})


class StayingTest(stores.StoreTestCase):
    """One host of eight CPUs; a server has the slot of all of them."""

    def setUp(self) -> None:
        super().setUp()
        self.patch(admission_mod, 'FIXED_SECONDS', 0)
        self.database = databases.Database(self.url)
        self.ours, self.others = self.make_process(), self.make_process()

    def make_process(self) -> admission_mod.Admission:
        return stores.make_admission(self.url, hosts.make_host('a'))

    def reserve(
        self, key: str, start: int, end: int, now: int = 0, **fields: object
    ) -> bool:
        answer = self.admit(
            self.ours,
            key,
            hosts.span(start, end),
            now,
            demand=_ALL,
            **fields,
        )
        return isinstance(answer, planner_mod.Plan)

    def take(self, key: str, now: int) -> planned_server.PlannedServer:
        def choose(
            held: servers.PlannedServers,
        ) -> planned_server.PlannedServer:
            return held[0]

        taken = slots.take(self.database, key, 'one', choose, now=now)
        assert taken is not None
        self.ours.refresh(now)
        self.others.refresh(now)
        return taken

    def begin(
        self, at_end: plan_request.AtEnd = plan_request.AtEnd.KEEP
    ) -> planned_server.PlannedServer:
        """Let a server have a slot from 0 to 90."""
        self.assertTrue(self.reserve('lease', 0, 90, at_end=at_end))
        return self.take('lease', 5)

    def change(
        self, admission: admission_mod.Admission, state: str, now: int
    ) -> None:
        admission.change(
            'lease', state_mod.State(state), now=now, reason='over'
        )

    def test_server_of_cancelled_reservation_keeps_its_room(self) -> None:
        self.begin()

        self.change(self.ours, 'cancelled', 10)

        self.assertFalse(self.reserve('next', 10, 20, 10))
        self.assertFalse(self.reserve('later', 1000, 2000, 10))

    def test_it_does_if_it_was_to_go_at_the_end(self) -> None:
        self.begin(plan_request.AtEnd.DELETE)

        self.change(self.ours, 'cancelled', 10)

        self.assertFalse(self.reserve('next', 10, 20, 10))

    def test_it_does_where_another_process_has_cancelled(self) -> None:
        self.begin()

        self.change(self.others, 'cancelled', 10)

        self.assertFalse(self.reserve('next', 10, 20, 10))

    def test_hosts_that_are_read_anew_show_it(self) -> None:
        self.begin()
        self.change(self.ours, 'cancelled', 10)

        self.ours = self.make_process()

        # This host has no server: it is gone.
        self.assertTrue(self.reserve('next', 10, 20, 10))

    def test_hosts_that_were_read_after_the_end_show_it(self) -> None:
        self.begin()

        self.ours = self.make_process()
        self.ours.refresh(91)

        # Counted by its row as well, it would be there twice.
        self.assertTrue(self.reserve('next', 91, 99, 91))

    def test_hosts_that_were_read_before_the_end_do_not(self) -> None:
        self.begin()

        planner = hosts.make_planner(hosts.make_host('a'))
        self.ours = admission_mod.Admission(self.database, planner, 89)

        self.assertFalse(self.reserve('next', 91, 99, 91))

    def test_room_that_nobody_took_is_free_at_once(self) -> None:
        self.reserve('lease', 0, 90)
        self.change(self.ours, 'cancelled', 10)

        self.assertTrue(self.reserve('next', 10, 20, 10))

    def test_room_is_free_if_the_server_left_before(self) -> None:
        slot = self.begin()
        slots.free(self.database, 'lease', slot, now=8)
        self.ours.refresh(8)

        self.change(self.ours, 'cancelled', 10)

        self.assertTrue(self.reserve('next', 10, 20, 10))

    def test_server_that_is_kept_has_its_room_from_the_end_on(self) -> None:
        self.begin()

        self.assertFalse(self.reserve('next', 90, 99, 90))

    def test_it_has_until_the_row_is_dropped_and_after(self) -> None:
        self.begin()
        self.change(self.others, 'active', 20)
        self.change(self.others, 'ended', 90)

        self.assertFalse(self.reserve('next', 91, 99, 91))
        self.assertFalse(self.reserve('next', 9000, 9999, 9000))

    def test_before_its_end_the_time_after_it_can_be_promised(self) -> None:
        self.begin()

        self.assertTrue(self.reserve('next', 90, 99, 89))

    def test_server_that_goes_at_the_end_leaves_room(self) -> None:
        self.begin(plan_request.AtEnd.DELETE)
        self.change(self.others, 'active', 20)
        self.change(self.others, 'ended', 90)

        self.assertTrue(self.reserve('next', 90, 99, 90))

    def test_server_with_another_slot_is_counted_once(self) -> None:
        self.begin()
        self.reserve('second', 100, 200, 10)
        self.assertFalse(self.reserve('third', 90, 99, 90))

        self.take('second', 101)

        self.assertTrue(self.reserve('third', 200, 300, 102))

    def test_prolonged_slot_is_counted_once(self) -> None:
        self.begin()
        self.ours.refresh(89)
        request = hosts.make_request('lease', hosts.span(0, 95), demand=_ALL)
        self.others.replace(request, now=89, reason='longer')

        self.ours.refresh(94)

        bookings = self.ours._mirror.planner.fleet.bookings
        self.assertEqual([*self.ours._mirror.owners], [*bookings])
        self.assertFalse(self.reserve('next', 95, 99, 95))
