# SPDX-License-Identifier: Apache-2.0

"""The status command beside real placement, Nova, and the simulated RMD."""

import contextlib
import io
import json
import os
from typing import Any

from oslo_config import cfg

from nova_ext_resources.cmd import status
from nova_ext_resources.drivers.resctrl.kernel import files
from nova_ext_resources.testing import rmd_simulator
from tests.functional import base
from tests.functional.resctrl import mounting

_CONF = """
[DEFAULT]
compute_driver = ext_resources.LibvirtDriver
host = cpu1
state_path = {folder}

[ext_resources]
inventory_providers = {name}
enforcers = {name}

[ext_resources_rmd]
url = {url}

[ext_resources_resctrl]
path = {path}
cpu_path = {cpu_path}

[ext_resources_resctrl_privsep]
helper_command = {helper}

[placement]
auth_type = admin_token
token = {token}
endpoint = {endpoint}
"""


class StatusTestCase(base.PlacementTestCase):
    def setUp(self) -> None:
        super().setUp()
        # The privileged helper reads the global options.
        self.addCleanup(cfg.CONF.reset)
        self.fields: dict[str, Any] = {
            'folder': self.make_folder(),
            'endpoint': self.endpoint,
            'token': 'admin',
            'name': 'rmd',
            'url': '',
            'helper': 'sudo privsep-helper',
            'path': '/sys/fs/resctrl',
            'cpu_path': '/sys/devices/system/cpu',
        }

    def check(self, **fields: Any) -> tuple[int, dict[str, tuple[int, str]]]:
        """Return the exit status, and result and details of each check."""
        path = os.path.join(self.make_folder(), 'nova.conf')
        with open(path, 'w', encoding='utf-8') as file:
            file.write(_CONF.format(**{**self.fields, **fields}))
        with contextlib.redirect_stdout(io.StringIO()) as text:
            code = status.main(['check', '--config-file', path, '--json'])
        return code, {
            one['check']: (one['result'], one['details'])
            for one in json.loads(text.getvalue())['checks']
        }


class RmdStatusTest(StatusTestCase):
    def setUp(self) -> None:
        super().setUp()
        fixture = self.useFixture(rmd_simulator.RmdSimulatorFixture())
        self.fields['url'] = fixture.url

    def test_all_is_well_and_nothing_is_changed(self) -> None:
        code, found = self.check()

        self.assertEqual(0, code, str(found))
        self.assertEqual((0, None), found['Nova'])
        self.assertEqual((0, None), found['Placement'])
        self.assertEqual([], os.listdir(self.fields['folder']))
        providers = self.adapter.get('/resource_providers').json()
        self.assertEqual({'resource_providers': []}, providers)

    def test_a_user_without_the_role_is_told_which(self) -> None:
        code, found = self.check(token='somebody')

        self.assertEqual(2, code)
        result, details = found.pop('Placement')
        self.assertEqual(2, result)
        self.assertIn('403', details)
        self.assertIn('the "service" or the "admin" role', details)
        self.assertEqual({0}, {result for result, _details in found.values()})

    def test_another_path_is_not_taken_for_placement(self) -> None:
        code, found = self.check(endpoint=f'{self.endpoint}/nova')

        self.assertEqual(2, code)
        self.assertEqual(2, found['Placement'][0])
        self.assertIn('404', found['Placement'][1])


class ResctrlStatusTest(StatusTestCase, mounting.MountedTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.fields.update(
            name='resctrl',
            path=self.machine.path,
            cpu_path=self.machine.cpu_path,
        )

    def test_all_is_well_and_no_group_is_made(self) -> None:
        self.patch(
            files.RealFileSystem,
            '_call',
            lambda _self, name, path: self.fail(f'{name} {path}'),
        )

        code, found = self.check()

        self.assertEqual(0, code, str(found))
        self.assertIn(
            'CUSTOM_LLC_WAYS', found['Inventory provider resctrl'][1]
        )

    def test_who_may_not_write_needs_the_helper_of_the_options(self) -> None:
        self.patch(os, 'access', lambda path, _mode: path != self.machine.path)

        code, found = self.check(helper='/nowhere/doas privsep-helper')

        self.assertEqual(2, code)
        result, details = found['Enforcer resctrl']
        self.assertEqual(2, result)
        self.assertIn('because /nowhere/doas is not on the PATH', details)
