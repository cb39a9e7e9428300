# SPDX-License-Identifier: Apache-2.0

"""Tests of what operators plan: all that is wrong is refused, in words."""

import dataclasses
from typing import Any

from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import capacity_order
from nova_ext_resources.reservation import errors
from nova_ext_resources.reservation import fleets
from nova_ext_resources.reservation import host
from nova_ext_resources.reservation import interval
from tests import base
from tests.unit.reservation import changes
from tests.unit.reservation import hosts
from tests.unit.reservation.hosts import span

NOW = 1000


def make_fleet() -> fleets.Fleet:
    """Make two hosts with two cards each, of a class, and a pool."""
    return fleets.Fleet(
        [
            host.make_host(
                name,
                [
                    hosts.make_provider(name, VCPU=8, MEMORY_MB=100),
                    *(
                        hosts.make_provider(f'{name} {card}', FPGA=2)
                        for card in ('card1', 'card2')
                    ),
                    hosts.make_provider('pool', DISK_GB=10),
                ],
                host_view.HostView(),
            )
            for name in 'ab'
        ],
        hosts.TRACKERS,
    )


class CapacityOrderTest(base.TestCase):
    def make(
        self,
        document: dict[str, Any],
        *others: capacity_change.CapacityChange,
        fleet: fleets.Fleet | None = None,
    ) -> capacity_change.CapacityChange:
        document = {'name': 'x', **document}
        capacity_order.check(document, 'a reason')
        during = capacity_order.read_during(document, NOW)
        return capacity_order.make_change(
            document,
            during,
            fleet or make_fleet(),
            others,
            NOW,
            names=('gone',),
        )

    def refuse(self, *args: Any, **kwargs: Any) -> str:
        err = self.assertRaises(
            errors.InvalidCapacityChange, self.make, *args, **kwargs
        )
        return str(err)

    def test_a_maintenance(self) -> None:
        self.assertEqual(
            changes.make_maintenance('x', span(NOW), created_at=NOW),
            self.make({'host': 'a', 'maintenance': True}),
        )

    def test_a_card_in_maintenance(self) -> None:
        for named in ({'host': 'a'}, {}):
            made = self.make(
                {**named, 'provider': 'a card2', 'maintenance': True}
            )
            self.assertEqual(
                changes.make_maintenance(
                    'x',
                    span(NOW),
                    rp_uuid='a card2',
                    provider='a card2',
                    created_at=NOW,
                ),
                made,
            )

    def test_amounts_of_the_provider_that_has_them(self) -> None:
        made = self.make(
            {
                'host': 'a',
                'amounts': {'VCPU': -8, 'MEMORY_MB': 30},
                'starts_at': '+10s',
                'duration': '10s',
            }
        )

        self.assertEqual({'VCPU': 8, 'MEMORY_MB': 100}, made.before)
        self.assertEqual({'VCPU': -8, 'MEMORY_MB': 30}, made.amounts)
        self.assertEqual(('a', 'a'), (made.host, made.rp_uuid))
        self.assertEqual(span(NOW + 10, NOW + 20), made.during)

    def test_a_pool_belongs_to_no_host(self) -> None:
        for named in ({'host': 'a'}, {}):
            made = self.make(
                {**named, 'provider': 'pool', 'amounts': {'DISK_GB': -10}}
            )
            self.assertEqual(('', 'pool'), (made.host, made.rp_uuid))

    def test_what_others_plan_counts(self) -> None:
        less = changes.make_change('o', span(NOW + 50), {'VCPU': -5})
        more = changes.make_change('p', span(NOW + 90), {'VCPU': 4})
        order = {'host': 'a', 'amounts': {'VCPU': -4}}

        self.assertIn('has only 3', self.refuse(order, less))
        self.assertIn('has only 3', self.refuse(order, less, more))
        self.make({**order, 'duration': '50s'}, less)
        self.make({**order, 'starts_at': '+90s'}, less, more)
        self.make(order, more)

    def test_cuts_that_do_not_overlap_do_not_add_up(self) -> None:
        cuts = [
            changes.make_change(
                str(one), span(NOW + one, NOW + one + 10), {'VCPU': -3}
            )
            for one in (0, 10)
        ]

        self.make({'host': 'a', 'amounts': {'VCPU': -5}}, *cuts)
        self.assertIn(
            'has only 5',
            self.refuse({'host': 'a', 'amounts': {'VCPU': -6}}, *cuts),
        )

    def test_what_is_planned_can_be_kept_back(self) -> None:
        more = changes.make_change('p', span(NOW + 50), {'VCPU': 4})
        order = {'host': 'a', 'amounts': {'VCPU': -12}}

        self.make({**order, 'starts_at': '+50s'}, more)
        self.assertIn(
            'has only 8',
            self.refuse({**order, 'starts_at': '+49s'}, more),
        )

    def test_all_of_a_provider_have_one_base(self) -> None:
        """What there would be without any change, and not with the others."""
        more = changes.make_change('p', span(NOW + 50), {'VCPU': 4})
        order = {'host': 'a', 'amounts': {'VCPU': 4}, 'starts_at': '+60s'}

        for before, least in ((8, 8), (4, 4), (12, 8)):
            other = dataclasses.replace(more, before={'VCPU': before})
            self.assertEqual({'VCPU': least}, self.make(order, other).before)

    def test_a_host_that_is_disabled(self) -> None:
        made = self.make({'host': 'gone', 'maintenance': True})

        self.assertEqual(
            changes.make_maintenance('x', span(NOW), 'gone', created_at=NOW),
            made,
        )
        for fields in (
            {'amounts': {'VCPU': 1}},
            {'provider': 'a card1', 'maintenance': True},
        ):
            self.assertIn(
                'host gone is disabled',
                self.refuse({'host': 'gone', **fields}),
            )

    def test_the_same_plan(self) -> None:
        plan: dict[str, Any] = {
            'name': 'x',
            'host': 'a',
            'starts_at': '+2h',
            'duration': '1h',
        }
        cuts = {**plan, 'amounts': {'VCPU': -4}}
        cards = {**plan, 'provider': 'a card1', 'maintenance': True}
        pools = {**plan, 'provider': 'pool', 'amounts': {'DISK_GB': 1}}
        for one in (cuts, cards, pools, {**plan, 'maintenance': True}):
            known = dataclasses.replace(self.make(one), reason='y')
            same = [one, {**one, 'starts_at': '1970-01-01T02:16:40Z'}]
            others = [
                {**one, 'duration': '2h'},
                {**one, 'starts_at': 'now'},
                {**one, 'starts_at': '1970-01-01T00:00:00Z'},
                {**plan, 'provider': 'b card1', 'maintenance': True},
                {**plan, 'amounts': {'VCPU': -5}},
            ]
            if known.host:
                others.append({**one, 'host': 'b'})
            if known.rp_uuid:
                others.append({**plan, 'maintenance': True})
            for other in same:
                self.assertTrue(capacity_order.is_same(other, known, 'y'))
            for other in others:
                with self.subTest(one=one, other=other):
                    self.assertFalse(capacity_order.is_same(other, known, 'y'))
            self.assertFalse(capacity_order.is_same(one, known, 'z'))

    def test_what_makes_no_sense(self) -> None:
        for order, words in (
            ({'maintenance': True}, 'name a host'),
            ({'host': 'a'}, 'maintenance, or the amounts'),
            (
                {'host': 'a', 'maintenance': True, 'amounts': {'VCPU': 1}},
                'maintenance, or the amounts',
            ),
            ({'host': 'c', 'maintenance': True}, 'placement has no host c'),
            ({'host': 'a', 'amounts': {}}, 'amounts'),
            ({'host': 'a', 'amounts': {'VCPU': 0}}, 'zero changes nothing'),
            ({'host': 'a', 'amounts': {'VCPU': 1.5}}, '1.5'),
            ({'host': 'a', 'amounts': {'VCPU': -4.0}}, '-4.0'),
            ({'host': 'a', 'amounts': {'VCPU': True}}, 'True'),
            ({'host': 'a', 'amounts': {'VCPU': 1 << 40}}, 'maximum'),
            ({'host': 'a', 'amounts': {'VCPU': (1 << 31) - 1}}, 'no more'),
            ({'host': 'a', 'amounts': {'VCPU': -9}}, 'has only 8'),
            ({'host': 'a', 'amounts': {'X': 1}}, 'has no X'),
            ({'host': 'a', 'amounts': {'DISK_GB': 1}}, 'has no DISK_GB'),
            ({'host': 'a', 'amounts': {'FPGA': 1}}, 'a card1, a card2'),
            ({'host': 'a', 'amounts': {'FPGA': 1, 'VCPU': 1}}, 'for each'),
            (
                {'host': 'a', 'provider': 'a', 'amounts': {'FPGA': 1}},
                'known: MEMORY_MB, VCPU',
            ),
            (
                {'host': 'a', 'provider': 'b', 'maintenance': True},
                'host a uses 0',
            ),
            ({'provider': 'none', 'maintenance': True}, 'hosts use 0'),
            (
                {'host': 'a', 'maintenance': True, 'starts_at': '-1h'},
                'starts_at',
            ),
            (
                {
                    'host': 'a',
                    'maintenance': True,
                    'starts_at': '1970-01-01T00:16:39Z',
                },
                'is before now',
            ),
            (
                {
                    'host': 'a',
                    'maintenance': True,
                    'starts_at': '+2h',
                    'ends_at': '+1h',
                },
                'is not after the start',
            ),
            (
                {
                    'host': 'a',
                    'maintenance': True,
                    'ends_at': '1970-01-01T00:00Z',
                },
                'is not after the start',
            ),
            (
                {
                    'host': 'a',
                    'maintenance': True,
                    'ends_at': '+1h',
                    'duration': '1h',
                },
                'not both',
            ),
            ({'host': 'a', 'maintenance': True, 'duration': '0s'}, '0s'),
            ({'host': 'a', 'maintenance': True, 'x': 1}, "'x'"),
            ({'host': '', 'maintenance': True}, 'empty'),
            ({'host': 'a', 'maintenance': True, 'name': ' x'}, 'blank'),
            ({'host': 'a', 'maintenance': True, 'name': 251 * 'x'}, '250'),
        ):
            with self.subTest(order=order):
                self.assertIn(words, self.refuse(order))

    def test_what_is_no_object(self) -> None:
        plans: list[Any] = [[], 'x', None]
        for plan in plans:
            self.assertRaises(
                errors.InvalidCapacityChange, capacity_order.check, plan, 'y'
            )

    def test_there_must_be_a_reason(self) -> None:
        for reason in ('', ' ', 1001 * 'x', 'a\0b'):
            self.assertRaises(
                errors.InvalidCapacityChange,
                capacity_order.check,
                {'name': 'x', 'host': 'a', 'maintenance': True},
                reason,
            )

    def test_units_that_are_not_alike(self) -> None:
        fleet = fleets.Fleet([hosts.make_cached_host('a')], hosts.TRACKERS)
        order = {'host': 'a', 'provider': 'a L3_0'}

        words = self.refuse(
            {**order, 'amounts': {hosts.WAYS: -1}}, fleet=fleet
        )

        self.assertIn('maintenance of the provider', words)
        made = self.make({**order, 'maintenance': True}, fleet=fleet)
        self.assertEqual(interval.FOREVER, made.during.end)
