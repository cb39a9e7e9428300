# SPDX-License-Identifier: Apache-2.0

"""Tests of what the client loads at each start."""

import subprocess
import sys

from nova_ext_resources.cmd.osc import plugin
from tests import base
from tests.unit.cmd.osc import shells
from tests.unit import test_packaging

_LOAD = """
import importlib
import sys

for one in {modules}:
    importlib.import_module(one)
print(sorted(
    {{one.partition('.')[0] for one in sys.modules}}.intersection({found})
))
"""


def load(modules: list[str], *found: str) -> str:
    """Import the modules; say which packages are imported then."""
    return subprocess.run(
        [sys.executable, '-c', _LOAD.format(modules=modules, found=found)],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout


class PluginTest(base.TestCase):
    def test_the_group_is_that_of_the_plugin(self) -> None:
        groups = {one.group for one in test_packaging.list_entry_points()}

        version = plugin.DEFAULT_API_VERSION
        self.assertEqual(
            shells.GROUP, f'openstack.{plugin.API_NAME}.v{version}'
        )
        self.assertIn(shells.GROUP, groups)
        self.assertIn('openstack.cli.extension', groups)

    def test_the_plugin_imports_nothing(self) -> None:
        output = load(
            [plugin.__name__], 'sqlalchemy', 'oslo_db', 'keystoneauth1'
        )

        self.assertEqual('[]\n', output)

    def test_no_command_imports_a_database_before_it_is_asked(self) -> None:
        # The client imports those of all groups, whatever it is asked.
        modules = {
            one.module
            for one in test_packaging.list_entry_points()
            if one.group == shells.GROUP
        }

        output = load(sorted(modules), 'sqlalchemy', 'oslo_db', 'alembic')

        self.assertEqual('[]\n', output)

    def test_each_command_is_named_like_its_entry_point(self) -> None:
        for one in test_packaging.list_entry_points():
            if one.group == shells.GROUP:
                self.assertTrue(
                    one.name.startswith(
                        ('extended_reservation_', 'extended_resource_')
                    )
                )
                self.assertTrue(
                    one.load().__doc__, f'{one.name} says what it does'
                )
