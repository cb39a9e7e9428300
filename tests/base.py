# SPDX-License-Identifier: Apache-2.0

"""The base of all tests."""

import fixtures
from oslo_config import cfg
from oslotest import base


class TestCase(base.BaseTestCase):
    """Captured output, a temporary folder, and options of its own.

    ``self.conf`` is private to the test: the global one is never touched.
    """

    def setUp(self) -> None:
        super().setUp()
        self.conf = cfg.ConfigOpts()
        self.conf([], project='nova_ext_resources', default_config_files=[])

    def make_folder(self) -> str:
        path: str = self.useFixture(fixtures.TempDir()).path
        return path
