# SPDX-License-Identifier: Apache-2.0

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
