# SPDX-License-Identifier: Apache-2.0

"""Layouts that cannot be had from a kernel in a test of the host."""

import dataclasses

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.drivers.resctrl.kernel import info
from nova_ext_resources.drivers.resctrl.kernel import schemata
from nova_ext_resources.drivers.resctrl.policy import layout
from nova_ext_resources.drivers.resctrl.policy import machine
from nova_ext_resources.drivers.resctrl.policy import ownership
from nova_ext_resources.objects import assignment
from tests import base
from tests.unit.drivers.resctrl.policy import states

CACHE = states.CACHE


class LevelsTest(base.TestCase):
    def test_a_level_without_info_is_not_laid_out(self) -> None:
        tree = groups.Tree(
            info=info.ControlInfo(
                levels={3: info.CacheInfo(num_closids=4, full=15)}
            ),
            groups={
                '': groups.Group(
                    name='', schemata={('L3', 0): 15, ('L2', 0): 15}
                )
            },
        )

        owned = ownership.build(tree, machine.HostMachine(), {})

        (goal,) = layout.layout(owned).groups.values()
        self.assertEqual({('L3', 0): 15}, goal.schemata)


class WantedTest(base.TestCase):
    def test_two_runs_of_a_cache_are_not_joined(self) -> None:
        one = layout.Wanted(ways={CACHE: schemata.Ways(0x3)})
        elsewhere = {schemata.Cache(3, 1): schemata.Ways(0x4)}

        both = one.join(layout.Wanted(ways=elsewhere))

        self.assertEqual({**one.ways, **elsewhere}, both.ways)
        self.assertRaises(ValueError, both.join, one)


class OwnTest(base.TestCase):
    """Which groups have ways for themselves, of eight and two for I/O."""

    def find_own(
        self,
        default: int,
        masks: dict[str, int],
        *,
        mode: str = 'shareable',
        other: int = 0,
        entries: tuple[assignment.Entry, ...] = (),
    ) -> dict[str, int]:
        uuids = {name: getattr(uuidsentinel, name) for name in masks}
        tree = states.make_tree(
            default,
            {uuids[name]: mask for name, mask in masks.items()},
            foreign={'db': other} if other else None,
            mode=mode,
            shareable=0xC0,
        )
        self.owned = ownership.build(
            tree,
            states.MACHINE,
            {one.consumer_uuid: one for one in entries},
        )
        runs = self.owned.caches[CACHE].runs
        return {
            name: runs[uuid].mask if uuid in runs else 0
            for name, uuid in uuids.items()
        }

    def lay_out(self) -> list[int]:
        desired = layout.layout(self.owned)
        return [one.schemata['L3', 0] for one in desired.groups.values()]

    def test_who_shares_with_the_host_has_none(self) -> None:
        own = self.find_own(0xF0, {'a': 0x0F, 'b': 0xF0, 'c': 0x80})

        self.assertEqual({'a': 0x0F, 'b': 0, 'c': 0}, own)

    def test_who_leaves_out_the_hosts_ways_has_its_own(self) -> None:
        # Somebody has given all ways back to the default group.
        own = self.find_own(0xFF, {'a': 0x0F, 'b': 0xFF})

        self.assertEqual({'a': 0x0F, 'b': 0}, own)

    def test_the_hosts_first_choice_can_be_somebodys(self) -> None:
        own = self.find_own(0x3F, {'a': 0xC0, 'b': 0x3F})

        self.assertEqual({'a': 0xC0, 'b': 0}, own)

    def test_what_is_on_record_decides(self) -> None:
        own = self.find_own(
            0xF0,
            {'a': 0xFF, 'b': 0x0F, 'c': 0x30},
            entries=(
                states.make_entry(uuidsentinel.a, mask='c'),
                states.make_entry(uuidsentinel.b, classes.PERCENT),
                states.make_entry(uuidsentinel.c, mask='3'),
            ),
        )

        # The last one has been moved, and that is not on record yet.
        self.assertEqual({'a': 0x0C, 'b': 0, 'c': 0x30}, own)

    def test_ways_on_record_are_not_another_servers(self) -> None:
        own = self.find_own(
            0xF0,
            {'a': 0x0C},
            entries=(
                states.make_entry(uuidsentinel.a, mask='3'),
                states.make_entry(uuidsentinel.b, mask='c'),
            ),
        )

        # Other software has moved its group into ways of b, which has none.
        self.assertEqual({'a': 0x03}, own)
        self.assertEqual(
            {uuidsentinel.a: 0x03, uuidsentinel.b: 0x0C},
            self.owned.caches[CACHE].servers,
        )

    def test_a_claim_that_was_never_applied_has_nothing(self) -> None:
        claim = states.make_entry(
            uuidsentinel.b, mask='3c', state=assignment.State.CLAIMED
        )
        self.find_own(0xC0, {'a': 0x0F}, entries=(claim,))

        self.assertEqual(
            {uuidsentinel.a: 0x0F},
            self.owned.caches[CACHE].servers,
        )

    def test_a_server_that_is_being_released_has_what_is_left_of_it(
        self,
    ) -> None:
        leaving = [
            states.make_entry(
                uuid, mask=mask, state=assignment.State.RELEASING
            )
            for uuid, mask in ((uuidsentinel.a, 'f'), (uuidsentinel.b, '30'))
        ]
        self.find_own(0xF0, {'a': 0x0F}, entries=tuple(leaving))

        self.assertEqual(
            {uuidsentinel.a: 0x0F}, self.owned.caches[CACHE].servers
        )

    def test_ways_that_were_lost_are_given_back(self) -> None:
        self.find_own(
            0xFF,
            {'a': 0xFF, 'b': 0xFF},
            entries=(states.make_entry(uuidsentinel.a, mask='c'),),
        )

        self.assertEqual([0xF0, 0x0C, 0xF0], self.lay_out())

    def test_ways_that_are_locked_or_exclusive_go_to_no_other(self) -> None:
        for mode in ('pseudo-locked', 'exclusive'):
            with self.subTest(mode):
                self.find_own(0xFF, {'a': 0x03}, mode=mode, other=0x0C)

                self.assertEqual(0xF0, self.lay_out()[0])

    def test_a_server_that_runs_elsewhere_has_the_hosts_ways(self) -> None:
        self.find_own(0xF0, {'a': 0xF0, 'b': 0xF0})
        name = groups.make_name(uuidsentinel.b)
        tree = self.owned.tree
        tree = tree.with_group(
            dataclasses.replace(tree.groups[name], cpus=frozenset({9}))
        )
        self.owned = ownership.build(tree, states.MACHINE, {})

        # Where one without CPUs runs is not known.
        self.assertEqual([0xFF, 0xFF, 0xC0], self.lay_out())

    def test_one_burst_way_in_use_keeps_the_pool(self) -> None:
        tree = states.make_tree(0xF0, {uuidsentinel.a: 0x01})
        host = dataclasses.replace(states.MACHINE, burst_ways=4)
        for mask, default in ((0x01, 0xF0), (0x10, 0xE0)):
            tree = states.make_tree(0xF0, {uuidsentinel.a: mask})
            self.owned = ownership.build(tree, host, {})

            desired = layout.layout(
                self.owned, {uuidsentinel.a: states.want(mask)}
            )

            self.assertEqual({('L3', 0): default}, desired.groups[''].schemata)
