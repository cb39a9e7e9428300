# SPDX-License-Identifier: Apache-2.0

"""Tests of servers that stay after their reservation, where others begin."""

import dataclasses
import itertools
from typing import Any

import fixtures

from nova_ext_resources.claims import extra_specs
from nova_ext_resources.reservation import due
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import lending
from nova_ext_resources.reservation.manager import owners
from nova_ext_resources.reservation.manager import turn
from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planner
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import reservations
from nova_ext_resources.reservation.store import slots
from tests.unit.reservation import hosts
from tests.unit.reservation.manager import managers
from tests.unit.reservation.manager import test_draining
from tests.unit.reservation.store import stores

State = state.State

START, NOTICE = test_draining.START, test_draining.NOTICE

#: When the servers are told whose reservation ends at the start, and when
#: they go, by whatever clock.
TOLD, GONE = START - 300, START + due.MAX_SKEW


class KeptTest(test_draining.DrainingTestCase):
    """A reservation of all eight CPUs of a host, and one before it."""

    def reserve_before(
        self, end: int, key: str = 'before', size: int = 2, **fields: Any
    ) -> None:
        during = hosts.span(0, end)
        plan = self.admit(self.admission, key, during, least=size, **fields)
        self.assertIsInstance(plan, planner.Plan)

    def stay(
        self,
        uuid: str,
        amount: int = 4,
        key: str = 'before',
        *,
        is_taken: bool = False,
        **fields: Any,
    ) -> None:
        """Let a server be there that was created for a reservation."""
        hints = {nova_server.RESERVATION: [key]}
        self.cloud.hold(uuid, 'a', amount, **{'hints': hints, **fields})
        if is_taken:
            slots.take(
                self.database,
                key,
                uuid,
                lambda held: next(one for one in held if not one.consumer),
                now=1,
            )

    def list_gone(self) -> set[str]:
        return {uuid for uuid, _action in self.cloud.asked}

    def find_degraded(self) -> int:
        """Return for how many seconds the reservation was degraded."""
        changes = managers.list_changes(self.url, 'lease')
        return sum(
            other.changed_at - one.changed_at
            for one, other in itertools.pairwise(changes)
            if one.state is State.DEGRADED
        )

    def test_of_one_reservation_after_the_other(self) -> None:
        """It has all its time, and is told before."""
        self.reserve_before(START)
        for uuid in 'xy':
            self.stay(uuid, is_taken=True)
        self.run_from(TOLD - 300, TOLD, 10)
        self.assertEqual([], self.list_notices())

        self.run_at(TOLD)
        self.assertEqual(
            [
                'servers are told to leave host a, which is promised from '
                '1970-01-02T03:46:40Z on: x, y'
            ],
            self.list_notices(),
        )
        self.assertEqual(
            {
                owners.LEAVES_AT: interval.format_time(GONE),
                owners.LEAVES_BY: 'shelve',
            },
            self.cloud.servers['x'].metadata,
        )
        self.run_from(TOLD + 10, GONE, 10)
        self.assertEqual([], self.cloud.asked)
        self.run_from(GONE, GONE + 60, 10)

        self.assertEqual(
            [
                ('x', 'shelve'),
                ('y', 'shelve'),
                ('x', 'shelveOffload'),
                ('y', 'shelveOffload'),
            ],
            self.cloud.asked,
        )
        self.assertEqual(State.ACTIVE, self.get().last.state)
        self.assertLessEqual(self.find_degraded(), due.MAX_SKEW + 30)

    def test_one_that_has_stayed_for_long_goes_before_the_start(self) -> None:
        self.reserve_before(50_000)
        self.run_at(50_000)
        self.stay('x', 8)

        self.run_from(NOTICE - 600, NOTICE)
        self.assertEqual([], self.list_notices())
        self.run_from(NOTICE, START + 60)

        self.assertEqual(
            [('x', 'shelve'), ('x', 'shelveOffload')], self.cloud.asked
        )
        self.assertEqual(
            ['pending', 'pending', 'active'],
            managers.list_states(self.url, 'lease'),
        )

    def test_one_of_what_was_cancelled_goes(self) -> None:
        self.reserve_before(START - 1)
        self.stay('x', 8, is_taken=True)
        self.admission.change(
            'before', State.CANCELLED, now=9, reason='not needed'
        )

        self.run_from(NOTICE, START + 60)

        self.assertEqual({'x'}, self.list_gone())
        self.assertEqual(0, self.find_degraded())

    def test_nobody_goes_where_there_is_room(self) -> None:
        self.cloud.capacities['a', 'VCPU'] = 16
        self.reserve_before(START)
        for uuid in 'xy':
            self.stay(uuid, is_taken=True)

        self.run_from(TOLD - 60, START + 600)

        self.assertEqual(([], []), (self.list_notices(), self.cloud.asked))

    def test_borrowers_go_first_and_then_what_was_over_first(self) -> None:
        for uuid, end in (('new', 60_000), ('old', 50_000)):
            self.reserve_before(end, f'of {uuid}', 1)
            self.stay(uuid, key=f'of {uuid}')
        self.run_from(50_000, 60_001, 10_000)
        self.borrow('borrower', 4, priority='9')
        for capacity, wanted in ((16, {'borrower'}), (12, {'old'})):
            with self.subTest(capacity=capacity):
                self.cloud.capacities['a', 'VCPU'] = capacity
                self.cloud.asked.clear()

                self.run_from(NOTICE, START + 60)

                self.assertEqual(wanted, self.list_gone())
                self.run_at(NOTICE - 600)
        self.assertEqual({'new'}, self.cloud.holders)

    def test_what_its_flavor_says_counts(self) -> None:
        for specs in ({}, {'preemptible': 'false', 'max_seconds': '10'}):
            with self.subTest(**specs):
                self.cloud.asked.clear()
                key = f'before {len(specs)}'
                self.reserve_before(START, key, 1)
                fields = test_draining.make_specs(
                    on_drain='delete', drain_seconds='60', **specs
                )
                self.stay(key, 8, key, is_taken=True, extra_specs=fields)

                self.run_from(START - 420, GONE, 30)
                self.assertEqual([], self.cloud.asked)
                self.run_at(GONE)

                self.assertEqual([(key, 'delete')], self.cloud.asked)

    def test_a_server_goes_no_earlier_for_a_longer_reservation(self) -> None:
        """Though it was told before its reservation was prolonged."""
        self.reserve_before(START)
        for uuid in 'xy':
            self.stay(uuid, is_taken=True)
        self.run_at(TOLD)
        self.admission.change(
            'lease', State.CANCELLED, now=TOLD, reason='not needed'
        )
        with self.database.transaction() as connection:
            found = reservations.read_requests(connection, ['before'])
        end = START + 400
        self.admission.replace(
            dataclasses.replace(found['before'], during=hosts.span(0, end)),
            now=TOLD,
            reason='longer',
        )
        self.admit(self.admission, 'late', hosts.span(end), TOLD, least=2)

        self.run_from(TOLD + 10, end + due.MAX_SKEW, 10)
        self.assertEqual([], self.cloud.asked)
        self.run_at(end + due.MAX_SKEW)

        self.assertEqual({'x', 'y'}, self.list_gone())

    def test_a_server_with_another_place_stays(self) -> None:
        self.reserve_before(50_000)
        self.run_at(50_000)
        during = hosts.span(60_000, test_draining.END)
        self.stay('x', 8)
        wide = hosts.make_host('a', VCPU=16)
        admission = stores.make_admission(self.url, wide)
        self.admit(admission, 'other', during, 50_000, least=2)
        slots.take(
            self.database, 'other', 'x', lambda held: held[0], now=60_000
        )

        self.run_from(NOTICE, START + 60)

        self.assertEqual(([], []), (self.list_notices(), self.cloud.asked))
        self.assertEqual(State.DEGRADED, self.get().last.state)

    def test_one_of_a_reservation_that_goes_on_stays(self) -> None:
        wide = stores.make_admission(self.url, hosts.make_host('a', VCPU=16))
        self.admit(wide, 'other', hosts.span(0, test_draining.END), least=1)
        self.cloud.capacities['a', 'VCPU'] = 16
        self.stay('x', 8, 'other')

        self.run_from(NOTICE, START + 60)

        self.assertEqual(([], []), (self.list_notices(), self.cloud.asked))
        self.assertEqual(State.DEGRADED, self.get().last.state)

    def test_one_that_goes_at_the_end_is_not_told_for_others(self) -> None:
        self.reserve_before(START, at_end=plan_request.AtEnd.SHELVE)
        for uuid in 'xy':
            self.stay(uuid, is_taken=True)
        self.cloud.hold('plain', 'a', 1)

        self.run_from(NOTICE, START)

        self.assertEqual(([], []), (self.list_notices(), self.cloud.asked))

    def test_a_server_of_which_nothing_is_known_stays(self) -> None:
        self.stay('x', 8, 'never made')
        log = self.useFixture(fixtures.FakeLogger())

        self.run_from(NOTICE, START + 60)

        self.assertEqual([], self.cloud.asked)
        self.assertEqual(State.DEGRADED, self.get().last.state)
        self.assertIn('migrations (1) hold the resources: x.', log.output)

    def test_what_is_no_name_keeps_no_other_server(self) -> None:
        """No database takes it, and it is not looked up."""
        for uuid, key in (('x', '\ud800'), ('y', 'a\0b'), ('z', '')):
            self.stay(uuid, 2, key)
        self.borrow('borrower', 2)

        self.run_from(NOTICE, START + 60)

        self.assertEqual({'borrower'}, self.list_gone())

    def test_a_server_of_another_reservation_of_that_name_stays(self) -> None:
        self.reserve_before(50_000, project='one')
        self.run_at(50_000)
        self.stay('x', 4, project='two')
        self.stay('y', 4, project='one', created_at=50_061)

        self.run_from(NOTICE, START + 60)

        self.assertEqual([], self.cloud.asked)

    def test_a_server_of_a_name_that_was_given_again(self) -> None:
        self.reserve_before(50_000, project='one')
        during = hosts.span(60_000, 70_000)
        self.admit(self.admission, 'before~2', during, project='one')
        self.run_at(50_000)
        self.run_at(70_000)
        self.stay('x', project='one', created_at=1)
        self.stay('y', project='one', created_at=60_001)
        self.stay('z', 0, project='one', created_at=70_061)

        self.run_from(NOTICE, START + 60)

        self.assertEqual({'x', 'y'}, self.list_gone())

    def test_a_server_does_not_make_way_for_its_own_project(self) -> None:
        self.admission.change(
            'lease', State.CANCELLED, now=1, reason='not needed'
        )
        self.reserve_before(START, project='one')
        for uuid in 'xy':
            self.stay(uuid, is_taken=True, project='one')
        self.admit(
            self.admission,
            'next',
            test_draining.DURING,
            least=2,
            project='one',
        )

        self.run_from(TOLD, GONE + 60)

        self.assertEqual(([], []), (self.list_notices(), self.cloud.asked))

    def test_metadata_count_where_the_scheduler_knows_no_hint(self) -> None:
        self.reserve_before(50_000)
        self.run_at(50_000)
        metadata = {nova_server.RESERVATION: 'before'}
        self.stay('x', 8, hints={}, metadata=metadata)
        self.run_from(NOTICE, START)
        self.assertEqual([], self.list_notices())
        grammar = extra_specs.Grammar()
        self.turn = self.make_turn(
            blocking=turn.Blocking(lead=0, grammar=grammar)
        )

        self.run_at(NOTICE)

        self.assertEqual(1, len(self.list_notices()))

    def test_one_that_cannot_be_shelved_is_in_the_way(self) -> None:
        self.reserve_before(START)
        self.stay('x', 8, is_taken=True, status='ERROR')

        self.run_from(TOLD, START + lending.LEAVE_SECONDS)

        self.assertEqual([], self.cloud.asked)
        self.assertEqual(State.DEGRADED, self.get().last.state)
