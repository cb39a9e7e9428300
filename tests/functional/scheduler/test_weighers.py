# SPDX-License-Identifier: Apache-2.0

"""Both weighers in Nova's own weight handler."""

import dataclasses
from typing import Any
from unittest import mock

from nova import objects
from nova.scheduler import weights as nova_weights

from nova_ext_resources.objects import host_constraints
from nova_ext_resources.scheduler import request
from tests.functional.scheduler import reserving
from tests.functional.scheduler import scheduling
from tests.unit import builders
from tests.unit.reservation.store import stores


class WeigherTestCase(scheduling.TestCase):
    def setUp(self) -> None:
        super().setUp()
        full = builders.make_view([0, 0], clos=6)
        self.empty = scheduling.make_host(builders.make_view(), host='empty')
        self.half = scheduling.make_host(
            _use(builders.make_view(), 0x7F), host='half'
        )
        self.full = scheduling.make_host(_use(full, 0x7FF), host='full')
        self.silent = scheduling.make_host(host='silent')

    def weigh(self, hosts: list[Any], spec: Any) -> list[str]:
        handler = nova_weights.HostWeightHandler()
        weighers = [
            cls()
            for cls in handler.get_matching_classes(
                ['nova_ext_resources.scheduler.weighers.all_weighers']
            )
        ]
        weighed = handler.get_weighed_objects(weighers, hosts, spec)
        return [one.obj.host for one in weighed]

    def test_servers_that_ask_are_spread(self) -> None:
        hosts = [self.full, self.half, self.empty]

        order = self.weigh(hosts, scheduling.make_spec())

        self.assertEqual(['empty', 'half', 'full'], order)

    def test_a_host_that_takes_none_now_is_as_a_full_one(self) -> None:
        refusing = dataclasses.replace(
            builders.make_view(),
            constraints=host_constraints.Constraints(
                refused={builders.WAYS: 'resctrl_missing'}
            ),
        )
        broken = scheduling.make_host(refusing, host='broken')
        hosts = [broken, self.half]

        for specs, order in (
            (scheduling.ASKS_WAYS, ['half', 'broken']),
            ({}, ['broken', 'half']),
        ):
            self.configure(scarce_classes=[builders.WAYS])
            spec = scheduling.make_spec(specs)
            self.assertEqual(order, self.weigh(hosts, spec))

    def test_servers_that_ask_can_be_packed(self) -> None:
        self.configure(weigh_policies={builders.WAYS: 'pack'})
        self.configure(scarce_classes=[])

        order = self.weigh(
            [self.empty, self.half, self.full], scheduling.make_spec()
        )

        self.assertEqual(['full', 'half', 'empty'], order)

    def test_servers_that_do_not_ask_stay_away_from_scarce_hosts(
        self,
    ) -> None:
        order = self.weigh(
            [self.empty, self.half, self.silent], scheduling.make_spec({})
        )

        self.assertEqual(['silent', 'half', 'empty'], order)

    def test_a_malformed_request_is_weighed_as_one_that_does_not_ask(
        self,
    ) -> None:
        spec = scheduling.make_spec({f'resources:{builders.WAYS}': 'abc'})

        order = self.weigh([self.empty, self.half, self.silent], spec)

        self.assertEqual(['silent', 'half', 'empty'], order)

    def test_with_nothing_scarce_the_order_stays(self) -> None:
        self.configure(scarce_classes=[])

        order = self.weigh(
            [self.empty, self.silent, self.half], scheduling.make_spec({})
        )

        self.assertEqual(['empty', 'silent', 'half'], order)

    def test_a_silent_host_is_in_the_middle(self) -> None:
        order = self.weigh(
            [self.silent, self.full, self.empty], scheduling.make_spec()
        )

        self.assertEqual(['empty', 'silent', 'full'], order)

    def test_aggregates_override_the_multiplier(self) -> None:
        aggregate = objects.Aggregate(
            metadata={'ext_resources_weight_multiplier': '-1'}
        )
        hosts = [self.full, self.half, self.empty]
        for host in hosts:
            host.aggregates = [aggregate]

        order = self.weigh(hosts, scheduling.make_spec())

        self.assertEqual(['full', 'half', 'empty'], order)

    def test_a_multiplier_of_zero_switches_it_off(self) -> None:
        self.configure(ext_resources_weight_multiplier=0.0)

        order = self.weigh(
            [self.full, self.empty, self.half], scheduling.make_spec()
        )

        self.assertEqual(['full', 'empty', 'half'], order)


class ReservationWeigherTest(reserving.ReservingTestCase):
    """ReservationWeigher after ReservationFilter."""

    HOSTS = ('a', 'b', 'c')

    def setUp(self) -> None:
        super().setUp()
        self.aggregates: list[Any] = []
        # a is needed in six hours, b in three; c is not.
        self.reserve('six', during=reserving.hours(6, 8), vcpus=8)
        self.reserve('three', during=reserving.hours(3, 8), vcpus=8)
        self.assertEqual(
            {'six': 'a', 'three': 'b'},
            {
                row.reservation: row.host
                for row in stores.dump(self.url)['servers']
            },
        )

    def weigh(self, hours: int, **fields: Any) -> list[tuple[str, float]]:
        """Return the hosts for a server that ends, the best one first."""
        spec = self.make_spec(**fields)
        hosts = self.make_hosts()
        end = reserving.NOW + hours * reserving.HOUR
        with mock.patch.object(request, 'find_end', return_value=end):
            hosts = self.filter.filter_all(hosts, spec)
        for one in hosts:
            one.aggregates = self.aggregates
        return self.weigh_hosts(hosts, spec)

    def weigh_hosts(
        self, hosts: list[Any], spec: Any
    ) -> list[tuple[str, float]]:
        handler = nova_weights.HostWeightHandler()
        [cls] = handler.get_matching_classes(
            ['nova_ext_resources.scheduler.weighers.ReservationWeigher']
        )
        weighed = handler.get_weighed_objects([cls()], hosts, spec)
        return [(one.obj.host, round(one.weight, 3)) for one in weighed]

    def test_a_server_fills_the_shortest_gap(self) -> None:
        self.assertEqual([('b', 1.0), ('a', 0.5), ('c', 0.0)], self.weigh(3))
        self.assertEqual([('b', 0.667), ('a', 0.333), ('c', 0)], self.weigh(2))

    def test_where_it_does_not_fit_the_next_one_is_best(self) -> None:
        self.assertEqual([('a', 1.0), ('c', 0.0)], self.weigh(6))

    def test_what_does_not_need_the_room_does_not_matter(self) -> None:
        self.patch(self, 'capacity', 12)

        self.assertEqual({0.0}, {weight for _host, weight in self.weigh(3)})

    def test_without_an_end_all_hosts_are_alike(self) -> None:
        spec = self.make_spec()
        hosts = self.filter.filter_all(self.make_hosts(), spec)

        self.assertEqual([('c', 0.0)], self.weigh_hosts(hosts, spec))

    def test_without_the_filter_all_hosts_are_alike(self) -> None:
        found = self.weigh_hosts(self.make_hosts(), self.make_spec())

        self.assertEqual([('a', 0.0), ('b', 0.0), ('c', 0.0)], found)

    def test_the_multiplier(self) -> None:
        self.configure(reservation_weight_multiplier=-2.0)
        self.assertEqual([('c', 0.0), ('a', -1.0), ('b', -2.0)], self.weigh(3))

        self.aggregates = [
            objects.Aggregate(metadata={'reservation_weight_multiplier': '3'})
        ]
        self.assertEqual([('b', 3.0), ('a', 1.5), ('c', 0.0)], self.weigh(3))


def _use(view: Any, taken: int) -> Any:
    """Return the view with these ways of both domains taken."""
    for rp_uuid in builders.DOMAINS:
        place = rp_uuid, builders.WAYS
        state = builders.make_ways(0x7FF & ~taken, taken).state
        view = view.with_state(place, state)
    return view
