# SPDX-License-Identifier: Apache-2.0

"""Tests of the example of a package that adds a resource."""

import importlib
import json
import os
import pathlib
import shutil
import tempfile
from typing import Any

from nova_ext_resources.drivers import base
from nova_ext_resources import exception
from nova_ext_resources.host.inventory import discovery
from nova_ext_resources import plugins as plugins_mod
from tests.unit import builders
from tests.unit.drivers import contract
from tests.unit import installed

EXAMPLE = pathlib.Path(__file__).parents[3] / 'examples' / 'licences'

SEAT = 'CUSTOM_ACME_SEAT'


class TestLicences(contract.InventoryProviderContract):
    name = 'acme_licences'
    package: str

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        folder = tempfile.mkdtemp(prefix='example-')
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.package = os.path.join(folder, 'licences')
        shutil.copytree(EXAMPLE, cls.package)
        installed.write_metadata(cls.package)

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(installed.InstalledPackage(self.package))
        module = importlib.import_module('acme_licences.inventory')
        self.plugin_class = module.LicenceInventory
        self.folder = self.make_folder()
        self.write('solver', seats=12, free=9)
        self.write('mesh tools', seats=3, free=3)
        self.write_text('notes.txt', 'nothing of interest')

    def write(self, product: str, **data: Any) -> None:
        self.write_text(f'{product}.json', json.dumps(data))

    def write_text(self, name: str, text: str) -> None:
        path = os.path.join(self.folder, name)
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)

    def make_plugin(self) -> base.InventoryProvider:
        return self.plugin_class(
            self.make_options(folder=self.folder), 'host-1'
        )

    def break_host(self, plugin: base.InventoryProvider) -> None:
        shutil.rmtree(self.folder)
        self.addCleanup(os.makedirs, self.folder)

    def test_each_product_is_a_provider_with_a_trait(self) -> None:
        mesh, solver = self.make_plugin().discover()

        self.assertEqual('ACME_MESH_TOOLS', mesh.key)
        self.assertEqual({'CUSTOM_ACME_SOLVER'}, solver.traits)
        self.assertEqual(12, solver.inventories[SEAT].total)

    def test_seats_that_others_use_are_reserved(self) -> None:
        _mesh, solver = self.make_plugin().discover()
        own = builders.make_assignment(amount=2, units={})

        observed = self.trackers['count'].observe(
            solver.inventories[SEAT], solver.units[SEAT], [own]
        )

        self.assertEqual((1, 11), (observed.reserved, observed.capacity))

    def test_a_host_runs_it_by_its_name_alone(self) -> None:
        self.make_options(folder=self.folder)
        plugins = plugins_mod.load_with_options(
            plugins_mod.INVENTORY_PROVIDERS,
            ['acme_licences'],
            self.conf,
            'host-1',
        )

        found = discovery.Discovery(
            plugins, 'host-1', trackers=plugins_mod.load_trackers()
        ).scan()

        self.assertTrue(found.is_complete)
        self.assertEqual(2, len(found.providers))

    def test_a_file_that_is_broken_is_told(self) -> None:
        for text in (
            '{',
            '[]',
            '{"seats": 3}',
            '{"seats": 0, "free": 0}',
            '{"seats": "x", "free": 0}',
            '{"seats": 3, "free": "x"}',
        ):
            with self.subTest(text=text):
                plugin = self.make_plugin()
                self.write_text('solver.json', text)

                error = self.assertRaises(
                    exception.DiscoveryFailed, plugin.discover
                )

                self.assertIn('see the licence daemon', str(error))
