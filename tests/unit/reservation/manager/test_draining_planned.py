# SPDX-License-Identifier: Apache-2.0

"""Tests of borrowers where changes of capacity are planned."""

from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation.manager import draining
from nova_ext_resources.reservation import state
from tests.unit.reservation import changes
from tests.unit.reservation import hosts
from tests.unit.reservation.manager import test_draining

State = state.State

START, END, NOTICE = (
    test_draining.START,
    test_draining.END,
    test_draining.NOTICE,
)


class DrainingPlannedTest(test_draining.DrainingTestCase):
    """A reservation of all eight CPUs of a host."""

    def plan(self, change: capacity_change.CapacityChange) -> None:
        self.admission.capacity.plan(
            change.key, lambda _fleet, _others: change, now=0, is_forced=True
        )

    def cut(self, amount: int, start: int = START, end: int = END) -> None:
        """Take away beside the reservation, of sixteen."""
        self.cloud.capacities['a', 'VCPU'] = 16
        change = changes.make_change(
            'cut', hosts.span(start, end), {'VCPU': amount}, before=16
        )
        self.plan(change)

    def test_borrowers_make_way_for_a_cut_before_it_comes(self) -> None:
        self.borrow('x', 8)
        self.cut(-8)

        self.run_from(NOTICE, START - 1)
        self.assertEqual(1, len(self.list_notices()))
        self.assertEqual(
            [('x', 'shelve'), ('x', 'shelveOffload')], self.cloud.asked
        )
        self.cloud.capacities['a', 'VCPU'] = 8
        self.run_from(START - 1, START + 120)

        self.assertEqual(State.ACTIVE, self.get().last.state)

    def test_a_cut_that_has_come_counts_once(self) -> None:
        self.cut(-4, 0)
        self.cloud.capacities['a', 'VCPU'] = 12
        self.borrow('x', 4)

        self.run_from(NOTICE, START + 120)

        self.assertEqual(([], []), (self.list_notices(), self.cloud.asked))
        self.assertEqual(State.ACTIVE, self.get().last.state)

    def test_more_to_come_is_not_counted_on(self) -> None:
        """It may not come, and then it is too late to tell anybody."""
        change = changes.make_change('x', hosts.span(START), {'VCPU': 8})
        self.plan(change)
        self.borrow('x', 8)

        self.run_at(NOTICE)

        self.assertEqual(1, len(self.list_notices()))

    def test_who_stays_when_the_change_is_taken_back(self) -> None:
        self.borrow('x', 8)
        self.cut(-8)
        self.run_at(NOTICE)
        self.admission.capacity.withdraw('cut', now=NOTICE + 1)

        self.run_from(NOTICE + 300, START + 60)

        self.assertEqual([], self.cloud.asked)

    def test_nobody_goes_for_room_in_maintenance(self) -> None:
        self.borrow('x', 8)
        self.plan(changes.make_maintenance('night', hosts.span(START, END)))

        self.run_from(NOTICE, START + 3600, draining.CHECK_SECONDS)

        self.assertEqual(([], []), (self.list_notices(), self.cloud.asked))

    def test_borrowers_go_for_what_begins_after_a_maintenance(self) -> None:
        self.borrow('x', 8)
        middle = START + 20_000
        self.plan(changes.make_maintenance('night', hosts.span(START, middle)))

        later = NOTICE - START + middle
        self.run_at(later - 1)
        self.assertEqual([], self.list_notices())
        self.run_from(later + draining.CHECK_SECONDS, middle)

        self.assertEqual(1, len(self.list_notices()))
        self.assertEqual(
            [('x', 'shelve'), ('x', 'shelveOffload')], self.cloud.asked
        )
