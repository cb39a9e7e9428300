# SPDX-License-Identifier: Apache-2.0

"""Placement has allocated resources here to a consumer that has none."""

from collections.abc import Container, Iterable, Mapping
import dataclasses
import types
from typing import Any
import uuid

import fixtures
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources import exception
from nova_ext_resources.host.reconcile import stale_allocations
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import planned_hold
from nova_ext_resources.placement.api import responses
from nova_ext_resources.testing import fake_clock
from tests.unit.host import with_host

WAYS = with_host.WAYS
FIRST, SECOND = with_host.DOMAINS

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other

HOLD = planned_hold.make_consumer('lease/0')


class UnheldTest(with_host.HostTestCase):
    """One server with four ways, and another consumer with two."""

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.host = self.make_noop_host()
        self.host.claim(with_host.make_claim(SERVER, 4))
        self.holders: dict[str, dict[str, dict[str, int]]] = {
            FIRST: {WAYS: {SERVER: 4, OTHER: 2}}
        }
        self.failure: Exception | None = None
        self.words = {OTHER: 'nobody knows it'}
        self.asked: list[list[str]] = []
        self.holding: Container[str] = ()
        self.looked: list[str] = []
        self.changes = 0
        self.now = 1000.0
        placement: Any = types.SimpleNamespace(
            list_holders=self.list_holders,
            get_allocations=self.get_allocations,
        )
        loops: Any = types.SimpleNamespace(wake_soon=self.count_change)
        self.made = stale_allocations.StaleAllocations(
            self.host,
            dataclasses.replace(with_host.COMPUTE, explain=self.explain),
            placement,
            loops=loops,
            interval=60.0,
            clock=fake_clock.FakeClock(lambda: self.now),
        )

    def list_holders(self, rp_uuid: str) -> Mapping[str, Mapping[str, int]]:
        if self.failure is not None:
            raise self.failure
        if rp_uuid not in self.holders:
            raise exception.NotFound(action='ask', detail='none')
        return self.holders[rp_uuid]

    def get_allocations(self, uuid: str) -> responses.Allocations:
        self.looked.append(uuid)
        is_hold = uuid == HOLD
        return responses.Allocations(
            consumer_uuid=uuid,
            resources={},
            consumer_type=planned_hold.CONSUMER_TYPE if is_hold else '',
        )

    def explain(
        self, uuids: Iterable[str], holding: Container[str]
    ) -> Mapping[str, str]:
        self.asked.append([*uuids])
        self.holding = holding
        return self.words

    def count_change(self) -> None:
        self.changes += 1

    def look(self, count: int = 2) -> list[tuple[str, str]]:
        """Return the alarms after looks that are far enough apart."""
        for _ in range(count):
            self.made.run_round()
            self.now += stale_allocations.PATIENCE
        return [(one.alarm, one.subject) for one in self.made.problems]

    def test_what_lasts_is_reported_once(self) -> None:
        self.assertEqual([(alarm.STALE_ALLOCATION, OTHER)], self.look(4))

        (problem,) = self.made.problems
        for words in (f'2 {WAYS} of ', self.host.host, 'nobody knows it'):
            self.assertIn(words, problem.text)
        self.assertEqual(1, self.log.output.count('nobody knows it'))
        self.assertEqual(1, self.changes)

    def test_what_was_seen_once_is_not_reported(self) -> None:
        self.assertEqual([], self.look(1))

    def test_nova_is_not_asked_of_servers_with_an_entry(self) -> None:
        self.look(1)

        self.assertEqual([[OTHER]], self.asked)
        self.assertEqual({SERVER}, self.holding)

    def test_nor_where_all_have_one(self) -> None:
        del self.holders[FIRST][WAYS][OTHER]

        self.look(1)

        self.assertEqual([], self.asked)

    def test_what_holds_room_for_reserved_servers_is_not_reported(
        self,
    ) -> None:
        self.holders[FIRST][WAYS] = {SERVER: 4, HOLD: 2}

        self.assertEqual([], self.look())

        self.assertEqual([], self.asked)

    def test_placement_is_asked_of_it_once_while_it_is_there(self) -> None:
        holders = self.holders[FIRST][WAYS]
        holders[HOLD] = 2
        self.look(5)
        self.assertEqual([HOLD], self.looked)

        del holders[HOLD]
        self.look(1)
        holders[HOLD] = 2
        self.look(1)

        self.assertEqual([HOLD, HOLD], self.looked)

    def test_another_consumer_of_that_kind_is_reported(self) -> None:
        """Its uuid looks alike, and placement says what it is."""
        other = str(uuid.uuid5(uuid.NAMESPACE_DNS, 'other'))
        self.holders[FIRST][WAYS] = {SERVER: 4, other: 2}
        self.words = {other: 'nobody knows it'}

        self.assertEqual([(alarm.STALE_ALLOCATION, other)], self.look(4))

    def test_nothing_is_reported_with_which_nova_goes_on(self) -> None:
        self.words = {}

        self.assertEqual([], self.look())

    def test_it_begins_when_nova_no_longer_does(self) -> None:
        words, self.words = self.words, {}
        self.look(30)
        self.words = words

        self.assertEqual([], self.look(1))
        self.assertEqual([(alarm.STALE_ALLOCATION, OTHER)], self.look(1))

    def test_another_amount_begins_anew(self) -> None:
        self.look(1)
        self.holders[FIRST][WAYS][OTHER] = 3

        self.assertEqual([], self.look(1))

    def test_it_ends_with_the_allocation(self) -> None:
        self.look()
        del self.holders[FIRST][WAYS][OTHER]

        self.assertEqual([], self.look(1))
        self.assertEqual(2, self.changes)

    def test_it_ends_with_an_entry(self) -> None:
        self.look()

        self.host.claim(with_host.make_claim(OTHER, 2))

        self.assertEqual((), self.made.problems)

    def test_other_classes_are_not_compared(self) -> None:
        self.holders = {FIRST: {'VCPU': {OTHER: 2}}}

        self.assertEqual([], self.look())

    def test_what_cannot_be_read_is_in_doubt(self) -> None:
        self.look()
        self.failure = exception.PlacementUnavailable(
            action='ask', detail='away'
        )

        self.assertEqual([(alarm.STALE_ALLOCATION, OTHER)], self.look(2))
        self.failure = None
        self.assertEqual([(alarm.STALE_ALLOCATION, OTHER)], self.look(1))
        self.assertEqual(1, self.log.output.count('away'))
        self.assertEqual(1, self.log.output.count('nobody knows it'))

    def test_what_is_not_placements_is_logged_with_its_cause(self) -> None:
        for failure, expected in (
            (exception.PlacementUnavailable(action='ask', detail='x'), 0),
            (TypeError('a bug'), 1),
        ):
            self.failure = failure
            self.look(3)
            self.assertEqual(expected, self.log.output.count('Traceback'))

    def test_once_though_each_time_out_has_a_text_of_its_own(self) -> None:
        for number in range(3):
            self.failure = TimeoutError(f'no answer to message {number}')
            self.look(1)

        self.assertEqual(1, self.log.output.count('Traceback'))

    def test_and_begins_anew_if_it_was_not_reported(self) -> None:
        self.look(1)
        self.failure = OSError('no message bus')
        self.look(1)
        self.failure = None

        self.assertEqual([], self.look(1))

    def test_a_look_is_rare(self) -> None:
        self.assertGreater(self.made.do_round(), 8 * 60.0)
