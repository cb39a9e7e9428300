# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Layouts that cannot be had from a kernel in a test of the host."""

import dataclasses

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.resctrl import groups
from nova_ext_resources.resctrl import info
from nova_ext_resources.resctrl import layout
from nova_ext_resources.resctrl import schemata
from tests import base

CACHE = schemata.Cache(3, 0)


class LevelsTest(base.TestCase):
    def test_a_level_without_info_is_not_laid_out(self) -> None:
        tree = groups.Tree(
            info=info.Info(
                caches={'L3': info.CacheInfo(num_closids=4, full=15)}
            ),
            default=groups.Group(
                name='', schemata={'L3': {0: 15}, 'L2': {0: 15}}
            ),
        )

        plan = layout.plan(tree, layout.Host(cpus={}), sold={})

        self.assertEqual({'': {'L3': {0: 15}}}, plan)


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
        host: layout.Host | None = None,
    ) -> dict[str, int]:
        named = {
            name: groups.Group(
                name=groups.make_name(getattr(uuidsentinel, name)),
                schemata={'L3': {0: mask}},
                consumer_uuid=getattr(uuidsentinel, name),
            )
            for name, mask in masks.items()
        }
        found = {one.name: one for one in named.values()}
        if other:
            found['db'] = groups.Group(
                name='db', schemata={'L3': {0: other}}, mode=mode
            )
        cache = info.CacheInfo(num_closids=8, full=0xFF, shareable=0xC0)
        self.tree = groups.Tree(
            info=info.Info(caches={'L3': cache}),
            default=groups.Group(name='', schemata={'L3': {0: default}}),
            groups=found,
        )
        self.host = host or layout.Host(cpus={CACHE: frozenset({0, 1, 2})})
        return {
            name: layout.find_own(self.tree, one.consumer_uuid, self.host).get(
                CACHE, 0
            )
            for name, one in named.items()
        }

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

    def test_what_is_on_record_tells_it_all(self) -> None:
        host = layout.Host(
            cpus={},
            held={
                uuidsentinel.a: {CACHE: schemata.Ways(0x0C)},
                uuidsentinel.b: {},
                uuidsentinel.c: {CACHE: schemata.Ways(0x03)},
            },
        )

        own = self.find_own(0xF0, {'a': 0xFF, 'b': 0x0F, 'c': 0x30}, host=host)

        # The last one has been moved, and nobody has noted it yet.
        self.assertEqual({'a': 0x0C, 'b': 0, 'c': 0x30}, own)

    def test_ways_that_were_lost_are_given_back(self) -> None:
        ways = schemata.Ways(0x0C, 1)
        host = layout.Host(cpus={}, held={uuidsentinel.a: {CACHE: ways}})
        self.find_own(0xFF, {'a': 0xFF, 'b': 0xFF}, host=host)

        plan = layout.plan(self.tree, self.host, sold={})

        self.assertEqual(
            [0xF0, 0x0C, 0xF0], [one['L3'][0] for one in plan.values()]
        )

    def test_nobody_gets_what_is_locked_or_exclusive(self) -> None:
        for mode in ('pseudo-locked', 'exclusive'):
            with self.subTest(mode):
                self.find_own(0xFF, {'a': 0x03}, mode=mode, other=0x0C)

                plan = layout.plan(self.tree, self.host, sold={})

                self.assertEqual({'L3': {0: 0xF0}}, plan[''])

    def test_who_runs_elsewhere_has_the_hosts_ways(self) -> None:
        self.find_own(0xF0, {'a': 0xF0, 'b': 0xF0})
        name = groups.make_name(uuidsentinel.b)
        self.tree = self.tree.with_group(
            dataclasses.replace(self.tree.groups[name], cpus=frozenset({9}))
        )

        plan = layout.plan(self.tree, self.host, sold={})

        # Nobody knows where one without CPUs runs.
        self.assertEqual(
            [0xFF, 0xFF, 0xC0], [one['L3'][0] for one in plan.values()]
        )
