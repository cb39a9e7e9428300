# SPDX-License-Identifier: Apache-2.0

"""Room that is held, and servers that wait, where changes are planned."""

from typing import Any

from nova_ext_resources.objects import planned_hold
from tests.unit.reservation import changes
from tests.unit.reservation import hosts
from tests.unit.reservation.manager import managers
from tests.unit.reservation.manager import test_holding
from tests.unit.reservation.manager import test_waking

START, END, HELD = test_holding.START, test_holding.END, test_holding.HELD


def maintain(start: int, end: int) -> Any:
    """Make a maintenance of the host that has all slots."""
    return changes.make_maintenance('night', hosts.span(start, end))


class PlannedTest(test_waking.WakingTestCase):
    """All of the first host is reserved."""

    def setUp(self) -> None:
        super().setUp()
        self.reserve()

    def test_what_is_moved_is_held_on_its_new_host(self) -> None:
        self.run_at(HELD)

        self.plan(maintain(START, END), now=HELD)
        self.run_at(HELD + 1)

        self.assertEqual(['b', 'b'], [one.host for one in self.get_slots()])
        for one in self.get_slots():
            consumer = planned_hold.make_consumer(one.key)
            self.assertEqual(one.places, self.cloud.held[consumer])

    def test_nothing_is_held_in_a_maintenance(self) -> None:
        self.plan(maintain(HELD + 10, HELD + 20))
        for clock, held in (
            (HELD, ['lease/0', 'lease/1']),
            (HELD + 10, []),
            (HELD + 19, []),
            (HELD + 20, ['lease/0', 'lease/1']),
        ):
            self.assertTrue(self.run_at(clock))
            self.assertEqual(held, self.list_holds(), str(clock))

    def test_no_server_is_unshelved_there(self) -> None:
        self.wait('one')
        self.run_at(HELD)
        self.plan(maintain(START, START + 60), now=START)

        self.run_at(START)
        self.assertEqual([], self.cloud.asked)
        self.assertEqual([None, None], self.list_consumers())

        self.run_at(START + 60)
        self.assertEqual(['unshelve on a'], self.list_asked())

    def test_what_is_held_takes_nothing_from_its_reservation(self) -> None:
        self.run_at(START)
        less = changes.make_change('less', hosts.span(START), {'VCPU': -1})
        self.plan(less, now=START)
        self.run_at(START + 1)
        self.assertEqual(['lease/0', 'lease/1'], self.list_holds())

        self.cloud.capacities[('a', 'VCPU')] = 16
        self.run_at(START + 100)

        self.assertEqual(
            ['pending', 'active', 'degraded', 'active'],
            managers.list_states(self.url, 'lease'),
        )
