# SPDX-License-Identifier: Apache-2.0

from collections.abc import Callable
import contextlib
import io
import os
import pathlib
import shutil
import sqlite3

from nova_ext_resources.cmd import downgrade_ledger
from nova_ext_resources.host.ledger import ledger as ledger_mod
from nova_ext_resources.objects import assignment
from tests import base

DATA = pathlib.Path(__file__).parents[2] / 'data'
VERSION_1, VERSION_2 = DATA / 'ledger-1.sqlite', DATA / 'ledger-2.sqlite'


class DowngradeTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.path = os.path.join(self.make_folder(), 'ledger.sqlite')

    def run_command(self, *arguments: str) -> tuple[int, str]:
        """Return its status and all that it prints."""
        text = io.StringIO()
        with (
            contextlib.redirect_stdout(text),
            contextlib.redirect_stderr(text),
        ):
            status = downgrade_ledger.main(arguments)
        return status, text.getvalue()

    def read_version(self) -> int:
        with contextlib.closing(sqlite3.connect(self.path)) as db:
            version: int = db.execute('PRAGMA user_version').fetchone()[0]
        return version

    def test_a_ledger_goes_back(self) -> None:
        shutil.copy(VERSION_1, self.path)
        ledger_mod.Ledger(self.path).close()
        self.assertEqual(3, self.read_version())

        status, text = self.run_command(self.path)

        self.assertEqual(0, status)
        self.assertIn(f'Ledger {self.path} has version 1 now', text)
        self.assertIn('Install the older release', text)
        self.assertEqual(1, self.read_version())

    def test_one_that_this_release_has_not_upgraded_goes_back(self) -> None:
        shutil.copy(VERSION_2, self.path)

        status, text = self.run_command(self.path)

        self.assertEqual((0, 1), (status, self.read_version()), text)

    def test_one_in_use_stays(self) -> None:
        with contextlib.closing(ledger_mod.Ledger(self.path)):
            status, text = self.run_command(self.path)

        self.assertEqual(1, status)
        self.assertIn('stop the process first', text)
        self.assertIn('Nothing was changed', text)
        self.assertNotIn('ledger_path', text)
        self.assertEqual(3, self.read_version())

    def test_one_with_a_move_stays(self) -> None:
        with contextlib.closing(ledger_mod.Ledger(self.path)) as ledger:
            ledger.put(
                assignment.Entry(
                    consumer_uuid='migration',
                    server_uuid='server',
                    purpose=assignment.Purpose.MIGRATION_SOURCE,
                    assignments=(),
                )
            )

        status, text = self.run_command(self.path)

        self.assertEqual(1, status)
        self.assertIn(f'Ledger {self.path}: ', text)
        self.assertIn('start nova-compute of this release', text)
        self.assertTrue(text.strip().endswith(': server'), text)
        self.assertEqual(3, self.read_version())

    def test_one_that_this_user_cannot_reach(self) -> None:
        def refuse(path: object, *_: object, **__: object) -> object:
            if path == self.path:
                raise PermissionError(13, 'Permission denied')
            return real(path)

        real: Callable[[object], object] = os.stat  # type: ignore[assignment]
        # Whoever runs the tests, root too.
        self.patch(os, 'stat', refuse)

        status, text = self.run_command(self.path)

        self.assertEqual(2, status)
        self.assertIn('this user cannot reach the file', text)
        self.assertIn('the user that nova-compute runs as', text)
        self.assertNotIn('no such file', text)

    def test_a_missing_one_is_not_made(self) -> None:
        for arguments, words in (
            ((self.path,), f'{self.path}: there is no such file'),
            ((), 'the path of the ledger'),
            (('--help',), 'the path of the ledger'),
            (('a', 'b'), 'python3 -m nova_ext_resources.cmd.downgrade_ledger'),
        ):
            status, text = self.run_command(*arguments)

            self.assertEqual(2, status)
            self.assertIn(words, text)
            self.assertIn('nova-compute logs', text)
        self.assertFalse(os.path.exists(self.path))
