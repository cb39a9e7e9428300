# SPDX-License-Identifier: Apache-2.0

"""ReservationFilter where units must lie side by side."""

import dataclasses
from typing import Any

from nova import exception as nova_exc

from nova_ext_resources.claims.trackers import cache_ways
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import host as host_mod
from nova_ext_resources.reservation import runs
from nova_ext_resources.reservation import state as state_mod
from nova_ext_resources.scheduler.hooks import request_context
from tests.functional.scheduler import reserving
from tests.functional.scheduler import scheduling
from tests.unit import builders
from tests.unit.reservation import hosts as planned
from tests.unit.reservation.store import stores

WAYS = builders.WAYS

#: Of eleven ways, three and five are free side by side.
APART = 0b11111000111


class SideBySideTest(reserving.ReservingTestCase):
    """A host with a cache of which four ways are promised."""

    HOSTS = ('a',)

    def setUp(self) -> None:
        super().setUp()
        self.asked = 0
        find_broken = runs.Runs.find_broken

        def count(*args: Any) -> Any:
            self.asked += 1
            return find_broken(*args)

        self.patch(runs.Runs, 'find_broken', count)
        self.reserve_ways('lease', reserving.hours(5, 6))

    def make_planned(self) -> list[host_mod.Host]:
        return [planned.make_cached_host('a', 11)]

    def reserve_ways(self, key: str, during: Any) -> None:
        demand = planned.make_demand(_={WAYS: 4}, cells=(2,))
        self.reserve(key, during, demand=demand)
        [self.cache] = {
            place[0]
            for found in self.make_slots()
            for place in found
            if place[1] == WAYS
        }

    def make_slots(self) -> list[Any]:
        self.filter._followed.refresh()
        return [
            one.places
            for found in self.filter._followed.promises.slots.values()
            for one in found
        ]

    def run_one(self, free: int = APART, **fields: Any) -> list[str]:
        """Filter the host for a server of four ways."""
        [host] = self.make_planned()
        place = self.cache, WAYS
        state = cache_ways.CacheWaysState(0x7FF, 0x7FF & ~free)
        view: host_view.HostView = host.view.with_state(place, state)
        tracked = {
            each: one
            for each, one in view.tracked.items()
            if one.tracker == 'cache_ways'
        }
        view = dataclasses.replace(view, tracked=tracked)
        host_state = scheduling.make_host(view, host='a', domains=[self.cache])
        spec = scheduling.make_spec(**fields)
        left = {'capacity': 11, 'used': 11 - free.bit_count()}
        request_context.find(spec).summaries = {
            self.cache: {'resources': {WAYS: left}}
        }
        return self.run_filter([host_state], spec)

    def test_a_server_that_would_leave_them_apart_is_refused(self) -> None:
        self.assertRaises(nova_exc.NoValidHost, self.run_one)

        self.assertIn('needs this many adjacent units from', self.log.output)
        self.assertEqual(['a'], self.run_one(0b11111111111))

    def test_the_same_is_decided_once(self) -> None:
        self.run_one(0b11111111111)

        self.assertEqual(['a'], self.run_one(0b11111111111))

        self.assertEqual(1, self.asked)

    def test_what_is_asked_for_once_only_is_not_remembered(self) -> None:
        lease = {'resource:lease:max_seconds': '36000'}
        for times in (1, 2):
            self.run_one(
                0b11111111111, extra_specs={**scheduling.ASKS_WAYS, **lease}
            )
            self.assertEqual(times, self.asked)

        self.assertEqual({}, dict(self.filter._installed.decisions._hosts))

    def test_what_a_host_publishes_anew_is_decided_anew(self) -> None:
        self.assertEqual(['a'], self.run_one(0b11111111111))

        self.assertRaises(nova_exc.NoValidHost, self.run_one)

    def test_what_is_promised_anew_is_decided_anew(self) -> None:
        self.assertEqual(['a'], self.run_one(0b11111111))

        self.reserve_ways('other', reserving.hours(7, 8))
        self.assertEqual(['a'], self.run_one(0b11111111))
        self.assertEqual(2, self.asked)

    def test_what_is_cancelled_is_in_nobodys_way(self) -> None:
        self.assertRaises(nova_exc.NoValidHost, self.run_one)

        stores.make_admission(self.url).change(
            'lease',
            state_mod.State.CANCELLED,
            now=reserving.NOW,
            reason='not needed',
        )

        self.assertEqual(['a'], self.run_one())

    def test_servers_of_one_request(self) -> None:
        self.assertEqual([], self.run_one(num_instances=2))
        self.assertEqual(['a'], self.run_one(0b11111111111, num_instances=2))
