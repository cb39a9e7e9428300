# SPDX-License-Identifier: Apache-2.0

"""What Blazar's own plugins get wrong, asked of ours in the same way."""

from concurrent import futures

from nova_ext_resources.claims.trackers import count
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import flavor
from nova_ext_resources.reservation import host
from tests.blazar import base
from tests.unit.reservation import hosts


class WrongAnswersTest(base.BlazarTestCase):
    """Named and numbered as in the documents."""

    def test_1_no_host_is_promised_more_than_it_has(self) -> None:
        # 12 vCPU on a host of 8: with amount > 1 on a host, one was counted.
        self.site.hosts = [hosts.make_host('a')]

        answer = self.lease('three', 1, 2, amount=3, affinity=True)

        self.assertEqual(409, answer.status)
        self.assertIn('2 can be had in that time', answer.text)
        self.make('two', 1, 2, amount=2, affinity=True)
        self.assertEqual(409, self.lease('one', 1, 2).status)

    def test_2_leases_follow_one_another_without_a_gap(self) -> None:
        for number in range(1, 5):
            lease = self.make(str(number), number, number + 1, amount=4)
            self.assertEqual(4, len(self.read(lease).servers))

    def test_3_an_amount_is_spread_and_not_repeated(self) -> None:
        # The whole amount was counted on every host.
        self.make('three', 1, 2, amount=3)

        self.make('rest', 1, 2)

        self.assertEqual(409, self.lease('more', 1, 2).status)

    def test_4_flavors_of_all_kinds_share_a_host(self) -> None:
        # Two types of reservations on one host: ReservationTypeConflict.
        self.site.hosts = [hosts.make_cached_host('one')]
        self.site.flavors['pinned'] = flavor.Flavor(
            name='pinned',
            vcpus=2,
            extra_specs={
                'hw:cpu_policy': 'dedicated',
                f'resources:{hosts.WAYS}': '3',
            },
        )

        plain = self.make('plain', 1, 2)
        pinned = self.make('pinned', 1, 2, flavor='pinned')
        amounts = self.make(
            'amounts', 1, 2, flavor=None, resources={'VCPU': 1}
        )

        for lease in (plain, pinned, amounts):
            self.assertEqual(['one'], self.read(lease).hosts)

    def test_5_two_searches_at_once_do_not_get_the_same_host(self) -> None:
        self.site.hosts = [hosts.make_host('a')]

        with futures.ThreadPoolExecutor(4) as pool:
            answers = [
                *pool.map(
                    lambda name: self.lease(name, 1, 2, amount=2), 'abcd'
                )
            ]

        found = sorted(one.status for one in answers)
        self.assertEqual([201, 409, 409, 409], found)

    def test_5_two_managers_do_not_promise_the_same(self) -> None:
        # Another process, or the command line: each has a cache of its own.
        self.site.hosts = [hosts.make_host('a')]
        self.make('first', 1, 2)
        self.open_store().create(
            {
                'name': 'by-hand',
                'flavor': 'large',
                'starts_at': '2030-01-01T01:00Z',
                'duration': '1h',
            }
        )

        self.assertEqual(409, self.lease('second', 1, 2).status)

    def test_6_ratio_reserve_and_running_servers_count(self) -> None:
        # Of 8 CPUs: (8 - 1) * 2 = 14, of which servers hold 9.
        self.site.hosts = [make_busy_host()]

        answer = self.lease('two', 1, 2, amount=2)

        self.assertEqual(409, answer.status)
        self.assertIn('1 can be had in that time', answer.text)
        self.make('one', 1, 2)


def make_busy_host() -> host.Host:
    """Make a host as placement would say it."""
    given = class_inventory.Inventory(
        total=8, reserved=1, allocation_ratio=2.0
    )
    root = hosts.make_provider('a', VCPU=8)
    tracked = host_view.Tracked(
        tracker='count',
        state=count.CountState(given.capacity, 9),
        inventory=given,
    )
    return host.make_host(
        'a', [root], host_view.HostView(tracked={('a', 'VCPU'): tracked})
    )
