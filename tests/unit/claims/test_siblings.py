# SPDX-License-Identifier: Apache-2.0

"""Tests of where on a host a server fits."""

from collections.abc import Sequence
import dataclasses
from typing import Any

import hypothesis
from hypothesis import strategies as st
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.claims import decide
from nova_ext_resources.claims.trackers import bandwidth
from nova_ext_resources.claims.trackers import count
from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_view
from tests import base
from tests.unit import builders
from tests.unit.claims import test_decide

#: Four domains of four CPUs each.
CACHES: tuple[str, ...] = (
    uuidsentinel.ccx0,
    uuidsentinel.ccx1,
    uuidsentinel.ccx2,
    uuidsentinel.ccx3,
)


def make_host(
    free: Sequence[int] = (100, 100, 100, 100), *, follows: bool = False
) -> host_view.HostView:
    """Make a host with four caches.

    :param free: percent of bandwidth of each
    """
    tracked = {
        (builders.RDT, builders.CLOS): builders.make_count(8),
    }
    for number, rp_uuid in enumerate(CACHES):
        cpus = f'{4 * number}-{4 * number + 3}'
        tracked[rp_uuid, builders.WAYS] = builders.make_ways(
            cpus=cpus, follows_tasks=follows
        )
        tracked[rp_uuid, classes.PERCENT] = host_view.Tracked(
            tracker='bandwidth',
            state=bandwidth.BandwidthState(100, 100 - free[number], 10),
            inventory=builders.make_inventory(100),
            implied=(builders.RDT, builders.CLOS),
            cpus=cpus,
            follows_tasks=follows,
        )
    return host_view.HostView(tracked=tracked)


class TestFindPlace(base.TestCase):
    def relocate(
        self, host: host_view.HostView, **fields: Any
    ) -> assignment.ClaimRequest | None:
        decision = test_decide.ask(host, builders.make_request(**fields))
        return decision.request if decision.fits else None

    def test_ways_follow_the_cpus_to_the_other_domain(self) -> None:
        moved = self.relocate(
            builders.make_view(),
            allocations={
                test_decide.NODE: {'VCPU': 2},
                builders.L3_0: {builders.WAYS: 4},
            },
            cpus=[12, 13],
        )

        assert moved is not None
        self.assertEqual(
            {test_decide.NODE: {'VCPU': 2}, builders.L3_1: {builders.WAYS: 4}},
            moved.allocations,
        )

    def test_the_reasons_are_those_of_the_domain_of_its_cpus(self) -> None:
        request = builders.make_request(cpus=[12, 13])

        decision = test_decide.ask(builders.make_view([0x7FF, 0b1]), request)

        self.assertEqual(
            {builders.L3_1: {builders.WAYS: 4}}, decision.request.allocations
        )
        self.assertEqual(
            [(builders.L3_1, 1)],
            [(one.rp_uuid, one.available) for one in decision.shortfalls],
        )

    def test_a_domain_without_room_is_no_way_out(self) -> None:
        moved = self.relocate(builders.make_view([0x7FF, 0]), cpus=[12, 13])

        self.assertIsNone(moved)

    def test_ways_on_a_domain_that_the_request_has_too_are_not_merged(
        self,
    ) -> None:
        moved = self.relocate(
            builders.make_view(),
            allocations={
                builders.L3_0: {builders.WAYS: 2},
                builders.L3_1: {builders.WAYS: 2},
            },
            cpus=[0, 1],
        )

        self.assertIsNone(moved)

    def test_resources_that_imply_nothing_stay_where_they_are(self) -> None:
        other: str = uuidsentinel.other_pool
        host = builders.make_view(seats=1)
        host = host_view.HostView(
            tracked={
                **host.tracked,
                (other, builders.SEATS): builders.make_count(9),
            }
        )

        moved = self.relocate(
            host, allocations={builders.POOL: {builders.SEATS: 4}}
        )

        self.assertIsNone(moved)

    def test_other_classes_of_the_same_provider_stay(self) -> None:
        host = builders.make_view()
        host = host_view.HostView(
            tracked={
                **host.tracked,
                (builders.L3_0, builders.SEATS): builders.make_count(9),
            }
        )

        moved = self.relocate(
            host,
            allocations={builders.L3_0: {builders.WAYS: 4, builders.SEATS: 1}},
            cpus=[12, 13],
        )

        assert moved is not None
        self.assertEqual(
            {
                builders.L3_0: {builders.SEATS: 1},
                builders.L3_1: {builders.WAYS: 4},
            },
            moved.allocations,
        )

    @hypothesis.given(
        host=test_decide.hosts, cpu=st.integers(min_value=0, max_value=47)
    )
    def test_what_it_finds_fits_and_is_the_same_amount(
        self, host: host_view.HostView, cpu: int
    ) -> None:
        moved = self.relocate(host, cpus=[cpu])

        if moved is not None:
            self.assertEqual(
                (),
                decide.find_shortfalls(
                    host, moved, (*test_decide.make_tests().values(),)
                ),
            )
            self.assertEqual(
                [{builders.WAYS: 4}], list(moved.allocations.values())
            )

    def test_ways_of_several_caches_follow_the_cpus_together(self) -> None:
        moved = self.relocate(
            make_host(),
            allocations={
                CACHES[0]: {builders.WAYS: 2},
                CACHES[1]: {builders.WAYS: 3},
            },
            cpus=[8, 12],
        )

        assert moved is not None
        self.assertEqual(set(CACHES[2:]), set(moved.allocations))
        self.assertEqual(
            [2, 3],
            sorted(one[builders.WAYS] for one in moved.allocations.values()),
        )

    def test_what_lies_where_the_cpus_are_stays(self) -> None:
        moved = self.relocate(
            make_host(),
            allocations={
                CACHES[0]: {builders.WAYS: 2},
                CACHES[1]: {builders.WAYS: 2},
                CACHES[3]: {builders.WAYS: 2},
            },
            cpus=[0, 4, 8],
        )

        assert moved is not None
        self.assertEqual(set(CACHES[:3]), set(moved.allocations))

    def test_ways_and_bandwidth_come_together_from_different_caches(
        self,
    ) -> None:
        moved = self.relocate(
            make_host(),
            allocations={
                CACHES[0]: {builders.WAYS: 2},
                CACHES[1]: {classes.PERCENT: 20},
            },
            cpus=[12],
        )

        assert moved is not None
        self.assertEqual(
            {CACHES[3]: {builders.WAYS: 2, classes.PERCENT: 20}},
            moved.allocations,
        )

    def test_what_a_floating_server_asks_together_stays_together(
        self,
    ) -> None:
        moved = self.relocate(
            make_host([10, 100, 10, 10], follows=True),
            allocations={CACHES[0]: {builders.WAYS: 2, classes.PERCENT: 20}},
            cpus=None,
        )

        assert moved is not None
        self.assertEqual(
            {CACHES[1]: {builders.WAYS: 2, classes.PERCENT: 20}},
            moved.allocations,
        )

    def test_what_a_floating_server_asks_apart_stays_apart(self) -> None:
        moved = self.relocate(
            make_host([10, 100, 100, 10], follows=True),
            allocations={
                CACHES[1]: {builders.WAYS: 2},
                CACHES[0]: {classes.PERCENT: 20},
            },
            cpus=None,
        )

        assert moved is not None
        self.assertEqual(
            {CACHES[1]: {builders.WAYS: 2}, CACHES[2]: {classes.PERCENT: 20}},
            moved.allocations,
        )

    def test_ways_follow_a_floating_server_into_its_numa_cells(self) -> None:
        for asked in (
            {builders.WAYS: 2},
            {builders.WAYS: 2, classes.PERCENT: 20},
        ):
            with self.subTest(asked=asked):
                moved = self.relocate(
                    make_host(follows=True),
                    allocations={CACHES[0]: asked},
                    cpus=None,
                    float_cpus=range(8, 12),
                )

                assert moved is not None
                self.assertEqual({CACHES[2]: asked}, moved.allocations)

    def test_ways_outside_its_numa_cells_are_no_way_out(self) -> None:
        moved = self.relocate(
            make_host([100, 100, 10, 100], follows=True),
            allocations={CACHES[0]: {classes.PERCENT: 20}},
            cpus=None,
            float_cpus=range(8, 12),
        )

        self.assertIsNone(moved)

    def test_what_fits_in_one_order_only_is_found(self) -> None:
        """60 % fit into the last cache only, and placement chose others."""
        host = make_host([100, 100, 30, 80], follows=True)
        for others in (CACHES[:2], CACHES[1::-1], (CACHES[0], CACHES[3])):
            for fields in (
                {'cpus': None, 'float_cpus': range(8, 16)},
                {'cpus': [8, 12]},
            ):
                with self.subTest(others=others, fields=fields):
                    moved = self.relocate(
                        host,
                        allocations={
                            others[0]: {classes.PERCENT: 60},
                            others[1]: {classes.PERCENT: 20},
                        },
                        **fields,
                    )

                    assert moved is not None
                    self.assertEqual(
                        {
                            CACHES[3]: {classes.PERCENT: 60},
                            CACHES[2]: {classes.PERCENT: 20},
                        },
                        moved.allocations,
                    )

    def test_one_takes_the_place_that_another_leaves(self) -> None:
        for full, free, far in ((0, 1, 3), (3, 2, 0)):
            percent = [100, 100, 100, 100]
            percent[full], percent[free] = 80, 30
            with self.subTest(full=full):
                moved = self.relocate(
                    make_host(percent, follows=True),
                    allocations={
                        CACHES[far]: {classes.PERCENT: 60},
                        CACHES[full]: {classes.PERCENT: 20},
                    },
                    cpus=[4 * full, 4 * free],
                )

                assert moved is not None
                self.assertEqual(
                    {
                        CACHES[full]: {classes.PERCENT: 60},
                        CACHES[free]: {classes.PERCENT: 20},
                    },
                    moved.allocations,
                )

    def test_what_fits_in_no_order_is_refused(self) -> None:
        moved = self.relocate(
            make_host([100, 100, 50, 50], follows=True),
            allocations={
                CACHES[0]: {classes.PERCENT: 60},
                CACHES[1]: {classes.PERCENT: 20},
            },
            cpus=None,
            float_cpus=range(8, 16),
        )

        self.assertIsNone(moved)

    def test_it_is_not_put_where_it_has_something_else(self) -> None:
        moved = self.relocate(
            make_host([10, 100, 10, 10], follows=True),
            allocations={
                CACHES[1]: {builders.WAYS: 2},
                CACHES[0]: {classes.PERCENT: 20},
            },
            cpus=None,
        )

        self.assertIsNone(moved)

    def test_what_is_counted_otherwise_is_no_sibling(self) -> None:
        host = make_host()
        for change in (
            {'tracker': 'count', 'state': count.CountState(9)},
            {'implied': (CACHES[0], builders.CLOS)},
        ):
            place = CACHES[3], builders.WAYS
            other = dataclasses.replace(host.tracked[place], **change)
            with self.subTest(change=change):
                moved = self.relocate(
                    host_view.HostView(tracked={**host.tracked, place: other}),
                    allocations={CACHES[0]: {builders.WAYS: 2}},
                    cpus=[12],
                )

                self.assertIsNone(moved)

    def test_what_serves_the_whole_host_moves_for_a_floating_server(
        self,
    ) -> None:
        full, free = CACHES[:2]
        implied = (builders.RDT, builders.CLOS)
        host = host_view.HostView(
            tracked={
                (builders.RDT, builders.CLOS): builders.make_count(8),
                **{
                    (rp_uuid, builders.SEATS): dataclasses.replace(
                        builders.make_count(4, used), implied=implied
                    )
                    for rp_uuid, used in ((full, 4), (free, 0))
                },
            }
        )

        moved = self.relocate(
            host, allocations={full: {builders.SEATS: 1}}, cpus=None
        )

        assert moved is not None
        self.assertEqual({free: {builders.SEATS: 1}}, moved.allocations)
