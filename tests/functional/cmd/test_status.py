# SPDX-License-Identifier: Apache-2.0

"""The status command beside real placement, Nova, and the simulated RMD."""

import contextlib
import importlib.util
import io
import json
import os
import pathlib
import sys
import textwrap
import types
from typing import Any

import fixtures
from keystoneauth1 import adapter
from keystoneauth1 import session
from keystoneauth1 import token_endpoint
from oslo_config import cfg
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.cmd import status
from nova_ext_resources.drivers.resctrl.kernel import file_system
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.api import responses
from nova_ext_resources.testing import rmd_simulator
from tests.functional import base
from tests.functional.resctrl import mounting
from tests import rmd_groups

_CONF = """
[DEFAULT]
compute_driver = ext_resources.{driver}
{default}
host = cpu1
state_path = {folder}

[ext_resources]
inventory_providers = {name}
enforcers = {name}

[compute]
{compute}

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
            'driver': 'FakeDriver',
            'default': '',
            'compute': '',
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


class RmdStatusTestCase(StatusTestCase):
    def setUp(self) -> None:
        super().setUp()
        fixture = self.useFixture(rmd_simulator.RmdSimulatorFixture())
        self.useFixture(rmd_groups.ShownGroups(fixture.simulator))
        self.fields['url'] = fixture.url


class RmdStatusTest(RmdStatusTestCase):
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


class DefinitionsStatusTest(RmdStatusTestCase):
    def test_a_definition_with_a_mistake_is_a_failure(self) -> None:
        path = pathlib.Path(self.make_folder(), 'definitions.yaml')
        path.write_text('resources: [{name: CUSTOM_SEAT}]')

        code, found = self.check(
            compute=f'[ext_resources_static]\ndefinitions_file = {path}',
            name='static',
        )

        self.assertEqual(2, code)
        result, details = found['Inventory provider static']
        self.assertEqual(2, result)
        self.assertIn('CUSTOM_SEAT cannot be reported', details)


class ProviderConfigStatusTest(RmdStatusTestCase):
    """Nova's own files of inventory."""

    _FILE = textwrap.dedent("""\
        meta: {schema_version: '1.0'}
        providers:
        - identification: {uuid: $COMPUTE_NODE}
          inventories: {additional: [{CUSTOM_LLC_WAYS: {total: 11}}]}
        """)

    def check_file(self, text: str) -> tuple[int, str]:
        folder = pathlib.Path(self.make_folder())
        (folder / 'ways.yaml').write_text(text)
        code, found = self.check(
            compute=f'provider_config_location = {folder}'
        )
        result, details = found['Provider configuration files']
        self.assertEqual(code, result)
        return code, details

    def test_a_class_that_a_plugin_reports_too(self) -> None:
        code, details = self.check_file(self._FILE)

        self.assertEqual(2, code)
        self.assertIn('ways.yaml, line 4: a plugin of this host', details)

    def test_a_plugin_that_has_failed_is_not_compared(self) -> None:
        self.fields['url'] = 'http://127.0.0.1:1'

        folder = self.make_folder()
        _code, found = self.check(
            compute=f'provider_config_location = {folder}'
        )

        result, details = found['Provider configuration files']
        self.assertEqual(1, result)
        self.assertIn('Not compared with rmd', details)

    def test_a_class_of_its_own(self) -> None:
        text = self._FILE.replace('CUSTOM_LLC_WAYS', 'CUSTOM_SEAT')

        self.assertEqual((0, None), self.check_file(text))


class OldInventoryStatusTest(RmdStatusTestCase):
    """The compute node itself has a class of a plugin."""

    def setUp(self) -> None:
        super().setUp()
        self.node = uuidsentinel.node
        path = pathlib.Path(self.fields['folder'], 'compute_id')
        path.write_text(self.node)

    def create_node(self, *classes: str) -> None:
        client = self.client
        client.ensure_provider(self.node, 'cpu1', None)
        for name in classes:
            client.ensure_resource_class(name)
        client.set_inventories(
            self.node,
            {name: class_inventory.Inventory(total=22) for name in classes},
            0,
        )
        if classes:
            client.put_allocations(
                responses.Allocations(
                    consumer_uuid=uuidsentinel.server,
                    resources={self.node: {classes[0]: 4}},
                    project_id='project',
                    user_id='user',
                )
            )

    def check_old(self, **fields: Any) -> tuple[int, str | None]:
        _code, found = self.check(**fields)
        return found['Old inventory']

    def test_nothing_is_there(self) -> None:
        self.assertEqual((0, None), self.check_old())
        self.create_node()
        self.assertEqual((0, None), self.check_old())

    def test_another_class(self) -> None:
        self.create_node('CUSTOM_OTHER')

        self.assertEqual((0, None), self.check_old())

    def test_a_class_that_is_moved_at_the_next_start(self) -> None:
        self.create_node('CUSTOM_LLC_WAYS')

        result, details = self.check_old()

        self.assertEqual(1, result)
        assert details is not None
        self.assertIn('cpu1 itself, and 1 consumers hold', details)
        self.assertIn('moves the class to the providers below', details)
        self.assertNotIn('/reshaper', details)

    def test_a_file_that_still_names_it(self) -> None:
        self.create_node('CUSTOM_LLC_WAYS')
        folder = pathlib.Path(self.make_folder())
        (folder / 'ways.yaml').write_text(ProviderConfigStatusTest._FILE)

        _result, details = self.check_old(
            compute=f'provider_config_location = {folder}'
        )

        assert details is not None
        self.assertIn(f'Remove the class from {folder}/ways.yaml', details)

    def test_a_user_that_may_not_move_it(self) -> None:
        self.create_node('CUSTOM_LLC_WAYS')
        self.app.refuse('POST', '/reshaper')

        _result, details = self.check_old()

        assert details is not None
        self.assertIn('Placement refuses POST /reshaper', details)

    def test_who_may_move_it(self) -> None:
        self.assertTrue(self.client.may_reshape())
        auth = token_endpoint.Token(self.endpoint, 'somebody')
        other = placement_client.Client(
            adapter.Adapter(
                session.Session(auth=auth, timeout=30),
                service_type="placement",
            )
        )
        self.assertFalse(other.may_reshape())

    def test_placement_is_away(self) -> None:
        result, details = self.check_old(endpoint='http://127.0.0.1:1')

        self.assertEqual(0, result)
        self.assertIn('Not checked', str(details))


class DriverStatusTest(RmdStatusTestCase):
    """What Nova's own start would say of its driver and its options."""

    def setUp(self) -> None:
        super().setUp()
        self.fields['driver'] = 'LibvirtDriver'

    def set_module(self, name: str, module: Any) -> None:
        before = dict(sys.modules)
        sys.modules[name] = module
        self.addCleanup(sys.modules.update, before)
        self.addCleanup(sys.modules.pop, name)

    def check_driver(
        self, *words: str, libvirt: Any = types, **fields: Any
    ) -> None:
        self.set_module('libvirt', libvirt)

        code, found = self.check(**fields)

        self.assertEqual(2 if words else 0, code, str(found))
        result, details = found.pop('Nova')
        self.assertEqual(code, result)
        for one in words:
            self.assertIn(one, details)
        self.assertNotIn(2, [result for result, _details in found.values()])

    def test_all_is_well(self) -> None:
        self.check_driver()
        self.check_driver(
            compute='cpu_dedicated_set = 2-3\ncpu_shared_set = 0-1'
        )

    def test_a_release_that_is_not_supported(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch('nova.version.version_string', lambda: '30.0')
        )

        self.check_driver('this Nova 30.0')

    def test_a_driver_that_does_not_exist(self) -> None:
        for name in ('LibvrtDriver', 'importlib', 'libvirt.LibvirtDriver'):
            self.check_driver(
                f'compute_driver = ext_resources.{name} cannot be used',
                'set the option to ext_resources.LibvirtDriver',
                driver=name,
            )

    def test_libvirt_without_its_python_module(self) -> None:
        self.check_driver(
            'compute_driver = ext_resources.LibvirtDriver cannot be used',
            'libvirt-python',
            # What Python keeps of a module that it cannot find.
            libvirt=None,
        )

    def test_a_library_that_nova_needs(self) -> None:
        self.set_module('nova_ext_resources.virt.driver.libvirt', None)

        self.check_driver('nova-compute cannot import this driver')

    def test_cpus_that_nova_cannot_read(self) -> None:
        for text, words in (
            ('cpu_dedicated_set = 2-x', "Invalid range expression '2-x'"),
            ('cpu_shared_set = x', "Invalid inclusion expression 'x'"),
            ('cpu_dedicated_set = ^1', 'No CPUs available'),
        ):
            self.check_driver(text, words, compute=text)

    def test_cpus_that_do_not_go_together(self) -> None:
        for fields in (
            {'compute': 'cpu_dedicated_set = 2-3\ncpu_shared_set = 0-2'},
            {
                'default': 'reserved_host_cpus = 1',
                'compute': 'cpu_dedicated_set = 2-3\ncpu_shared_set = 0-1',
            },
        ):
            self.check_driver('[compute] cpu_dedicated_set = 2-3', **fields)

    def test_a_driver_that_nova_does_not_find(self) -> None:
        self.patch(importlib.util, 'find_spec', lambda _name: None)
        self.set_module('libvirt', types)

        _code, found = self.check()

        self.assertEqual(1, found['Nova'][0])
        self.assertIn('Start nova-compute-ext', found['Nova'][1])

    def test_the_fake_driver_needs_no_libvirt(self) -> None:
        self.check_driver(driver='FakeDriver', libvirt=None)


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
            file_system.RealFileSystem,
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
