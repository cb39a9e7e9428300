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

from oslo_config import cfg

from nova_ext_resources.conf import monitoring
from tests import base


class MonitoringOptionsTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        monitoring.register_opts(self.conf)
        self.options = self.conf.ext_resources_monitoring

    def test_it_is_off_by_default(self) -> None:
        self.assertFalse(self.options.enabled)
        self.assertEqual(10, self.options.interval)
        self.assertEqual(monitoring.CLAIMED, self.options.servers)

    def test_other_values_are_refused(self) -> None:
        for option, value in (('servers', 'some'), ('interval', 0)):
            self.assertRaises(
                (ValueError, cfg.Error),
                self.conf.set_override,
                option,
                value,
                'ext_resources_monitoring',
            )
