# SPDX-License-Identifier: Apache-2.0

"""Tests that a slot has one server at most, and a server one slot."""

from collections.abc import Callable
from concurrent import futures
import dataclasses
import functools
import threading
from unittest import mock

import sqlalchemy as sa

from nova_ext_resources import exception
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation import planner
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import admission as admission_mod
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import slots
from nova_ext_resources.reservation.store import tables
from tests.unit.reservation import hosts
from tests.unit.reservation.store import stores

DURING = hosts.span(5, 90)


def choose_free(held: servers.PlannedServers) -> planned_server.PlannedServer:
    return next(one for one in held if one.consumer is None)


def choose_any(
    held: servers.PlannedServers,
) -> planned_server.PlannedServer | None:
    return next((one for one in held if one.consumer is None), None)


def choose_nothing(_held: servers.PlannedServers) -> None:
    return None


class SlotsTest(stores.StoreTestCase):
    """A reservation of four servers on two hosts."""

    def setUp(self) -> None:
        super().setUp()
        self.patch(admission_mod, 'FIXED_SECONDS', 0)
        self.database = databases.Database(self.url)
        self.admission = stores.make_admission(self.url)
        self.admit(self.admission, 'lease', DURING, least=4)

    def take(
        self,
        consumer: str,
        key: str = 'lease',
        choose: slots.Choose = choose_free,
        now: int = 6,
    ) -> planned_server.PlannedServer | None:
        return slots.take(self.database, key, consumer, choose, now=now)

    def take_one(self, consumer: str) -> planned_server.PlannedServer:
        taken = self.take(consumer)
        assert taken is not None
        return taken

    def read(self) -> dict[str, tuple[str | None, int | None]]:
        """Return the server and the time of each slot that is taken."""
        return {
            row.server: (row.consumer, row.taken_at)
            for row in stores.dump(self.url)['servers']
            if row.consumer or row.taken_at is not None
        }

    def test_what_was_taken_is_written(self) -> None:
        taken = self.take_one('one')

        self.assertEqual(('one', 6), (taken.consumer, taken.taken_at))
        self.assertEqual({taken.key: ('one', 6)}, self.read())

    def test_nothing_else_of_a_slot_changes(self) -> None:
        before = self.list_held(stores.make_admission(self.url))

        taken = self.take_one('one')
        slots.free(self.database, 'lease', taken)

        self.assertEqual(
            before, self.list_held(stores.make_admission(self.url))
        )

    def list_held(
        self, admission: admission_mod.Admission
    ) -> servers.PlannedServers:
        admission.refresh(0)
        return admission._mirror.held['lease']

    def test_whoever_follows_the_store_sees_it(self) -> None:
        self.list_held(self.admission)

        taken = self.take_one('one')
        self.assertIn(taken, self.list_held(self.admission))

        slots.free(self.database, 'lease', taken)
        self.assertIn(servers.free(taken), self.list_held(self.admission))

    def test_whoever_follows_the_store_sees_what_is_free_elsewhere(
        self,
    ) -> None:
        self.admit(self.admission, 'other', hosts.span(100, 110), least=4)
        first = self.take_one('one')
        self.list_held(self.admission)

        def choose(
            held: servers.PlannedServers,
        ) -> planned_server.PlannedServer:
            return next(one for one in held if one.host != first.host)

        self.take('one', 'other', choose=choose)

        held = self.list_held(self.admission)
        self.assertEqual([], [one for one in held if one.consumer])

    def test_another_slot_instead_frees_the_former(self) -> None:
        self.admit(self.admission, 'other', hosts.span(100, 110))
        first = self.take_one('one')

        second = self.take('one', now=7)

        assert second is not None
        self.assertNotEqual(first.key, second.key)
        self.assertEqual({second.key: ('one', 7)}, self.read())
        third = self.take('one', 'other', now=8)
        assert third is not None
        self.assertEqual({third.key: ('one', 8)}, self.read())

    def test_the_same_slot_again_is_taken_since_now(self) -> None:
        taken = self.take_one('one')

        def choose_mine(
            held: servers.PlannedServers,
        ) -> planned_server.PlannedServer:
            return next(one for one in held if one.consumer == 'one')

        again = self.take('one', choose=choose_mine, now=9)

        self.assertEqual(dataclasses.replace(taken, taken_at=9), again)
        self.assertEqual({taken.key: ('one', 9)}, self.read())

    def test_where_nothing_is_chosen_nothing_changes(self) -> None:
        self.take_one('one')
        before = stores.dump(self.url)

        self.assertIsNone(self.take('one', choose=choose_nothing))
        self.assertIsNone(self.take('one', 'unknown', choose_any))

        self.assertEqual(before, stores.dump(self.url))

    def test_the_slot_of_another_server_is_not_taken(self) -> None:
        self.take_one('one')

        self.assertRaises(
            ValueError,
            self.take,
            'two',
            choose=lambda held: next(one for one in held if one.consumer),
        )

    def test_what_is_over_cannot_be_taken(self) -> None:
        self.assertIsNone(self.take('one', choose=choose_any, now=90))

        self.admission.change(
            'lease', state.State.CANCELLED, now=7, reason='not needed'
        )
        self.assertIsNone(self.take('one', choose=choose_any))

    def test_what_is_released_is_nobodys(self) -> None:
        self.take_one('one')

        self.admission.change(
            'lease', state.State.CANCELLED, now=7, reason='not needed'
        )

        self.assertEqual({}, self.read())

    def test_a_slot_that_was_taken_again_is_not_freed(self) -> None:
        old = self.take_one('one')
        self.assertTrue(slots.free(self.database, 'lease', old))
        new = slots.take(
            self.database, 'lease', 'one', lambda _held: old, now=8
        )

        for wrong in (
            old,
            servers.free(old),
            dataclasses.replace(old, consumer='two'),
        ):
            self.assertFalse(slots.free(self.database, 'lease', wrong))

        assert new is not None
        self.assertFalse(slots.free(self.database, 'other', new))
        self.assertEqual({new.key: ('one', 8)}, self.read())

    def test_no_two_slots_can_have_the_same_server(self) -> None:
        self.take_one('one')

        def write() -> None:
            with self.database.transaction() as connection:
                connection.execute(
                    sa.update(tables.SERVERS).values(consumer='one')
                )

        self.assertRaises(exception.RevisionMoved, write)

    def test_fewer_servers_are_those_that_are_taken(self) -> None:
        taken = [self.take('one'), self.take('two')]
        last = [one.key for one in taken if one]
        self.release_all_but(last[1])

        plan = self.admission.replace(
            hosts.make_request('lease', hosts.span(5, 80), least=1),
            now=7,
            reason='not needed',
        )

        assert isinstance(plan, planner.Plan)
        self.assertEqual(last[1:], [one.key for one in plan.servers])
        self.assertEqual({last[1]: ('two', 6)}, self.read())

    def release_all_but(self, kept: str) -> None:
        for one in self.list_held(self.admission):
            if one.key != kept and one.consumer:
                slots.free(self.database, 'lease', one)

    def test_an_update_keeps_the_servers(self) -> None:
        taken = self.take_one('one')

        self.admission.replace(
            hosts.make_request('lease', hosts.span(5, 99), least=4),
            now=7,
            reason='needed for longer',
        )

        self.assertEqual({taken.key: ('one', 6)}, self.read())

    def race(self, acts: list[Callable[[], object]]) -> list[object]:
        """Let all have read before the first one writes."""
        barrier = threading.Barrier(len(acts))
        read = servers.find_taken
        waiting = set(range(len(acts)))

        def read_and_wait(
            connection: sa.Connection, consumer: str
        ) -> tuple[str, planned_server.PlannedServer] | None:
            found = read(connection, consumer)
            try:
                waiting.pop()
            except KeyError:
                return found
            barrier.wait(60)
            return found

        with (
            mock.patch.object(servers, 'find_taken', read_and_wait),
            futures.ThreadPoolExecutor(len(acts)) as pool,
        ):
            return [*pool.map(lambda act: act(), acts)]

    def test_each_of_many_gets_a_slot_of_its_own_or_none(self) -> None:
        names = [f'server {number}' for number in range(6)]

        taken = self.race(
            [
                functools.partial(self.take, name, choose=choose_any)
                for name in names
            ]
        )

        given = [one for one in taken if one is not None]
        self.assertEqual(4, len(given))
        self.assertEqual(4, len(self.read()))

    def test_one_server_that_asks_often_gets_one_slot(self) -> None:
        self.race([lambda: self.take('one', choose=choose_any)] * 4)

        self.assertEqual(1, len(self.read()))

    def test_what_is_cancelled_meanwhile_is_not_taken(self) -> None:
        def choose(
            held: servers.PlannedServers,
        ) -> planned_server.PlannedServer | None:
            if held:
                self.admission.change(
                    'lease',
                    state.State.CANCELLED,
                    now=7,
                    reason='not needed',
                )
            return choose_any(held)

        self.assertIsNone(self.take('one', choose=choose))
        self.assertEqual({}, self.read())
