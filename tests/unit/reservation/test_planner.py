# SPDX-License-Identifier: Apache-2.0

"""Tests of plans and counter-offers."""

from collections.abc import Iterable, Set
import dataclasses
from typing import Any

from nova_ext_resources.claims.checks import capacity
from nova_ext_resources.claims.trackers import cache_ways
from nova_ext_resources.claims.trackers import count
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_constraints
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import host_view as view
from nova_ext_resources.reservation import fleets
from nova_ext_resources.reservation import host as host_mod
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planner
from nova_ext_resources.reservation import server_demand
from tests import base
from tests.unit import builders
from tests.unit.reservation import hosts
from tests.unit.reservation.hosts import make_demand
from tests.unit.reservation.hosts import make_request
from tests.unit.reservation.hosts import span

SAME = plan_request.Affinity.SAME_HOST
ANY = plan_request.Affinity.ANY
DIFFERENT = plan_request.Affinity.DIFFERENT_HOSTS
WAYS = hosts.WAYS


class PlannerTestCase(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.planner = hosts.make_planner(
            hosts.make_host('one'), hosts.make_host('two', zone='far')
        )

    def ask(
        self, request: plan_request.Request, now: int = 0
    ) -> planner.Plan | planner.Refusal:
        """Plan, with everything as before thereafter."""
        before = dict(self.planner.fleet.bookings)
        answer = self.planner.plan(request, now)
        self.assertEqual(before, self.planner.fleet.bookings)
        return answer

    def plan(
        self, request: plan_request.Request, now: int = 0
    ) -> planner.Plan:
        answer = self.ask(request, now)
        assert isinstance(answer, planner.Plan), answer
        return answer

    def refuse(
        self, request: plan_request.Request, now: int = 0
    ) -> planner.Refusal:
        answer = self.ask(request, now)
        assert isinstance(answer, planner.Refusal), answer
        return answer

    def accept(
        self, key: str, during: interval.Interval, *given: Any, **fields: Any
    ) -> planner.Plan:
        request = make_request(key, during, *given, **fields)
        plan = self.plan(request)
        self.planner.accept(request, plan)
        return plan

    def list_hosts(self, plan: planner.Plan | None) -> list[str]:
        return [one.host for one in plan.servers] if plan else []


class PlanTest(PlannerTestCase):
    def test_hosts_are_filled_one_after_the_other(self) -> None:
        plan = self.plan(make_request('it', span(0, 10), least=3))

        self.assertEqual(['one', 'one', 'two'], self.list_hosts(plan))
        self.assertEqual(span(0, 10), plan.during)
        self.assertEqual((), plan.moved)

    def test_as_many_as_there_is_room_for(self) -> None:
        request = make_request('it', span(0, 10), least=2, most=9)

        self.assertEqual(4, len(self.plan(request).servers))

    def test_a_zone_is_kept_to(self) -> None:
        plan = self.plan(make_request('it', span(0, 10), zone='far'))
        refusal = self.refuse(make_request('no', span(0, 10), zone='none'))

        self.assertEqual(['two'], self.list_hosts(plan))
        self.assertEqual({}, refusal.shortfalls)
        self.assertIsNone(refusal.earliest)

    def test_different_hosts_are_used_once_each(self) -> None:
        plan = self.plan(
            make_request('it', span(0, 10), least=2, affinity=DIFFERENT)
        )
        refusal = self.refuse(
            make_request('no', span(0, 10), least=3, affinity=DIFFERENT)
        )

        self.assertEqual(['one', 'two'], self.list_hosts(plan))
        self.assertEqual(['one', 'two'], self.list_hosts(refusal.largest))
        self.assertIsNone(refusal.earliest)

    def test_one_host_has_all_of_them(self) -> None:
        self.accept('before', span(0, 10))

        plan = self.plan(
            make_request('it', span(0, 10), least=2, affinity=SAME)
        )
        refusal = self.refuse(
            make_request('no', span(0, 10), least=3, affinity=SAME)
        )

        self.assertEqual(['two', 'two'], self.list_hosts(plan))
        self.assertEqual(['two', 'two'], self.list_hosts(refusal.largest))

    def test_the_start_may_be_as_late_as_is_allowed(self) -> None:
        self.accept('full', span(0, 25), least=4)

        plan = self.plan(make_request('it', span(10, 25), delay=15))

        self.assertEqual(span(25, 40), plan.during)
        refusal = self.refuse(make_request('no', span(10, 25), delay=14))
        self.assertEqual(span(10, 25), refusal.during)

    def test_an_open_end_hurts_no_later_reservation(self) -> None:
        self.accept('later', span(100, 200), least=3)

        plan = self.plan(make_request('it', span(0)))

        self.assertEqual(['two'], self.list_hosts(plan))
        refusal = self.refuse(make_request('no', span(0), least=2))
        assert refusal.earliest is not None
        self.assertEqual(span(200), refusal.earliest.during)
        self.plan(make_request('short', span(0, 100), least=4))

    def test_a_start_in_the_past_is_refused(self) -> None:
        request = make_request('it', span(0, 10))

        error = self.assertRaises(ValueError, self.planner.plan, request, 1)

        self.assertIn('starts at 1970-01-01T00:00:00Z, before', str(error))

    def test_absurd_numbers_are_refused(self) -> None:
        for fields in (
            {'least': 0},
            {'least': -1},
            {'least': 3, 'most': 2},
            {'least': True},
            {'delay': -1},
            {'delay': 1.5},
        ):
            self.assertRaises(
                ValueError, make_request, 'it', span(0, 10), **fields
            )

    def test_a_reservation_is_accepted_once(self) -> None:
        plan = self.accept('it', span(0, 10))

        self.assertRaises(
            ValueError,
            self.planner.accept,
            make_request('it', span(0, 10)),
            plan,
        )
        self.assertRaises(
            ValueError, self.planner.plan, make_request('it', span(0, 10)), 0
        )
        self.planner.cancel('it')
        self.assertRaises(KeyError, self.planner.cancel, 'it')
        self.assertEqual({}, self.planner.fleet.bookings)


class RefusalTest(PlannerTestCase):
    def test_a_counter_offer_can_be_accepted(self) -> None:
        self.accept('before', span(0, 50), least=3)
        request = make_request('it', span(10, 20), least=3)

        refusal = self.refuse(request)

        assert refusal.largest is not None and refusal.earliest is not None
        self.assertEqual(['two'], self.list_hosts(refusal.largest))
        self.assertEqual(span(50, 60), refusal.earliest.during)
        self.assertEqual(3, len(refusal.earliest.servers))
        self.planner.accept(request, refusal.earliest)
        self.assertEqual(
            [], hosts.list_overbooked(self.planner.fleet.calendar)
        )

    def test_each_host_says_what_is_short(self) -> None:
        self.accept('before', span(0, 50), least=3)

        refusal = self.refuse(make_request('it', span(10, 20), least=2))

        texts = {
            host: [str(one) for one in short]
            for host, short in refusal.shortfalls.items()
        }
        self.assertEqual({'one', 'two'}, {*texts})
        (text,) = texts['one']
        self.assertIn('VCPU of provider one: 4 requested, 0 available', text)
        self.assertIn('4 requested, 0 available', texts['two'][0])

    def test_what_no_host_has_is_never_to_be_had(self) -> None:
        demand = make_demand(_={'VCPU': 1, 'CUSTOM_SEAT': 1})

        refusal = self.refuse(make_request('it', span(0, 10), demand))

        self.assertIsNone(refusal.largest)
        self.assertIsNone(refusal.earliest)
        (short,) = refusal.shortfalls['one']
        self.assertTrue(short.is_permanent)
        self.assertIn('no provider of this host offers the', short.reason)

    def test_a_host_in_maintenance_says_so(self) -> None:
        self.planner.fleet.change('one', None, span(10, 20))
        self.planner.fleet.change('two', None, span(15, 30))

        refusal = self.refuse(make_request('it', span(12, 18)))

        self.assertEqual({'one', 'two'}, {*refusal.shortfalls})
        assert refusal.earliest is not None
        self.assertEqual(span(20, 26), refusal.earliest.during)
        self.assertEqual(['one'], self.list_hosts(refusal.earliest))
        self.plan(make_request('between', span(0, 15)))

    def test_growth_counts_from_its_date_on(self) -> None:
        larger = hosts.make_host('one', VCPU=40).view
        self.planner.fleet.change('one', larger, span(100))

        self.assertEqual(
            12,
            len(
                self.plan(make_request('it', span(100, 200), least=12)).servers
            ),
        )
        refusal = self.refuse(make_request('no', span(99, 200), least=12))
        assert refusal.largest is not None and refusal.earliest is not None
        self.assertEqual(4, len(refusal.largest.servers))
        self.assertEqual(100, refusal.earliest.during.start)


class RepackTest(PlannerTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.planner = hosts.make_planner(
            hosts.make_host('one'), hosts.make_host('two')
        )
        # Four of eight on each: a server of six fits nowhere.
        self.accept('filler', span(0, 100))
        self.accept('left', span(50, 100))
        self.accept('right', span(50, 100))
        self.planner.cancel('filler')
        self.large = make_demand(_={'VCPU': 8})

    def test_what_has_not_started_is_moved(self) -> None:
        request = make_request('it', span(60, 70), self.large)

        plan = self.plan(request, now=49)

        self.assertEqual(1, len(plan.moved))
        self.planner.accept(request, plan)
        calendar = self.planner.fleet.calendar
        self.assertEqual([], hosts.list_overbooked(calendar))
        self.assertEqual(
            {'left/0', 'right/0', 'it/0'}, {*self.planner.fleet.bookings}
        )

    def test_with_a_move_the_fewest_servers_are_planned(self) -> None:
        request = make_request('it', span(60, 70), self.large, most=2)

        self.assertEqual(1, len(self.plan(request).servers))

    def test_what_runs_is_not_moved(self) -> None:
        refusal = self.refuse(
            make_request('it', span(60, 70), self.large), now=50
        )

        assert refusal.earliest is not None
        self.assertEqual(span(100, 110), refusal.earliest.during)

    def test_what_has_a_higher_priority_is_not_moved(self) -> None:
        for key in ('left', 'right'):
            self.planner.cancel(key)
        self.accept('filler', span(0, 100))
        self.accept('left', span(50, 100), priority=2)
        self.accept('right', span(50, 100), priority=2)
        self.planner.cancel('filler')
        request = make_request('it', span(60, 70), self.large, priority=1)

        self.refuse(request)

        self.plan(make_request('it', span(60, 70), self.large, priority=2))

    def test_a_move_keeps_to_what_was_asked_for(self) -> None:
        self.planner.cancel('right')
        self.accept('pair', span(50, 100), least=2, affinity=DIFFERENT)

        self.refuse(make_request('it', span(60, 70), self.large))

    def test_what_starts_soon_is_not_moved_if_that_is_asked_for(self) -> None:
        request = make_request('it', span(60, 70), self.large)
        starts = self.planner.fleet.bookings['right/0'].during.start

        for lead, expected in (
            (starts, planner.Refusal),
            (starts - 1, planner.Plan),
        ):
            with self.subTest(lead=lead):
                answer = self.planner.plan(request, 0, lead=lead)

                self.assertIsInstance(answer, expected)

    def test_reservations_may_be_moved_together(self) -> None:
        self.planner = hosts.make_planner(
            *(hosts.make_host(name, VCPU=6) for name in ('a', 'b', 'c'))
        )
        for key in ('x', 'y', 'z'):
            self.accept(
                f'{key} filler', span(0, 100), make_demand(_={'VCPU': 4})
            )
            self.accept(key, span(50, 100), make_demand(_={'VCPU': 2}))
        for key in ('x', 'y', 'z'):
            self.planner.cancel(f'{key} filler')
        request = make_request(
            'it', span(50, 60), make_demand(_={'VCPU': 6}), least=2
        )

        plan = self.plan(request, now=0)

        self.planner.accept(request, plan)
        self.assertEqual(
            [], hosts.list_overbooked(self.planner.fleet.calendar)
        )


class AttributesTest(PlannerTestCase):
    """What a reservation means is what a boot means."""

    def setUp(self) -> None:
        super().setUp()
        self.planner = hosts.make_planner(hosts.make_cached_host('one'))

    def make_pinned(
        self, ways: int, cpus: int = 2, **fields: Any
    ) -> server_demand.Demand:
        return make_demand(
            _={'PCPU': cpus, WAYS: ways}, cells=(cpus,), **fields
        )

    def list_masks(
        self, plan: planner.Plan
    ) -> list[tuple[str, str, list[int]]]:
        return [
            (each.rp_uuid, each.units['mask'], sorted(one.cpus or ()))
            for one in plan.servers
            for each in one.assignments
            if each.resource_class == WAYS
        ]

    def test_ways_are_a_run_in_the_cache_of_the_cpus(self) -> None:
        plan = self.plan(
            make_request('it', span(0, 10), self.make_pinned(4), least=4)
        )

        masks = self.list_masks(plan)
        for rp_uuid, mask, cpus in masks:
            self.assertTrue(bitmask.is_contiguous(int(mask, 16)))
            cell = hosts.CELLS[int(rp_uuid[-1])]
            self.assertLessEqual({*cpus}, cell)
        self.assertEqual(4, len({one[:2] for one in masks}))
        self.assertEqual(8, len({cpu for one in masks for cpu in one[2]}))

    def test_a_refusal_speaks_of_the_time_that_is_asked_for(self) -> None:
        host = hosts.make_cached_host('one', clos=2)
        self.planner = hosts.make_planner(host)
        self.accept('other', span(50, 100), self.make_pinned(1, 1), least=2)

        refusal = self.refuse(
            make_request('it', span(60, 70), self.make_pinned(1, 1)), now=1
        )

        (short,) = refusal.shortfalls['one']
        self.assertEqual(hosts.CLOS, short.resource_class)
        # No server runs on the host, now or when that was decided.
        self.assertEqual(
            f'fewer units are free throughout {span(60, 70)}', short.reason
        )

    def test_free_ways_that_are_apart_do_not_do(self) -> None:
        # In each cache, what is between two others leaves last.
        for number in range(2):
            for key, ways, end in (
                ('low', 3, 50),
                ('middle', 2, 100),
                ('high', 3, 50),
            ):
                self.accept(
                    f'{key} {number}',
                    span(0, end),
                    self.make_pinned(ways, 1),
                )
        free = [
            self.planner.fleet.calendar.find_largest(
                (f'one L3_{number}', WAYS), span(60, 70)
            )
            for number in range(2)
        ]
        self.assertEqual([6, 6], free)

        refusal = self.refuse(
            make_request('it', span(60, 70), self.make_pinned(6)), now=1
        )

        (short,) = refusal.shortfalls['one']
        self.assertIn(
            '6 units are free, but not side by side throughout '
            f'{span(60, 70)}',
            short.reason,
        )
        # To choose other CPUs makes no difference.
        self.assertNotIn('were tried; another', short.reason)
        assert refusal.earliest is not None
        self.assertEqual(100, refusal.earliest.during.start)

    def test_runs_in_the_way_are_moved_before_they_start(self) -> None:
        for number in range(2):
            self.accept(f'low {number}', span(0, 50), self.make_pinned(3, 1))
            self.accept(
                f'middle {number}', span(40, 100), self.make_pinned(2, 1)
            )
        request = make_request(
            'it',
            span(60, 70),
            self.make_pinned(6),
        )

        plan = self.plan(request, now=1)

        self.planner.accept(request, plan)

    def test_classes_of_service_are_counted_with_the_ways(self) -> None:
        self.planner = hosts.make_planner(
            hosts.make_cached_host('one', clos=2)
        )

        refusal = self.refuse(
            make_request('it', span(0, 10), self.make_pinned(2), least=3)
        )

        assert refusal.largest is not None
        self.assertEqual(2, len(refusal.largest.servers))
        self.assertEqual(
            {hosts.CLOS},
            {one.resource_class for one in refusal.shortfalls['one']},
        )

    def test_a_floating_server_gets_no_ways_of_a_cache(self) -> None:
        demand = make_demand(_={'VCPU': 1, WAYS: 2})

        refusal = self.refuse(make_request('it', span(0, 10), demand))

        (short,) = refusal.shortfalls['one']
        self.assertIn('hw:cpu_policy=dedicated', short.reason)

    def test_attributes_are_checked_as_at_a_boot(self) -> None:
        demand = self.make_pinned(2, attributes={WAYS: {'code': '2'}})

        refusal = self.refuse(make_request('it', span(0, 10), demand))

        (short,) = refusal.shortfalls['one']
        self.assertIn('attribute code takes 2 of 2 ways', short.reason)

    def test_dedicated_cpus_are_of_one_cell(self) -> None:
        self.accept(
            'before', span(0, 50), make_demand(_={'PCPU': 2}, cells=(1, 1))
        )

        refusal = self.refuse(
            make_request(
                'it', span(0, 10), make_demand(_={'PCPU': 4}, cells=(4,))
            )
        )

        (short,) = refusal.shortfalls['one']
        self.assertEqual(
            ('PCPU', 4, 3),
            (short.resource_class, short.requested, short.available),
        )
        assert refusal.earliest is not None
        self.assertEqual(50, refusal.earliest.during.start)

    def test_cpus_of_one_cache_are_chosen_from_a_cell_of_two(self) -> None:
        host = hosts.make_cached_host('one')
        whole = dataclasses.replace(host, cells=(frozenset(range(1, 8)),))
        self.planner = hosts.make_planner(whole)

        plan = self.plan(
            make_request('it', span(0, 10), self.make_pinned(2, 4))
        )

        ((rp_uuid, _mask, cpus),) = self.list_masks(plan)
        self.assertEqual(('one L3_1', [4, 5, 6, 7]), (rp_uuid, cpus))

    def test_cpus_of_two_caches_count_in_both_where_the_host_does_so(
        self,
    ) -> None:
        host = dataclasses.replace(
            hosts.make_cached_host('one'), cells=(frozenset(range(8)),)
        )
        request = make_request('it', span(0, 10), self.make_pinned(5, 6))
        self.planner = hosts.make_planner(host)
        self.refuse(request)
        view = dataclasses.replace(
            host.view,
            constraints=host_constraints.Constraints(spreads_pins=True),
        )
        self.planner = hosts.make_planner(dataclasses.replace(host, view=view))

        plan = self.plan(request)

        self.assertEqual(
            {'one L3_0', 'one L3_1'}, {rp for rp, *_ in self.list_masks(plan)}
        )
        self.planner.accept(request, plan)
        self.refuse(make_request('no', span(0, 10), self.make_pinned(4, 1)))
        self.plan(make_request('yes', span(0, 10), self.make_pinned(3, 1)))

    def test_forbidden_traits_rule_providers_out(self) -> None:
        demand = make_demand(
            _={'PCPU': 1},
            cells=(1,),
            _A={WAYS: 1},
            traits={
                '_A': server_demand.Traits(forbidden=frozenset({'CUSTOM_L3'}))
            },
        )

        refusal = self.refuse(make_request('it', span(0, 10), demand))

        (short,) = refusal.shortfalls['one']
        self.assertTrue(short.is_permanent)

    def test_after_many_ends_the_last_one_is_tried(self) -> None:
        # Units of one VCPU come and go; what is in the way stays longest.
        for number in range(2):
            for key, ways, end in (
                ('low', 3, 50),
                ('middle', 2, 900),
                ('high', 3, 50),
            ):
                self.accept(
                    f'{key} {number}', span(0, end), self.make_pinned(ways, 1)
                )
        for number in range(60):
            self.accept(
                f'short {number}',
                span(60 + 10 * number, 65 + 10 * number),
                make_demand(_={'VCPU': 1}),
            )

        refusal = self.refuse(
            make_request('it', span(60, 70), self.make_pinned(6)), now=1
        )

        assert refusal.earliest is not None
        self.assertEqual(900, refusal.earliest.during.start)

    def test_groups_have_providers_with_their_traits(self) -> None:
        for trait, fits in (('CUSTOM_L3', True), ('CUSTOM_NONE', False)):
            demand = make_demand(
                _={'PCPU': 2},
                cells=(1, 1),
                _A={WAYS: 5},
                _B={WAYS: 5},
                is_isolated=True,
                traits={
                    '_A': server_demand.Traits(required=frozenset({trait}))
                },
            )
            answer = self.ask(make_request('it', span(0, 10), demand))
            if fits:
                assert isinstance(answer, planner.Plan), answer
                self.assertEqual(
                    {'one L3_0', 'one L3_1'},
                    {one[0] for one in self.list_masks(answer)},
                )
            else:
                assert isinstance(answer, planner.Refusal)
                (short,) = answer.shortfalls['one']
                self.assertIn('the traits that', short.reason)

    def test_many_isolated_groups_find_a_provider_each(self) -> None:
        names = [f'L3_{number:02}' for number in range(16)]
        tracked = {
            (name, WAYS): view.Tracked(
                tracker='cache_ways', state=cache_ways.CacheWaysState(0xFF)
            )
            for name in names
        }
        host = host_mod.make_host(
            'one',
            [hosts.make_provider(name) for name in names],
            view.HostView(tracked=tracked),
        )
        self.planner = hosts.make_planner(host)
        groups: Any = {f'_{number}': {WAYS: 5} for number in range(4)}

        for is_isolated in (True, False):
            plan = self.plan(
                make_request(
                    'it',
                    span(0, 10),
                    make_demand(is_isolated=is_isolated, **groups),
                )
            )

            used = [one[0] for one in self.list_masks(plan)]
            self.assertEqual(4, len({*used}))

    def test_more_isolated_groups_than_providers_never_fit(self) -> None:
        groups: Any = {f'_{number}': {WAYS: 1} for number in range(3)}
        demand = make_demand(
            cells=(1, 1), is_isolated=True, _={'PCPU': 2}, **groups
        )

        refusal = self.refuse(make_request('it', span(0, 10), demand))

        (short,) = refusal.shortfalls['one']
        self.assertIn('group_policy=isolate', short.reason)


class GroupsTest(PlannerTestCase):
    """A host of thirteen cards."""

    def setUp(self) -> None:
        super().setUp()
        cards = [hosts.make_provider(f'{one:02}', GPU=99) for one in range(13)]
        self.planner = hosts.make_planner(
            host_mod.make_host(
                'one',
                [hosts.make_provider('one', VCPU=64), *cards],
                view.HostView(),
            )
        )

    def make_request(
        self, amounts: Iterable[int], **fields: Any
    ) -> plan_request.Request:
        groups: Any = {
            f'_{key}': {'GPU': one} for key, one in enumerate(amounts)
        }
        demand = make_demand(_={'VCPU': 1}, **groups, **fields)
        return make_request('it', span(0, 10), demand)

    def test_each_group_gets_a_card(self) -> None:
        for is_isolated in (False, True):
            plan = self.plan(
                self.make_request([99] * 13, is_isolated=is_isolated)
            )

            (server,) = plan.servers
            self.assertEqual(14, len(server.places))

    def test_a_refusal_has_the_true_reason(self) -> None:
        for is_isolated, reason in (
            (False, '198 requested'),
            (True, 'this host has fewer'),
        ):
            refusal = self.refuse(
                self.make_request([99] * 14, is_isolated=is_isolated)
            )

            (text,) = (
                str(one)
                for one in refusal.shortfalls['one']
                if one.is_permanent
            )
            self.assertIn(reason, text)

    def test_a_refusal_in_doubt_says_so(self) -> None:
        self.accept('other', span(0, 10), make_demand(_={'GPU': 99}))

        refusal = self.refuse(
            self.make_request(range(1, 14), is_isolated=True)
        )

        (short,) = refusal.shortfalls['one']
        self.assertIn('were tried; another', short.reason)
        self.assertFalse(short.is_permanent)


class SharedTest(PlannerTestCase):
    def test_cpus_of_another_host_are_not_taken_here(self) -> None:
        pool = hosts.make_provider('pool', (), DISK_GB=100)
        self.planner = hosts.make_planner(
            *(
                host_mod.make_host(
                    name,
                    [hosts.make_provider(name, (), PCPU=8), pool],
                    view.HostView(),
                    cells=hosts.CELLS[:1],
                )
                for name in ('one', 'two')
            )
        )
        demand = make_demand(_={'PCPU': 4, 'DISK_GB': 9}, cells=(4,))

        plan = self.accept('it', span(0, 10), demand)
        other = self.accept('other', span(0, 10), demand)

        self.assertEqual(['one'], self.list_hosts(plan))
        self.assertEqual(['two'], self.list_hosts(other))

    def test_a_maintenance_leaves_what_others_share(self) -> None:
        pool = hosts.make_provider('pool', (), DISK_GB=100)
        self.planner = hosts.make_planner(
            *(
                host_mod.make_host(
                    name,
                    [hosts.make_provider(name, (), VCPU=8), pool],
                    view.HostView(),
                )
                for name in ('one', 'two')
            )
        )
        self.planner.fleet.change('one', None, span(0, 10))

        plan = self.plan(
            make_request(
                'it', span(0, 5), make_demand(_={'VCPU': 1, 'DISK_GB': 9})
            )
        )

        self.assertEqual(['two'], self.list_hosts(plan))

    def test_a_sharing_provider_is_used_up_by_all_its_hosts(self) -> None:
        pool = hosts.make_provider('pool', DISK_GB=100)
        self.planner = hosts.make_planner(
            *(
                host_mod.make_host(
                    name,
                    [hosts.make_provider(name, VCPU=8), pool],
                    view.HostView(),
                )
                for name in ('one', 'two')
            )
        )
        demand = make_demand(_={'VCPU': 8, 'DISK_GB': 60})
        self.accept('it', span(0, 10), demand)

        refusal = self.refuse(make_request('no', span(5, 9), demand))

        (short,) = refusal.shortfalls['two']
        self.assertEqual(
            ('DISK_GB', 60, 40),
            (short.resource_class, short.requested, short.available),
        )
        assert refusal.earliest is not None
        self.assertEqual(10, refusal.earliest.during.start)


class BlazarTest(PlannerTestCase):
    """What Blazar 18 gets wrong about hosts for a lease."""

    def test_no_host_is_promised_more_than_it_has(self) -> None:
        # 12 vCPU on a host of 8: with amount > 1, one was counted.
        refusal = self.refuse(
            make_request('it', span(0, 10), least=3, affinity=SAME)
        )

        assert refusal.largest is not None
        self.assertEqual(2, len(refusal.largest.servers))

    def test_leases_follow_one_another_without_a_gap(self) -> None:
        for number in range(5):
            during = span(number * 10, number * 10 + 10)
            plan = self.accept(str(number), during, least=4)
            self.assertEqual(during, plan.during)

    def test_an_amount_is_spread_and_not_repeated_on_each_host(self) -> None:
        # Its flavor plugin counts the whole amount on every host.
        self.accept('it', span(0, 10), least=3)

        self.plan(make_request('rest', span(0, 10)))

    def test_flavors_of_all_kinds_share_a_host(self) -> None:
        # Two reservation types on one host: ReservationTypeConflict.
        self.planner = hosts.make_planner(hosts.make_cached_host('one'))
        self.accept('plain', span(0, 10))
        plan = self.accept(
            'pinned',
            span(0, 10),
            make_demand(_={'PCPU': 2, WAYS: 2}, cells=(2,)),
        )

        self.assertEqual(['one'], self.list_hosts(plan))

    def test_of_two_plans_made_at_once_the_second_is_refused(self) -> None:
        # Two searches before a write got the same host. Whoever writes must
        # check that nothing has changed, and ask again otherwise.
        requests = [make_request(key, span(0, 10), least=4) for key in 'ab']
        plans = [self.plan(one) for one in requests]
        self.planner.accept(requests[0], plans[0])

        self.refuse(requests[1])


class PoolTest(PlannerTestCase):
    """Two hosts of eight CPUs each, with ten seats of one pool."""

    def setUp(self) -> None:
        super().setUp()
        self.make()

    def make(self, **own: int) -> None:
        pool = hosts.make_provider(
            'pool', [host_provider.SHARING_TRAIT], CUSTOM_SEAT=10
        )
        self.planner = hosts.make_planner(
            *(
                host_mod.make_host(
                    name,
                    [hosts.make_provider(name, (), VCPU=8, **one), pool],
                    view.HostView(),
                )
                for name, one in (('one', own), ('two', {}))
            )
        )

    def make_request(
        self,
        key: str,
        during: interval.Interval,
        seats: int,
        vcpus: int = 1,
        **fields: Any,
    ) -> plan_request.Request:
        demand = make_demand(_={'VCPU': vcpus, 'CUSTOM_SEAT': seats})
        return make_request(key, during, demand, **fields)

    def book(self, *given: Any, **fields: Any) -> planner.Plan:
        request = self.make_request(*given, **fields)
        plan = self.plan(request)
        self.planner.accept(request, plan)
        return plan

    def test_servers_of_one_request_share_what_there_is(self) -> None:
        for affinity, vcpus in (
            (DIFFERENT, 1),
            (plan_request.Affinity.ANY, 8),
        ):
            refusal = self.refuse(
                self.make_request(
                    'no', span(0, 5), 6, vcpus, least=2, affinity=affinity
                )
            )

            self.assertEqual(['one'], self.list_hosts(refusal.largest))
            self.assertIsNone(refusal.earliest)
            for name in ('one', 'two'):
                (short,) = (
                    one
                    for one in refusal.shortfalls[name]
                    if one.resource_class == 'CUSTOM_SEAT'
                )
                self.assertEqual(
                    (6, 4), (short.requested, short.available), name
                )

    def test_no_more_are_planned_than_the_pool_has_seats_for(self) -> None:
        plan = self.book('it', span(0, 5), 3, vcpus=4, most=4)

        self.assertEqual(['one', 'one', 'two'], self.list_hosts(plan))

    def test_it_starts_when_the_pool_has_room(self) -> None:
        self.book('it', span(4, 8), 3)
        after = dict(self.planner.fleet.hosts['one'].view.tracked)
        after['pool', 'CUSTOM_SEAT'] = dataclasses.replace(
            after['pool', 'CUSTOM_SEAT'], state=count.CountState(7)
        )
        for name in ('one', 'two'):
            changed = dataclasses.replace(
                self.planner.fleet.hosts[name].view,
                tracked={
                    place: one
                    for place, one in after.items()
                    if place[0] in ('pool', name)
                }
                | {(name, 'VCPU'): builders.make_count(8)},
            )
            self.planner.fleet.change(name, changed, span(8, 11))

        for affinity in (DIFFERENT, plan_request.Affinity.ANY, SAME):
            request = self.make_request(
                'other', span(2, 6), 4, least=2, affinity=affinity
            )
            refusal = self.refuse(request)
            later = self.plan(dataclasses.replace(request, delay=20))

            assert refusal.earliest is not None
            self.assertEqual(11, refusal.earliest.during.start)
            self.assertEqual(11, later.during.start)

    def test_it_starts_in_time_after_many_others(self) -> None:
        """What is short is the pool; each end is one of the hosts."""
        for time in range(1, 81):
            self.book(str(time), span(time, time + 1), 9)

        refusal = self.refuse(
            self.make_request('no', span(1, 3), 1, least=2, affinity=DIFFERENT)
        )

        assert refusal.earliest is not None
        self.assertEqual(81, refusal.earliest.during.start)

    def test_a_later_end_counts_what_all_servers_have(self) -> None:
        held = self.book(
            'it', span(0, 5), 5, least=2, affinity=DIFFERENT
        ).servers
        self.book('other', span(6, 9), 5)
        request = self.make_request(
            'it', span(0, 8), 5, least=2, affinity=DIFFERENT
        )

        for end, fits in ((6, True), (8, False)):
            changed = dataclasses.replace(request, during=span(0, end))
            answer = self.planner.prolong(changed, held)
            self.assertEqual(fits, isinstance(answer, planner.Plan))

        assert isinstance(answer, planner.Refusal)
        self.assertEqual(['one'], self.list_hosts(answer.largest))
        for name in ('one', 'two'):
            (short,) = answer.shortfalls[name]
            self.assertEqual((10, 5), (short.requested, short.available))

    def test_the_last_look_is_at_the_calendar(self) -> None:
        """However a plan was made, nothing is promised beyond what is free."""
        packing = self.planner.pack(
            self.make_request('it', span(0, 5), 5, least=2), span(0, 5)
        )
        self.assertTrue(packing.is_enough)

        self.book('other', span(4, 5), 1)

        self.assertFalse(packing.is_enough)

    def test_units_of_the_host_come_first(self) -> None:
        """Who has none of its own needs those of the pool."""
        self.make(CUSTOM_SEAT=6)

        plan = self.book('it', span(0, 5), 6, least=2, affinity=DIFFERENT)

        self.assertEqual(
            [('one', 'CUSTOM_SEAT'), ('pool', 'CUSTOM_SEAT')],
            [
                place
                for one in plan.servers
                for place in one.places
                if place[1] == 'CUSTOM_SEAT'
            ],
        )


class Counting(capacity.CapacityTest):
    """Counts the decisions on servers."""

    decisions = 0

    def shortfalls(
        self, view: view.HostView, request: assignment.ClaimRequest
    ) -> Iterable[exception.Shortfall]:
        self.decisions += 1
        return super().shortfalls(view, request)


class WorkTest(PlannerTestCase):
    """What many servers cost, on hosts that have eight each."""

    HOSTS = 20

    def setUp(self) -> None:
        super().setUp()
        fleet = fleets.Fleet(
            [hosts.make_host(f'{one:02}') for one in range(self.HOSTS)],
            hosts.TRACKERS,
        )
        self.counting = Counting(hosts.TRACKERS)
        self.planner = planner.Planner(
            fleet, {**hosts.make_tests(), 'capacity': self.counting}
        )

    def make_request(self, least: int, **fields: Any) -> plan_request.Request:
        demand = make_demand(_={'VCPU': 1})
        return make_request('it', span(5, 9), demand, least=least, **fields)

    def test_no_host_is_filled_that_cannot_have_more(self) -> None:
        refusal = self.refuse(self.make_request(10_000, affinity=SAME))

        assert refusal.largest is not None
        self.assertEqual(8, len(refusal.largest.servers))
        self.assertEqual(9, self.counting.decisions)
        (short,) = refusal.shortfalls['19']
        self.assertEqual((10_000, 8), (short.requested, short.available))

    def test_nothing_is_placed_where_enough_cannot_fit(self) -> None:
        request = self.make_request(8 * self.HOSTS + 1, affinity=ANY)

        packing = self.planner.pack(request, request.during)

        self.assertFalse(packing.is_enough)
        self.assertEqual(0, self.counting.decisions)

    def test_the_index_is_asked_for_one_server_of_each_flavor(self) -> None:
        for affinity in plan_request.Affinity:
            for least in (8, 9, 10_000):
                self.planner.plan(
                    self.make_request(least, affinity=affinity), 0
                )

        self.assertEqual(1, len(self.planner.fleet.index._asks))


class UnreadTest(base.TestCase):
    """Placement was asked for capacities alone: of most hosts, in vain."""

    HOSTS = 100

    def setUp(self) -> None:
        super().setUp()
        self.most = {f'{one:03}': 2 for one in range(self.HOSTS)}
        self.reads: list[set[str]] = []
        made = [hosts.make_host(name) for name in self.most]
        self.planner = hosts.make_planner(
            *(
                dataclasses.replace(
                    one,
                    view=dataclasses.replace(
                        one.view,
                        tracked={
                            place: dataclasses.replace(each, inventory=None)
                            for place, each in one.view.tracked.items()
                        },
                    ),
                    read_inventories=self.read,
                )
                for one in made
            )
        )

    def read(
        self, wanted: Set[str]
    ) -> dict[str, dict[str, class_inventory.Inventory]]:
        self.reads.append({*wanted})
        return {
            one: {'VCPU': class_inventory.Inventory(total=8, max_unit=most)}
            for one in wanted
            if (most := self.most[one])
        }

    def plan(self, **fields: Any) -> planner.Plan | planner.Refusal:
        while True:
            try:
                return self.planner.plan(
                    make_request('it', span(5, 9), **fields), 0
                )
            except exception.InventoriesUnread as err:
                self.assertFalse(self.planner.fleet.note_inventories())
                err.read()
                self.assertTrue(self.planner.fleet.note_inventories())

    def test_only_hosts_of_a_plan_are_read(self) -> None:
        self.most['000'] = 4

        for _time in range(2):
            plan = self.plan(least=2)
            assert isinstance(plan, planner.Plan), plan

        self.assertEqual([{'000'}], self.reads)

    def test_more_are_read_each_time_that_it_was_in_vain(self) -> None:
        self.most['000'] = 0
        self.most['099'] = 4

        plan = self.plan()

        assert isinstance(plan, planner.Plan), plan
        self.assertEqual(['099'], [one.host for one in plan.servers])
        self.assertLess(len(self.reads), 9)
        self.assertEqual(self.HOSTS, len({*self.most}.union(*self.reads)))

    def test_a_refusal_is_of_what_was_read(self) -> None:
        self.most['000'] = 4

        refusal = self.plan(least=3, delay=5)

        assert isinstance(refusal, planner.Refusal)
        assert refusal.largest is not None
        self.assertEqual(2, len(refusal.largest.servers))
        self.assertIsNone(refusal.earliest)
        (short,) = refusal.shortfalls['050']
        self.assertTrue(short.is_permanent)
