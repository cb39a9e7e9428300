# SPDX-License-Identifier: Apache-2.0

"""Tests of where reservations are kept."""

import os

from nova_ext_resources.conf import reservation
from nova_ext_resources.conf import state
from nova_ext_resources import exception
from tests import base


class ConnectionTest(base.TestCase):
    def set(self, name: str, value: str, group: str | None = None) -> None:
        self.conf.set_override(name, value, group)

    def test_an_embedded_database_by_default(self) -> None:
        folder = self.make_folder()
        state.find_folder(self.conf)
        self.set('state_path', folder)

        url = reservation.find_connection(self.conf)

        path = os.path.join(folder, 'ext_resources', 'reservations.db')
        self.assertEqual(f'sqlite:///{path}', url)
        mode = os.stat(os.path.dirname(path)).st_mode
        self.assertEqual(0, mode & 0o007, 'others may not read it')

    def test_the_one_that_is_named(self) -> None:
        reservation.register_opts(self.conf)
        for url in ('sqlite:////var/x.db', 'mysql+pymysql://u:p@h/x'):
            self.set('connection', url, reservation.GROUP.name)

            self.assertEqual(url, reservation.find_connection(self.conf))
            self.assertEqual(url, reservation.get_connection(self.conf))

    def test_a_service_needs_one_that_is_named(self) -> None:
        reservation.register_opts(self.conf)
        for url in ('', 'sqlite:///x.db'):
            self.set('connection', url, reservation.GROUP.name)

            err = self.assertRaises(
                exception.InvalidConfiguration,
                reservation.get_connection,
                self.conf,
            )

            self.assertIn('[ext_resources_reservation] connection', str(err))

    def test_room_is_not_held_by_default(self) -> None:
        reservation.register_opts(self.conf)

        self.assertIsNone(
            reservation.find_lead(self.conf, ['ReservationFilter'])
        )

    def test_room_is_held_or_kept_by_the_filter(self) -> None:
        reservation.register_opts(self.conf)
        for lead in (-1, 0, 3600):
            self.set('blocking_seconds', str(lead), reservation.GROUP.name)

            self.assertEqual(
                lead, reservation.find_lead(self.conf, ['ComputeFilter'])
            )
            for name in ('ReservationFilter', 'x.y.ReservationFilter'):
                err = self.assertRaises(
                    exception.InvalidConfiguration,
                    reservation.find_lead,
                    self.conf,
                    ['ComputeFilter', name],
                )
                self.assertIn('blocking_seconds', str(err))
                self.assertIn('remove the filter', str(err))

    def test_a_file_that_is_not_the_same_for_all_programs(self) -> None:
        reservation.register_opts(self.conf)
        for url in (
            'sqlite://',
            'sqlite:///:memory:',
            'sqlite:///x.db',
            'sqlite+pysqlite:///var/x.db',
            'sqlite:///file:x?mode=memory&uri=true',
        ):
            with self.subTest(url=url):
                self.set('connection', url, reservation.GROUP.name)

                err = self.assertRaises(
                    exception.InvalidConfiguration,
                    reservation.find_connection,
                    self.conf,
                )

                self.assertIn('sqlite:////FILE', str(err))

    def test_a_state_path_that_cannot_be_used(self) -> None:
        state.find_folder(self.conf)
        for path, wanted in (
            ('', 'state_path of Nova is not set'),
            ('/dev/null', 'cannot be created'),
        ):
            self.set('state_path', path)

            err = self.assertRaises(
                exception.InvalidConfiguration,
                reservation.find_connection,
                self.conf,
            )

            self.assertIn(wanted, str(err))
