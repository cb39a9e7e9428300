# SPDX-License-Identifier: Apache-2.0

"""What becomes of servers that wait for their reservation."""

from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import planned_hold
from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation import waiting
from tests import base
from tests.unit.reservation import hosts

Step = waiting.Step


def make_slot(*taken: tuple[str, int, bool]) -> planned_server.PlannedServer:
    """Make a slot that takes units of a class, each of another provider."""
    return planned_server.PlannedServer(
        key='lease/0',
        host='a',
        during=hosts.span(0),
        assignments=tuple(
            assignment.Assignment(
                rp_uuid=f'rp{number}',
                rp_key='',
                resource_class=name,
                amount=amount,
                units={},
                is_allocated=is_allocated,
            )
            for number, (name, amount, is_allocated) in enumerate(taken)
        ),
    )


class StepTest(base.TestCase):
    def test_each_status(self) -> None:
        for status, before, after in (
            ('ACTIVE', Step.SHELVE, Step.SHELVE),
            ('SHELVED', Step.SHELVE, Step.SHELVE),
            ('SHELVED_OFFLOADED', Step.NONE, Step.UNSHELVE),
            ('SHUTOFF', Step.NONE, Step.NONE),
            ('ERROR', Step.NONE, Step.NONE),
            ('BUILD', Step.NONE, Step.NONE),
        ):
            with self.subTest(status=status):
                server = nova_server.NovaServer(uuid='one', status=status)

                found = [
                    waiting.find_step(server, has_started=has_started)
                    for has_started in (False, True)
                ]

                self.assertEqual([before, after], found)

    def test_nova_is_not_disturbed(self) -> None:
        for status in ('ACTIVE', 'SHELVED', 'SHELVED_OFFLOADED'):
            server = nova_server.NovaServer(
                uuid='one', status=status, task_state='x'
            )
            self.assertIs(
                Step.NONE, waiting.find_step(server, has_started=True)
            )
            self.assertFalse(waiting.is_offloaded(server))


class FitsTest(base.TestCase):
    def test_a_server_needs_what_its_slot_has_or_less(self) -> None:
        slot = make_slot(('VCPU', 4, True), ('X', 2, True), ('X', 1, True))
        for amounts, wanted in (
            ({'VCPU': 4}, True),
            ({'VCPU': 1, 'X': 3}, True),
            ({'VCPU': 5}, False),
            ({'X': 4}, False),
            ({'VCPU': 1, 'Y': 1}, False),
        ):
            with self.subTest(amounts=amounts):
                demand = hosts.make_demand(_=amounts)

                self.assertIs(wanted, waiting.fits(demand, slot))

    def test_units_that_placement_does_not_allocate_do_not_count(
        self,
    ) -> None:
        slot = make_slot(('X', 2, True), ('X', 2, False))

        self.assertEqual({('rp0', 'X'): 2}, slot.allocations)
        self.assertFalse(waiting.fits(hosts.make_demand(_={'X': 3}), slot))


class TriesTest(base.TestCase):
    def test_pauses_grow_up_to_a_bound_and_end(self) -> None:
        pauses = []
        for number in range(waiting.MAX_TRIES):
            next_at = waiting.find_next_try([1000] * number)
            assert next_at is not None
            pauses.append(next_at - 1000 if number else next_at)

        self.assertEqual(
            [0, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600], pauses
        )
        self.assertIsNone(waiting.find_next_try([1000] * waiting.MAX_TRIES))

    def test_they_begin_with_the_last_failure(self) -> None:
        self.assertEqual(2120, waiting.find_next_try([1000, 2000]))


class HoldTest(base.TestCase):
    def test_each_slot_has_a_consumer_of_its_own(self) -> None:
        found = [
            planned_hold.make_consumer(key) for key in ('a/0', 'a/1', 'a/0')
        ]

        self.assertEqual(found[0], found[2])
        self.assertNotEqual(found[0], found[1])
        self.assertTrue(all(map(planned_hold.may_be_hold, found)))

    def test_the_uuid_of_a_server_is_of_another_kind(self) -> None:
        self.assertFalse(
            planned_hold.may_be_hold('0f4a1a52-3d0e-4b57-9d3f-5d3f6c6f0a11')
        )
