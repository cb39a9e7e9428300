# SPDX-License-Identifier: Apache-2.0

"""Tests of the ways to spread a server over the providers of a host."""

from collections.abc import Sequence
import itertools
import operator
import random
from typing import Any

from nova_ext_resources.inspection import fit
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects.documents import host_tree
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import candidates
from nova_ext_resources.reservation import server_demand
from tests import base
from tests.unit import builders
from tests.unit.inspection import test_fit
from tests.unit.reservation import hosts

VF, WAYS = 'CUSTOM_A_VF', 'CUSTOM_LLC_WAYS'


class ManyProvidersTest(base.TestCase):
    """Eight cards, of which the fullest is at a network, and 16 caches."""

    def setUp(self) -> None:
        super().setUp()
        cards = [
            self.make(f'card {one}', VF, used=4 * (one == 3))
            for one in range(8)
        ]
        caches = [self.make(f'cache {one}', WAYS) for one in range(16)]
        [self.host] = host_tree.group(
            [
                host_tree.TreeProvider(rp_uuid='root', name='host'),
                *cards,
                *caches,
            ]
        )

    def make(
        self, name: str, resource_class: str, used: int = 0
    ) -> host_tree.TreeProvider:
        amount = host_tree.Amount(
            capacity=8, used=used, inventory=class_inventory.Inventory(total=8)
        )
        return host_tree.TreeProvider(
            rp_uuid=name,
            name=name,
            parent_uuid='root',
            traits=frozenset({'CUSTOM_NET'} if used else ()),
            amounts={resource_class: amount},
        )

    def test_a_trait_that_few_have_is_found(self) -> None:
        """Cards come before caches, in the order of their classes."""
        demand = test_fit.make_demand(
            vcpus=0,
            trait__CUSTOM_NET='required',
            **{f'resources__{name}': '1' for name in (VF, WAYS)},
        )

        found = [
            *candidates.CandidateSearch(
                fit.make_view(self.host),
                fit.make_providers(self.host),
                demand,
            )
        ]

        self.assertEqual(16, len(found))
        for one in found:
            self.assertEqual({VF: 1}, one['card 3'])


class GroupsTest(base.TestCase):
    """Flavors of several groups on hosts of many providers."""

    def find(
        self,
        free: Sequence[int],
        amounts: Sequence[int],
        *,
        is_isolated: bool = False,
        **fields: Any,
    ) -> candidates.CandidateSearch:
        """Look for ways, of a group for each amount."""
        names = [f'card {number:02}' for number in range(len(free))]
        groups: Any = {f'_{key}': {VF: one} for key, one in enumerate(amounts)}
        return candidates.CandidateSearch(
            host_view.HostView(
                tracked={
                    (name, VF): builders.make_count(one)
                    for name, one in zip(names, free, strict=True)
                }
            ),
            [hosts.make_provider(name) for name in names],
            hosts.make_demand(
                is_isolated=is_isolated,
                **groups,
                **fields,
            ),
        )

    def test_as_many_groups_as_there_are_providers(self) -> None:
        for number in (8, 16, 40):
            for is_isolated in (False, True):
                found = self.find(
                    [1] * number, [1] * number, is_isolated=is_isolated
                )

                (only,) = found
                self.assertEqual(number, len(only))
                self.assertFalse(found.is_cut)

    def test_one_group_more_never_fits(self) -> None:
        for number in (8, 16, 40):
            found = self.find([1] * number, [1] * (number + 1))
            (nearest,) = found
            self.assertEqual({VF: 2}, nearest['card 00'])
            self.assertFalse(found.is_cut)

            found = self.find(
                [9] * number, [1] * (number + 1), is_isolated=True
            )
            self.assertEqual([], [*found])
            self.assertFalse(found.is_cut)

    def test_a_search_that_is_given_up_says_so(self) -> None:
        """Thirteen groups, no two alike, and room for twelve."""
        found = self.find([99] * 12 + [0], range(1, 14), is_isolated=True)

        (nearest,) = found

        self.assertEqual(13, len(nearest))
        self.assertTrue(found.is_cut)

    def test_more_ways_than_are_tried(self) -> None:
        for number, is_cut in ((64, False), (65, True)):
            found = self.find([1] * number, [1])

            self.assertEqual(64, len([*found]))
            self.assertEqual(is_cut, found.is_cut)

    def test_groups_that_are_alike_are_not_exchanged(self) -> None:
        for is_isolated in (False, True):
            found = self.find([1] * 5, [1] * 4, is_isolated=is_isolated)

            self.assertEqual(5, len([*found]))

    def test_what_no_provider_has_needs_no_search(self) -> None:
        found = self.find([9] * 16, range(1, 9), _x={'GPU': 1})

        self.assertEqual([], [*found])
        self.assertFalse(found.is_cut)

    def test_the_only_provider_must_have_the_traits(self) -> None:
        for trait in ('CUSTOM_OWN', 'CUSTOM_NONE'):
            demand = hosts.make_demand(
                _={VF: 1},
                traits={'': server_demand.Traits(required=frozenset({trait}))},
            )
            found = candidates.CandidateSearch(
                host_view.HostView(
                    tracked={('it', VF): builders.make_count(9)}
                ),
                [hosts.make_provider('it', ['CUSTOM_OWN'])],
                demand,
            )

            self.assertEqual(trait == 'CUSTOM_OWN', any(found))

    def test_all_of_a_group_is_found_on_the_last_provider(self) -> None:
        names = [f'card {number}' for number in range(100)]
        found = candidates.CandidateSearch(
            host_view.HostView(
                tracked={
                    **{(one, VF): builders.make_count(9) for one in names},
                    ('card 99', WAYS): builders.make_count(9),
                }
            ),
            [hosts.make_provider(one) for one in names],
            hosts.make_demand(_A={VF: 1, WAYS: 1}),
        )

        self.assertEqual([{'card 99': {VF: 1, WAYS: 1}}], [*found])

    def test_all_ways_are_found(self) -> None:
        """Those, and no others, that a search without pruning finds."""
        kinds = set()
        for seed in range(300):
            rng = random.Random(seed)
            free = [rng.randint(0, 4) for _ in range(rng.randint(1, 4))]
            amounts = [rng.randint(1, 2) for _ in range(rng.randint(1, 3))]
            own = {'_': {VF: 1}} if rng.random() < 0.5 else {}
            is_isolated = rng.random() < 0.5

            found = self.find(free, amounts, is_isolated=is_isolated, **own)

            needs = [*(one[VF] for one in own.values()), *amounts]
            ways = set()
            for chosen in itertools.product(
                range(len(free)), repeat=len(needs)
            ):
                grouped = chosen[len(own) :]
                if is_isolated and len({*grouped}) < len(grouped):
                    continue
                used = [0] * len(free)
                for number, amount in zip(chosen, needs, strict=True):
                    used[number] += amount
                if all(map(operator.le, used, free)):
                    ways.add(tuple(used))
            listed = {
                tuple(
                    one.get(f'card {number:02}', {}).get(VF, 0)
                    for number in range(len(free))
                )
                for one in found
                if all(
                    amount[VF] <= free[int(name[-2:])]
                    for name, amount in one.items()
                )
            }
            where = f'seed {seed}'
            self.assertEqual(set(), listed - ways, where)
            self.assertEqual(not found.is_cut, ways == listed, where)
            kinds.add((bool(ways), is_isolated))
        self.assertEqual(4, len(kinds))
