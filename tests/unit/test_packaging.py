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

"""What an installation brings: entry points, their modules, their names."""

from collections.abc import Iterator
import importlib.metadata
import importlib.util
import pathlib

from nova_ext_resources.plugins import loader
from tests import base

DISTRIBUTION = 'nova-ext-resources'

#: Groups whose entry points import Nova.
NEEDS_NOVA = frozenset(
    {
        'nova.api.extra_spec_validators',
        loader.SCHEDULER_FILTERS,
        loader.SCHEDULER_WEIGHERS,
    }
)

#: Groups in which the name of an entry point is the name of its module.
NAMED_LIKE_THEIR_MODULE = frozenset(
    {
        loader.CLAIM_TESTS,
        loader.ENFORCERS,
        loader.INVENTORY_PROVIDERS,
        loader.TRACKERS,
    }
)

WITHOUT_NOVA = (
    'Nova is not installed here; the functional tests load this with it'
)


def is_nova_here() -> bool:
    # NOTE: "nova" alone is always found, as the namespace of our own shim.
    try:
        return importlib.util.find_spec('nova.conf') is not None
    except ModuleNotFoundError:
        return False


def list_entry_points() -> Iterator[importlib.metadata.EntryPoint]:
    distribution = importlib.metadata.distribution(DISTRIBUTION)
    return iter(distribution.entry_points)


class EntryPointsTest(base.TestCase):
    def test_every_entry_point_without_nova_loads(self) -> None:
        points = [
            one for one in list_entry_points() if one.group not in NEEDS_NOVA
        ]

        loaded = [one.load() for one in points]

        self.assertNotIn(None, loaded)
        self.assertGreater(len(loaded), 10)

    def test_every_entry_point_with_nova_loads(self) -> None:
        if not is_nova_here():
            self.skipTest(WITHOUT_NOVA)
        points = [
            one for one in list_entry_points() if one.group in NEEDS_NOVA
        ]

        loaded = [one.load() for one in points]

        self.assertNotIn(None, loaded)

    def test_a_plugin_is_named_like_its_module(self) -> None:
        for one in list_entry_points():
            if one.group in NAMED_LIKE_THEIR_MODULE:
                with self.subTest(group=one.group, name=one.name):
                    self.assertEqual(one.module.split('.')[-1], one.name)

    def test_every_plugin_has_a_page(self) -> None:
        root = pathlib.Path(__file__).parents[2]
        folder = root / 'doc' / 'source' / 'admin' / 'plugins'
        pages = {path.stem for path in folder.rglob('*.rst')}
        names = {
            one.name
            for one in list_entry_points()
            if one.group.startswith(loader.PREFIX)
        }

        self.assertEqual(set(), names - pages)


class RequirementsTest(base.TestCase):
    def test_nova_is_needed_by_the_extra_alone(self) -> None:
        requires = importlib.metadata.requires(DISTRIBUTION) or []

        nova = [one for one in requires if one.startswith('nova')]

        self.assertEqual(1, len(nova))
        self.assertIn('extra == "nova"', nova[0].replace("'", '"'))
