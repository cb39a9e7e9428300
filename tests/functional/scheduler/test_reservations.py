# SPDX-License-Identifier: Apache-2.0

"""ReservationFilter on Nova's own objects, with a database of its own."""

from collections.abc import Iterator
from concurrent import futures
import contextlib
import functools
import gc
import pathlib
import threading
import time
from typing import Any
from unittest import mock
import weakref

import nova.conf
from nova import exception as nova_exc
from nova import objects
from nova.scheduler.client import report
from oslo_db import exception as db_exc
from oslo_utils.fixture import uuidsentinel
import sqlalchemy as sa

from nova_ext_resources.claims import lease
from nova_ext_resources.conf import reservation
from nova_ext_resources import exception
from nova_ext_resources.inspection import fit
from nova_ext_resources.objects.documents import host_tree
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import promise_ledger
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import slots
from nova_ext_resources.scheduler.hooks import claim_hook
from nova_ext_resources.scheduler.hooks import request_context
from nova_ext_resources.scheduler import request
from nova_ext_resources.scheduler.reservation import backfill_weight
from nova_ext_resources.scheduler.reservation import commitments
from nova_ext_resources.scheduler.reservation import filter as filter_mod
from nova_ext_resources.scheduler.reservation import slots as slots_mod
from tests.functional.scheduler import reserving
from tests.unit.reservation import hosts as planned
from tests.unit.reservation.store import stores


class OthersTest(reserving.ReservingTestCase):
    """Servers without a reservation."""

    def test_a_host_whose_capacity_is_promised_is_refused(self) -> None:
        self.reserve(vcpus=6)
        self.used = {'a': 1}

        found = self.run_filter(self.make_hosts(), self.make_spec())

        self.assertEqual(['b'], found)
        [line] = [
            one for one in self.log.output.splitlines() if 'refuses' in one
        ]
        for part in (
            'ReservationFilter refuses host a',
            uuidsentinel.server,
            'req-1',
            'VCPU of provider a: 4 requested, 1 available',
            'of 7 free units, 6 are promised to reservation lease from ',
        ):
            self.assertIn(part, line)

    def test_explain_says_what_the_filter_does(self) -> None:
        self.reserve(vcpus=5)
        self.used = {'a': 1}
        for vcpus in range(1, 8):
            passed = self.run_filter(self.make_hosts(vcpus), self.make_spec())
            filters = fit.Filters(
                demand=planned.make_demand(_={'VCPU': vcpus}),
                trackers=planned.TRACKERS,
                tests=planned.make_tests(),
                promises=self.filter._followed.promises,
                now=reserving.NOW,
            )
            root = host_tree.TreeProvider(
                rp_uuid='a',
                name='a',
                amounts={'VCPU': host_tree.Amount(capacity=8, used=1)},
            )
            kept = filters.keep(
                fit.make_room(host_tree.HostTree(providers=(root,)), {}),
                [fit.make_option({'a': {'VCPU': vcpus}})],
            )

            self.assertEqual(vcpus <= 2, 'a' in passed)
            if 'a' in passed:
                self.assertIsInstance(kept, list)
                continue
            assert isinstance(kept, fit.Fit)
            [short] = kept.shortfalls
            self.assertIn(short.reason, self.log.output)

    def test_one_that_finds_no_host_is_told_why(self) -> None:
        self.reserve(vcpus=8, servers=2)

        err = self.assertRaises(
            nova_exc.NoValidHost,
            self.run_filter,
            self.make_hosts(),
            self.make_spec(),
        )

        self.assertIn(
            'All suitable hosts have promised their free resources to '
            'reservations during the lifetime of this server. Give the server '
            'an earlier end, by nova_ext:lease_seconds or by its flavor, use '
            'a reservation, or try again later.',
            str(err),
        )

    def test_nova_frees_the_first_ones_of_a_request(self) -> None:
        self.reserve(vcpus=8, servers=2)

        spec = self.make_spec(num_instances=2)

        # It does not after an error.
        self.assertEqual([], self.run_filter(self.make_hosts(), spec))

    def test_a_request_without_a_host_is_not_ours_to_explain(self) -> None:
        self.reserve(vcpus=8, servers=2)

        self.assertEqual([], self.run_filter([], self.make_spec()))

    def test_what_is_left_beside_a_promise_can_be_had(self) -> None:
        self.reserve(vcpus=4)

        self.assertEqual(
            ['a', 'b'], self.run_filter(self.make_hosts(), self.make_spec())
        )
        self.assertEqual(
            ['b'], self.run_filter(self.make_hosts(5), self.make_spec())
        )

    def test_a_promise_for_later_holds_against_a_server_without_end(
        self,
    ) -> None:
        self.reserve(during=reserving.hours(5, 6), vcpus=8)

        self.assertEqual(
            ['b'], self.run_filter(self.make_hosts(), self.make_spec())
        )
        self.assertIn('2030-03-17T22:46:40Z', self.log.output)

    def test_a_server_that_ends_before_may_have_it(self) -> None:
        self.reserve(during=reserving.hours(5, 6), vcpus=8)

        for hours, passed in ((5, ['a', 'b']), (5.01, ['b'])):
            end = reserving.NOW + int(hours * reserving.HOUR)
            with mock.patch.object(request, 'find_end', return_value=end):
                found = self.run_filter(self.make_hosts(), self.make_spec())

            self.assertEqual(passed, found)

    def test_a_server_that_says_so_by_a_hint_may_have_it(self) -> None:
        self.reserve(during=reserving.hours(5, 6), vcpus=8)

        for seconds, passed in (
            (5 * reserving.HOUR, ['a', 'b']),
            (5 * reserving.HOUR + 1, ['b']),
        ):
            spec = self.make_spec(scheduler_hints={lease.HINT: [str(seconds)]})

            self.assertEqual(passed, self.run_filter(self.make_hosts(), spec))

    def test_a_hint_that_cannot_be_read_is_refused_with_the_reason(
        self,
    ) -> None:
        spec = self.make_spec(scheduler_hints={lease.HINT: ['soon']})
        with mock.patch.object(request, 'is_move', return_value=False):
            err = self.assertRaises(
                nova_exc.NoValidHost, self.run_filter, self.make_hosts(), spec
            )

        self.assertIn(
            'The scheduler hint nova_ext:lease_seconds is soon; write one '
            'whole number of seconds',
            str(err),
        )

    def test_a_move_is_not_refused_for_it(self) -> None:
        self.reserve(during=reserving.hours(5, 6), vcpus=8)
        spec = self.make_spec(scheduler_hints={lease.HINT: ['soon']})

        for answer in (True, None):
            with mock.patch.object(request, 'is_move', return_value=answer):
                found = self.run_filter(self.make_hosts(), spec)

            # It counts as one that stays.
            self.assertEqual(['b'], found)

    def test_the_clock_ends_a_promise(self) -> None:
        self.reserve(vcpus=8)
        self.set_time(1.99)
        self.assertEqual(
            ['b'], self.run_filter(self.make_hosts(), self.make_spec())
        )

        self.set_time(2)

        self.assertEqual(
            ['a', 'b'], self.run_filter(self.make_hosts(), self.make_spec())
        )

    def test_what_is_cancelled_is_free_at_once(self) -> None:
        self.reserve(vcpus=8)
        self.assertEqual(
            ['b'], self.run_filter(self.make_hosts(), self.make_spec())
        )

        stores.make_admission(self.url).change(
            'lease',
            state.State.CANCELLED,
            now=reserving.NOW,
            reason='not needed',
        )

        self.assertEqual(
            ['a', 'b'], self.run_filter(self.make_hosts(), self.make_spec())
        )

    def test_a_slot_that_is_taken_is_not_counted_beside_its_server(
        self,
    ) -> None:
        self.reserve(vcpus=5)
        self.reserve('later', during=reserving.hours(5, 6), vcpus=1)
        self.run_filter(
            self.make_hosts(5), self.make_spec(uuidsentinel.one, 'lease')
        )
        # Placement may not know of it yet.
        self.assertEqual(
            ['b'], self.run_filter(self.make_hosts(4), self.make_spec())
        )
        self.used = {'a': 5}
        self.set_time(promise_ledger.CLAIM_SECONDS / reserving.HOUR)

        self.assertEqual(
            ['a', 'b'], self.run_filter(self.make_hosts(2), self.make_spec())
        )
        self.assertEqual(
            ['b'], self.run_filter(self.make_hosts(3), self.make_spec())
        )

    def test_a_host_that_was_created_anew_is_refused(self) -> None:
        """Nothing is promised of its new provider, and yet it is."""
        self.reserve()
        hosts = self.make_hosts(1)
        hosts[0].uuid = 'new'
        hosts[0].allocation_candidates = [reserving.make_candidate({'new': 1})]

        self.assertEqual(['b'], self.run_filter(hosts, self.make_spec()))
        self.assertIn('was created again after', self.log.output)
        self.assertEqual(
            ['a'],
            self.run_filter(
                hosts[:1], self.make_spec(uuidsentinel.one, 'lease')
            ),
        )

    def test_only_candidates_that_hurt_are_removed(self) -> None:
        self.reserve(vcpus=8)
        host = self.make_state('a')
        harmless = reserving.make_candidate({'other': 4})
        host.allocation_candidates.append(harmless)

        self.assertEqual(['a'], self.run_filter([host], self.make_spec()))
        self.assertEqual([harmless], host.allocation_candidates)

    def test_servers_of_one_request_are_counted(self) -> None:
        self.reserve(vcpus=2)
        spec = self.make_spec(num_instances=3)
        hosts = self.make_hosts(3, ('a',))

        passed = []
        for _index in range(3):
            hosts = self.filter.filter_all(hosts, spec)
            passed.append(len(hosts))
            for one in hosts:
                one.num_instances += 1

        self.assertEqual([1, 1, 0], passed)

    def test_without_what_placement_says_hosts_are_asked(self) -> None:
        self.reserve(vcpus=8)
        hosts = self.make_hosts(4)
        spec = self.make_spec()
        request_context.find(spec).summaries = None
        for one in hosts:
            one.vcpus_total = 14
            one.vcpus_used = 2

        self.assertEqual(['a', 'b'], self.run_filter(hosts, spec))

        for one in hosts:
            one.vcpus_used = 3
        self.assertEqual(['b'], self.run_filter(hosts, spec))

    def test_what_nobody_knows_is_not_given_away(self) -> None:
        self.reserve(vcpus=1)
        spec = self.make_spec()
        request_context.find(spec).summaries = {}

        self.assertEqual(['b'], self.run_filter(self.make_hosts(1), spec))
        self.assertIn('of an unknown number of free units', self.log.output)

    def test_nothing_is_looked_at_where_nothing_is_reserved(self) -> None:
        # Objects that have no attributes at all.
        hosts = [object(), object()]

        self.assertEqual(
            hosts, self.filter.filter_all(hosts, self.make_spec())
        )

    def test_a_rebuild_passes(self) -> None:
        self.reserve(vcpus=8)
        spec = self.make_spec(
            scheduler_hints={'_nova_check_type': ['rebuild']}
        )

        self.assertEqual(['a', 'b'], self.run_filter(self.make_hosts(), spec))


class ReservedTest(reserving.ReservingTestCase):
    """Servers that ask for their reservation."""

    def setUp(self) -> None:
        super().setUp()
        self.is_move = self.patch_move(False)

    def patch_move(self, answer: bool) -> Any:
        patch = mock.patch.object(request, 'is_move', return_value=answer)
        self.addCleanup(patch.stop)
        return patch.start()

    def boot(
        self, server: str, key: str = 'lease', vcpus: int = 4, **fields: Any
    ) -> list[str]:
        return self.run_filter(
            self.make_hosts(vcpus), self.make_spec(server, key, **fields)
        )

    def refuse(self, *args: Any, **fields: Any) -> str:
        err = self.assertRaises(
            nova_exc.NoValidHost, self.boot, *args, **fields
        )
        return str(err)

    def test_a_server_gets_the_host_of_its_slot_alone(self) -> None:
        self.reserve(vcpus=8, servers=2)

        one, two = (
            self.boot(getattr(uuidsentinel, name), vcpus=8)
            for name in ('one', 'two')
        )

        self.assertEqual([['a'], ['b']], [one, two])
        self.assertEqual(
            {uuidsentinel.one: 'a', uuidsentinel.two: 'b'}, self.find_slots()
        )

    def test_no_more_servers_than_were_reserved(self) -> None:
        self.reserve(servers=2)
        self.boot(uuidsentinel.one)
        self.boot(uuidsentinel.two)

        reason = self.refuse(uuidsentinel.three)

        self.assertIn('All 2 servers of reservation lease exist', reason)

    def test_a_slot_whose_host_is_not_among_them_is_not_taken(self) -> None:
        self.reserve()

        err = self.assertRaises(
            nova_exc.NoValidHost,
            self.run_filter,
            self.make_hosts(names=('b',)),
            self.make_spec(uuidsentinel.one, 'lease'),
        )

        self.assertIn('refuse their hosts (a)', str(err))
        self.assertEqual({}, self.find_slots())

    def test_before_the_start_and_after_the_end(self) -> None:
        self.reserve(during=reserving.hours(1, 2))

        self.refuse(uuidsentinel.one)

        self.assertIn(
            'Present and future reservations of this name for the project of '
            'the server: lease from 2030-03-17T18:46:40Z to '
            '2030-03-17T19:46:40Z.',
            self.log.output,
        )
        # The clock alone decides: no manager has written that it has begun.
        self.set_time(1)
        self.assertEqual(['a'], self.boot(uuidsentinel.one))
        self.set_time(2)
        self.refuse(uuidsentinel.two)

    def test_whatever_keeps_a_reservation_away_the_owner_reads_the_same(
        self,
    ) -> None:
        self.reserve('over')
        stores.make_admission(self.url).change(
            'over',
            state.State.CANCELLED,
            now=reserving.NOW,
            reason='not needed',
        )
        self.reserve('pending', reserving.hours(1, 2))
        self.reserve('theirs', project='theirs', vcpus=1)
        self.reserve('pending of theirs', reserving.hours(1, 2), project='t')
        self.reserve('of operators', project='', vcpus=1)

        texts = {
            self.refuse(uuidsentinel.one, name).replace(
                f'reservation {name} ', 'reservation NAME '
            )
            for name in (
                'unknown',
                'over',
                'pending',
                'theirs',
                'pending of theirs',
                'of operators',
            )
        }

        [text] = texts
        self.assertIn(
            'There is no reservation NAME for this project now: it is '
            'unknown, has not started yet, or is over',
            text,
        )
        self.assertEqual({}, self.find_slots())
        self.assertEqual(
            ['a'],
            self.boot(uuidsentinel.one, 'theirs', 1, project_id='theirs'),
        )

    def test_a_name_is_that_of_the_project_and_of_now(self) -> None:
        self.reserve('lease', project='theirs')
        self.reserve('lease~2', reserving.hours(0, 1))
        self.reserve('lease~3', reserving.hours(1, 2))
        self.reserve('lease~4', project='')

        # Nobody has written that the second one has ended.
        for server, hour, key in (
            (uuidsentinel.one, 0, 'lease~2'),
            (uuidsentinel.two, 1, 'lease~3'),
        ):
            self.set_time(hour)
            self.boot(server)
            rows = stores.dump(self.url)['servers']
            [row] = [one for one in rows if one.consumer == server]
            self.assertEqual(key, row.reservation)
        self.refuse(uuidsentinel.three, 'lease~2')
        self.refuse(uuidsentinel.three, 'lease~4')

    def test_what_has_no_project_is_for_servers_of_administrators(
        self,
    ) -> None:
        self.reserve(project='')
        of_admins: dict[str, Any] = {'is_admin': True, 'project_id': 'admins'}
        for caller, project_id in (
            ({'is_admin': False, 'project_id': 'mine'}, 'mine'),
            # An administrator has a server of another one moved, or built.
            (of_admins, 'mine'),
            (of_admins, ''),
        ):
            with self.subTest(caller=caller, project_id=project_id):
                self.caller = caller
                self.refuse(uuidsentinel.one, project_id=project_id)

        self.caller = of_admins
        self.assertEqual(
            ['a'], self.boot(uuidsentinel.one, project_id='admins')
        )

    def test_a_name_is_that_of_the_project_before_that_of_none(self) -> None:
        self.caller = {'is_admin': True, 'project_id': 'mine'}
        self.reserve(vcpus=8, project='')
        self.reserve('lease~2', vcpus=8)

        self.assertEqual(['b'], self.boot(uuidsentinel.one, vcpus=8))

    def test_a_hint_that_is_not_one_name(self) -> None:
        self.reserve('lease')
        cases: list[tuple[list[str], str]] = [
            ([], "''"),
            ([''], "''"),
            (['lease', 'other'], 'lease, other'),
            (['lease\ud800'], 'lease?'),
        ]
        for values, name in cases:
            with self.subTest(values=values):
                refused = self.refuse(
                    uuidsentinel.one,
                    None,
                    scheduler_hints={request.HINT: values},
                )

                self.assertIn(f'There is no reservation {name} for', refused)

    def test_a_larger_flavor_is_refused_and_a_smaller_one_is_not(
        self,
    ) -> None:
        self.reserve(servers=2)

        reason = self.refuse(uuidsentinel.one, vcpus=5)

        self.assertIn('VCPU: 5 needed, 4 reserved', reason)
        self.assertEqual(['a'], self.boot(uuidsentinel.one, vcpus=3))

    def test_candidates_are_those_of_the_slot(self) -> None:
        self.reserve()
        host = self.make_state('a')
        mine = host.allocation_candidates[0]
        other = reserving.make_candidate({'other': 4})
        host.allocation_candidates = [other, mine]

        self.run_filter([host], self.make_spec(uuidsentinel.one, 'lease'))

        self.assertEqual([mine], host.allocation_candidates)

    def test_others_of_the_host_do_that_break_no_promise(self) -> None:
        self.reserve()
        host = self.make_state('a')
        other = reserving.make_candidate({'b': 4})
        host.allocation_candidates = [other]

        self.run_filter([host], self.make_spec(uuidsentinel.one, 'lease'))

        self.assertEqual([other], host.allocation_candidates)

    def test_a_slot_that_has_changed_meanwhile_is_read_again(self) -> None:
        self.reserve(vcpus=8)
        held = functools.partial(slots.take, self.database, 'lease')
        taken = held('other', lambda found: found[0], now=reserving.NOW)
        assert taken is not None
        find_key = self.filter._reserved.find_key

        def free(*args: Any) -> Any:
            slots.free(self.database, 'lease', taken)
            return find_key(*args)

        self.patch(self.filter._reserved, 'find_key', free)
        host = self.make_state('a')
        other = reserving.make_candidate({'a': 4, 'other': 4})
        host.allocation_candidates = [other]

        self.run_filter([host], self.make_spec(uuidsentinel.one, 'lease'))

        self.assertEqual({uuidsentinel.one: 'a'}, self.find_slots())

    def test_its_own_slot_is_not_in_its_way(self) -> None:
        self.reserve(vcpus=8)
        host = self.make_state('a')
        # Some of it is elsewhere: not the places of the slot.
        other = reserving.make_candidate({'a': 4, 'other': 4})
        host.allocation_candidates = [other]

        self.run_filter([host], self.make_spec(uuidsentinel.one, 'lease'))

        self.assertEqual([other], host.allocation_candidates)

    def test_a_claim_that_is_in_the_way_for_a_moment(self) -> None:
        self.patch(claim_hook, 'PAUSES', (0, 0))
        self.reserve()
        spec = self.make_spec(uuidsentinel.one, 'lease')
        self.run_filter(self.make_hosts(), spec)
        for answers, is_claimed in (
            ([False, True], True),
            ([False, False, True], True),
            ([False, False, False], False),
        ):
            claim = mock.Mock(side_effect=answers)

            found = claim_hook._wrap(claim)(
                None, None, spec, spec.instance_uuid, {}
            )

            self.assertEqual(is_claimed, found)
            self.assertEqual(len(answers), claim.call_count)

    def test_the_same_server_again_has_its_slot_again(self) -> None:
        self.reserve(servers=4)
        self.boot(uuidsentinel.one)

        self.assertEqual(['a'], self.boot(uuidsentinel.one))
        self.assertEqual({uuidsentinel.one: 'a'}, self.find_slots())

    def test_where_its_host_is_not_there_it_has_another(self) -> None:
        self.reserve(servers=4)
        self.boot(uuidsentinel.one)

        found = self.run_filter(
            self.make_hosts(names=('b',)),
            self.make_spec(uuidsentinel.one, 'lease'),
        )

        self.assertEqual(['b'], found)
        self.assertEqual({uuidsentinel.one: 'b'}, self.find_slots())

    def test_a_server_that_moves_and_finds_no_slot_is_as_others(
        self,
    ) -> None:
        self.reserve(vcpus=8)
        self.reserve('other', vcpus=4)
        self.boot(uuidsentinel.one, vcpus=8)
        self.is_move.return_value = True

        def move(vcpus: int) -> list[str]:
            return self.run_filter(
                self.make_hosts(vcpus, ('b',)),
                self.make_spec(uuidsentinel.one, 'lease'),
            )

        self.assertEqual(['b'], move(4))
        self.assertRaises(nova_exc.NoValidHost, move, 5)
        # It keeps its slot: the move may be taken back.
        self.assertEqual({uuidsentinel.one: 'a'}, self.find_slots())

    def test_a_server_moves_that_its_reservation_ends_for(self) -> None:
        self.reserve()
        self.reserve('later', during=reserving.hours(3, 4), vcpus=8)
        self.boot(uuidsentinel.one)
        self.is_move.return_value = True

        for hours, passed in ((1, ['a', 'b']), (2, ['b'])):
            self.set_time(hours)
            hosts = self.make_hosts(5)

            found = self.run_filter(
                hosts, self.make_spec(uuidsentinel.one, 'lease')
            )

            self.assertEqual(passed, found)

    def test_several_servers_in_one_request(self) -> None:
        self.reserve(servers=4)

        self.assertEqual(['a', 'a', 'b', 'b'], self.boot_together(4, vcpus=4))
        self.assertEqual(4, len(self.find_slots()))

    def boot_together(
        self, count: int, vcpus: int, rival: str = ''
    ) -> list[str]:
        """Do what Nova does for the servers of one request.

        :param rival: a server that takes a slot after the first one
        """
        hosts = self.make_hosts(vcpus)
        spec = self.make_spec(uuidsentinel.one, 'lease', num_instances=count)
        chosen = []
        for index in range(count):
            spec.instance_uuid = getattr(uuidsentinel, f'server_{index}')
            if index:
                hosts = request_context.find(spec).restore() or hosts
            if index == 1 and rival:
                self.run_filter(
                    self.make_hosts(vcpus),
                    self.make_spec(rival, 'lease'),
                    self.make_filter(),
                )
            hosts = self.filter.filter_all(hosts, spec)
            if not hosts:
                break
            hosts[0].num_instances += 1
            chosen.append(hosts[0].nodename)
        return chosen

    def test_more_than_there_are_slots_are_refused_in_words(self) -> None:
        self.reserve(servers=3)
        spec = self.make_spec(uuidsentinel.first, 'lease')
        self.run_filter(self.make_hosts(4), spec)

        error = self.assertRaises(
            nova_exc.NoValidHost, self.boot_together, 3, vcpus=4
        )

        self.assertIn(
            '3 servers were requested at once, but only 2 of 3 servers of '
            'reservation lease are free; request fewer',
            str(error),
        )
        self.assertEqual([uuidsentinel.first], [*self.find_slots()])
        self.assertEqual(2, len(self.boot_together(2, vcpus=4)))

    def test_a_request_that_is_repeated_gets_what_it_has(self) -> None:
        self.reserve(servers=3)

        for _time in range(2):
            self.assertEqual(3, len(self.boot_together(3, vcpus=4)))

    def test_more_than_are_left_free_all(self) -> None:
        self.reserve(servers=4)

        found = self.boot_together(4, vcpus=4, rival=uuidsentinel.rival)

        self.assertEqual(3, len(found))
        # Nova frees what it has claimed, for no host was left.
        self.assertEqual([uuidsentinel.rival], [*self.find_slots()])

    def test_alternates_of_the_last_one_cost_nothing(self) -> None:
        self.reserve(servers=2)
        hosts = self.make_hosts()
        spec = self.make_spec(uuidsentinel.one, 'lease', num_instances=2)
        found = self.filter.filter_all(hosts, spec)

        self.assertEqual(found, self.filter.filter_all(hosts, spec))
        self.assertEqual({uuidsentinel.one: 'a'}, self.find_slots())
        self.assertEqual([], self.filter.filter_all(hosts[1:], spec))
        self.assertEqual({uuidsentinel.one: 'a'}, self.find_slots())

    def test_two_schedulers_give_each_slot_once(self) -> None:
        self.reserve(servers=4)
        filters = [self.filter, self.make_filter()]
        names = [getattr(uuidsentinel, f'race_{one}') for one in range(8)]

        def boot(number: int) -> list[str]:
            spec = self.make_spec(names[number], 'lease')
            host_filter = filters[number % 2]
            try:
                return self.run_filter(self.make_hosts(), spec, host_filter)
            except nova_exc.NoValidHost:
                return []

        with futures.ThreadPoolExecutor(8) as pool:
            found = sorted(pool.map(boot, range(8)))

        self.assertEqual([[]] * 4 + [['a'], ['a'], ['b'], ['b']], found)
        self.assertEqual(4, len(self.find_slots()))

    def ask_placement(self, allocations: Any) -> Any:
        """Let placement know of servers, or fail."""
        client = mock.Mock()
        client.get_allocs_for_consumer.side_effect = (
            allocations
            if isinstance(allocations, Exception)
            else lambda _context, uuid: {
                'allocations': allocations.get(uuid, {})
            }
        )
        # What Nova returns where placement does not answer.
        client.get_allocations_for_consumer.return_value = {}
        patch = mock.patch.object(
            report, 'report_client_singleton', return_value=client
        )
        self.addCleanup(patch.stop)
        patch.start()
        return client.get_allocs_for_consumer

    def test_the_slot_of_a_deleted_server_is_taken_again(self) -> None:
        self.reserve(servers=2)
        self.boot(uuidsentinel.gone)
        self.boot(uuidsentinel.there)
        ask = self.ask_placement({uuidsentinel.there: {'a': {}}})

        self.refuse(uuidsentinel.new)
        ask.assert_not_called()
        self.set_time(slots_mod.ABANDONED_SECONDS / reserving.HOUR)

        self.assertEqual(['a'], self.boot(uuidsentinel.new))
        self.assertEqual(
            {uuidsentinel.there, uuidsentinel.new}, {*self.find_slots()}
        )
        self.assertIn('Freed slot', self.log.output)
        self.refuse(uuidsentinel.more)

    def test_placement_that_is_slow_is_not_asked_about_all(self) -> None:
        self.reserve(servers=4)
        for number in range(4):
            self.boot(getattr(uuidsentinel, f'gone_{number}'))
        ask = self.ask_placement({})
        self.patch(slots_mod, 'MAX_ASKING_SECONDS', -1.0)
        self.set_time(1)

        self.refuse(uuidsentinel.new)

        ask.assert_not_called()
        self.assertIn('Placement answers too slowly', self.log.output)

    def test_where_nova_does_not_say_whether_it_moves(self) -> None:
        self.reserve()
        mock.patch.stopall()
        for err in (db_exc.DBConnectionError(), sa.exc.TimeoutError()):
            with mock.patch.object(
                objects.InstanceMapping,
                'get_by_instance_uuid',
                side_effect=err,
            ):
                reason = self.refuse(uuidsentinel.one, 'unknown')

            self.assertIn('There is no reservation unknown', reason)
            self.assertIn('is not known', reason)

    def test_while_placement_does_not_answer_no_slot_is_freed(self) -> None:
        self.reserve()
        self.boot(uuidsentinel.gone)
        self.ask_placement(
            nova_exc.ConsumerAllocationRetrievalFailed(
                consumer_uuid='x', error='away'
            )
        )
        self.set_time(1)

        self.assertIn('exist', self.refuse(uuidsentinel.new))
        self.assertIn('Cannot ask placement', self.log.output)


class Placement:
    """What several schedulers claim of two hosts at the same time.

    Only as far as a scheduler sees it, so that many can be tried.
    """

    CAPACITY = 8

    def __init__(self) -> None:
        self.held: dict[str, tuple[str, int]] = {}
        self.lock = threading.Lock()

    def count(self, host: str) -> int:
        return sum(
            amount for name, amount in [*self.held.values()] if name == host
        )

    def claim(self, server: str, host: str, amount: int) -> bool:
        with self.lock:
            if self.count(host) + amount > self.CAPACITY:
                return False
            self.held[server] = host, amount
            return True

    def get(self, url: str, **_kwargs: Any) -> Any:
        host = url.split('/')[2]
        response = mock.Mock()
        response.json.return_value = {
            'allocations': {
                server: {'resources': {'VCPU': amount}}
                for server, (name, amount) in [*self.held.items()]
                if name == host
            }
        }
        return response

    def get_allocs_for_consumer(self, _context: Any, server: str) -> Any:
        host, amount = self.held[server]
        return {'allocations': {host: {'resources': {'VCPU': amount}}}}

    def delete_allocation_for_instance(
        self, _context: Any, server: str, *, force: bool
    ) -> None:
        del self.held[server]


class StormTest(reserving.ReservingTestCase):
    """Several schedulers at once, until nothing is left."""

    def setUp(self) -> None:
        super().setUp()
        self.placement = Placement()
        self.filters = [self.filter, self.make_filter()]
        patch = mock.patch.object(request, 'is_move', return_value=False)
        self.addCleanup(patch.stop)
        patch.start()

    def boot(self, number: int) -> str:
        """Do what a scheduler does for one server; return its host."""
        server = getattr(uuidsentinel, f'storm_{number}')
        is_reserved = number % 3 == 0
        self.used = {one: self.placement.count(one) for one in self.HOSTS}
        spec = self.make_spec(server, 'lease' if is_reserved else None)
        # Another one claims meanwhile.
        time.sleep(0.002 * (number % 5))
        hosts = self.make_hosts(4 if is_reserved else 1)
        try:
            found = self.filters[number % 2].filter_all(hosts, spec)
        except nova_exc.NoValidHost:
            return ''
        time.sleep(0.002 * (number % 4))
        for one in found:
            candidate = one.allocation_candidates[0]
            [amount] = [
                one['resources']['VCPU']
                for one in candidate['allocations'].values()
            ]
            name = one.nodename
            claim = functools.partial(
                self.placement.claim, server, name, amount
            )
            claim_resources = claim_hook._wrap(lambda *_args, do=claim: do())
            if claim_resources(
                mock.Mock(), self.placement, spec, server, candidate
            ):
                return str(name)
        return f'{server} was lost' if is_reserved else ''

    def test_no_promise_is_broken(self) -> None:
        self.reserve(servers=3)

        with futures.ThreadPoolExecutor(8) as pool:
            found = [*pool.map(self.boot, range(48))]

        # All who had reserved are there, though the others never ceased.
        reserved_hosts = sorted(filter(None, found[::3]))
        self.assertEqual(['a', 'a', 'b'], reserved_hosts)
        self.assertLessEqual(self.placement.count('a'), 8)
        self.assertLessEqual(self.placement.count('b'), 8)
        self.assertEqual(3, len(self.find_slots()))

    def test_without_those_who_reserved_their_room_is_left(self) -> None:
        self.reserve(servers=3)

        with futures.ThreadPoolExecutor(8) as pool:
            [*pool.map(self.boot, [one for one in range(60) if one % 3])]

        self.assertEqual(0, self.placement.count('a'))
        self.assertLessEqual(self.placement.count('b'), 4)
        self.assertGreater(self.placement.count('b'), 0)


class GoneTest(reserving.ReservingTestCase):
    """A server of a reservation is gone, and its slot is not yet free."""

    def setUp(self) -> None:
        super().setUp()
        patch = mock.patch.object(request, 'is_move', return_value=False)
        self.addCleanup(patch.stop)
        patch.start()
        self.placement = Placement()
        self.reserve(vcpus=8)
        [host_state] = self.filter.filter_all(
            self.make_hosts(8, ('a',)), self.make_spec('leased', 'lease')
        )
        self.assertEqual('a', host_state.nodename)
        self.set_time(1)

    def check(self, vcpus: int = 4) -> bool:
        """Let another one be claimed for; return whether it stays."""
        spec = self.make_spec('other')
        [host_state] = self.filter.filter_all(
            self.make_hosts(vcpus, ('a',)), spec
        )
        self.assertTrue(self.placement.claim('other', 'a', vcpus))
        check = request_context.find(spec).check
        assert check is not None
        is_kept = check(
            mock.Mock(),
            self.placement,
            'other',
            host_state.allocation_candidates[0],
        )
        self.assertEqual(is_kept, 'other' in self.placement.held)
        return is_kept

    def test_its_room_is_promised_all_the_same(self) -> None:
        self.assertFalse(self.check())

    def test_an_evacuation_stands_and_is_logged(self) -> None:
        held: Any = {'allocations': {'a': {}, 'source': {}}}
        self.patch(
            self.placement, 'get_allocs_for_consumer', lambda *_args: held
        )

        self.assertTrue(self.check())

        self.assertIn('as in an evacuation', self.log.output)

    def test_so_is_what_it_does_not_hold_any_more(self) -> None:
        self.placement.claim('leased', 'a', 3)

        self.assertFalse(self.check())

    def test_what_it_holds_is_counted_once(self) -> None:
        self.patch(Placement, 'CAPACITY', 12)
        self.patch(self, 'capacity', 12)
        self.placement.claim('leased', 'a', 8)

        self.assertTrue(self.check())


class RemovedTest(reserving.ReservingTestCase):
    """Two leases of a host, one after the other."""

    def setUp(self) -> None:
        super().setUp()
        self.patch(Placement, 'CAPACITY', 16)
        self.patch(self, 'capacity', 16)
        patch = mock.patch.object(request, 'is_move', return_value=False)
        self.addCleanup(patch.stop)
        patch.start()
        self.placement = Placement()

    def lease(self, at_end: plan_request.AtEnd) -> None:
        self.reserve(during=reserving.hours(0, 2), vcpus=5, at_end=at_end)
        self.reserve('next', during=reserving.hours(2, 4), vcpus=8)
        self.run_filter(
            self.make_hosts(5, ('a',)), self.make_spec('leased', 'lease')
        )
        self.set_time(1)

    def boot(self, vcpus: int) -> bool | None:
        """Return whether the claim of another server stays.

        None where the host is refused before.
        """
        self.used = {'a': self.placement.count('a')}
        spec = self.make_spec('other')
        try:
            hosts = self.filter.filter_all(
                self.make_hosts(vcpus, ('a',)), spec
            )
        except nova_exc.NoValidHost:
            return None
        self.assertTrue(self.placement.claim('other', 'a', vcpus))
        check = request_context.find(spec).check
        assert check is not None
        return check(
            mock.Mock(),
            self.placement,
            'other',
            hosts[0].allocation_candidates[0],
        )

    def test_what_both_have_is_counted_once(self) -> None:
        self.lease(plan_request.AtEnd.DELETE)
        self.placement.claim('leased', 'a', 5)

        # Five are held now, and three more are needed then.
        self.assertIsNone(self.boot(9))
        self.assertTrue(self.boot(8))

    def test_a_server_that_stays_is_in_the_way(self) -> None:
        self.lease(plan_request.AtEnd.KEEP)
        self.placement.claim('leased', 'a', 5)

        self.assertIsNone(self.boot(4))
        self.assertTrue(self.boot(3))

    def test_what_it_does_not_hold_it_does_not_give_back(self) -> None:
        self.lease(plan_request.AtEnd.DELETE)

        # It was not there when it was looked at first.
        self.assertFalse(self.boot(9))
        self.assertTrue(self.boot(8))


class AlternatesTest(reserving.ReservingTestCase):
    """Hosts that Nova's conductor may claim on without asking again."""

    def list_alternates(
        self, hosts: list[Any], spec: Any, index: int = 0
    ) -> list[str]:
        named = mock.Mock()
        manager = mock.Mock()
        manager._get_sorted_hosts.side_effect = lambda spec, hosts, _index: (
            self.filter.filter_all(hosts, spec)
        )
        get_alternates = request_context._narrow_alternates(named)

        get_alternates(manager, hosts[:1], spec, hosts, index, 2, 'more')

        args = named.call_args.args
        self.assertEqual((manager, hosts[:1], spec), args[:3])
        self.assertEqual((0, 2, 'more'), args[4:])
        return [one.nodename for one in args[3]]

    def test_one_of_which_something_is_promised_is_none(self) -> None:
        self.reserve(during=reserving.hours(5, 6), vcpus=1)
        for index in (0, 1):
            spec = self.make_spec(num_instances=index + 1)
            hosts = self.filter.filter_all(self.make_hosts(1), spec)
            self.assertEqual(2, len(hosts))

            self.assertEqual(['b'], self.list_alternates(hosts, spec, index))

    def test_a_candidate_without_promises_is_one(self) -> None:
        self.reserve(during=reserving.hours(5, 6), vcpus=1)
        host = self.make_state('a', 1)
        harmless = reserving.make_candidate({'other': 1})
        host.allocation_candidates.append(harmless)
        spec = self.make_spec()
        hosts = self.filter.filter_all([host], spec)

        self.assertEqual(['a'], self.list_alternates(hosts, spec))
        self.assertEqual([harmless], host.allocation_candidates)

    def test_without_promises_all_are(self) -> None:
        spec = self.make_spec()
        hosts = self.filter.filter_all(self.make_hosts(1), spec)

        self.assertEqual(['a', 'b'], self.list_alternates(hosts, spec))


class MemoryTest(reserving.ReservingTestCase):
    def test_nothing_is_kept_of_a_request_that_is_over(self) -> None:
        self.reserve()
        gc.collect()
        before = len(request_context._REQUESTS)
        for number in range(5):
            spec = self.make_spec(f'server-{number}')
            self.run_filter(self.make_hosts(), spec)
            self.assertIsNotNone(request_context.find(spec).check)
        del spec

        gc.collect()

        self.assertEqual(before, len(request_context._REQUESTS))

    def test_what_placement_said_is_kept_by_no_cycle(self) -> None:
        """It is many megabytes, until somebody looks for cycles."""
        known = request_context.OngoingRequest(summaries=Summaries())
        known.score = backfill_weight.BackfillWeight(
            self.filter._followed, known, {}, reserving.NOW + 60
        ).score
        summaries = weakref.ref(known.summaries)
        gc.disable()
        self.addCleanup(gc.enable)

        del known

        self.assertIsNone(summaries())


class Summaries(dict[str, Any]):
    """A dict can have no weak references."""


class AwayTest(reserving.ReservingTestCase):
    """While the database does not answer."""

    def break_database(self, host_filter: Any = None) -> None:
        """Let every statement fail, as where the server is gone."""
        followed = (host_filter or self.filter)._followed
        err = exception.StoreUnavailable(reason='it is away')
        patch = mock.patch.object(
            followed.database, 'transaction', side_effect=err
        )
        self.addCleanup(patch.stop)
        patch.start()
        self.patch(slots, 'MAX_SECONDS', 0.1)
        self.patch(commitments, 'PAUSE_SECONDS', 0.0)

    def test_what_was_read_last_holds_for_others(self) -> None:
        self.reserve(vcpus=8)
        self.run_filter(self.make_hosts(), self.make_spec())

        self.break_database()

        for _attempt in range(3):
            found = self.run_filter(self.make_hosts(), self.make_spec())
            self.assertEqual(['b'], found)
        self.assertEqual(
            1, self.log.output.count('Reservations cannot be read')
        )

    def test_servers_with_a_reservation_are_refused(self) -> None:
        patch = mock.patch.object(request, 'is_move', return_value=False)
        self.addCleanup(patch.stop)
        patch.start()
        self.reserve()
        self.run_filter(self.make_hosts(), self.make_spec())
        self.break_database()

        for key in ('lease', 'unknown'):
            err = self.assertRaises(
                nova_exc.NoValidHost,
                self.run_filter,
                self.make_hosts(),
                self.make_spec(uuidsentinel.one, key),
            )

            self.assertIn('does not answer; try again later', str(err))

    def test_where_nothing_was_read_nobody_gets_anything(self) -> None:
        self.reserve(vcpus=8)
        self.break_database()

        for fields in ({}, {'reservation': 'lease'}):
            err = self.assertRaises(
                nova_exc.NoValidHost,
                self.run_filter,
                self.make_hosts(),
                self.make_spec(**fields),
            )
            self.assertIn('The reserved resources are not known', str(err))

    def test_when_it_answers_again_what_is_new_counts(self) -> None:
        self.run_filter(self.make_hosts(), self.make_spec())
        self.break_database()
        self.run_filter(self.make_hosts(), self.make_spec())
        mock.patch.stopall()
        self.reserve(vcpus=8)

        found = self.run_filter(self.make_hosts(), self.make_spec())

        self.assertEqual(['b'], found)
        self.assertIn('answers again', self.log.output)

    def test_a_database_that_hangs_keeps_no_other_request_waiting(
        self,
    ) -> None:
        self.reserve(vcpus=8)
        self.run_filter(self.make_hosts(), self.make_spec())
        self.patch(commitments, 'PATIENCE_SECONDS', 0.0)
        database = self.filter._followed.database
        asked, answer = threading.Event(), threading.Event()
        transaction = database.transaction

        @contextlib.contextmanager
        def hang() -> Iterator[Any]:
            asked.set()
            self.assertTrue(answer.wait(30))
            with transaction() as connection:
                yield connection

        self.patch(database, 'transaction', hang)
        self.addCleanup(answer.set)
        with futures.ThreadPoolExecutor(2) as pool:
            try:
                hanging = pool.submit(
                    self.run_filter, self.make_hosts(), self.make_spec()
                )
                self.assertTrue(asked.wait(30))

                other = pool.submit(
                    self.run_filter, self.make_hosts(), self.make_spec()
                )

                self.assertEqual(['b'], other.result(20))
                self.assertFalse(hanging.done())
            finally:
                answer.set()
        self.assertEqual(['b'], hanging.result())

    def test_a_reserved_server_asks_itself_while_a_read_hangs(self) -> None:
        """Its reservation may be newer than what was read last."""
        self.run_filter(self.make_hosts(), self.make_spec())
        self.reserve()
        self.patch(commitments, 'PATIENCE_SECONDS', 0.0)
        self.patch(commitments, 'PROBE_SECONDS', 3600.0)
        # Another request, of long ago, waits still.
        self.filter._followed._begun.append(time.monotonic() - 2)

        found = self.run_filter(
            self.make_hosts(), self.make_spec(uuidsentinel.one, 'lease')
        )

        self.assertEqual(['a'], found)

    def test_no_lock_is_held_where_something_is_waited_for(self) -> None:
        patch = mock.patch.object(request, 'is_move', return_value=False)
        self.addCleanup(patch.stop)
        patch.start()
        self.reserve()
        followed = self.filter._followed
        transaction = followed.database.transaction
        held: list[bool] = []

        def ask(*_args: Any) -> Any:
            held.append(followed.lock._is_owned())
            return {'allocations': {}}

        @contextlib.contextmanager
        def note() -> Iterator[Any]:
            ask()
            with transaction() as connection:
                yield connection

        self.patch(followed.database, 'transaction', note)
        client = mock.Mock()
        client.get_allocs_for_consumer.side_effect = ask
        with mock.patch.object(
            report, 'report_client_singleton', return_value=client
        ):
            self.run_filter(
                self.make_hosts(), self.make_spec(uuidsentinel.one, 'lease')
            )
            self.set_time(1)
            # That of the first one is free again.
            self.run_filter(
                self.make_hosts(), self.make_spec(uuidsentinel.two, 'lease')
            )
        self.run_filter(self.make_hosts(), self.make_spec())

        client.get_allocs_for_consumer.assert_called_once()
        self.assertEqual({uuidsentinel.two: 'a'}, self.find_slots())
        self.assertFalse(any(held))

    def test_a_server_with_a_reservation_asks_it_at_once(self) -> None:
        """A failure of a moment is not its fault."""
        self.reserve()
        self.run_filter(self.make_hosts(), self.make_spec())
        self.break_database()
        self.patch(commitments, 'PAUSE_SECONDS', 60.0)
        self.run_filter(self.make_hosts(), self.make_spec())
        mock.patch.stopall()

        found = self.run_filter(
            self.make_hosts(), self.make_spec(uuidsentinel.one, 'lease')
        )

        self.assertEqual(['a'], found)

    def test_after_a_failure_it_is_left_alone_for_a_while(self) -> None:
        self.run_filter(self.make_hosts(), self.make_spec())
        self.break_database()
        self.patch(commitments, 'PAUSE_SECONDS', 60.0)
        self.run_filter(self.make_hosts(), self.make_spec())
        transaction = self.filter._followed.database.transaction
        asked = transaction.call_count

        self.run_filter(self.make_hosts(), self.make_spec())

        self.assertEqual(asked, transaction.call_count)

    def test_an_empty_database_may_be_the_wrong_one(self) -> None:
        path = pathlib.Path(self.make_folder()) / 'new.db'
        host_filter = self.make_filter(f'sqlite:///{path}')

        err = self.assertRaises(
            nova_exc.NoValidHost,
            self.run_filter,
            self.make_hosts(),
            self.make_spec(),
            host_filter,
        )

        self.assertIn('The reserved resources are not known', str(err))
        self.assertIn('its tables have version none', self.log.output)

    def test_it_does_not_start_where_the_manager_holds_room(self) -> None:
        self.config.config(group=reservation.GROUP.name, blocking_seconds=0)

        err = self.assertRaises(
            exception.InvalidConfiguration, self.make_filter
        )

        self.assertIn('remove the filter', str(err))

    def test_without_a_database_the_scheduler_does_not_start(self) -> None:
        self.config.config(group=reservation.GROUP.name, connection=None)

        err = self.assertRaises(
            exception.InvalidConfiguration, filter_mod.ReservationFilter
        )

        self.assertIn('[ext_resources_reservation] connection', str(err))
        self.assertIn('set the option to the database', str(err))
        self.assertEqual('nova', nova.conf.CONF.project)
