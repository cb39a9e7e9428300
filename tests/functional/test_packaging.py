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

"""What an installation brings, where Nova is installed too."""

import importlib.metadata

from nova.virt import driver
from oslo_utils import importutils

from tests import base


class InstallationTest(base.TestCase):
    def test_every_entry_point_loads(self) -> None:
        distribution = importlib.metadata.distribution('nova-ext-resources')

        loaded = [one.load() for one in distribution.entry_points]

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
