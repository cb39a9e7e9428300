# SPDX-License-Identifier: Apache-2.0

"""What the gate reads of an explanation, without a cloud."""

from typing import Any

from dev.cloud import told
from dev.gate.scenarios import devices
from nova_ext_resources.claims import extra_specs
from nova_ext_resources import plugins
from tests import base


def make_host(name: str, **shortfall: Any) -> dict[str, Any]:
    return {
        'host': name,
        'fits': not shortfall,
        'shortfalls': [shortfall] if shortfall else [],
    }


EXPLAINED = {
    'hosts': [
        make_host('a'),
        make_host(
            'b',
            provider='POOL_rack1',
            resource_class='CUSTOM_RACK1_GB',
            requested=5,
            available=4,
            short_by=1,
            reason='6 of 10 are allocated, short by 1',
        ),
    ]
}


class ShortTest(base.TestCase):
    def test_what_is_short_where(self) -> None:
        self.assertEqual(
            {'a': [], 'b': [('POOL_rack1', 'CUSTOM_RACK1_GB', 1)]},
            devices.list_short(EXPLAINED),
        )

    def test_another_provider_is_not_as_told(self) -> None:
        self.assertRaises(
            told.NotAsTold,
            devices._expect_short,
            EXPLAINED,
            {'a': [], 'b': [('POOL_rack2', 'CUSTOM_RACK1_GB', 1)]},
        )


class FlavorsTest(base.TestCase):
    def test_nova_accepts_each(self) -> None:
        grammar = plugins.load_grammar()
        for name, specs in devices._FLAVORS.items():
            for key, value in specs.items():
                with self.subTest(flavor=name, key=key):
                    extra_specs.check(key, value, grammar)

    def test_more_than_the_pool_has_left(self) -> None:
        """The two servers leave less than what the third one requests."""
        sizes = {
            name: int(specs[f'resources_POOL:{devices._GB}'])
            for name, specs in devices._FLAVORS.items()
            if f'resources_POOL:{devices._GB}' in specs
        }

        left = devices._TOTAL - sizes['equipped'] - sizes['stored']

        self.assertEqual(left + 1, sizes['too-stored'])
