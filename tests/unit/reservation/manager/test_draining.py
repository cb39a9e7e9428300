# SPDX-License-Identifier: Apache-2.0

"""Tests of borrowers that go before what is promised begins."""

from collections.abc import Callable, Iterable
import contextlib
import dataclasses
import itertools
import logging
import shutil
import sqlite3
from typing import Any

import fixtures

from nova_ext_resources import exception
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import lending
from nova_ext_resources.reservation.manager import draining
from nova_ext_resources.reservation.manager import owners
from nova_ext_resources.reservation.manager import promised
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import records
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import slots
from tests.unit.reservation import hosts
from tests.unit.reservation.manager import breaking
from tests.unit.reservation.manager import clouds
from tests.unit.reservation.manager import managers
from tests.unit.reservation.store import stores

State = state.State

START, END = 100_000, 200_000

#: When borrowers are told that have 300 s.
NOTICE = START - 300 - lending.LEAVE_SECONDS

DURING = hosts.span(START, END)


def make_specs(**specs: str) -> dict[str, str]:
    return {
        f'resource:lease:{key}': value
        for key, value in {'preemptible': 'true', **specs}.items()
    }


class DrainingTestCase(stores.StoreTestCase):
    """A reservation of all eight CPUs of a host."""

    def setUp(self) -> None:
        super().setUp()
        self.database = databases.Database(self.url)
        self.admission = stores.make_admission(self.url, hosts.make_host('a'))
        self.time = managers.Time()
        self.cloud = clouds.FakeCloud([hosts.make_host('a')])
        self.turn = self.make_turn()
        self.admit(self.admission, 'lease', DURING, least=2)

    def make_turn(self, **fields: Any) -> Any:
        return managers.make_turn(
            self.url, self.time, cloud=self.cloud, **fields
        )

    def borrow(self, uuid: str, amount: int, **specs: str) -> None:
        self.cloud.hold(uuid, 'a', amount, extra_specs=make_specs(**specs))

    def run_at(self, clock: float) -> bool:
        self.time.clock = clock
        return bool(self.turn.run())

    def run_from(self, begin: int, end: int, step: int = 60) -> None:
        for clock in range(begin, end, step):
            self.run_at(clock)

    def get(self) -> records.Record:
        with self.database.transaction() as connection:
            (found,) = records.list_records(connection, 0, key='lease')
        return found

    def list_notices(self) -> list[str]:
        return [
            one.reason
            for one in managers.list_changes(self.url, 'lease')
            if 'told to leave' in one.reason
        ]


class DrainingTest(DrainingTestCase):
    def test_nothing_happens_long_before(self) -> None:
        self.borrow('x', 8)

        self.run_from(0, NOTICE, 7000)
        self.run_at(NOTICE - 1)

        self.assertEqual(([], []), (self.list_notices(), self.cloud.asked))

    def test_a_borrower_is_told_and_then_shelved(self) -> None:
        self.borrow('x', 8)
        self.run_at(NOTICE)
        self.assertEqual(
            [
                'servers are told to leave host a, which is promised from '
                '1970-01-02T03:46:40Z on: x'
            ],
            self.list_notices(),
        )
        self.run_at(NOTICE + 299)
        self.assertEqual([], self.cloud.asked)

        self.run_at(NOTICE + 300)
        self.run_at(NOTICE + 310)

        self.assertEqual(
            [('x', 'shelve'), ('x', 'shelveOffload')], self.cloud.asked
        )
        self.run_from(NOTICE + 320, START + 120)
        self.assertEqual(1, len(self.list_notices()))
        self.assertEqual(State.ACTIVE, self.get().last.state)

    def test_a_borrower_goes_that_its_owner_has_rescued_or_resized(
        self,
    ) -> None:
        for uuid, status in (('x', 'RESCUE'), ('y', 'VERIFY_RESIZE')):
            self.cloud.hold(
                uuid, 'a', 4, status=status, extra_specs=make_specs()
            )

        self.run_from(NOTICE, START + 60)

        self.assertEqual(
            [
                ('x', 'unrescue'),
                ('x', 'shelve'),
                ('x', 'shelveOffload'),
                ('y', 'confirmResize'),
                ('y', 'shelve'),
                ('y', 'shelveOffload'),
            ],
            sorted(self.cloud.asked, key=lambda one: one[0]),
        )
        self.assertEqual(State.ACTIVE, self.get().last.state)

    def test_a_borrower_is_deleted_if_its_flavor_says_so(self) -> None:
        self.borrow('x', 8, on_drain='delete', drain_seconds='0')

        self.run_at(START - lending.LEAVE_SECONDS)
        self.run_at(START - lending.LEAVE_SECONDS + 1)

        self.assertEqual([('x', 'delete')], self.cloud.asked)

    def test_only_as_many_go_as_are_needed(self) -> None:
        self.cloud.capacities['a', 'VCPU'] = 16
        self.borrow('low', 4, priority='-1')
        self.borrow('high', 4, priority='1')
        self.borrow('middle', 4)

        self.run_from(NOTICE, START + 60)

        self.assertEqual({'low'}, {uuid for uuid, _action in self.cloud.asked})
        self.assertEqual(State.ACTIVE, self.get().last.state)

    def test_a_server_that_is_not_lent_stays(self) -> None:
        self.cloud.hold('own', 'a', 4)
        self.borrow('x', 4)

        self.run_from(NOTICE, START)
        self.assertEqual({'x'}, {uuid for uuid, _action in self.cloud.asked})
        self.run_at(START)

        found = self.get()
        self.assertEqual(State.DEGRADED, found.last.state)
        self.assertEqual(
            'room is missing on host a: 4 VCPU of provider a',
            found.last.reason,
        )

    def test_room_that_comes_late(self) -> None:
        self.cloud.hold('own', 'a', 1)
        self.run_from(START - 60, START + 120)
        self.assertEqual(State.DEGRADED, self.get().last.state)
        self.cloud.holders.clear()

        self.run_at(START + 120)

        self.assertEqual(
            ['pending', 'active', 'degraded', 'active'],
            managers.list_states(self.url, 'lease'),
        )

    def test_what_is_short_before_the_start_is_no_broken_promise(
        self,
    ) -> None:
        self.cloud.hold('own', 'a', 1)
        log = self.useFixture(fixtures.FakeLogger())

        self.run_at(START - 1)

        self.assertEqual(State.PENDING, self.get().last.state)
        self.assertIn(
            'Host a lacks 1 VCPU of provider a for reservations lease, from '
            '1970-01-02T03:46:40Z on, and no other servers there can be told '
            'to leave. These servers or migrations (1) hold the resources: '
            'own.',
            log.output,
        )

    def test_a_server_with_an_end_goes_then(self) -> None:
        specs = {'preemptible': 'false', 'max_seconds': '50000'}
        self.borrow('over', 4, **specs)
        self.borrow('later', 4, **specs)
        self.cloud.servers['later'] = dataclasses.replace(
            self.cloud.servers['later'], created_at=START - 40_000
        )

        self.run_from(NOTICE, START)

        self.assertEqual(
            {'over'}, {uuid for uuid, _action in self.cloud.asked}
        )

    def test_nova_that_is_away_is_asked_again(self) -> None:
        self.borrow('x', 8)
        self.cloud.is_nova_away = True
        log = self.useFixture(fixtures.FakeLogger())
        self.assertFalse(self.run_at(NOTICE))
        self.assertFalse(self.run_at(START))
        self.assertIn('8 VCPU of provider a', log.output)
        self.assertEqual(State.DEGRADED, self.get().last.state)

        self.cloud.is_nova_away = False
        self.run_from(START + 60, START + 600)

        self.assertEqual(set(), self.cloud.holders)
        self.assertEqual(State.ACTIVE, self.get().last.state)

    def test_placement_that_is_away_drains_nobody(self) -> None:
        self.borrow('x', 8)
        self.run_at(NOTICE)
        self.cloud.is_placement_away = True

        for clock in (NOTICE + 300, START):
            self.assertFalse(self.run_at(clock))

        self.assertEqual([], self.cloud.asked)
        self.assertEqual(State.ACTIVE, self.get().last.state)

    def test_placement_that_goes_away_in_a_pass_drains_nobody(self) -> None:
        self.borrow('x', 8)
        self.run_at(NOTICE)
        find_server = self.cloud.find_server
        self.change_meanwhile(
            lambda: setattr(self.cloud, 'is_placement_away', True), 1
        )

        self.run_at(NOTICE + 300)
        self.assertEqual([], self.cloud.asked)

        self.cloud.is_placement_away = False
        self.cloud.find_server = find_server  # type: ignore[method-assign]
        self.run_at(NOTICE + 310)
        self.assertEqual([('x', 'shelve')], self.cloud.asked)

    def test_a_placement_that_is_empty_drains_nobody(self) -> None:
        self.borrow('x', 8)
        self.run_at(NOTICE)
        self.cloud.enabled = {'a': False}

        self.assertFalse(self.run_at(NOTICE + 300))

        self.assertEqual([], self.cloud.asked)

    def test_servers_with_a_slot_are_left_alone(self) -> None:
        self.run_at(START)
        for number, uuid in enumerate('xy'):
            self.borrow(uuid, 4)
            slots.take(
                self.database,
                'lease',
                uuid,
                lambda held: next(one for one in held if not one.consumer),
                now=START + number,
            )
        self.admit(self.admission, 'next', hosts.span(END), least=2)

        self.run_from(END - 600, END)

        self.assertEqual([], self.cloud.asked)

    def test_a_server_that_comes_in_a_pass_takes_nothing_away(self) -> None:
        read_uses = self.cloud.read_uses

        def read(rp_uuids: Iterable[str]) -> Any:
            if 'y' not in self.cloud.servers:
                self.come('y', 1)
            return read_uses(rp_uuids)

        self.run_at(START)
        self.come('x', 0)
        self.cloud.read_uses = read  # type: ignore[method-assign]
        log = self.useFixture(fixtures.FakeLogger())
        self.run_at(START + 60)

        self.assertIn('y', self.cloud.servers)
        self.assertNotIn('lacks', log.output)
        self.assertEqual(
            ['pending', 'active'], managers.list_states(self.url, 'lease')
        )

    def test_a_server_that_comes_in_a_pass_does_not_go_for_others(
        self,
    ) -> None:
        """A plain server has room that is promised, too."""
        read_uses = self.cloud.read_uses

        def read(rp_uuids: Iterable[str]) -> Any:
            if 'y' not in self.cloud.servers:
                self.come('y', 0)
            return read_uses(rp_uuids)

        self.run_at(START)
        self.cloud.hold('x', 'a', 4)
        self.cloud.read_uses = read  # type: ignore[method-assign]
        self.run_at(START + 60)

        self.assertEqual(State.DEGRADED, self.get().last.state)
        self.assertEqual([], self.list_notices())

    def test_a_server_that_claims_still_has_a_promise(self) -> None:
        """Nothing but its slot says that the room is not free."""
        self.run_at(START)
        self.cloud.hold('plain', 'a', 4)
        self.run_at(START + 60)
        self.take('x', 0, now=START + 119)
        self.take('y', 1, now=START + 119)

        self.run_at(START + 120)
        self.assertEqual(State.DEGRADED, self.get().last.state)

        self.turn = self.make_turn()
        self.cloud.holders.discard('plain')
        self.borrow('x', 4)
        self.run_at(START + 140)
        self.assertEqual(State.ACTIVE, self.get().last.state)

    def test_a_server_takes_its_slot_when_placement_was_read(self) -> None:
        read_uses = self.cloud.read_uses

        def read(rp_uuids: Iterable[str]) -> Any:
            found = read_uses(rp_uuids)
            if self.time.clock == START + 120:
                self.take('x', 0, now=START + 120)
                self.take('y', 1, now=START + 120)
            return found

        self.run_at(START)
        self.cloud.hold('plain', 'a', 4)
        self.run_at(START + 60)
        self.cloud.read_uses = read  # type: ignore[method-assign]
        self.run_at(START + 120)

        self.assertEqual(State.DEGRADED, self.get().last.state)

    def test_of_two_managers_none_takes_back_what_the_other_has_seen(
        self,
    ) -> None:
        """They look at a host at different times."""
        other = self.make_turn()

        def run_others_at(clock: float) -> None:
            self.time.clock = clock
            self.assertTrue(other.run())

        self.run_at(START)
        run_others_at(START + 30)
        self.cloud.hold('x', 'a', 4)
        self.run_at(START + 60)
        for clock in (65, 80, 95):
            run_others_at(START + clock)
            self.run_at(START + clock + 5)
        self.cloud.holders.discard('x')
        run_others_at(START + 140)
        for clock in (145, 160, 175):
            self.run_at(START + clock)
            run_others_at(START + clock + 5)

        self.assertEqual(
            ['pending', 'active', 'degraded', 'active'],
            managers.list_states(self.url, 'lease'),
        )

    def come(self, uuid: str, number: int) -> None:
        """Create a server that may be told to go in a slot of the lease."""
        self.take(uuid, number, now=START)
        self.borrow(uuid, 4)

    def take(self, uuid: str, number: int, now: int) -> None:
        """Take a slot of the lease, and claim nothing yet."""
        slots.take(
            self.database, 'lease', uuid, lambda held: held[number], now=now
        )

    def change_meanwhile(self, change: Callable[[], None], look: int) -> None:
        """Let something change just before Nova is asked for a server.

        :param look: how many questions come before that
        """
        find_server = self.cloud.find_server
        looks = itertools.count()

        def find(uuid: str) -> Any:
            if next(looks) == look:
                change()
            return find_server(uuid)

        self.cloud.find_server = find  # type: ignore[method-assign]

    def cancel(self) -> None:
        self.admission.change(
            'lease', State.CANCELLED, now=1, reason='not needed'
        )

    def test_what_is_cancelled_in_a_pass_stays_so(self) -> None:
        self.borrow('x', 8)
        self.run_at(START - 5000)
        self.change_meanwhile(self.cancel, 0)

        for clock in (START, START + 60, START + 400):
            self.run_at(clock)

        self.assertEqual(
            ['pending', 'active', 'cancelled'],
            managers.list_states(self.url, 'lease'),
        )

    def test_those_that_end_with_their_reservation_make_room(self) -> None:
        self.admit(
            self.admission,
            'before',
            hosts.span(0, START),
            least=2,
            at_end=plan_request.AtEnd.DELETE,
        )
        for number, uuid in enumerate('xy'):
            self.cloud.hold(uuid, 'a', 4)
            slots.take(
                self.database,
                'before',
                uuid,
                lambda held: next(one for one in held if not one.consumer),
                now=number,
            )
        log = self.useFixture(fixtures.FakeLogger())

        for clock in (-100, 0, 60, 75):
            self.run_at(START + clock)

        self.assertNotIn('lacks', log.output)
        self.assertNotIn('degraded', log.output)
        self.assertEqual(set(), self.cloud.holders)

    def test_those_that_do_not_end_make_no_room(self) -> None:
        self.admit(
            self.admission,
            'before',
            hosts.span(0, START),
            least=2,
            at_end=plan_request.AtEnd.SHELVE,
        )
        self.cloud.hold('x', 'a', 4, status='ERROR')
        slots.take(self.database, 'before', 'x', lambda held: held[0], now=1)

        log = self.useFixture(fixtures.FakeLogger())

        self.run_from(START - 60, START + promised.LEAVE_SECONDS, 20)
        self.assertEqual(State.ACTIVE, self.get().last.state)
        self.run_at(START + promised.LEAVE_SECONDS)

        self.assertEqual(State.DEGRADED, self.get().last.state)
        self.assertIn('migrations (1) hold the resources: x.', log.output)

    def test_what_is_cancelled_in_a_pass_needs_no_room(self) -> None:
        self.borrow('x', 8, on_drain='delete')
        self.run_at(NOTICE)
        for look in (0, 1):
            with self.subTest(look=look):
                self.change_meanwhile(self.cancel, look)
                self.run_at(NOTICE + 300)

                self.assertEqual([], self.cloud.asked)

    def test_a_borrower_that_is_another_one_meanwhile_stays(self) -> None:
        self.borrow('x', 8, on_drain='delete')
        self.run_at(NOTICE)
        for clock, fields in enumerate(
            (
                {'host': 'b'},
                {'extra_specs': {}},
                {'extra_specs': make_specs()},
                {'status': 'SHELVED_OFFLOADED'},
            )
        ):
            before = self.cloud.servers['x']
            find_server = self.cloud.find_server

            def change(fields: Any = fields) -> None:
                self.cloud.servers['x'] = dataclasses.replace(
                    self.cloud.servers['x'], **fields
                )

            with self.subTest(fields=fields):
                self.change_meanwhile(change, 1)
                self.run_at(NOTICE + 300 + clock)

                self.assertEqual([], self.cloud.asked)
            self.cloud.servers['x'] = before
            self.cloud.find_server = find_server  # type: ignore[method-assign]

    def test_a_borrower_that_holds_nothing_meanwhile_stays(self) -> None:
        self.borrow('x', 8, on_drain='delete')
        self.run_at(NOTICE)
        self.change_meanwhile(lambda: self.cloud.holders.discard('x'), 1)

        self.run_at(NOTICE + 300)

        self.assertEqual([], self.cloud.asked)

    def test_a_borrower_that_gets_a_place_meanwhile_stays(self) -> None:
        self.borrow('x', 8, on_drain='delete')
        self.run_at(NOTICE)

        self.admit(self.admission, 'other', hosts.span(END), least=1)
        find_server = self.cloud.find_server
        for number, key in enumerate(('other', 'lease')):

            def take(key: str = key) -> None:
                slots.take(
                    self.database, key, 'x', lambda held: held[0], now=1
                )

            with self.subTest(key=key):
                self.change_meanwhile(take, 1)
                self.run_at(NOTICE + 300 + number)

                self.assertEqual([], self.cloud.asked)
            self.cloud.find_server = find_server  # type: ignore[method-assign]
            with self.database.transaction() as connection:
                taken = servers.find_taken(connection, 'x')
            assert taken is not None
            slots.free(self.database, *taken)

    def test_a_borrower_that_cannot_go_keeps_no_other_one(self) -> None:
        self.cloud.capacities['a', 'VCPU'] = 16
        self.borrow('bad', 8)
        self.cloud.servers['bad'] = dataclasses.replace(
            self.cloud.servers['bad'], status='ERROR'
        )
        self.borrow('good', 8, priority='5')

        self.run_from(NOTICE, START + 60)

        self.assertEqual({'bad'}, self.cloud.holders)
        self.assertEqual(State.ACTIVE, self.get().last.state)

    def test_a_borrower_that_does_not_go_keeps_no_other_one(self) -> None:
        self.cloud.capacities['a', 'VCPU'] = 16
        self.borrow('bad', 8)
        self.borrow('good', 8, priority='5')
        act = self.cloud.act

        def refuse(uuid: str, action: Any) -> None:
            if uuid == 'bad':
                raise exception.ComputeUnavailable(action='act', reason='409')
            act(uuid, action)

        self.cloud.act = refuse  # type: ignore[method-assign]
        self.run_from(NOTICE, START + 2000)

        self.assertEqual({'bad'}, self.cloud.holders)
        self.assertEqual(State.ACTIVE, self.get().last.state)

    def test_a_borrower_that_hangs_is_named_once_a_minute(self) -> None:
        self.borrow('x', 8)
        self.run_at(NOTICE)
        self.cloud.servers['x'] = dataclasses.replace(
            self.cloud.servers['x'], task_state='shelving'
        )
        log = self.useFixture(fixtures.FakeLogger(level=logging.WARNING))
        words = (
            'not free for reservations lease, which have begun: server x is '
        )

        self.run_at(START - 15)
        self.assertNotIn(words, log.output)
        self.run_from(START, START + 120, 15)

        self.assertEqual(2, log.output.count(words))

    def test_words_of_a_person_are_no_notice(self) -> None:
        self.borrow('x', 8, on_drain='delete')
        self.admission.change(
            'lease',
            State.PENDING,
            now=NOTICE - 9000,
            reason='servers are told to leave host a, which is promised: x',
        )

        self.run_at(NOTICE)
        self.assertEqual([], self.cloud.asked)
        self.run_at(NOTICE + 300)

        self.assertEqual([('x', 'delete')], self.cloud.asked)

    def test_words_of_a_person_are_no_cause(self) -> None:
        for reason in ('room is missing on host a: 1', 'host a is gone'):
            self.admission.change(
                'lease', State.DEGRADED, now=1, reason=reason
            )

        self.run_at(START)

        self.assertEqual(State.DEGRADED, self.get().last.state)

    def test_another_amount_is_written(self) -> None:
        self.cloud.hold('own', 'a', 4)
        self.run_at(START)
        self.cloud.hold('own', 'a', 1)

        self.run_from(START + 60, START + 240)

        reasons = [
            one.reason for one in managers.list_changes(self.url, 'lease')
        ]
        self.assertEqual(4, len(reasons))
        self.assertIn('1 VCPU', reasons[-1])

    def test_the_owner_of_a_borrower_is_told(self) -> None:
        self.borrow('x', 8)
        self.run_at(NOTICE)

        self.assertEqual(
            {
                owners.LEAVES_AT: interval.format_time(NOTICE + 300),
                owners.LEAVES_BY: 'shelve',
            },
            self.cloud.servers['x'].metadata,
        )
        self.run_from(NOTICE + 10, NOTICE + 300, 10)
        self.assertEqual(['x'], self.cloud.told)

    def test_a_manager_that_dies_before_the_owner_is_told(self) -> None:
        self.borrow('x', 8, on_drain='delete')
        set_metadata = self.cloud.set_metadata

        def die(uuid: str, metadata: object) -> None:
            raise breaking.Died

        self.cloud.set_metadata = die  # type: ignore[method-assign]
        self.assertRaises(breaking.Died, self.run_at, NOTICE)
        self.cloud.set_metadata = set_metadata  # type: ignore[method-assign]
        self.turn = self.make_turn()
        self.run_at(NOTICE + 60)

        metadata = self.cloud.servers['x'].metadata
        self.assertEqual('delete', metadata[owners.LEAVES_BY])
        self.assertEqual(
            interval.format_time(NOTICE + 300), metadata[owners.LEAVES_AT]
        )

    def test_an_owner_that_cannot_be_told_keeps_no_server(self) -> None:
        self.borrow('x', 8)
        log = self.useFixture(fixtures.FakeLogger())

        def refuse(uuid: str, metadata: object) -> None:
            raise exception.ComputeUnavailable(action='tell', reason='409')

        self.cloud.set_metadata = refuse  # type: ignore[method-assign]
        self.run_from(NOTICE, NOTICE + 360)

        self.assertEqual([('x', 'shelve')], self.cloud.asked)
        self.assertEqual(1, log.output.count('owner of server x'))

    def test_a_notice_lapses(self) -> None:
        self.borrow('x', 8)
        self.run_at(NOTICE)
        self.cloud.capacities['a', 'VCPU'] = 16
        self.run_from(NOTICE + 60, START + 5000)
        self.cloud.capacities['a', 'VCPU'] = 8

        self.run_at(START + 5060)
        self.assertEqual(([], 2), (self.cloud.asked, len(self.list_notices())))
        self.run_at(START + 5359)
        self.assertEqual([], self.cloud.asked)
        self.run_at(START + 5360)

        self.assertEqual([('x', 'shelve')], self.cloud.asked)

    def test_a_clock_that_jumps_drains_nobody(self) -> None:
        self.borrow('x', 8, drain_seconds='0')
        self.turn = self.make_turn(wait=300)
        for clock in (0, START, START + 1):
            self.run_at(clock)

        self.assertEqual(([], []), (self.list_notices(), self.cloud.asked))

    def test_a_clock_that_jumps_after_the_notice(self) -> None:
        self.borrow('x', 8)
        self.turn = self.make_turn(wait=300)
        self.run_at(NOTICE - 300)
        self.time.pass_by(300)
        self.turn.run()
        self.assertEqual(1, len(self.list_notices()))

        self.run_at(NOTICE + 300)
        self.assertEqual([], self.cloud.asked)
        self.time.pass_by(300)
        self.turn.run()

        self.assertEqual([('x', 'shelve')], self.cloud.asked)

    def test_a_manager_that_dies_after_the_notice(self) -> None:
        self.borrow('x', 8)
        self.run_at(NOTICE)

        self.turn = self.make_turn()
        self.run_at(NOTICE + 299)
        self.assertEqual([], self.cloud.asked)
        self.turn = self.make_turn()
        self.run_at(NOTICE + 300)

        self.assertEqual([('x', 'shelve')], self.cloud.asked)
        self.assertEqual(1, len(self.list_notices()))

    def test_a_manager_that_dies_at_any_step(self) -> None:
        """Another one goes on, and all is as if it had not died."""
        clocks = [NOTICE, NOTICE + 300, NOTICE + 310, NOTICE + 320, START]
        template = f'{self.make_folder()}/before.db'
        with contextlib.closing(sqlite3.connect(template)) as copy:
            path = self.url.removeprefix('sqlite:///')
            with contextlib.closing(sqlite3.connect(path)) as original:
                original.backup(copy)
        for step in itertools.count(1):
            shutil.copy(template, f'{template}.{step}')
            self.url = f'sqlite:///{template}.{step}'
            self.cloud = clouds.FakeCloud([hosts.make_host('a')])
            self.borrow('x', 8)
            dying = breaking.Dying(step)
            for name in ('read_uses', 'find_server', 'act', 'set_metadata'):
                dying.wrap(self.cloud, name)
            database = breaking.DyingDatabase(self.url, dying)
            self.turn = self.make_turn(database=database)
            for clock in clocks:
                try:
                    self.run_at(clock)
                except breaking.Died:
                    self.turn = self.make_turn()
                    self.run_at(clock)

            self.assertEqual(1, len(self.list_notices()), f'step {step}')
            self.assertEqual(
                [('x', 'shelve'), ('x', 'shelveOffload')], self.cloud.asked
            )
            self.assertEqual(
                ['pending', 'pending', 'active'],
                managers.list_states(self.url, 'lease'),
            )
            if not dying.has_died:
                break
        self.assertGreater(step, 50)

    def test_a_clock_that_was_ahead_puts_off_no_look(self) -> None:
        self.run_at(START + 4000)
        self.borrow('x', 8)

        self.run_at(START)

        self.assertEqual(1, len(self.list_notices()))

    def test_a_notice_and_a_broken_promise_in_one_pass(self) -> None:
        self.borrow('x', 8)

        self.assertTrue(self.run_at(START))

        self.assertEqual(1, len(self.list_notices()))
        self.assertEqual(State.DEGRADED, self.get().last.state)

    def test_a_host_with_room_is_not_looked_at_each_time(self) -> None:
        reads = []
        read_uses = self.cloud.read_uses

        def count(rp_uuids: Any) -> Any:
            reads.append(self.time.clock)
            return read_uses(rp_uuids)

        self.cloud.read_uses = count  # type: ignore[method-assign]
        begin = START - lending.HORIZON_SECONDS
        self.run_from(begin - 30, begin + draining.CHECK_SECONDS + 1, 15)

        self.assertEqual([begin, begin + draining.CHECK_SECONDS], reads)
