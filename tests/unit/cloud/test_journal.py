# SPDX-License-Identifier: Apache-2.0


import pathlib

from dev.cloud import journal
from tests import base

_OLD = '2026-11-21 10:40:00.1 77 INFO nova.old [-] first\n'
_NEW = (
    '2026-11-21 10:40:01.2 77 WARNING nova_ext_resources.host.manager '
    '[None req-1 - - - - - -] [instance: 5f0c] node1 refuses\n'
    'a line of a traceback\n'
    '2026-11-21 10:40:01.3 77 ERROR nova.x [-] broken\n'
)


class JournalTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.path = pathlib.Path(self.make_folder(), 'nova.log')
        self.path.write_text(_OLD)
        self.journal = journal.Journal(self.path)

    def test_only_what_came_after_the_mark_is_given(self) -> None:
        mark = self.journal.mark()
        with self.path.open('a') as log:
            log.write(_NEW)

        found = self.journal.since(mark)

        self.assertEqual(
            ['node1 refuses', 'broken'], [line.message for line in found]
        )

    def test_the_server_is_taken_out_of_the_message(self) -> None:
        self.path.write_text(_NEW)

        line = self.journal.since(0)[0]

        self.assertEqual('5f0c', line.server)
        self.assertEqual('nova_ext_resources.host.manager', line.logger)

    def test_all_words_must_be_in_the_line(self) -> None:
        self.path.write_text(_NEW)

        found = self.journal.since(0, 'node1', 'WARNING')

        self.assertEqual(['node1 refuses'], [one.message for one in found])

    def test_problems_are_the_errors(self) -> None:
        self.path.write_text(_OLD + _NEW)

        self.assertEqual(['nova.x: broken'], self.journal.problems())

    def test_a_log_that_does_not_exist_yet_is_empty(self) -> None:
        missing = journal.Journal(pathlib.Path(self.make_folder(), 'no.log'))

        self.assertEqual(0, missing.mark())
        self.assertEqual([], missing.since(0))
