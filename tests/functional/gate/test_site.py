# SPDX-License-Identifier: Apache-2.0

"""What hosts report beside their caches, without a cloud."""

from dev.gate import site
from tests import base


class AddTest(base.TestCase):
    def test_those_of_the_cache_stay(self) -> None:
        own = {'ext_resources': {'inventory_providers': 'rmd'}}

        self.assertEqual(
            {'ext_resources': {'inventory_providers': 'rmd,a,b'}},
            site.add_plugins(own, 'a,b'),
        )
