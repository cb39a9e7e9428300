# SPDX-License-Identifier: Apache-2.0

"""Servers that wait for their reservation, and are unshelved at its start."""

import dataclasses
from typing import Any
from unittest import mock

from nova_ext_resources import exception
from nova_ext_resources.objects import planned_hold
from nova_ext_resources.reservation import cause
from nova_ext_resources.reservation import cuts
from nova_ext_resources.reservation import flavor
from nova_ext_resources.reservation.manager import room
from nova_ext_resources.reservation.manager import waking
from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation.store import slots
from nova_ext_resources.reservation import waiting
from tests.unit.reservation import hosts
from tests.unit.reservation.manager import managers
from tests.unit.reservation.manager import test_holding

START, END, HELD = test_holding.START, test_holding.END, test_holding.HELD

Cause = cause.Cause


class WakingTestCase(test_holding.BlockingTestCase):
    def add(
        self,
        uuid: str,
        key: str = 'lease',
        status: str = 'ACTIVE',
        *,
        vcpus: int = 4,
        project: str = 'p',
        **fields: Any,
    ) -> None:
        """Let a server be there that says for what it is."""
        self.cloud.add(
            uuid,
            status=status,
            project=project,
            flavor=flavor.Flavor(vcpus=vcpus),
            metadata={nova_server.RESERVATION: key},
            **fields,
        )
        if status == 'SHELVED_OFFLOADED':
            self.cloud.holders.discard(uuid)
        else:
            self.cloud.held[uuid] = {('elsewhere', 'VCPU'): vcpus}

    def wait(self, uuid: str, **fields: Any) -> None:
        self.add(uuid, status='SHELVED_OFFLOADED', **fields)

    def set(self, uuid: str, **fields: Any) -> None:
        self.cloud.servers[uuid] = dataclasses.replace(
            self.cloud.servers[uuid], **fields
        )

    def list_asked(self, uuid: str = 'one') -> list[str]:
        return [action for one, action in self.cloud.asked if one == uuid]

    def list_consumers(self, key: str = 'lease') -> list[str | None]:
        return [one.consumer for one in self.get_slots(key)]

    def list_causes(self) -> list[cause.Cause | None]:
        return [one.cause for one in managers.list_changes(self.url, 'lease')]


class ShelvingTest(WakingTestCase):
    def test_a_server_waits_shelved_and_on_no_host(self) -> None:
        self.reserve()
        self.add('one')

        self.run_at(0)
        self.assertEqual(['shelve'], self.list_asked())
        self.run_at(1)

        self.assertEqual(['shelve', 'shelveOffload'], self.list_asked())
        self.run_at(START - 1)
        self.assertEqual(2, len(self.cloud.asked))

    def test_by_the_name_that_others_have_too(self) -> None:
        self.reserve('lease', project='other')
        self.reserve('lease~2')
        self.add('one')
        self.add('two', 'lease~2')

        self.run_at(0)

        self.assertEqual(['shelve'], self.list_asked())
        self.assertEqual(['shelve'], self.list_asked('two'))

    def test_no_server_of_another_project(self) -> None:
        self.reserve()
        self.add('one', project='other')
        self.reserve('theirs', project='other')

        self.run_at(0)
        self.run_at(START)

        self.assertEqual([], self.cloud.asked)

    def test_also_where_nova_shows_servers_of_others(self) -> None:
        """So it does to whoever is no administrator: their own."""
        self.reserve()
        self.add('one', project='other')

        with mock.patch.object(
            self.cloud,
            'list_servers',
            lambda _project: [*self.cloud.servers.values()],
        ):
            self.run_at(0)

        self.assertEqual([], self.cloud.asked)

    def test_nor_of_any_project_where_none_has_reserved(self) -> None:
        self.reserve(project='')
        self.add('one', project='')

        self.run_at(0)
        self.run_at(START)

        self.assertEqual([], self.cloud.asked)
        self.assertEqual(2, len(self.cloud.holds))

    def test_no_server_that_is_for_nothing_or_for_something_else(
        self,
    ) -> None:
        self.reserve()
        self.add('one', 'unknown')
        self.cloud.add('two', project='p')

        self.run_at(0)

        self.assertEqual([], self.cloud.asked)

    def test_no_more_than_there_are_places(self) -> None:
        self.reserve()
        for number in range(4):
            self.add(f'{number}', created_at=10 - number)

        self.run_at(0)

        self.assertEqual(['3', '2'], [uuid for uuid, _ in self.cloud.asked])

    def test_none_that_needs_more_than_was_reserved(self) -> None:
        self.reserve()
        self.add('one', vcpus=5)
        self.wait('two', vcpus=5)

        self.run_at(0)
        self.run_at(START)

        self.assertEqual([], self.cloud.asked)
        self.assertEqual([None, None], self.list_consumers())
        self.assertIn('create a server of a flavor that fits', self.log.output)

    def test_none_that_is_stopped_failed_or_busy(self) -> None:
        self.reserve(least=4)
        self.add('one', status='SHUTOFF')
        self.add('two', status='ERROR')
        self.add('three', task_state='rebooting')

        self.run_at(0)
        self.run_at(START)

        self.assertEqual([], self.cloud.asked)

    def test_none_that_has_a_place_in_another_reservation(self) -> None:
        self.reserve()
        self.reserve('other', 100, 5000)
        self.add('one')
        slots.take(
            self.database, 'other', 'one', lambda held: held[0], now=100
        )

        self.run_at(100)
        self.set('one', status='SHELVED_OFFLOADED')
        with mock.patch.object(self.cloud, 'unshelve'):
            self.run_at(START)

        self.assertEqual([], self.cloud.asked)
        self.assertEqual([None, None], self.list_consumers())

    def test_none_that_takes_a_place_meanwhile(self) -> None:
        self.reserve()
        self.reserve('other', 100, 5000)
        self.add('one')
        find = self.cloud.find_server

        def take_first(uuid: str) -> Any:
            slots.take(
                self.database, 'other', 'one', lambda held: held[0], now=100
            )
            return find(uuid)

        with mock.patch.object(self.cloud, 'find_server', take_first):
            self.run_at(100)

        self.assertEqual([], self.cloud.asked)

    def test_none_whose_reservation_changes_meanwhile(self) -> None:
        self.reserve()
        self.add('one')
        request = hosts.make_request(
            'lease', hosts.span(START + 900, END), least=2, project='p'
        )
        find = self.cloud.find_server

        def replace_first(uuid: str) -> Any:
            self.admission.replace(request, now=0, reason='later')
            return find(uuid)

        with mock.patch.object(self.cloud, 'find_server', replace_first):
            self.run_at(0)

        self.assertEqual([], self.cloud.asked)

    def test_none_by_a_clock_that_is_not_trusted(self) -> None:
        self.reserve()
        self.add('one')

        self.run_at(0, self.make_turn(wait=300))

        self.assertEqual([], self.cloud.asked)

    def test_none_whose_owner_has_thought_better_of_it(self) -> None:
        """What was listed is looked at again directly before."""
        self.reserve()
        self.add('one')
        listed = self.cloud.list_servers('p')
        self.set('one', metadata={})

        with mock.patch.object(
            self.cloud, 'list_servers', return_value=listed
        ):
            self.run_at(0)

        self.assertEqual([], self.cloud.asked)

    def check_left_alone(self, **fields: Any) -> None:
        """Let the owner change a server after it was listed."""
        self.reserve()
        self.add('one')
        listed = self.cloud.list_servers('p')
        self.set('one', **fields)

        with mock.patch.object(
            self.cloud, 'list_servers', return_value=listed
        ):
            self.run_at(0)

        self.assertEqual([], self.cloud.asked)

    def test_none_that_its_owner_has_stopped_meanwhile(self) -> None:
        self.check_left_alone(status='SHUTOFF')

    def test_or_locked(self) -> None:
        self.check_left_alone(is_locked=True)

    def test_one_that_is_locked_keeps_no_place_from_others(self) -> None:
        self.reserve(least=1)
        self.add('old', is_locked=True)
        self.add('new', created_at=1)

        self.run_at(0)

        self.assertEqual([('new', 'shelve')], self.cloud.asked)

    def test_nova_is_asked_each_minute_and_at_the_start(self) -> None:
        self.reserve()
        lists = []
        for clock in (*range(START - 200, START + 20, 20), START + 21):
            look = mock.Mock(wraps=self.cloud.list_servers)
            with mock.patch.object(self.cloud, 'list_servers', look):
                self.run_at(clock)
            lists += [clock - START] * look.call_count

        self.assertEqual([-200, -140, -80, -20, 0], lists)


class WakingTest(WakingTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.reserve()

    def test_a_server_is_unshelved_at_the_start_on_its_host(self) -> None:
        self.wait('one')
        self.run_at(HELD)
        self.assertEqual(2, len(self.cloud.holds))

        self.assertTrue(self.run_at(START))

        self.assertEqual(['unshelve on a'], self.list_asked())
        self.assertEqual(['one', None], self.list_consumers())
        self.assertEqual(['lease/1'], self.list_holds())
        self.run_at(START + 1)
        self.assertEqual(['unshelve on a'], self.list_asked())

    def test_what_holds_its_room_is_released_before(self) -> None:
        self.wait('one')
        self.run_at(HELD)
        seen = []

        def unshelve(uuid: str, node: str) -> None:
            seen.append((self.list_holds(), self.list_consumers()))

        with mock.patch.object(self.cloud, 'unshelve', unshelve):
            self.run_at(START)

        self.assertEqual([(['lease/1'], ['one', None])], seen)

    def test_and_not_while_nova_cannot_be_asked(self) -> None:
        self.wait('one')
        self.run_at(HELD)
        slots.take(
            self.database, 'lease', 'one', lambda held: held[0], now=START
        )
        self.cloud.is_nova_away = True

        self.run_at(START)

        self.assertEqual(['lease/0', 'lease/1'], self.list_holds())

    def test_its_end_is_as_that_of_others(self) -> None:
        self.reserve(
            'brief', HELD, HELD + 600, at_end=plan_request.AtEnd.SHELVE
        )
        self.wait('one', key='brief')
        self.run_at(HELD)
        self.assertEqual(['unshelve on a'], self.list_asked())

        for second in range(600, 700, 10):
            self.run_at(HELD + second)

        self.assertEqual(
            ['unshelve on a', 'shelve', 'shelveOffload'], self.list_asked()
        )
        self.assertEqual('ended', managers.list_states(self.url, 'brief')[-1])

    def test_one_that_runs_on_the_host_of_a_place_has_it(self) -> None:
        self.add('one')
        self.set('one', host='a')
        self.cloud.held['one'] = {('a', 'VCPU'): 4}
        self.run_at(START)

        self.assertEqual([], self.cloud.asked)
        self.assertEqual(['one', None], self.list_consumers())
        self.assertEqual(['lease/1'], self.list_holds())

    def test_one_that_runs_elsewhere_is_shelved_first(self) -> None:
        self.run_at(HELD)
        self.add('one', host='b')
        for second in range(4):
            self.run_at(START + second)

        self.assertEqual(
            ['shelve', 'shelveOffload', 'unshelve on a'], self.list_asked()
        )

    def test_it_goes_on_running_where_the_host_takes_none(self) -> None:
        self.run_at(HELD)
        self.add('one', host='b')
        self.cloud.enabled['a'] = False

        self.run_at(START)
        self.run_at(START + waking.CHECK_SECONDS)

        self.assertEqual([], self.cloud.asked)

    def test_or_is_in_a_maintenance(self) -> None:
        self.run_at(HELD)
        self.add('one', host='b')

        with mock.patch.object(
            cuts.Cuts, 'find_maintenance', return_value='change'
        ):
            self.run_at(START)
            self.run_at(START + waking.CHECK_SECONDS)

        self.assertEqual([], self.cloud.asked)

    def test_or_the_room_is_not_held(self) -> None:
        self.cloud.hold('intruder', 'a', 6)
        self.run_at(HELD)
        self.add('one', host='b')

        self.run_at(START)
        self.run_at(START + waking.CHECK_SECONDS)

        self.assertEqual([], self.cloud.asked)

    def test_no_more_are_shelved_than_have_room_at_once(self) -> None:
        self.cloud.hold('intruder', 'a', 4)
        self.run_at(HELD)
        self.add('one', host='b')
        self.add('two', host='b', created_at=1)

        for second in range(0, 200, 10):
            self.run_at(START + second)

        self.assertEqual([], self.list_asked('two'))
        self.assertEqual('unshelve on a', self.list_asked('one')[-1])

    def test_none_that_runs_is_shelved_shortly_before_the_end(self) -> None:
        self.run_at(HELD)
        self.add('one', host='b', key='')
        self.run_at(END - room.LAST_SECONDS - 1)
        self.set('one', metadata={nova_server.RESERVATION: 'lease'})

        self.run_at(END - room.LAST_SECONDS + waking.CHECK_SECONDS)

        self.assertEqual([], self.cloud.asked)

    def test_a_host_that_is_disabled_is_left_out(self) -> None:
        self.wait('one')
        self.run_at(START - 1)
        self.cloud.enabled['a'] = False

        self.run_at(START)

        self.assertEqual([], self.cloud.asked)
        self.assertEqual([None, None], self.list_consumers())

    def test_one_that_is_stopped_keeps_no_place_from_others(self) -> None:
        self.reserve('small', least=1)
        self.add('old', key='small', status='SHUTOFF')
        self.add('new', key='small', created_at=1)

        for clock in (0, 1, START):
            self.run_at(clock)

        self.assertEqual([], self.list_asked('old'))
        self.assertEqual(3, len(self.list_asked('new')))
        self.assertEqual(['new'], self.list_consumers('small'))

    def test_one_on_its_way_comes_before_one_that_runs(self) -> None:
        self.reserve('small', least=1)
        self.add('new', key='small', created_at=1)
        self.run_at(0)
        self.add('old', key='small')

        for clock in (1, START):
            self.run_at(clock)

        self.assertEqual([], self.list_asked('old'))
        self.assertEqual(['new'], self.list_consumers('small'))

    def test_nor_does_one_that_nova_refuses(self) -> None:
        self.reserve('small', least=1)
        self.wait('old', key='small')
        self.wait('new', key='small', created_at=1)
        self.run_at(HELD)
        with mock.patch.object(self.cloud, 'refusal', 'it is locked'):
            self.run_at(START)

        self.run_at(START + 1)

        self.assertEqual(['new'], self.list_consumers('small'))

    def test_nothing_after_the_end(self) -> None:
        self.wait('one')

        self.run_at(END)

        self.assertEqual([], self.cloud.asked)

    def test_two_managers_take_one_place(self) -> None:
        self.wait('one')
        other = self.make_turn()
        self.run_at(HELD)
        self.cloud.is_unshelved = False
        find = self.cloud.list_enabled
        calls = []

        def list_enabled() -> Any:
            """Let the other one be faster, within the first one's pass."""
            calls.append(1)
            if len(calls) == 2:
                self.set('one', task_state='unshelving')
            if len(calls) == 1:
                self.run_at(START, other)
            return find()

        with mock.patch.object(self.cloud, 'list_enabled', list_enabled):
            self.run_at(START)

        self.assertEqual(['unshelve on a'], self.list_asked())
        self.assertEqual(['one', None], self.list_consumers())


class KilledTest(WakingTestCase):
    """A manager that is killed while a server is unshelved."""

    def setUp(self) -> None:
        super().setUp()
        self.reserve()
        self.wait('one')
        self.run_at(HELD)

    def kill_at(self, name: str) -> None:
        with mock.patch.object(
            self.cloud, name, side_effect=KeyboardInterrupt
        ):
            self.assertRaises(KeyboardInterrupt, self.run_at, START)

    def test_before_the_room_is_released(self) -> None:
        self.kill_at('release_hold')
        self.assertEqual(['one', None], self.list_consumers())
        self.assertEqual(2, len(self.cloud.holds))

        self.run_at(START + 1, self.make_turn())

        self.assertEqual(['unshelve on a'], self.list_asked())
        self.assertEqual(['lease/1'], self.list_holds())

    def test_between_the_release_and_nova(self) -> None:
        self.kill_at('unshelve')
        self.assertEqual(['one', None], self.list_consumers())
        self.assertEqual(['lease/1'], self.list_holds())

        self.run_at(START + 1, self.make_turn())

        self.assertEqual(['unshelve on a'], self.list_asked())
        self.assertEqual(['one', None], self.list_consumers())
        self.assertNotIn(Cause.UNSHELVED, self.list_causes())

    def test_while_nova_works(self) -> None:
        self.cloud.is_unshelved = False
        self.run_at(START)
        self.set('one', task_state='spawning')
        turn = self.make_turn()

        self.run_at(START + 1, turn)
        self.assertEqual(['unshelve on a'], self.list_asked())
        self.set('one', task_state='', status='ACTIVE', host='a')
        self.cloud.hold('one', 'a', 4)
        self.run_at(START + 400, turn)

        self.assertEqual(['unshelve on a'], self.list_asked())
        self.assertEqual(['one', None], self.list_consumers())


class FailedTest(WakingTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.reserve()
        self.wait('one')
        self.run_at(HELD)

    def test_the_place_is_free_and_held_again_if_nova_fails(self) -> None:
        self.cloud.is_unshelved = False
        self.run_at(START)
        self.assertEqual(['lease/1'], self.list_holds())

        self.run_at(START + 1)

        self.assertEqual([None, None], self.list_consumers())
        self.assertEqual(['lease/0', 'lease/1'], self.list_holds())
        self.assertEqual(Cause.UNSHELVED, self.list_causes()[-1])
        self.assertIn(
            'server one could not be unshelved on host a',
            self.list_reasons()[-1],
        )

    def test_or_refuses(self) -> None:
        self.cloud.refusal = 'it is locked'

        self.run_at(START)

        self.assertEqual([None, None], self.list_consumers())
        self.assertEqual(['lease/0', 'lease/1'], self.list_holds())
        self.assertIn('it is locked', self.list_reasons()[-1])

    def test_no_failure_if_it_is_on_its_way_already(self) -> None:
        """Then another manager, or its owner, has asked directly before."""

        def refuse(uuid: str, node: str) -> None:
            self.set('one', task_state='unshelving')
            raise exception.ComputeUnavailable(
                action='unshelve', reason='unshelving', status=409
            )

        with mock.patch.object(self.cloud, 'unshelve', refuse):
            self.run_at(START)

        self.assertEqual(['one', None], self.list_consumers())
        self.assertEqual(['lease/1'], self.list_holds())
        self.assertNotIn(Cause.UNSHELVED, self.list_causes())

    def test_nor_if_it_is_so_since_it_was_listed(self) -> None:
        self.cloud.is_unshelved = False
        listed = self.cloud.list_servers('p')
        self.run_at(START)
        self.set('one', task_state='unshelving')

        with mock.patch.object(
            self.cloud, 'list_servers', return_value=listed
        ):
            self.run_at(START + 1)
            self.run_at(START + 2, self.make_turn())

        self.assertEqual(['unshelve on a'], self.list_asked())
        self.assertEqual(['one', None], self.list_consumers())

    def test_it_is_tried_again_later_and_not_for_ever(self) -> None:
        self.cloud.refusal = 'it is locked'
        for second in range(0, 30_000, 300):
            self.run_at(START + second)

        self.assertEqual(waiting.MAX_TRIES, len(self.list_asked()))
        self.assertEqual(
            waiting.MAX_TRIES, self.list_causes().count(Cause.UNSHELVED)
        )
        self.assertEqual(1, self.log.output.count('Nova is not asked again'))

    def test_another_manager_knows_how_often(self) -> None:
        self.cloud.refusal = 'it is locked'
        self.run_at(START)

        self.run_at(START + 59, self.make_turn())
        self.assertEqual(1, len(self.list_asked()))
        self.run_at(START + 60, self.make_turn())

        self.assertEqual(2, len(self.list_asked()))

    def test_a_place_on_another_host_is_taken_then(self) -> None:
        self.reserve(
            'wide', affinity=plan_request.Affinity.DIFFERENT_HOSTS, least=2
        )
        self.cloud.refusal = 'it is locked'
        self.set('one', metadata={nova_server.RESERVATION: 'wide'})

        for second in (0, 60, 180):
            self.run_at(START + second)

        self.assertEqual(
            ['unshelve on a', 'unshelve on b', 'unshelve on a'],
            self.list_asked(),
        )

    def test_a_nova_that_is_away_is_no_failure(self) -> None:
        with mock.patch.object(
            self.cloud,
            'unshelve',
            side_effect=exception.ComputeUnavailable(
                action='unshelve', reason='away', is_away=True
            ),
        ):
            self.assertFalse(self.run_at(START))
        self.assertEqual(['one', None], self.list_consumers())

        self.run_at(START + 1)

        self.assertEqual(['unshelve on a'], self.list_asked())
        self.assertNotIn(Cause.UNSHELVED, self.list_causes())

    def test_what_is_freed_for_other_reasons_is_taken_again(self) -> None:
        self.cloud.is_unshelved = False
        self.run_at(START)
        (slot,) = [one for one in self.get_slots() if one.consumer]
        slots.free(self.database, 'lease', slot)
        self.cloud.is_unshelved = True

        self.run_at(START + waking.CHECK_SECONDS)

        self.assertEqual(2, len(self.list_asked()))
        self.assertEqual(['one', None], self.list_consumers())
        self.assertNotIn(
            planned_hold.make_consumer('lease/0'), self.cloud.holds
        )
