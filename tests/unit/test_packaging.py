# SPDX-License-Identifier: Apache-2.0

"""What an installation brings: entry points, their modules, their names."""

from collections.abc import Iterator
import configparser
import importlib.metadata
import importlib.util
import pathlib

from nova_ext_resources import plugins
from tests import base

ROOT = pathlib.Path(__file__).parents[2]

DISTRIBUTION = 'nova-ext-resources'

#: Groups whose entry points import Nova.
NEEDS_NOVA = frozenset(
    {
        'nova.api.extra_spec_validators',
        plugins.SCHEDULER_FILTERS,
        plugins.SCHEDULER_WEIGHERS,
    }
)

#: Group -> which part of the module's dotted name is the name of the entry
#: point: trackers and claim tests are a module each, drivers a folder.
PLACES = {
    plugins.CLAIM_TESTS: -1,
    plugins.ENFORCERS: -2,
    plugins.INVENTORY_PROVIDERS: -2,
    plugins.TRACKERS: -1,
}

#: The groups of Blazar, which has an environment of its own.
BLAZAR = frozenset(
    {
        'blazar.api.v1.extensions',
        'blazar.resource.plugins',
        'oslo.policy.policies',
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
            one
            for one in list_entry_points()
            if one.group not in NEEDS_NOVA | BLAZAR
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

    def test_a_plugin_is_named_like_its_module_or_folder(self) -> None:
        for one in list_entry_points():
            if one.group in PLACES:
                with self.subTest(group=one.group, name=one.name):
                    self.assertEqual(
                        one.name, one.module.split('.')[PLACES[one.group]]
                    )

    def test_every_plugin_has_a_page(self) -> None:
        folder = ROOT / 'doc' / 'source' / 'admin' / 'plugins'
        pages = {path.stem for path in folder.rglob('*.rst')}
        names = {
            one.name
            for one in list_entry_points()
            if one.group.startswith(plugins.PREFIX)
        }

        self.assertEqual(set(), names - pages)


class RequirementsTest(base.TestCase):
    def test_nova_is_needed_by_the_extra_alone(self) -> None:
        requires = importlib.metadata.requires(DISTRIBUTION) or []

        nova = [one for one in requires if one.startswith('nova')]

        self.assertEqual(1, len(nova))
        self.assertIn('extra == "nova"', nova[0].replace("'", '"'))

    def test_blazar_is_needed_by_the_extra_alone(self) -> None:
        extras = configparser.ConfigParser()
        extras.read(ROOT / 'setup.cfg')
        required = (ROOT / 'requirements.txt').read_text()

        self.assertIn('blazar>=', extras['extras']['blazar'])
        self.assertNotIn('blazar', required)
