# SPDX-License-Identifier: Apache-2.0

"""Tests of how a store is opened."""

import pathlib

from oslo_config import cfg

from nova_ext_resources import exception
from nova_ext_resources.reservation.site import loading
from tests import base


class FromConfTest(base.TestCase):
    def fail_with(self, url: str) -> str:
        """Return what is said of the URL of a database."""
        path = pathlib.Path(self.make_folder(), 'nova.conf')
        path.write_text(f'[ext_resources_reservation]\nconnection = {url}\n')
        conf = cfg.ConfigOpts()
        conf(['--config-file', str(path)], default_config_dirs=[])
        err = self.assertRaises(
            exception.InvalidConfiguration, loading.from_conf, conf
        )
        return str(err)

    def test_urls_that_are_none(self) -> None:
        for url, wanted in (
            ('nova', 'no URL of a database'),
            ('mysql+pymysql://nova:s3cret@[::1/x', 'no URL of a database'),
            ('mysql+pymysql://nova:s3cret@host:s3cret/x', 'no URL'),
            ('nosuch://nova:s3cret@host/x', 'nosuch; correct what is'),
            ('mysql+nosuch://nova:s3cret@host/x', 'nosuch; correct what is'),
        ):
            with self.subTest(url=url):
                text = self.fail_with(url)

                self.assertIn('[ext_resources_reservation] connection', text)
                self.assertIn(wanted, text)
                self.assertNotIn('s3cret', text)

    def test_options_of_notifications(self) -> None:
        path = pathlib.Path(self.make_folder(), 'nova.conf')
        for line in (
            'webhook_urls = example.org',
            'webhook_urls = https://user@example.org',
            'webhook_networks = 10.0.0.1/8',
            'webhook_networks = example.org',
            'webhook_cafile = /nowhere/ca.pem',
            f'webhook_cafile = {__file__}',
            'webhook_timeout = 60',
        ):
            path.write_text(
                '[ext_resources_reservation]\n'
                f'connection = sqlite:////nowhere/x.db\n{line}\n'
            )
            conf = cfg.ConfigOpts()
            conf(['--config-file', str(path)], default_config_dirs=[])
            err = self.assertRaises(
                exception.InvalidConfiguration, loading.make_turn, conf
            )
            self.assertIn(line.partition(' ')[0], str(err))

    def test_a_driver_that_is_not_installed(self) -> None:
        text = self.fail_with('mssql+pymssql://nova:s3cret@host/x')

        self.assertIn('pymssql', text)
        self.assertIn('install the driver', text)
        self.assertNotIn('s3cret', text)
