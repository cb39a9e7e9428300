# SPDX-License-Identifier: Apache-2.0

"""Servers that have an entry with less than their flavors request."""

from collections.abc import Callable
from typing import Any

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources import exception
from nova_ext_resources.objects import alarm
from tests.unit import builders
from tests.unit.host.reconcile import test_rebuild_entries
from tests.unit.host.reconcile import test_rebuild_entries_failures
from tests.unit.host import test_manager
from tests.unit.host import with_host

SERVER = uuidsentinel.server

#: One CPU of each domain.
CPUS_OF_BOTH = frozenset({1, 13})

Read = Callable[[str], dict[str, dict[str, int]]]


class IncompleteEntriesTest(
    test_rebuild_entries_failures.ActingRestoreTestCase
):
    def setUp(self) -> None:
        super().setUp()
        self.host.claim(with_host.make_claim(SERVER, 3))
        self.host.apply(SERVER)

    def expect(self, ways: int) -> list[str]:
        """Hear of Nova what the server requests; return who has less."""
        self.restore.expect({SERVER: with_host.make_claim(SERVER, ways)})
        return self.run_round()

    def test_it_is_an_alarm_when_two_answers_say_so(self) -> None:
        self.assertEqual([], self.expect(4))

        self.assertEqual([SERVER], self.expect(4))

        [problem] = self.restore.problems
        self.assertEqual(alarm.NOT_RECORDED, problem.alarm)
        self.assertIn(f'has only 3 of 4 {with_host.WAYS}', problem.text)
        self.assertIn('host1', problem.text)

    def test_it_ends_with_the_first_answer_that_does_not(self) -> None:
        self.expect(4)
        self.expect(4)

        self.assertEqual([], self.expect(3))
        self.assertEqual([], self.expect(4))

    def test_it_stays_while_nova_is_at_work_with_the_server(self) -> None:
        self.expect(4)
        self.expect(4)
        self.restore.expect({})
        self.assertEqual([SERVER], self.run_round())

        self.host.release(SERVER)
        self.restore.expect({})

        self.assertEqual([], self.run_round())

    def test_one_answer_is_not_two_because_nova_is_at_work(self) -> None:
        self.expect(4)
        self.restore.expect({})

        self.assertEqual([], self.run_round())

    def test_one_that_was_resized_since_has_enough(self) -> None:
        self.expect(4)
        self.expect(4)
        self.host.release(SERVER)
        self.host.claim(with_host.make_claim(SERVER, 4))
        self.host.apply(SERVER)

        self.assertEqual([], self.run_round())

    def test_more_than_requested_is_none(self) -> None:
        self.expect(2)

        self.assertEqual([], self.expect(2))

    def test_what_the_compute_node_itself_offers_is_not_counted(self) -> None:
        for doubled in ((with_host.WAYS,), None):
            with self.subTest(doubled=doubled):
                test_rebuild_entries.set_doubled(self.restore, doubled)
                self.expect(4)

                self.assertEqual([], self.expect(4))


class SpreadTest(test_rebuild_entries_failures.ActingRestoreTestCase):
    """On a host that gives as much in each domain of a server's CPUs."""

    def load_options(self) -> dict[str, bool]:
        return {'spreads_pins': True}

    def expect(self, ways: int) -> list[str]:
        request = with_host.make_claim(SERVER, ways, cpus=CPUS_OF_BOTH)
        self.restore.expect({SERVER: request})
        return self.run_round()

    def test_less_in_each_is_an_alarm(self) -> None:
        self.host.claim(with_host.make_claim(SERVER, 2, cpus=CPUS_OF_BOTH))
        self.host.apply(SERVER)
        self.expect(4)

        self.assertEqual([SERVER], self.expect(4))

        [problem] = self.restore.problems
        self.assertIn(f'has only 2 of 4 {with_host.WAYS}', problem.text)

    def test_as_much_in_each_is_none(self) -> None:
        self.host.claim(with_host.make_claim(SERVER, 4, cpus=CPUS_OF_BOTH))
        self.host.apply(SERVER)
        self.expect(4)

        self.assertEqual([], self.expect(4))


class ElsewhereTest(test_rebuild_entries_failures.ActingRestoreTestCase):
    """Its seat is of other software's provider: the host had none then."""

    def load_inventory(self) -> dict[str, Any]:
        licences = test_manager.load_licences(self.conf)
        return {**super().load_inventory(), **licences}

    def compare(self, read_allocations: Read) -> list[str]:
        self.host.claim(with_host.make_claim(SERVER, 2))
        self.host.apply(SERVER)
        self.restore = test_rebuild_entries.make_restore(
            self.host, read_allocations
        )
        wanted = {with_host.WAYS: 2, builders.SEATS: 1}
        request = with_host.make_claim(
            SERVER, requirement=builders.make_requirement(_=wanted)
        )
        for _ in range(2):
            self.restore.expect({SERVER: request})
        return self.run_round()

    def test_what_is_allocated_there_is_not_missing(self) -> None:
        found = {
            with_host.DOMAINS[0]: {with_host.WAYS: 2},
            uuidsentinel.others: {builders.SEATS: 1},
        }

        self.assertEqual([], self.compare(lambda _uuid: found))

    def test_what_is_allocated_nowhere_is(self) -> None:
        found = {with_host.DOMAINS[0]: {with_host.WAYS: 2}}

        self.assertEqual([SERVER], self.compare(lambda _uuid: found))

    def test_so_is_all_while_placement_does_not_answer(self) -> None:
        def fail(_uuid: str) -> Any:
            raise exception.PlacementUnavailable(
                action='read', detail='no answer'
            )

        self.assertEqual([SERVER], self.compare(fail))
