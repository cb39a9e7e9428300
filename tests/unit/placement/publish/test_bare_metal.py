# SPDX-License-Identifier: Apache-2.0

"""What can be published below a bare-metal node."""

from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.publish import bare_metal
from tests import base
from tests.unit import builders

GOLD, SILVER = 'CUSTOM_BAREMETAL_GOLD', 'CUSTOM_BAREMETAL_SILVER'
FAST = 'CUSTOM_FAST'


def make_root(
    uuid: str, resource_class: str, *traits: str
) -> host_provider.Provider:
    return host_provider.Provider(
        rp_uuid=uuid,
        name=uuid,
        inventories={resource_class: builders.make_inventory(1)},
        traits=frozenset(traits),
    )


class FitTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.roots = {
            uuids.gold: make_root(uuids.gold, GOLD, FAST),
            uuids.silver: make_root(uuids.silver, SILVER),
        }

    def fit(
        self, node: str, *classes: str, traits: frozenset[str] = frozenset()
    ) -> tuple[set[str], frozenset[str], str]:
        """Return classes, traits and what is wrong."""
        found = builders.make_host_provider(
            key='STATIC',
            inventories={name: builders.make_inventory() for name in classes},
            traits=traits,
        )
        wanted = host_provider.BareMetalNode(uuid=node, providers=(found,))
        fitting, problems = bare_metal.fit(
            node, wanted.make_providers(), self.roots
        )
        self.assertEqual(
            [(alarm.NODE_NOT_PUBLISHED, node)] * len(problems),
            [(one.alarm, one.subject) for one in problems],
        )
        return (
            {name for one in fitting for name in one.inventories},
            frozenset().union(*(one.traits for one in fitting)),
            '; '.join(map(str, problems)),
        )

    def test_all_of_it_fits(self) -> None:
        self.assertEqual(
            (
                {'CUSTOM_GPU'},
                frozenset({FAST, host_provider.OWNER_TRAIT}),
                '',
            ),
            self.fit(uuids.gold, 'CUSTOM_GPU', traits=frozenset({FAST})),
        )

    def test_a_node_that_is_not_there(self) -> None:
        classes, _traits, problem = self.fit(uuids.gone, 'CUSTOM_GPU')

        self.assertEqual(set(), classes)
        self.assertIn(f'{uuids.gone}: placement has no provider', problem)

    def test_the_class_of_any_node_is_left_out(self) -> None:
        for name in (GOLD, SILVER):
            with self.subTest(name=name):
                classes, _traits, problem = self.fit(
                    uuids.gold, name, 'CUSTOM_GPU'
                )
                self.assertEqual({'CUSTOM_GPU'}, classes)
                self.assertIn(f'resource class {name} is left out', problem)

    def test_a_trait_that_the_node_does_not_have_is_left_out(self) -> None:
        traits = frozenset({FAST})

        _classes, kept, problem = self.fit(uuids.silver, traits=traits)

        self.assertEqual({host_provider.OWNER_TRAIT}, kept)
        self.assertIn(f'add trait {uuids.silver} {FAST}', problem)
