# SPDX-License-Identifier: Apache-2.0

import os

import fixtures

from nova_ext_resources import exception
from nova_ext_resources.host.handover import journal
from tests import base

PROGRESS = journal.Progress(
    source='rmd', target='resctrl', phase=journal.Phase.RELEASING
)


class JournalTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = self.useFixture(fixtures.TempDir()).path
        self.ledger_path = os.path.join(self.folder, 'host1.sqlite')
        self.journal = journal.HandoverJournal(self.ledger_path)

    def test_what_was_written_is_read(self) -> None:
        self.assertIsNone(self.journal.read())

        self.journal.write(PROGRESS)

        self.assertEqual(PROGRESS, self.journal.read())
        self.assertEqual([os.path.basename(self.journal.path)], self.list())

    def list(self) -> list[str]:
        return os.listdir(self.folder)

    def test_it_may_be_removed_twice(self) -> None:
        self.journal.write(PROGRESS)

        for _ in range(2):
            self.journal.remove()

        self.assertEqual([], self.list())

    def test_garbage_is_told_with_the_file(self) -> None:
        for text in ('', '[]', '{}', '{"source": "a", "target": "b"}', '{'):
            with open(self.journal.path, 'w', encoding='utf-8') as file:
                file.write(text)

            err = self.assertRaises(exception.LedgerError, self.journal.read)

            self.assertIn(self.journal.path, str(err))
            self.assertIn('with the same --from and --to', str(err))

    def test_a_folder_that_is_gone_is_told(self) -> None:
        gone = journal.HandoverJournal(
            os.path.join(self.folder, 'no', 'ledger')
        )

        err = self.assertRaises(exception.LedgerError, gone.write, PROGRESS)

        self.assertIn('must be writable for the user', str(err))

    def test_it_is_found_by_every_path_of_the_ledger(self) -> None:
        link = os.path.join(self.folder, 'link')
        os.symlink('host1.sqlite', link)

        journal.HandoverJournal(link).write(PROGRESS)

        self.assertEqual(PROGRESS, self.journal.read())

    def test_a_host_does_not_run_in_the_middle_of_one(self) -> None:
        journal.check_none(self.ledger_path)
        self.journal.write(PROGRESS)

        err = self.assertRaises(
            exception.InvalidConfiguration,
            journal.check_none,
            self.ledger_path,
        )

        for words in ('--from rmd --to resctrl', '--from resctrl --to rmd'):
            self.assertIn(words, str(err))
