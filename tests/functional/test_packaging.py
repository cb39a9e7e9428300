# SPDX-License-Identifier: Apache-2.0

"""What an installation brings, where Nova is installed too."""

import importlib.metadata

from nova.virt import driver
from oslo_utils import importutils

from tests import base


class InstallationTest(base.TestCase):
    def test_every_entry_point_loads(self) -> None:
        distribution = importlib.metadata.distribution('nova-ext-resources')

        loaded = [
            one.load()
            for one in distribution.entry_points
            # Blazar has an environment of its own.
            if not one.group.startswith(('blazar.', 'oslo.policy.'))
        ]

        self.assertNotIn(None, loaded)
        self.assertGreater(len(loaded), 14)

    def test_nova_finds_the_drivers_where_it_looks_for_drivers(self) -> None:
        for name in ('FakeDriver', 'LibvirtDriver'):
            with self.subTest(name=name):
                # As nova.virt.driver.load_compute_driver does it.
                found = importutils.import_class(
                    f'nova.virt.ext_resources.{name}'
                )

                self.assertTrue(issubclass(found, driver.ComputeDriver))
