# SPDX-License-Identifier: Apache-2.0

"""Servers run while their hosts' ledgers get another version."""

import contextlib
import sqlite3

from nova_ext_resources import exception
from nova_ext_resources.host.ledger import ledger
from nova_ext_resources.objects import assignment
from tests.functional.virt import backends

State = assignment.State

#: What a release that writes version 2 has in its place.
_TO_VERSION_2 = """
ALTER TABLE entry DROP COLUMN purpose;
PRAGMA user_version = 2;
"""


class LedgerVersionTest(backends.Static):
    """A server on host1."""

    def setUp(self) -> None:
        super().setUp()
        self.server = self.boot(self.make_own_flavor(2), host='host1')
        self.uuid = self.server['id']

    def stop(self, host: str) -> str:
        """Stop a compute service, and return the path of its ledger."""
        self.stop_compute(self.services[host])
        return self.get_path(host)

    def get_path(self, host: str) -> str:
        return str(self.get_ext(host)._ledger_path)

    def start(self, host: str) -> None:
        self.services[host] = self.start_again(self.services[host])
        self.publish(self.services[host])

    def read_version(self, host: str) -> int:
        with contextlib.closing(sqlite3.connect(self.get_path(host))) as db:
            version: int = db.execute('PRAGMA user_version').fetchone()[0]
        return version

    def test_from_version_2_servers_keep_all_and_can_move(self) -> None:
        before = dict(self.get_host('host1').entries)
        for host in self.HOSTS:
            with contextlib.closing(sqlite3.connect(self.stop(host))) as db:
                db.executescript(_TO_VERSION_2)
            self.assertEqual(2, self.read_version(host))
            self.start(host)
            self.assertEqual(3, self.read_version(host))

        self.assertEqual(before, dict(self.get_host('host1').entries))
        self.migrate(self.server)
        self.confirm(self.server)
        self.assert_agreement(host2={self.uuid: State.APPLIED})

    def test_back_when_no_move_is_open(self) -> None:
        self.migrate(self.server)
        for host in self.HOSTS:
            self.assertRaises(
                exception.LedgerInUse, ledger.downgrade, self.get_path(host)
            )
        path = self.stop('host1')
        err = self.assertRaises(exception.LedgerError, ledger.downgrade, path)
        self.assertIn(self.uuid, str(err))
        self.start('host1')
        self.confirm(self.server)

        for host in self.HOSTS:
            ledger.downgrade(self.stop(host))
            self.assertEqual(1, self.read_version(host))
            self.start(host)

        self.assert_agreement(host2={self.uuid: State.APPLIED})
