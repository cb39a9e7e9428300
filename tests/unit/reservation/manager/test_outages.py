# SPDX-License-Identifier: Apache-2.0

"""Tests of what a manager does about hosts that are lost."""

import dataclasses
from typing import Any

import fixtures

from nova_ext_resources import exception
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import host as host_mod
from nova_ext_resources.reservation.manager import outages
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import admission as admission_mod
from nova_ext_resources.reservation.store import capacity_changes
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import records
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import slots
from tests.unit.reservation import changes
from tests.unit.reservation import hosts
from tests.unit.reservation.manager import clouds
from tests.unit.reservation.manager import managers
from tests.unit.reservation.store import stores

State = state.State

START, END = 10_000, 20_000

DURING = hosts.span(START, END)


class OutagesTestCase(stores.StoreTestCase):
    """Two hosts of two servers each; the reservation is on the first."""

    def setUp(self) -> None:
        super().setUp()
        self.database = databases.Database(self.url)
        self.admission = stores.make_admission(self.url)
        self.time = managers.Time()
        self.cloud = clouds.FakeCloud()
        self.turn = managers.make_turn(self.url, self.time, cloud=self.cloud)
        self.admit(self.admission, 'lease', DURING, least=2)
        self.assertEqual(['a', 'a'], self.list_hosts())

    def make_turn(self, **fields: Any) -> Any:
        return managers.make_turn(
            self.url, self.time, cloud=self.cloud, **fields
        )

    def get(self, key: str = 'lease') -> records.Record:
        with self.database.transaction() as connection:
            (found,) = records.list_records(connection, 0, key=key)
        return found

    def list_hosts(self, key: str = 'lease') -> list[str]:
        return [one.host for one in self.get(key).servers]

    def list_states(self) -> list[str]:
        return managers.list_states(self.url, 'lease')

    def run_at(self, clock: float) -> bool:
        self.time.clock = clock
        return bool(self.turn.run())

    def lose(self, host: str = 'a') -> None:
        del self.cloud.enabled[host]

    def fill(self, host: str = 'b') -> None:
        """Take all of a host for another reservation, but for its end."""
        admission = stores.make_admission(self.url, hosts.make_host(host))
        self.admit(admission, 'other', hosts.span(0, 2 * END), least=2)
        self.assertEqual([host, host], self.list_hosts('other'))

    def take(self, number: int, consumer: str) -> None:
        """Let a server have a place, and be there."""

        def choose(held: servers.PlannedServers) -> Any:
            return held[number]

        slots.take(self.database, 'lease', consumer, choose, now=START)
        self.cloud.add(consumer)

    def count_reads(self) -> list[float]:
        """Return when all hosts are read from now on."""
        make_admission, reads = self.cloud.make_admission, list[float]()

        def make(database: databases.Database) -> Any:
            reads.append(self.time.clock)
            return make_admission(database)

        self.cloud.make_admission = make  # type: ignore[method-assign]
        return reads


class OutagesTest(OutagesTestCase):
    """What is lost is believed at once."""

    def setUp(self) -> None:
        super().setUp()
        self.patch(outages, 'LOSS_SECONDS', 0)

    def test_nothing_is_done_while_all_is_well(self) -> None:
        before = stores.dump(self.url)

        self.assertTrue(self.run_at(5))

        self.assertEqual(before, stores.dump(self.url))

    def test_what_has_not_started_is_moved(self) -> None:
        for enabled, wanted, words in (
            ({'a': False, 'b': True}, 'b', 'host a is disabled'),
            ({'a': True}, 'a', 'host b is not in placement'),
        ):
            with self.subTest(wanted=wanted):
                self.cloud.enabled = enabled

                self.assertTrue(self.run_at(5))

                found = self.get()
                self.assertEqual([wanted] * 2, self.list_hosts())
                self.assertEqual(DURING, found.during)
                self.assertEqual(State.PENDING, found.last.state)
                self.assertIn(f'moved: {words}', found.last.reason)

    def test_a_host_whose_compute_does_not_report(self) -> None:
        self.cloud.down = {'a'}

        self.assertTrue(self.run_at(5))

        self.assertEqual(['b', 'b'], self.list_hosts())
        self.assertIn('moved: host a is down', self.get().last.reason)

    def test_what_has_started_on_a_host_that_is_down(self) -> None:
        self.run_at(START)
        self.cloud.down = {'a'}

        self.run_at(START + 5)

        self.assertEqual(
            'host a is down, with 2 of its servers', self.get().last.reason
        )
        self.cloud.down = set()
        self.run_at(START + 20)
        self.assertEqual(
            ['pending', 'active', 'degraded', 'active'], self.list_states()
        )

    def test_nova_that_does_not_say_what_is_down(self) -> None:
        self.lose()
        self.cloud.is_nova_away = True

        self.assertFalse(self.run_at(5))

        self.assertEqual(['pending'], self.list_states())
        self.assertEqual(['a', 'a'], self.list_hosts())

    def test_no_compute_that_reports_is_no_loss(self) -> None:
        log = self.useFixture(fixtures.FakeLogger())
        self.cloud.down = {'a', 'b'}

        self.assertFalse(self.run_at(5))

        self.assertEqual(['pending'], self.list_states())
        self.assertIn('No host in placement is enabled and up', log.output)

    def test_what_fits_nowhere_is_degraded(self) -> None:
        self.fill()
        self.lose()

        self.run_at(5)

        found = self.get()
        self.assertEqual(State.DEGRADED, found.last.state)
        self.assertEqual(
            'host a is not in placement any more, with 2 of its servers; '
            'no other hosts have room for it now',
            found.last.reason,
        )
        self.assertEqual(['a', 'a'], self.list_hosts(), 'it may come back')

    def test_what_is_degraded_is_not_degraded_again(self) -> None:
        self.fill()
        self.lose()
        for clock in (5, 20, 400, 900):
            self.run_at(clock)

        self.assertEqual(['pending', 'degraded'], self.list_states())

    def test_a_host_that_comes_back(self) -> None:
        self.fill()
        self.lose()
        self.run_at(5)
        self.cloud.enabled['a'] = True

        self.run_at(20)

        self.assertEqual(
            ['pending', 'degraded', 'pending'], self.list_states()
        )

    def install_anew(self) -> None:
        """Let the first host have another provider, and be empty."""
        root = hosts.make_provider('new', VCPU=8)
        self.cloud.hosts = [
            host_mod.make_host('a', [root], host_view.HostView()),
            hosts.make_host('b'),
        ]
        self.cloud.gone = {'a'}

    def list_providers(self) -> set[str]:
        return {
            one.rp_uuid
            for server in self.get().servers
            for one in server.assignments
        }

    def test_a_host_that_is_installed_anew(self) -> None:
        self.fill()
        self.run_at(5)
        self.install_anew()

        for clock in (70, 85, 150):
            self.assertTrue(self.run_at(clock))

        self.assertEqual(
            (['a', 'a'], {'new'}), (self.list_hosts(), self.list_providers())
        )
        self.assertEqual(['pending', 'pending'], self.list_states())
        self.assertEqual(
            'moved: host a does not have the planned resource providers any '
            'longer, with 2 of its servers',
            self.get().last.reason,
        )

    def test_a_host_that_comes_back_as_another_one(self) -> None:
        self.fill()
        self.lose()
        self.run_at(5)
        self.assertEqual(State.DEGRADED, self.get().last.state)
        self.install_anew()
        self.cloud.enabled['a'] = True

        self.run_at(70)

        self.assertEqual({'new'}, self.list_providers())
        self.assertEqual(State.PENDING, self.get().last.state)

    def test_what_has_started_on_a_host_that_is_installed_anew(self) -> None:
        self.run_at(START)
        self.install_anew()

        self.run_at(START + 60)
        self.run_at(START + 120)

        self.assertEqual(['pending', 'active', 'degraded'], self.list_states())

    def test_room_that_is_found_later(self) -> None:
        self.fill()
        self.lose()
        self.run_at(5)
        self.admission.change(
            'other', State.CANCELLED, now=6, reason='not needed'
        )
        self.run_at(5 + outages.RETRY_SECONDS - 1)
        self.assertEqual(['a', 'a'], self.list_hosts())

        self.run_at(5 + outages.RETRY_SECONDS)

        self.assertEqual(['b', 'b'], self.list_hosts())
        self.assertEqual(
            ['pending', 'degraded', 'pending'], self.list_states()
        )

    def test_a_new_host_is_seen_at_once(self) -> None:
        self.fill()
        self.lose()
        self.run_at(5)
        self.cloud.hosts.append(hosts.make_host('c'))
        self.cloud.enabled['c'] = True

        self.run_at(20)

        self.assertEqual(['c', 'c'], self.list_hosts())

    def test_what_has_started_is_not_moved(self) -> None:
        self.run_at(START)
        self.lose()

        self.run_at(START + 5)
        self.cloud.enabled['a'] = True
        self.run_at(START + 20)

        self.assertEqual(['a', 'a'], self.list_hosts())
        self.assertEqual(
            ['pending', 'active', 'degraded', 'active'], self.list_states()
        )

    def test_servers_on_a_host_that_is_disabled_go_on(self) -> None:
        self.run_at(START)
        for number, consumer in enumerate(('one', 'two')):
            self.take(number, consumer)
        self.cloud.enabled['a'] = False

        self.run_at(START + 5)
        self.assertEqual(State.ACTIVE, self.get().last.state)
        self.lose()
        self.run_at(START + 20)

        self.assertEqual(State.DEGRADED, self.get().last.state)

    def test_a_reservation_that_was_delayed_keeps_its_time(self) -> None:
        late = hosts.span(START, END)
        request = hosts.make_request('late', late, least=4, delay=50_000)
        plan = self.ask(self.admission, request)
        self.admit(self.admission, 'small', hosts.span(30_000, 40_000))
        before = self.get('late').during
        self.assertEqual(END, before.start, str(plan))
        self.cloud.hosts.append(hosts.make_host('c'))
        self.cloud.enabled['c'] = True
        self.lose()

        self.run_at(5)

        found = self.get('late')
        self.assertEqual(before, found.during)
        self.assertEqual({'b', 'c'}, {*found.hosts})
        self.assertEqual(request, found.request)

    def test_a_reservation_is_not_delayed_by_a_move(self) -> None:
        during = hosts.span(END, END + 100)
        request = hosts.make_request('late', during, least=2, delay=50_000)
        self.ask(self.admission, request)
        self.assertEqual(['a', 'a'], self.list_hosts('late'))
        self.fill()
        self.lose()

        self.run_at(5)

        found = self.get('late')
        self.assertEqual(State.DEGRADED, found.last.state)
        self.assertEqual(during, found.during)

    def test_what_a_server_has_taken_is_not_moved(self) -> None:
        """A clock that was ahead may have let it in."""
        slots.take(
            self.database, 'lease', 'one', lambda held: held[0], now=START
        )
        admission = stores.make_admission(self.url, hosts.make_host('b'))

        answer = admission.relocate('lease', now=5, reason='test')

        self.assertIsNone(answer)
        self.assertEqual(['a', 'a'], self.list_hosts())

    def test_a_placement_that_is_empty_moves_nothing(self) -> None:
        """Nor is it read for places, whatever it has of hosts."""
        before, reads = stores.dump(self.url), self.count_reads()
        for enabled in ({}, {'a': False, 'b': False}):
            with self.subTest(enabled=enabled):
                self.cloud.enabled = enabled
                make_admission = self.cloud.make_admission

                for clock in (5, 1000):
                    self.assertFalse(self.run_at(clock))

                self.assertEqual(before, stores.dump(self.url))
                self.cloud.make_admission = (  # type: ignore[method-assign]
                    make_admission
                )
        self.assertEqual([], reads)

    def test_placement_that_is_away_stops_nothing_else(self) -> None:
        self.cloud.is_placement_away = True

        self.assertFalse(self.run_at(START))

        self.assertEqual(['pending', 'active'], self.list_states())

    def test_hosts_that_cannot_be_read(self) -> None:
        """That there is no other place is not known then."""
        make_admission = self.cloud.make_admission

        def fail(database: databases.Database) -> Any:
            raise exception.ComputeUnavailable(action='list', reason='away')

        self.cloud.make_admission = fail  # type: ignore[method-assign]
        self.lose()
        self.assertFalse(self.run_at(5))
        self.assertEqual(['pending'], self.list_states())

        self.cloud.make_admission = (  # type: ignore[method-assign]
            make_admission
        )
        self.assertTrue(self.run_at(20))

        self.assertEqual(['b', 'b'], self.list_hosts())
        self.assertEqual(['pending', 'pending'], self.list_states())

    def test_another_reason_is_left_alone(self) -> None:
        self.admission.change(
            'lease', State.DEGRADED, now=1, reason='no room is there'
        )

        self.run_at(5)

        self.assertEqual(['pending', 'degraded'], self.list_states())

    def test_two_managers_move_it_once(self) -> None:
        """Both have seen that the host is lost, and have read all hosts."""
        self.lose()
        other = self.make_turn()
        make_admission = self.cloud.make_admission
        self.cloud.hosts.append(hosts.make_host('c'))
        self.cloud.enabled['c'] = True

        def let_other_first(database: databases.Database) -> Any:
            self.cloud.make_admission = (  # type: ignore[method-assign]
                make_admission
            )
            other.run()
            return make_admission(database)

        self.cloud.make_admission = (  # type: ignore[method-assign]
            let_other_first
        )
        self.run_at(5)
        (place,) = {*self.list_hosts()}
        for clock in (20, 35):
            self.run_at(clock)
            other.run()

        self.assertEqual([place] * 2, self.list_hosts())
        self.assertEqual(['pending', 'pending'], self.list_states())

    def test_what_was_changed_meanwhile_is_planned_as_it_is(self) -> None:
        self.lose()
        make_admission = self.cloud.make_admission

        def cancel_first(database: databases.Database) -> Any:
            made = make_admission(database)
            self.admission.change(
                'lease', State.CANCELLED, now=3, reason='not needed'
            )
            return made

        self.cloud.make_admission = cancel_first  # type: ignore[method-assign]
        self.run_at(5)

        self.assertEqual(['pending', 'cancelled'], self.list_states())

    def test_an_update_that_keeps_the_time(self) -> None:
        """What is stored is what was asked for."""
        request = dataclasses.replace(self.get().request, priority=5)
        self.admission.replace(request, now=1, reason='more important')
        self.lose()

        self.run_at(5)

        self.assertEqual(request, self.get().request)

    def test_what_a_server_has_a_place_of_is_degraded(self) -> None:
        """It is not moved, and all hosts need not be read to know that."""
        self.take(0, 'one')
        reads = self.count_reads()
        self.lose()

        for clock in (5, 20, 35):
            self.assertTrue(self.run_at(clock))

        self.assertEqual([], reads)
        self.assertEqual(['pending', 'degraded'], self.list_states())
        self.assertEqual(['a', 'a'], self.list_hosts())

    def test_another_cause_is_written(self) -> None:
        self.run_at(START)
        self.lose()
        self.run_at(START + 5)
        self.cloud.enabled['a'] = False
        for clock in (20, 35):
            self.run_at(START + clock)

        self.assertEqual(
            ['pending', 'active', 'degraded', 'degraded'], self.list_states()
        )
        self.assertIn('host a is disabled', self.get().last.reason)
        self.cloud.enabled['a'] = True
        self.run_at(START + 50)
        self.assertEqual(State.ACTIVE, self.get().last.state)

    def test_a_host_that_blinks_is_no_new_place(self) -> None:
        """Neither its own host nor another one."""
        self.fill()
        self.cloud.enabled['c'] = True
        self.lose()
        reads = self.count_reads()
        for clock in range(5, 5 + outages.RETRY_SECONDS, 30):
            self.run_at(clock)
            self.cloud.enabled['c'] = not self.cloud.enabled['c']
            if clock % 4 == 1:
                self.cloud.enabled['a'] = False
            else:
                self.cloud.enabled.pop('a', None)

        self.assertEqual([5], reads)

    def test_placement_that_fails_is_read_once_in_a_pass(self) -> None:
        for number in range(3):
            self.admit(
                self.admission,
                f'other {number}',
                hosts.span(END + number, END + number + 1),
                least=2,
            )
        self.lose()
        reads = []

        def fail(database: databases.Database) -> Any:
            reads.append(self.time.clock)
            raise exception.PlacementUnavailable(action='get', detail='away')

        self.cloud.make_admission = fail  # type: ignore[method-assign]
        self.run_at(5)

        self.assertEqual([5], reads)

    def test_one_that_cannot_be_moved_stops_no_other(self) -> None:
        self.admit(
            self.admission, 'other', hosts.span(END, END + 100), least=2
        )
        self.assertEqual(['a', 'a'], self.list_hosts('other'))
        relocate = admission_mod.Admission.relocate

        def fail(own: Any, key: str, **fields: Any) -> Any:
            if key == 'lease':
                raise exception.StoreError(reason='odd')
            return relocate(own, key, **fields)

        self.patch(admission_mod.Admission, 'relocate', fail)
        self.lose()

        self.assertFalse(self.run_at(5))

        self.assertEqual(['b', 'b'], self.list_hosts('other'))


class BelieveTest(OutagesTestCase):
    """What is lost may be back in a moment."""

    def test_a_loss_must_last(self) -> None:
        self.lose()
        for clock in (0, outages.LOSS_SECONDS - 1):
            self.run_at(clock)
            self.assertEqual(['a', 'a'], self.list_hosts())
        self.assertEqual(['pending'], self.list_states())

        self.run_at(outages.LOSS_SECONDS)

        self.assertEqual(['b', 'b'], self.list_hosts())

    def test_a_host_that_is_back_was_not_lost(self) -> None:
        self.lose()
        self.run_at(0)
        self.cloud.enabled['a'] = True
        self.run_at(60)
        self.lose()

        self.run_at(outages.LOSS_SECONDS)
        self.assertEqual(['a', 'a'], self.list_hosts())
        self.run_at(2 * outages.LOSS_SECONDS)

        self.assertEqual(['b', 'b'], self.list_hosts())

    def test_what_starts_soon_is_moved_at_once(self) -> None:
        self.lose()

        self.run_at(START - outages.NEAR_SECONDS)

        self.assertEqual(['b', 'b'], self.list_hosts())

    def test_one_pass_alone_moves(self) -> None:
        self.turn = self.make_turn(is_once=True)
        self.lose()

        self.run_at(5)

        self.assertEqual(['b', 'b'], self.list_hosts())

    def test_a_clock_that_is_not_trusted_moves_nothing(self) -> None:
        self.turn = self.make_turn(wait=600)
        self.lose()
        self.turn.run()
        self.time.pass_by(599)
        self.turn.run()
        self.assertEqual(['a', 'a'], self.list_hosts())

        self.time.pass_by(1)
        self.turn.run()

        self.assertEqual(['b', 'b'], self.list_hosts())


class MostTest(OutagesTestCase):
    """Six hosts of two servers each, of which all but two have some."""

    def setUp(self) -> None:
        super().setUp()
        found = [hosts.make_host(name) for name in 'abcdef']
        self.cloud = clouds.FakeCloud(found)
        self.turn = self.make_turn()
        admission = stores.make_admission(self.url, *found)
        for number in range(3):
            self.admit(admission, f'other {number}', DURING, least=2)
        self.names = ['lease', *(f'other {one}' for one in range(3))]
        self.assertEqual(
            [[name] * 2 for name in 'abcd'], self.list_all_hosts()
        )

    def list_all_hosts(self) -> list[list[str]]:
        return [self.list_hosts(name) for name in self.names]

    def test_most_hosts_at_once_are_not_believed(self) -> None:
        before = self.list_all_hosts()
        for name in 'abcd':
            self.lose(name)
        log = self.useFixture(fixtures.FakeLogger())
        for clock in (0, 500, outages.BELIEVED_SECONDS - 1):
            self.run_at(clock)

        self.assertEqual(before, self.list_all_hosts())
        self.assertEqual(['pending', 'degraded'], self.list_states())
        self.assertEqual(1, log.output.count('4 of 4 hosts'))
        for name in 'abcd':
            self.cloud.enabled[name] = True
        self.run_at(outages.BELIEVED_SECONDS)
        self.assertEqual(before, self.list_all_hosts())
        self.assertEqual(
            ['pending', 'degraded', 'pending'], self.list_states()
        )

    def test_nor_are_most_computes_that_do_not_report(self) -> None:
        before = self.list_all_hosts()
        self.cloud.down = {*'abcd'}
        log = self.useFixture(fixtures.FakeLogger())
        for clock in (0, 500, outages.BELIEVED_SECONDS - 1):
            self.run_at(clock)

        self.assertEqual(before, self.list_all_hosts())
        self.assertEqual(1, log.output.count('4 of 4 hosts'))
        self.assertIn('that the message bus', log.output)

    def test_nor_is_what_is_planned_moved_then(self) -> None:
        with self.database.transaction() as connection:
            capacity_changes.add_change(
                connection, changes.make_maintenance('night', DURING)
            )
        admission = stores.make_admission(self.url, *self.cloud.hosts)
        self.admit(admission, 'other 3', DURING, least=2)
        self.assertEqual(['e', 'e'], self.list_hosts('other 3'))
        for name in 'bcde':
            self.lose(name)
        for clock in (0, outages.BELIEVED_SECONDS - 1):
            self.run_at(clock)

        self.assertEqual(['a', 'a'], self.list_hosts())
        self.run_at(outages.BELIEVED_SECONDS)
        self.assertEqual(['f', 'f'], self.list_hosts())

    def test_they_are_believed_in_the_end(self) -> None:
        for name in 'abcd':
            self.lose(name)
        for clock in (0, outages.BELIEVED_SECONDS):
            self.run_at(clock)

        self.assertEqual(['e', 'e'], self.list_hosts())

    def test_some_hosts_are_believed(self) -> None:
        for name in 'abc':
            self.lose(name)
        for clock in (0, outages.LOSS_SECONDS):
            self.run_at(clock)

        self.assertEqual(['e', 'e'], self.list_hosts())

    def test_hosts_that_are_disabled_are_believed(self) -> None:
        """A placement that knows them is the right one."""
        for name in 'abcd':
            self.cloud.enabled[name] = False
        for clock in (0, outages.LOSS_SECONDS):
            self.run_at(clock)

        self.assertEqual(['e', 'e'], self.list_hosts())

    def test_one_pass_alone_moves_not_most(self) -> None:
        before = self.list_all_hosts()
        for name in 'abcd':
            self.lose(name)
        self.turn = self.make_turn(is_once=True)

        self.run_at(5)

        self.assertEqual(before, self.list_all_hosts())
