# SPDX-License-Identifier: Apache-2.0

"""What the audit of the gate finds."""

from typing import Any

from dev.gate import differences
from tests import base

SERVER = differences.Server(uuid='vm', host='a', ways=2)


def make_host(**given: Any) -> differences.Host:
    """Make a host on which all is well for ``SERVER``."""
    return differences.Host(
        **{
            'name': 'a',
            'ledger': {('vm', 'L3_0', differences.WAYS): 2},
            'allocated': {
                ('vm', 'L3_0', differences.WAYS): 2,
                ('vm', 'root', 'VCPU'): 1,
            },
            'own': frozenset({'L3_0'}),
            'applied': {'vm': 2},
            **given,
        }
    )


class DifferencesTest(base.TestCase):
    def find_one(self, host: differences.Host) -> str:
        (found,) = differences.find([SERVER], [host])
        return found

    def test_where_all_agree_there_is_none(self) -> None:
        self.assertEqual([], differences.find([SERVER], [make_host()]))

    def test_a_server_without_ways_of_its_own_agrees(self) -> None:
        plain = differences.Server(uuid='plain', host='a', ways=0)

        self.assertEqual([], differences.find([SERVER, plain], [make_host()]))

    def test_an_allocation_of_no_server_is_an_orphan(self) -> None:
        allocated = {**make_host().allocated, ('x', 'root', 'VCPU'): 1}

        found = self.find_one(make_host(allocated=allocated))

        self.assertEqual(
            'a: placement has allocations of x, which Nova has on no host',
            found,
        )

    def test_an_allocation_where_its_server_is_not_is_an_orphan(self) -> None:
        there = make_host(
            name='b', ledger={}, applied={}, own=frozenset({'L3_1'})
        )

        found = differences.find([SERVER], [make_host(), there])

        self.assertEqual(
            ['b: placement has allocations of vm, which Nova has a'], found
        )

    def test_what_is_in_the_ledger_alone(self) -> None:
        allocated = {('vm', 'root', 'VCPU'): 1}

        found = self.find_one(make_host(allocated=allocated))

        self.assertIn('ledger 2, placement None', found)

    def test_what_is_in_placement_alone(self) -> None:
        found = differences.find([SERVER], [make_host(ledger={})])

        self.assertIn('ledger None, placement 2', found[0])
        self.assertIn('flavor 2, ledger None, applied 2', found[1])

    def test_what_is_not_applied(self) -> None:
        found = self.find_one(make_host(applied={}))

        self.assertIn('flavor 2, ledger 2, applied None', found)

    def test_settings_of_no_server_are_orphans(self) -> None:
        found = self.find_one(make_host(applied={'vm': 2, 'x': 0}))

        self.assertIn('ways of x: flavor None', found)
