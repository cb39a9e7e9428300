# SPDX-License-Identifier: Apache-2.0

"""Tests of what commands read of the store, which they do not change."""

import argparse
import pathlib

from osc_lib import exceptions

from nova_ext_resources.cmd.osc import cloud
from nova_ext_resources import exception
from nova_ext_resources.reservation import promise_ledger
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import schema
from tests import base
from tests.unit.reservation import hosts
from tests.unit.reservation.store import stores


class ReadPublishedTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.path = pathlib.Path(self.make_folder()) / 'reservations.db'
        self.url = f'sqlite:///{self.path}'
        self.config = self.path.with_name('nova.conf')
        self.config.write_text(
            f'[ext_resources_reservation]\nconnection = {self.url}\n'
        )
        self.arguments = argparse.Namespace(
            config_file=[str(self.config)], config_dir=None
        )

    def test_a_file_that_does_not_exist_is_not_made(self) -> None:
        err = self.assertRaises(
            exceptions.CommandError, cloud.read_published, self.arguments
        )

        self.assertIn(str(self.path), str(err))
        self.assertFalse(self.path.exists())

    def test_a_database_without_tables_is_refused_in_words(self) -> None:
        self.path.touch()

        err = self.assertRaises(
            exception.StoreError, cloud.read_published, self.arguments
        )

        self.assertIn('version none', str(err))

    def test_nothing_is_published_yet(self) -> None:
        schema.ensure(databases.Database(self.url))

        self.assertFalse(cloud.read_published(self.arguments))

    def test_what_is_promised_is_read_if_it_is_asked_for(self) -> None:
        schema.ensure(databases.Database(self.url))
        during = hosts.span(2**31, 2**31 + 60)
        admission = stores.make_admission(self.url)
        admission.admit(
            hosts.make_request('n1', during), now=0, reason=stores.REASON
        )
        promises = promise_ledger.Promises()

        cloud.read_published(self.arguments, promises)

        self.assertEqual({'n1'}, promises.reservations.keys())
        self.assertTrue(promises.is_promised('a'))

        # Then placement has what is promised, too: its room is held there.
        with self.config.open('a') as file:
            file.write('blocking_seconds = 3600\n')
        promises = promise_ledger.Promises()

        cloud.read_published(self.arguments, promises)

        self.assertTrue(promises.is_empty)
