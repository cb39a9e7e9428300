# SPDX-License-Identifier: Apache-2.0

import dataclasses

from nova_ext_resources.host.inventory import discovery
from nova_ext_resources.host.inventory import node_traits
from nova_ext_resources.objects import host_provider
from tests import base
from tests.unit.host import with_host

NODE = with_host.NODE
RECORD = node_traits.find_record(NODE)


def make_traits(
    added: str = '', removed: str = ''
) -> host_provider.NodeTraits:
    return host_provider.NodeTraits(
        added=frozenset(added), removed=frozenset(removed)
    )


def make_found(traits: str, *missing: str) -> discovery.DiscoveredResources:
    return discovery.DiscoveredResources(
        node_traits=frozenset(traits), missing=frozenset(missing)
    )


class NodeTraitsTest(base.TestCase):
    def test_what_is_recorded_decides(self) -> None:
        for found, recorded, expected in (
            ('', '', make_traits()),
            # Not recorded yet.
            ('AB', '', make_traits()),
            ('AB', 'A', make_traits('A')),
            ('AB', 'AB', make_traits('AB')),
            ('A', 'ABC', make_traits('A', 'BC')),
            ('', 'AB', make_traits('', 'AB')),
        ):
            with self.subTest(found=found, recorded=recorded):
                made = node_traits.find(
                    make_found(found), {RECORD: frozenset(recorded)}, NODE
                )

                self.assertEqual(expected, made)

    def test_nothing_is_removed_while_a_plugin_is_missing(self) -> None:
        made = node_traits.find(
            make_found('A', 'cpu'), {RECORD: frozenset('AB')}, NODE
        )

        self.assertEqual(make_traits('A'), made)

    def test_a_plugin_that_has_read_the_host_removes_its_own(self) -> None:
        found = dataclasses.replace(
            make_found('A', 'rmd'), node_prefixes=frozenset('B')
        )

        made = node_traits.find(found, {RECORD: frozenset('ABC')}, NODE)

        self.assertEqual(make_traits('A', 'B'), made)

    def test_what_would_change(self) -> None:
        for found, recorded, seen, expected in (
            ('AB', '', 'X', make_traits('AB')),
            ('AB', '', 'AX', make_traits('B')),
            ('A', 'AB', 'ABX', make_traits('', 'B')),
            # An operator has removed it.
            ('A', 'AB', 'AX', make_traits()),
            ('A', 'A', 'A', make_traits()),
        ):
            with self.subTest(found=found, recorded=recorded, seen=seen):
                made = node_traits.preview(
                    make_found(found),
                    {RECORD: frozenset(recorded)},
                    NODE,
                    frozenset(seen),
                )

                self.assertEqual(expected, made)
