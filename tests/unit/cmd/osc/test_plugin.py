# SPDX-License-Identifier: Apache-2.0

"""Tests of what the client loads at each start."""

import subprocess
import sys

from nova_ext_resources.cmd.osc import plugin
from tests import base
from tests.unit.cmd.osc import shells
from tests.unit import test_packaging

_LOAD = """
import sys
import {module}
print(sorted(
    one for one in sys.modules
    if one.partition('.')[0] in ('sqlalchemy', 'oslo_db', 'keystoneauth1')
))
"""


class PluginTest(base.TestCase):
    def test_the_group_is_that_of_the_plugin(self) -> None:
        groups = {one.group for one in test_packaging.list_entry_points()}

        version = plugin.DEFAULT_API_VERSION
        self.assertEqual(
            shells.GROUP, f'openstack.{plugin.API_NAME}.v{version}'
        )
        self.assertIn(shells.GROUP, groups)
        self.assertIn('openstack.cli.extension', groups)

    def test_other_commands_do_not_load_ours(self) -> None:
        output = subprocess.run(
            [sys.executable, '-c', _LOAD.format(module=plugin.__name__)],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout

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
