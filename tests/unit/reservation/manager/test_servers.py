# SPDX-License-Identifier: Apache-2.0

"""Tests of what a manager does with the servers of reservations."""

from collections.abc import Callable
import dataclasses
import itertools
import threading
from typing import Any

import fixtures

from nova_ext_resources import exception
from nova_ext_resources.reservation import due
from nova_ext_resources.reservation.manager import ending
from nova_ext_resources.reservation.manager import freeing
from nova_ext_resources.reservation.manager import removal
from nova_ext_resources.reservation.manager import time_budget
from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import admission as admission_mod
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import progress
from nova_ext_resources.reservation.store import purge
from nova_ext_resources.reservation.store import records
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import shrinking
from nova_ext_resources.reservation.store import slots
from tests.unit.reservation import hosts
from tests.unit.reservation.manager import clouds
from tests.unit.reservation.manager import managers
from tests.unit.reservation.store import racing
from tests.unit.reservation.store import stores

AtEnd = plan_request.AtEnd
State = state.State

START, END = 1000, 9000

#: When servers are removed at the end.
GOING = END + due.MAX_SKEW

DURING = hosts.span(START, END)


class ServersTests(stores.StoreTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.database = databases.Database(self.url)
        self.admission = stores.make_admission(self.url)
        self.time = managers.Time(START)
        self.cloud = clouds.FakeCloud()
        self.turn = self.make_turn()

    def make_turn(self, **fields: Any) -> Any:
        return managers.make_turn(
            self.url, self.time, cloud=self.cloud, **fields
        )

    def reserve(self, key: str = 'lease', **fields: Any) -> None:
        self.admit(self.admission, key, DURING, **{'least': 3, **fields})

    def take(self, consumer: str, key: str = 'lease', now: int = 0) -> None:
        """Let a server take the next slot that is free, and be there."""

        def choose(held: servers.PlannedServers) -> Any:
            return next(one for one in held if one.consumer is None)

        slots.take(self.database, key, consumer, choose, now=now or START)
        self.cloud.add(consumer)

    def run_at(self, clock: float) -> bool:
        self.time.clock = clock
        return bool(self.turn.run())

    def get(self, key: str = 'lease') -> records.Record:
        with self.database.transaction() as connection:
            (found,) = records.list_records(connection, 0, key=key)
        return found

    def list_consumers(self) -> list[str | None]:
        return [one.consumer for one in self.get().servers]

    def list_reasons(self, key: str = 'lease') -> list[str]:
        return [one.reason for one in managers.list_changes(self.url, key)]


class ExpiringTest(ServersTests):
    def test_what_no_server_has_taken_is_released(self) -> None:
        self.reserve(expires_after=600)
        self.take('one')
        self.run_at(START + 599)
        self.assertEqual(['one', None, None], self.list_consumers())

        self.assertTrue(self.run_at(START + 600))

        found = self.get()
        self.assertEqual(['one'], self.list_consumers())
        self.assertEqual((1, 1), (found.request.least, found.request.most))
        self.assertEqual(State.ACTIVE, found.last.state)
        self.assertIn('only 1 of 3', found.last.reason)
        # There is room for three servers again.
        self.admit(self.admission, 'other', DURING, least=3)
        self.assertEqual(3, len(self.get('other').servers))

    def test_what_is_degraded_does_not_expire(self) -> None:
        self.reserve(expires_after=600)
        self.cloud.enabled['a'] = False
        self.run_at(START + 500)
        for clock in (600, 700):
            self.run_at(START + clock)

        self.assertEqual(State.DEGRADED, self.get().last.state)
        self.assertEqual(3, managers.count_held(self.url))
        self.cloud.enabled['a'] = True
        for clock in (800, 899):
            self.run_at(START + clock)
        self.assertEqual(State.ACTIVE, self.get().last.state, '100 s are left')

        self.run_at(START + 900)

        self.assertEqual(State.EXPIRED, self.get().last.state)
        self.assertIn('by 1970-01-01T00:31:40Z', self.list_reasons()[-1])

    def test_what_is_not_used_at_all_expires(self) -> None:
        self.reserve(expires_after=600)

        self.run_at(START + 600)

        self.assertEqual(
            ['pending', 'active', 'expired'],
            managers.list_states(self.url, 'lease'),
        )
        self.assertEqual(0, managers.count_held(self.url))

    def test_a_server_that_is_deleted_later_can_be_made_anew(self) -> None:
        self.reserve(expires_after=600, least=1)
        self.take('one')
        self.run_at(START + 600)
        self.cloud.act('one', nova_server.Action.DELETE)
        self.run_at(START + 2000)
        self.run_at(START + 2015)
        self.assertEqual([None], self.list_consumers())

        self.run_at(START + 3000)

        self.assertEqual([None], self.list_consumers())
        self.assertEqual(State.ACTIVE, self.get().last.state)

    def test_the_expiry_is_one_row(self) -> None:
        self.reserve('some', expires_after=600, least=2)
        self.reserve('all', expires_after=600, least=1)
        self.take('one', 'some')
        self.take('two', 'all')
        for clock in (600, 700, 800):
            self.run_at(START + clock)

        for key in ('some', 'all'):
            self.assertEqual(3, len(self.list_reasons(key)), key)

    def test_nothing_expires_by_default(self) -> None:
        self.reserve()

        self.run_at(END - 1)

        self.assertEqual(3, managers.count_held(self.url))

    def test_a_clock_that_jumps_expires_nothing(self) -> None:
        self.reserve(expires_after=600)
        self.turn = self.make_turn(wait=300)
        self.turn.run()

        self.run_at(START + 700)

        self.assertEqual(3, managers.count_held(self.url))

    def test_a_server_that_comes_in_that_second_keeps_its_slot(self) -> None:
        self.reserve(expires_after=600)
        read = servers.read_servers
        is_taken = False

        def read_and_take(*args: Any) -> Any:
            nonlocal is_taken
            found = read(*args)
            if not is_taken:
                is_taken = True
                self.take('late', now=START + 600)
            return found

        self.patch(servers, 'read_servers', read_and_take)
        self.run_at(START + 600)

        self.assertEqual(['late'], self.list_consumers())
        self.assertEqual(State.ACTIVE, self.get().last.state)

    def test_servers_that_come_while_managers_expire(self) -> None:
        """A slot that was taken is held; one that was not is released."""
        self.reserve(expires_after=600)
        self.time.clock = START + 600
        barrier, taken = threading.Barrier(4), list[str]()

        def take(consumer: str) -> None:
            barrier.wait(60)
            slot = slots.take(
                databases.Database(self.url),
                'lease',
                consumer,
                lambda held: next(
                    (one for one in held if one.consumer is None), None
                ),
                now=START + 600,
            )
            if slot is not None:
                taken.append(consumer)

        def expire() -> None:
            barrier.wait(60)
            self.make_turn().run()

        threads = [
            threading.Thread(target=take, args=('x',)),
            threading.Thread(target=take, args=('y',)),
            threading.Thread(target=expire),
            threading.Thread(target=expire),
        ]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.turn.run()

        self.assertEqual(
            sorted(taken), sorted(filter(None, self.list_consumers()))
        )

    def test_a_manager_that_is_killed_in_an_expiry(self) -> None:
        self.reserve(expires_after=600)
        self.take('one')
        self.time.clock = START
        self.turn.run()
        before = stores.dump(self.url)

        def expire(admission: admission_mod.Admission) -> None:
            database: Any = admission._database
            with database.transaction() as connection:
                (found,) = progress.list_unfinished(connection)
            shrinking.expire(database, found, START + 600)

        for step in itertools.count(1):
            if not racing.die_after(self.url, step, expire):
                break
            self.assertEqual(before, stores.dump(self.url), f'step {step}')
        self.assertGreater(step, 4)
        self.assertEqual(['one'], self.list_consumers())


class FreeingTest(ServersTests):
    def test_what_a_server_had_that_is_gone_is_free(self) -> None:
        self.reserve()
        self.take('one')
        self.take('two')
        self.cloud.holders.discard('one')
        self.run_at(START + 299)
        self.assertEqual(['one', 'two', None], self.list_consumers())

        self.cloud.servers.pop('one')
        self.run_at(START + 300)
        self.assertEqual(['one', 'two', None], self.list_consumers())
        self.run_at(START + 315)

        self.assertEqual([None, 'two', None], self.list_consumers())
        reason = self.list_reasons()[-1]
        self.assertIn('server one has no allocations in placement', reason)
        self.assertIn('on host a', reason)

    def test_each_server_is_looked_for_in_turn(self) -> None:
        self.patch(freeing, 'MOST', 2)
        self.reserve()
        for one in ('one', 'two', 'three'):
            self.take(one)
        seen = []
        for clock in (300, 315, 330, 600, 615):
            self.run_at(START + clock)
            seen.append(self.cloud.looked)

        self.assertEqual([2, 3, 3, 5, 6], seen)

    def test_a_slot_that_was_taken_again_is_not_freed(self) -> None:
        self.reserve(least=1)
        self.take('one')
        has_allocations = self.cloud.has_allocations
        slot = self.get().servers[0]

        def take_again(consumer: str) -> bool:
            slots.free(self.database, 'lease', slot)
            self.take('two', now=START + 310)
            return has_allocations(consumer)

        self.cloud.holders.clear()
        self.cloud.servers.clear()
        self.turn = self.make_turn(is_once=True)
        self.cloud.has_allocations = take_again  # type: ignore[method-assign]
        self.run_at(START + 310)

        self.assertEqual(['two'], self.list_consumers())
        self.assertEqual(2, len(self.list_reasons()))

    def test_a_server_that_nova_has_keeps_its_slot(self) -> None:
        """One that is being moved holds nothing for a moment."""
        self.reserve()
        self.take('one')
        self.cloud.holders.clear()
        for clock in range(300, 900, 15):
            self.run_at(START + clock)
        self.assertEqual(['one', None, None], self.list_consumers())

        self.cloud.add('one', status='ERROR')
        self.cloud.holders.clear()
        for clock in (900, 1200, 1215):
            self.run_at(START + clock)

        self.assertEqual([None, None, None], self.list_consumers())

    def test_a_server_is_gone_in_two_passes_in_a_row(self) -> None:
        self.reserve(least=1)
        self.take('one')
        self.cloud.servers.clear()
        for clock, holders in ((300, set()), (315, {'one'}), (615, set())):
            self.cloud.holders = holders
            self.run_at(START + clock)
        self.assertEqual(['one'], self.list_consumers())

        self.run_at(START + 630)

        self.assertEqual([None], self.list_consumers())

    def test_a_clock_that_was_ahead_puts_off_no_look(self) -> None:
        self.reserve(least=1)
        self.take('one')
        self.run_at(START + 4000)
        self.cloud.servers.clear()
        self.cloud.holders.clear()

        self.run_at(START + 400)
        self.run_at(START + 415)

        self.assertEqual([None], self.list_consumers())

    def test_a_placement_that_is_empty_frees_nothing(self) -> None:
        self.reserve()
        self.take('one')
        self.cloud.holders.clear()
        self.cloud.servers.clear()
        self.cloud.enabled.clear()
        for clock in (300, 315, 330):
            self.assertFalse(self.run_at(START + clock))

        self.assertEqual(['one', None, None], self.list_consumers())

    def test_a_pass_frees_no_more_than_so_many(self) -> None:
        self.patch(freeing, 'MOST_FREED', 1)
        self.reserve()
        for one in ('one', 'two', 'three'):
            self.take(one)
        self.cloud.holders.clear()
        self.cloud.servers.clear()
        seen = []
        for clock in (300, 315, 330, 345):
            self.run_at(START + clock)
            seen.append(self.list_consumers().count(None))

        self.assertEqual([0, 1, 2, 3], seen)

    def test_a_server_that_cannot_be_looked_at_stops_no_other(self) -> None:
        self.reserve()
        self.take('one')
        self.take('two')
        self.cloud.act('two', nova_server.Action.DELETE)
        has_allocations = self.cloud.has_allocations

        def fail(consumer: str) -> bool:
            if consumer == 'one':
                raise exception.PlacementUnavailable(
                    action='a', status=500, detail='odd'
                )
            return has_allocations(consumer)

        self.cloud.has_allocations = fail  # type: ignore[method-assign]
        for clock in (300, 315):
            self.assertEqual(clock == 315, self.run_at(START + clock))

        self.assertEqual(['one', None, None], self.list_consumers())

    def test_one_that_cannot_expire_stops_no_other(self) -> None:
        self.reserve('bad', expires_after=600, least=1)
        self.reserve('good', expires_after=600, least=1)
        expire = shrinking.expire

        def fail(database: Any, one: Any, now: int) -> Any:
            if one.key == 'bad':
                raise exception.StoreError(reason='odd')
            return expire(database, one, now)

        self.patch(shrinking, 'expire', fail)

        self.assertFalse(self.run_at(START + 600))

        self.assertEqual(State.EXPIRED, self.get('good').last.state)

    def test_one_pass_alone_frees(self) -> None:
        self.reserve()
        self.take('one')
        self.cloud.act('one', nova_server.Action.DELETE)
        self.turn = self.make_turn(is_once=True)

        self.run_at(START + 300)

        self.assertEqual([None, None, None], self.list_consumers())

    def test_placement_that_is_away_frees_nothing(self) -> None:
        self.reserve(expires_after=600)
        self.take('one')
        self.cloud.is_placement_away = True

        self.assertFalse(self.run_at(START + 600))

        self.assertEqual(['one'], self.list_consumers())

    def test_a_clock_that_jumps_frees_nothing(self) -> None:
        self.reserve()
        self.take('one')
        self.cloud.holders.clear()
        self.turn = self.make_turn(wait=300)

        self.run_at(START + 1000)

        self.assertEqual(['one', None, None], self.list_consumers())


class MovedTest(ServersTests):
    """A server with a place on host ``a`` is on host ``b``."""

    def setUp(self) -> None:
        super().setUp()
        self.reserve(least=4)
        self.assertEqual(['a', 'b'], self.get().hosts)
        self.take('one')
        self.cloud.hold('one', 'b', 4)
        self.log = self.useFixture(fixtures.FakeLogger())

    def list_places(self) -> list[str]:
        return [one.host for one in self.get().servers if one.consumer]

    def run_often(self) -> None:
        for clock in (300, 315, 600, 900):
            self.run_at(START + clock)

    def test_it_gets_a_place_where_it_is(self) -> None:
        self.run_often()

        self.assertEqual(['b'], self.list_places())
        self.assertEqual(3, self.list_consumers().count(None))

    def test_there_is_none_for_it(self) -> None:
        for uuid in ('two', 'three', 'four'):
            self.take(uuid)
            host = self.get().servers[len(self.list_places()) - 1].host
            self.cloud.hold(uuid, host, 4)
        self.run_often()

        self.assertEqual(['a', 'a', 'b', 'b'], self.list_places())
        self.assertEqual(1, self.log.output.count('Move the server back'))
        self.assertIn('Server one of reservation lease', self.log.output)

    def test_a_move_that_goes_on_is_left_alone(self) -> None:
        cases: list[dict[str, Any]] = [
            {'task_state': 'migrating'},
            {'status': 'VERIFY_RESIZE'},
            {'host': 'a'},
            {'host': ''},
        ]
        for fields in cases:
            with self.subTest(fields=fields):
                self.cloud.hold('one', 'b', 4)
                self.cloud.servers['one'] = dataclasses.replace(
                    self.cloud.servers['one'], **fields
                )
                self.turn = self.make_turn()

                self.run_at(START + 300)

                self.assertEqual(['a'], self.list_places())

    def test_a_server_that_is_in_its_place_keeps_it(self) -> None:
        """Placement says so: Nova is not asked for each of thousands."""
        self.cloud.hold('one', 'a', 4)
        asked = list[str]()
        self.patch(self.cloud, 'find_server', asked.append)

        self.run_often()

        self.assertEqual([], asked)

        self.assertEqual(['a'], self.list_places())
        self.assertNotIn('moved', self.log.output)


class RightsTest(ServersTests):
    def test_what_is_not_shown_may_be_there(self) -> None:
        """To whoever may not see a server, Nova says that it is not there."""
        self.reserve()
        self.take('one')
        self.cloud.holders.clear()
        self.cloud.servers.clear()
        self.cloud.missing_right = '403 Forbidden'
        for clock in range(START + 300, START + 1300, 60):
            self.run_at(clock)
        self.assertEqual(['one', None, None], self.list_consumers())

        self.cloud.missing_right = ''
        self.turn = self.make_turn()
        for clock in (1300, 1660):
            self.run_at(START + clock)

        self.assertEqual([None] * 3, self.list_consumers())

    def test_a_right_that_is_missing_is_said_once(self) -> None:
        log = self.useFixture(fixtures.FakeLogger())
        self.cloud.missing_right = '403 Forbidden'
        self.cloud.is_nova_away = True
        self.assertTrue(self.run_at(START))
        self.assertNotIn('projects', log.output)
        self.cloud.is_nova_away = False
        for clock in (15, 30):
            self.assertTrue(self.run_at(START + clock))

        self.assertEqual(1, log.output.count('403 Forbidden'))
        self.assertIn('administrator', log.output)


class EndingTest(ServersTests):
    def end(self, at_end: AtEnd) -> None:
        self.reserve(at_end=at_end)
        self.take('one')
        self.take('two')
        self.turn.run()

    def is_over(self) -> bool:
        return self.get().last.state is State.ENDED

    def test_servers_go_on_by_default(self) -> None:
        self.end(AtEnd.KEEP)

        self.assertTrue(self.run_at(END))

        self.assertTrue(self.is_over())
        self.assertEqual([], self.cloud.asked)

    def test_servers_are_shelved_and_offloaded(self) -> None:
        self.end(AtEnd.SHELVE)
        self.run_at(GOING - 1)
        self.assertEqual([], self.cloud.asked)

        self.assertFalse(self.run_at(GOING))
        self.assertFalse(self.run_at(GOING + 1))
        self.assertFalse(self.is_over())
        self.assertTrue(self.run_at(GOING + 2))

        self.assertTrue(self.is_over())
        self.assertEqual(
            [
                ('one', 'shelve'),
                ('two', 'shelve'),
                ('one', 'shelveOffload'),
                ('two', 'shelveOffload'),
            ],
            self.cloud.asked,
        )
        self.assertIn('its servers are shelved', self.list_reasons()[-1])

    def test_servers_are_deleted(self) -> None:
        self.end(AtEnd.DELETE)

        self.run_at(GOING)
        self.run_at(GOING + 1)

        self.assertTrue(self.is_over())
        self.assertEqual(
            [('one', 'delete'), ('two', 'delete')], self.cloud.asked
        )

    def test_nova_that_is_away_is_asked_again(self) -> None:
        self.end(AtEnd.DELETE)
        self.cloud.is_nova_away = True
        for clock in (GOING, END + 100, END + 3600):
            self.assertFalse(self.run_at(clock))
        self.assertFalse(self.is_over())

        self.cloud.is_nova_away = False
        self.run_at(END + 4000)
        self.run_at(END + 4001)

        self.assertTrue(self.is_over())
        self.assertEqual({}, self.cloud.servers)

    def test_nova_that_is_away_is_asked_once_in_a_pass(self) -> None:
        self.end(AtEnd.DELETE)
        self.reserve('other', least=1, at_end=AtEnd.DELETE)
        self.take('three', 'other')
        asked = []

        def fail(uuid: str) -> Any:
            asked.append(uuid)
            raise exception.ComputeUnavailable(
                action='show', reason='away', is_away=True
            )

        self.cloud.find_server = fail  # type: ignore[method-assign]
        for clock, wanted in ((0, ['one']), (15, ['three']), (30, ['two'])):
            asked.clear()

            self.assertFalse(self.run_at(GOING + clock))

            self.assertEqual(wanted, asked)
        self.assertFalse(self.is_over())

    def test_a_server_that_cannot_be_read_stops_no_other(self) -> None:
        self.end(AtEnd.DELETE)
        find_server = self.cloud.find_server

        def find(uuid: str) -> Any:
            if uuid == 'one':
                raise exception.ComputeUnavailable(action='a', reason='odd')
            return find_server(uuid)

        self.cloud.find_server = find  # type: ignore[method-assign]
        self.assertFalse(self.run_at(GOING))

        self.assertEqual([('two', 'delete')], self.cloud.asked)
        self.assertFalse(self.is_over())

    def test_a_server_that_comes_in_the_last_moment(self) -> None:
        """By a scheduler whose clock is behind."""
        self.end(AtEnd.DELETE)
        self.run_at(GOING)
        self.assertEqual({}, self.cloud.servers)
        advance = progress.advance

        def take_first(*args: Any, **fields: Any) -> bool:
            self.patch(progress, 'advance', advance)
            self.take('late', now=END - 1)
            return advance(*args, **fields)

        self.patch(progress, 'advance', take_first)
        self.run_at(GOING + 1)
        self.assertFalse(self.is_over())
        self.assertIn('late', self.cloud.servers)
        self.run_at(GOING + 2)
        self.assertEqual(('late', 'delete'), self.cloud.asked[-1])
        self.assertTrue(self.run_at(GOING + 3))

        self.assertTrue(self.is_over())

    def test_another_reservation_of_the_same_name(self) -> None:
        """Its servers stay, whatever the first one said of its own."""
        self.turn = self.make_turn(notice=600)
        self.end(AtEnd.DELETE)
        self.run_at(END - 300)
        self.admission.change(
            'lease', State.CANCELLED, now=END - 200, reason='not needed'
        )
        self.assertEqual(1, purge.purge(self.database, END))
        # Its servers are there until the hosts are read again.
        self.admission = stores.make_admission(self.url)
        self.reserve(at_end=AtEnd.KEEP)
        self.take('one')

        self.assertTrue(self.run_at(GOING))

        self.assertTrue(self.is_over())
        self.assertEqual([], self.cloud.asked)

    def test_a_server_that_never_goes_is_named(self) -> None:
        self.end(AtEnd.SHELVE)
        self.cloud.servers['one'] = dataclasses.replace(
            self.cloud.servers['one'], status='ERROR'
        )
        for clock in range(GOING, GOING + 5):
            self.run_at(clock)
        self.assertFalse(self.is_over())

        self.run_at(GOING + ending.MAX_SECONDS)

        self.assertTrue(self.is_over())
        reason = self.list_reasons()[-1]
        self.assertIn('1 of its servers were not shelved', reason)
        self.assertIn('server one cannot be shelved', reason)

    def test_no_place_is_free_for_others_after_the_end(self) -> None:
        self.end(AtEnd.SHELVE)
        self.cloud.add('one', status='ERROR')
        self.cloud.servers.pop('two')
        self.cloud.holders.discard('two')

        for clock in (GOING, GOING + 15, GOING + 30):
            self.run_at(clock)

        self.assertEqual(['one', 'two', None], self.list_consumers())

    def test_after_a_day_without_a_manager_all_servers_go(self) -> None:
        self.patch(removal, 'MOST', 1)
        self.end(AtEnd.DELETE)
        late = END + ending.MAX_SECONDS + 10

        for clock in range(late, late + 60, 15):
            self.run_at(clock)

        self.assertEqual({}, self.cloud.servers)
        self.assertTrue(self.is_over())

    def test_after_a_day_of_single_passes_all_servers_go(self) -> None:
        self.patch(removal, 'MOST', 1)
        self.end(AtEnd.DELETE)
        late = END + ending.MAX_SECONDS + 10

        for clock in (late, late + 60):
            self.turn = self.make_turn(is_once=True)
            self.run_at(clock)

        self.assertEqual({}, self.cloud.servers)
        self.assertTrue(self.is_over())

    def test_each_server_has_its_turn(self) -> None:
        """However few of them Nova shows in the time of a pass."""
        self.end(AtEnd.DELETE)
        count = len(self.cloud.servers)
        self.assertGreater(count, 1)
        asked: list[str] = []
        find_server, passed = self.cloud.find_server, [0.0]

        def find(uuid: str) -> Any:
            asked.append(uuid)
            passed[0] += time_budget.MAX_SECONDS
            return find_server(uuid)

        self.cloud.find_server = find  # type: ignore[method-assign]
        self.patch(
            time_budget.Effort.__init__,
            '__kwdefaults__',
            {'passed': lambda: passed[0]},
        )
        for number in range(2 * count + 1):
            self.run_at(GOING + 15 * number)

        self.assertEqual({}, self.cloud.servers)
        self.assertTrue(self.is_over())

    def test_a_clock_that_jumps_deletes_no_server(self) -> None:
        self.end(AtEnd.DELETE)
        self.turn = self.make_turn(wait=300)

        self.run_at(GOING)

        self.assertEqual([], self.cloud.asked)

    def find_and(self, change: Callable[[], object]) -> None:
        """Let something change while Nova is asked for a server first."""
        find_server = self.cloud.find_server

        def find(uuid: str) -> Any:
            self.cloud.find_server = find_server  # type: ignore[method-assign]
            change()
            return find_server(uuid)

        self.cloud.find_server = find  # type: ignore[method-assign]

    def test_what_is_prolonged_meanwhile_keeps_its_servers(self) -> None:
        """By a host whose clock is behind."""
        self.end(AtEnd.DELETE)
        request = dataclasses.replace(
            self.get().request, during=hosts.span(START, END + 900)
        )
        self.find_and(
            lambda: self.admission.replace(
                request, now=END - 1, reason='longer'
            )
        )

        self.assertFalse(self.run_at(GOING))

        self.assertEqual([], self.cloud.asked)
        self.assertEqual(['one', 'two', None], self.list_consumers())
        self.assertTrue(self.run_at(GOING + 15))
        self.assertEqual([], self.cloud.asked)

    def test_what_keeps_its_servers_now_does_so(self) -> None:
        """All else of it, and of their places, is as it was."""
        self.end(AtEnd.DELETE)
        request = dataclasses.replace(self.get().request, at_end=AtEnd.KEEP)
        self.find_and(
            lambda: self.admission.replace(
                request, now=END - 1, reason='keep them'
            )
        )

        for clock in (GOING, GOING + 15):
            self.run_at(clock)

        self.assertEqual([], self.cloud.asked)
        self.assertTrue(self.is_over())

    def test_a_server_that_gave_its_place_back_stays(self) -> None:
        self.end(AtEnd.DELETE)
        slot = self.get().servers[0]
        self.find_and(lambda: slots.free(self.database, 'lease', slot))

        self.run_at(GOING)
        self.run_at(GOING + 1)

        self.assertEqual([('two', 'delete')], self.cloud.asked)
        self.assertTrue(self.is_over())

    def test_a_server_that_gets_another_reservation_stays(self) -> None:
        self.end(AtEnd.DELETE)
        longer = hosts.span(START, END + 9000)
        self.admit(self.admission, 'longer', longer, least=1)
        self.find_and(lambda: self.take('one', 'longer', GOING))

        self.run_at(GOING)
        self.run_at(GOING + 1)

        self.assertEqual([('two', 'delete')], self.cloud.asked)

    def test_a_pass_removes_no_more_than_so_many(self) -> None:
        self.patch(removal, 'MOST', 1)
        self.turn = self.make_turn()
        self.end(AtEnd.DELETE)
        seen = []
        for clock in range(GOING, GOING + 3):
            self.run_at(clock)
            seen.append(len(self.cloud.asked))

        self.assertEqual([1, 2, 2], seen)
        self.assertTrue(self.is_over())

    def test_servers_that_only_placement_has_are_not_gone(self) -> None:
        """Nova hides those of others from whoever is no administrator."""
        self.end(AtEnd.DELETE)
        self.cloud.servers.clear()

        self.assertFalse(self.run_at(GOING))
        self.assertFalse(self.is_over())
        self.cloud.holders.clear()
        self.assertTrue(self.run_at(GOING + 15))

        self.assertTrue(self.is_over())

    def test_two_managers_end_it_once(self) -> None:
        self.end(AtEnd.DELETE)
        other = self.make_turn()
        for clock in (GOING, GOING + 1):
            self.run_at(clock)
            other.run()

        self.assertEqual(2, len(self.cloud.asked))
        self.assertEqual(
            ['pending', 'active', 'ended'],
            managers.list_states(self.url, 'lease'),
        )

    def test_a_notice_before_the_end(self) -> None:
        self.turn = self.make_turn(notice=600)
        self.end(AtEnd.SHELVE)
        for clock in (END - 601, END - 600, END - 300):
            self.run_at(clock)

        reasons = self.list_reasons()
        self.assertEqual(3, len(reasons))
        self.assertEqual(
            'it ends at 1970-01-01T02:30:00Z: its servers are shelved then',
            reasons[-1],
        )

    def test_another_end_has_another_notice(self) -> None:
        self.turn = self.make_turn(notice=600)
        self.end(AtEnd.KEEP)
        self.run_at(END - 600)
        request = dataclasses.replace(
            self.get().request, during=hosts.span(START, END + 900)
        )
        self.admission.replace(request, now=END - 500, reason='longer')
        for clock in (END, END + 300, END + 400):
            self.run_at(clock)

        self.assertEqual(5, len(self.list_reasons()))
        self.assertIn('02:45', self.list_reasons()[-1])


class NovaServerTest(ServersTests):
    def test_the_double_does_what_nova_does(self) -> None:
        self.cloud.add('one', status='SHUTOFF')
        self.cloud.act('one', nova_server.Action.SHELVE)
        self.cloud.act('one', nova_server.Action.OFFLOAD)

        found = self.cloud.find_server('one')

        self.assertEqual('SHELVED_OFFLOADED', found and found.status)
