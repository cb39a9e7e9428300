# SPDX-License-Identifier: Apache-2.0

"""Tests of how a store is opened."""

import pathlib

from oslo_config import cfg

from nova_ext_resources import exception
from nova_ext_resources.reservation.manager import turn as turn_mod
from nova_ext_resources.reservation.site import loading
from tests import base


class MakeTurnTest(base.TestCase):
    def make_turn(self, *lines: str) -> turn_mod.Turn:
        path = pathlib.Path(self.make_folder(), 'nova.conf')
        path.write_text('\n'.join(lines))
        conf = cfg.ConfigOpts()
        conf(['--config-file', str(path)], default_config_dirs=[])
        return loading.make_turn(conf)

    def list_chores(self, *lines: str) -> list[str]:
        turn = self.make_turn(
            '[ext_resources_reservation]',
            f'connection = sqlite:///{self.make_folder()}/x.db',
            *lines,
        )
        return [type(one).__name__ for one in turn._chores]

    def test_servers_wait_only_where_room_is_held(self) -> None:
        self.assertNotIn('Waking', self.list_chores())

        self.assertIn('Waking', self.list_chores('blocking_seconds = -1'))

    def test_not_beside_the_filter(self) -> None:
        lines = (
            'blocking_seconds = 600',
            '[filter_scheduler]',
            'enabled_filters = ComputeFilter,ReservationFilter',
        )

        err = self.assertRaises(
            exception.InvalidConfiguration, self.list_chores, *lines
        )

        self.assertIn('take the filter out', str(err))


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

    def test_a_driver_that_is_not_installed(self) -> None:
        text = self.fail_with('mssql+pymssql://nova:s3cret@host/x')

        self.assertIn('pymssql', text)
        self.assertIn('install the driver', text)
        self.assertNotIn('s3cret', text)
