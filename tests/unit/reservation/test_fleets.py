# SPDX-License-Identifier: Apache-2.0

"""Tests of hosts over time: the view of what is there at any second."""

import dataclasses
from typing import Any

from nova_ext_resources.claims.trackers import cache_ways
from nova_ext_resources.claims.trackers import count
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import fleets
from nova_ext_resources.reservation import future as future_mod
from nova_ext_resources.reservation import host as host_mod
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import planned_server
from tests import base
from tests.unit.reservation import hosts
from tests.unit.reservation.hosts import span

CACHE = 'one L3_0', hosts.WAYS
CPUS = 'one', 'VCPU'


class Uncountable(count.CountTracker):
    """A tracker of somebody else, from before states could be joined."""

    def join(self, states: Any) -> Any:
        raise NotImplementedError


class FleetTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.fleet = fleets.Fleet(
            [hosts.make_cached_host('one')], hosts.TRACKERS
        )

    def book(
        self,
        key: str,
        during: interval.Interval,
        *,
        mask: str = '',
        vcpus: int = 0,
        cpus: frozenset[int] | None = None,
    ) -> None:
        given = []
        if mask:
            given.append((CACHE, int(mask, 16).bit_count(), {'mask': mask}))
        if vcpus:
            given.append((CPUS, vcpus, {}))
        self.fleet.book(
            planned_server.PlannedServer(
                key=key,
                host='one',
                during=during,
                cpus=cpus,
                assignments=tuple(
                    assignment.Assignment(
                        rp_uuid=place[0],
                        rp_key='',
                        resource_class=place[1],
                        amount=amount,
                        units=units,
                    )
                    for place, amount, units in given
                ),
            )
        )

    def foresee(self, during: interval.Interval) -> future_mod.Future:
        future = self.fleet.foresee('one', during)
        assert future is not None
        return future

    def read(self, place: host_view.Place, during: interval.Interval) -> Any:
        return self.foresee(during).view.tracked[place].state

    def test_counts_are_as_at_their_peak(self) -> None:
        self.book('a', span(0, 10), vcpus=5)
        self.book('b', span(10, 20), vcpus=3)
        self.book('c', span(15, 30), vcpus=4)

        for during, used in (
            (span(0, 30), 7),
            (span(0, 15), 5),
            (span(20, 30), 4),
            (span(30), 0),
        ):
            self.assertEqual(
                count.CountState(8, used), self.read(CPUS, during)
            )

    def test_ways_that_any_server_has_are_taken(self) -> None:
        self.book('a', span(0, 10), mask='3')
        self.book('b', span(10, 20), mask='7')

        for during, taken in (
            (span(0, 20), 0x7),
            (span(5, 10), 0x3),
            (span(20), 0),
        ):
            self.assertEqual(
                cache_ways.CacheWaysState(0xFF, taken),
                self.read(CACHE, during),
            )

    def test_cpus_that_are_kept_are_not_free(self) -> None:
        self.book('a', span(0, 10), vcpus=1, cpus=frozenset({0, 5}))

        cells = self.foresee(span(9, 20)).cells

        self.assertEqual((frozenset({1, 2, 3}), frozenset({4, 6, 7})), cells)
        self.assertEqual(hosts.CELLS, self.foresee(span(10)).cells)

    def test_a_host_in_maintenance_offers_nothing(self) -> None:
        self.fleet.change('one', None, span(10, 20))

        self.assertIsNone(self.fleet.foresee('one', span(0, 11)))
        self.assertIsNone(self.fleet.foresee('one', span(19)))
        self.foresee(span(0, 10))
        self.foresee(span(20))
        calendar = self.fleet.calendar
        self.assertEqual(0, calendar.find_largest(CPUS, span(0, 11)))

    def test_a_change_is_joined_with_what_is_before(self) -> None:
        smaller = hosts.make_cached_host('one', ways=4).view
        self.fleet.change('one', smaller, span(10))
        self.book('a', span(0, 5), mask='c0')

        for during, free in (
            (span(0, 10), 0x3F),
            (span(5, 10), 0xFF),
            (span(5, 11), 0x0F),
            (span(10), 0x0F),
        ):
            self.assertEqual(free, self.read(CACHE, during).free_mask)
        self.assertEqual(4, self.fleet.calendar.find_largest(CACHE, span(9)))

    def test_a_change_brings_no_new_places(self) -> None:
        other = hosts.make_host('other', VCPU=8).view

        self.fleet.change('one', other, span(10))

        self.assertEqual({}, self.foresee(span(10)).view.tracked)
        self.assertEqual({}, self.foresee(span(0)).view.tracked)
        self.assertEqual(0, self.fleet.calendar.find_largest(CPUS, span(0)))

    def test_the_last_change_counts(self) -> None:
        self.fleet.change('one', None, span(10, 30))
        self.fleet.change('one', self.fleet.hosts['one'].view, span(20, 30))

        self.assertIsNone(self.fleet.foresee('one', span(19, 21)))
        self.foresee(span(20))
        self.assertEqual(8, self.fleet.calendar.find_largest(CPUS, span(20)))

    def test_what_is_tried_is_undone_whatever_happens(self) -> None:
        self.book('a', span(0, 10), vcpus=5)
        (other,) = [self.fleet.bookings['a']]
        before = dict(self.fleet.bookings)

        def fail() -> None:
            with self.fleet.trying(without=['a'], adding=[other, other]):
                raise AssertionError('the key is in use')

        self.assertRaises(ValueError, fail)
        self.assertEqual(before, self.fleet.bookings)
        self.assertEqual(5, self.fleet.calendar.peak(CPUS, span(0)))

    def test_an_unknown_place_is_refused(self) -> None:
        wrong = planned_server.PlannedServer(
            key='a',
            host='one',
            during=span(0, 1),
            assignments=(
                assignment.Assignment(
                    rp_uuid='none', rp_key='', resource_class='VCPU', amount=1
                ),
            ),
        )

        self.assertRaises(KeyError, self.fleet.book, wrong)
        self.assertEqual({}, self.fleet.bookings)
        self.assertRaises(KeyError, self.fleet.release, 'a')

    def test_what_servers_have_today_is_not_free_later(self) -> None:
        # Neither reserve nor allocation ratio is forgotten.
        root = host_provider.Provider(
            rp_uuid='two',
            name='two',
            inventories={
                'VCPU': class_inventory.Inventory(
                    total=8, reserved=1, allocation_ratio=2.0
                )
            },
        )
        published = host_view.HostView(
            tracked={
                CACHE: host_view.Tracked(
                    tracker='cache_ways',
                    state=cache_ways.CacheWaysState(0xFF, 0xF),
                )
            }
        )
        made = host_mod.make_host('two', [root], published)
        fleet = fleets.Fleet([made], hosts.TRACKERS)

        self.assertEqual(
            (14, 4),
            (
                fleet.calendar.find_largest(('two', 'VCPU'), span(0)),
                fleet.calendar.find_largest(CACHE, span(0)),
            ),
        )

    def test_what_cannot_be_foreseen_is_left_out(self) -> None:
        host = hosts.make_host('one', VCPU=8)
        cached = hosts.make_cached_host('two')
        for trackers in (
            {**hosts.TRACKERS, 'cache_ways': Uncountable()},
            {'count': hosts.TRACKERS['count']},
        ):
            fleet = fleets.Fleet([host, cached], trackers)

            self.assertEqual({'VCPU'}, {*fleet.places['one']})
            self.assertEqual(
                {'VCPU', 'PCPU', hosts.CLOS}, {*fleet.places['two']}
            )

    def test_a_provider_that_has_gone_since_offers_nothing(self) -> None:
        host = hosts.make_cached_host('one')
        tracked = {
            place: dataclasses.replace(one, inventory=None)
            for place, one in host.view.tracked.items()
        }
        fleet = fleets.Fleet(
            [
                dataclasses.replace(
                    host,
                    view=dataclasses.replace(host.view, tracked=tracked),
                    read_inventories=lambda _wanted: {},
                )
            ],
            hosts.TRACKERS,
        )
        ways = assignment.Assignment(
            rp_uuid='one L3_0', rp_key='', resource_class=hosts.WAYS, amount=2
        )
        server = planned_server.PlannedServer(
            key='it', host='one', during=span(0, 5), assignments=(ways,)
        )
        fleet.book(server)

        error = self.assertRaises(
            exception.InventoriesUnread, fleet.check_read, [server]
        )
        error.read()

        self.assertTrue(fleet.note_inventories())
        fleet.check_read([server])
        future = fleet.foresee('one', span(0, 5))
        assert future is not None
        self.assertEqual(tracked.keys() - {CACHE}, future.view.tracked.keys())
        self.assertFalse(fleet.note_inventories())
