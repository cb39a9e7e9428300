# SPDX-License-Identifier: Apache-2.0

"""Tests of what ReservationFilter makes of planned changes of capacity."""

from typing import Any
from unittest import mock

from nova import exception as nova_exc
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.scheduler import request
from tests.functional.scheduler import reserving
from tests.unit.reservation import changes
from tests.unit.reservation.store import stores


class CapacityChangesTest(reserving.ReservingTestCase):
    def setUp(self) -> None:
        super().setUp()
        patch = mock.patch.object(request, 'is_move', return_value=False)
        self.addCleanup(patch.stop)
        patch.start()

    def plan(self, change: capacity_change.CapacityChange) -> None:
        stores.make_admission(self.url, *self.make_planned()).capacity.plan(
            change.key,
            lambda _fleet, _others: change,
            now=reserving.NOW,
            is_forced=True,
        )

    def maintain(self, host: str = 'a', start: int = 0) -> None:
        during = reserving.hours(start, 2)
        self.plan(changes.make_maintenance(f'{host} rest', during, host))

    def ask(self, server: str = uuidsentinel.server) -> list[str]:
        return self.run_filter(
            self.make_hosts(), self.make_spec(server, 'lease')
        )

    def test_no_place_is_given_on_a_host_in_maintenance(self) -> None:
        # Both have begun: they cannot be moved.
        self.reserve(during=reserving.hours(0, 5), servers=4)
        self.maintain()

        self.assertEqual(['b'], self.ask())
        self.assertEqual(['b'], self.ask(uuidsentinel.other))
        err: Any = self.assertRaises(
            nova_exc.NoValidHost, self.ask, uuidsentinel.third
        )
        # The owner of the server reads it, who may see no hosts.
        self.assertIn(
            '2 servers of reservation lease are free, but their hosts are in '
            'maintenance; try again after 2030',
            str(err),
        )
        for secret in ('host a', 'a rest'):
            self.assertNotIn(secret, str(err))
        self.set_time(2)
        self.assertEqual(['a'], self.ask(uuidsentinel.third))

    def test_before_a_maintenance_it_is(self) -> None:
        self.reserve(vcpus=8)
        self.maintain(start=1)

        self.assertEqual(['a'], self.ask())

    def test_who_has_a_place_keeps_it(self) -> None:
        self.reserve(vcpus=8)
        self.assertEqual(['a'], self.ask())
        self.maintain()

        self.assertEqual(['a'], self.ask())

    def test_other_servers_are_not_refused(self) -> None:
        self.reserve('other', reserving.hours(5, 6))
        self.maintain('b')

        self.assertEqual(
            ['a', 'b'], self.run_filter(self.make_hosts(), self.make_spec())
        )

    def test_a_cut_counts_with_what_is_promised_then(self) -> None:
        self.reserve(during=reserving.hours(5, 6), vcpus=3)
        self.assertEqual(
            ['a', 'b'], self.run_filter(self.make_hosts(5), self.make_spec())
        )
        for host, start, cut in (('a', 4, 2), ('a', 2, 1), ('b', 2, 5)):
            self.plan(
                changes.make_change(
                    f'{host} {start}',
                    reserving.hours(start, 9),
                    {'VCPU': -cut},
                    host,
                )
            )

        for vcpus, passed in ((2, ['a', 'b']), (3, ['b']), (5, ['b'])):
            self.assertEqual(
                passed,
                self.run_filter(self.make_hosts(vcpus), self.make_spec()),
            )

    def test_a_cut_that_has_come_counts_no_more(self) -> None:
        self.reserve(during=reserving.hours(5, 6), vcpus=2)
        for host in 'ab':
            change = changes.make_change(
                host, reserving.hours(0, 9), {'VCPU': -4}, host
            )
            self.plan(change)

        for self.capacity in (4, 8):
            for vcpus, passed in ((2, ['a', 'b']), (3, ['b'])):
                found = self.run_filter(
                    self.make_hosts(vcpus), self.make_spec()
                )
                self.assertEqual(passed, found, f'{self.capacity} {vcpus}')

    def test_more_does_not_count_until_placement_shows_it(self) -> None:
        self.plan(
            changes.make_change(
                'more', reserving.hours(5, 9), {'VCPU': 8}, 'a'
            )
        )
        self.reserve(during=reserving.hours(5, 6), vcpus=16)

        self.assertEqual(
            ['b'], self.run_filter(self.make_hosts(1), self.make_spec())
        )
        self.capacity = 24
        self.assertEqual(
            ['a', 'b'], self.run_filter(self.make_hosts(8), self.make_spec())
        )
