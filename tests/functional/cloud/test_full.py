# SPDX-License-Identifier: Apache-2.0

"""The files of the cloud of separate services, without the cloud."""

from unittest import mock

from dev.cloud import endpoints
from dev.cloud import folder as folders
from dev.cloud.full import bus
from dev.cloud.full import config
from dev.cloud.full import database
from dev.cloud import settings
from tests import base


class ConfigTest(base.TestCase):
    def write(self) -> folders.Folder:
        folder = folders.Folder.create()
        self.addCleanup(folder.remove)
        bound = endpoints.Endpoints.bind()
        self.addCleanup(bound.close)
        databases = mock.create_autospec(database.Database, instance=True)
        databases.url.side_effect = 'mysql://{}'.format
        parts = config.Parts(
            folder=folder,
            urls=bound.urls(),
            database=databases,
            bus=mock.create_autospec(bus.Bus, instance=True, url='rabbit://'),
        )
        config.write(parts, settings.Settings(hosts=('node1', 'node2')))
        return folder

    def test_nova_compute_has_no_database(self) -> None:
        folder = self.write()

        for path in (folder.etc / 'nova.conf', folder.hosts / 'node1.conf'):
            self.assertNotIn('mysql', path.read_text())
        others = (folder.etc / config.DATABASE).read_text()
        self.assertIn('mysql://nova\n', others)
        self.assertIn('mysql://nova_api\n', others)
