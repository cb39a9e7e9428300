# SPDX-License-Identifier: Apache-2.0

from collections.abc import Callable, Iterator
import contextlib
import dataclasses
import datetime
import logging
import multiprocessing
import multiprocessing.process
import os
import pathlib
import resource
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
from typing import Any

import fixtures
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources import exception
from nova_ext_resources.host.ledger import ledger as ledger_mod
from nova_ext_resources.host.ledger import process_lock
from nova_ext_resources.objects import assignment
from tests import base
from tests import ledgers
from tests.unit import builders

OPEN = """
from nova_ext_resources import exception
from nova_ext_resources.host.ledger import ledger
import sys
try:
    ledger.Ledger(sys.argv[1]).close()
except exception.LedgerError as err:
    print(err)
"""


def make_entry(
    consumer_uuid: str = uuidsentinel.server, **fields: Any
) -> assignment.Entry:
    ways = builders.make_assignment()
    clos = builders.make_assignment(
        rp_uuid=builders.RDT,
        rp_key='RDT',
        resource_class=builders.CLOS,
        amount=1,
        units={},
        is_allocated=False,
    )
    # The order in which they are read.
    both = sorted((ways, clos), key=lambda one: one.rp_uuid)
    given: dict[str, Any] = {
        'assignments': tuple(both),
        'cpus': frozenset({1, 2, 7}),
        'enforcers': {'rmd': {'policy': 'gold'}},
        'project_id': 'project',
        'flavor': 'm1.gold',
        'claimed_at': datetime.datetime(2026, 11, 22, tzinfo=datetime.UTC),
    }
    return assignment.Entry(consumer_uuid=consumer_uuid, **{**given, **fields})


#: What to do where the file system refuses.
WRITABLE = ('user of nova-compute', '[ext_resources] ledger_path')


class LedgerTestCase(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = self.make_folder()
        self.path = os.path.join(self.folder, 'ledger.sqlite')

    def open(self) -> ledger_mod.Ledger:
        ledger = ledger_mod.Ledger(self.path)
        self.addCleanup(ledger.close)
        return ledger

    def reopen(self, ledger: ledger_mod.Ledger) -> ledger_mod.Ledger:
        ledger.close()
        return self.open()

    @contextlib.contextmanager
    def plain(self) -> Any:
        """Change the file as somebody with the sqlite3 tool would."""
        with contextlib.closing(sqlite3.connect(self.path)) as db, db:
            yield db


class LedgerTest(LedgerTestCase):
    def test_published_providers_are_remembered(self) -> None:
        ledger = self.open()
        ledger.add_published({'a': (), 'b': ['CUSTOM_X']})
        ledger.add_published({'b': ['CUSTOM_X', 'CUSTOM_Y'], 'c': ()})

        again = self.reopen(ledger)

        self.assertEqual(
            {'a': set(), 'b': {'CUSTOM_X', 'CUSTOM_Y'}, 'c': set()},
            again.list_published(),
        )

    def test_every_kind_of_entry_comes_back_as_it_was_written(self) -> None:
        entries = {
            'of a state': [make_entry(state=one) for one in assignment.State],
            'of a purpose': [
                make_entry(purpose=one) for one in assignment.Purpose
            ],
            'floating': [make_entry(cpus=None)],
            'on no CPU': [make_entry(cpus=frozenset())],
            'without units': [make_entry(assignments=())],
            'with a large amount': [
                make_entry(
                    assignments=(builders.make_assignment(amount=2**31 - 1),)
                )
            ],
            'with a strange wish': [
                make_entry(enforcers={'rmd': {'policy': "é'; --\n"}})
            ],
            'plain': [make_entry(enforcers={})],
            'of a move': [make_entry(server_uuid=uuidsentinel.moved)],
            'unknown': [
                make_entry(project_id=None, flavor=None, claimed_at=None)
            ],
            'claimed elsewhere': [
                make_entry(
                    claimed_at=datetime.datetime(
                        2026,
                        11,
                        22,
                        3,
                        4,
                        5,
                        678901,
                        tzinfo=datetime.timezone(datetime.timedelta(hours=2)),
                    )
                )
            ],
        }
        for what, variants in entries.items():
            for entry in variants:
                with self.subTest(what=what, state=entry.state):
                    ledger = self.open()
                    ledger.put(entry)

                    again = self.reopen(ledger)

                    self.assertEqual(
                        {uuidsentinel.server: entry}, again.list_entries()
                    )
                    again.close()

    def test_an_entry_is_replaced_whole(self) -> None:
        ledger = self.open()
        ledger.put(make_entry())
        smaller = make_entry(
            assignments=(builders.make_assignment(amount=1),), cpus=None
        )

        ledger.put(smaller)

        self.assertEqual({uuidsentinel.server: smaller}, ledger.list_entries())

    def test_entries_are_exchanged_in_one_change(self) -> None:
        ledger = self.open()
        first, second = make_entry(), make_entry(uuidsentinel.other)
        ledger.put(first)

        ledger.replace([first.consumer_uuid, 'unknown'], [second])

        self.assertEqual(
            {uuidsentinel.other: second}, self.reopen(ledger).list_entries()
        )

    def test_a_state_moves_on_and_units_stay(self) -> None:
        ledger = self.open()
        ledger.put(make_entry())
        ledger.put(make_entry(uuidsentinel.other))

        ledger.set_state(
            [uuidsentinel.server, uuidsentinel.unknown],
            assignment.State.RELEASING,
        )

        entries = self.reopen(ledger).list_entries()
        self.assertEqual(
            make_entry(state=assignment.State.RELEASING),
            entries[uuidsentinel.server],
        )
        self.assertEqual(
            make_entry(uuidsentinel.other), entries[uuidsentinel.other]
        )

    def test_what_it_has_not_as_it_should_be_is_named(self) -> None:
        """In whatever order the units of a server are."""
        ledger = self.open()
        same, changed = make_entry('same'), make_entry('changed')
        for one in (same, changed, make_entry('more')):
            ledger.put(one)

        different = ledger.list_different(
            {
                'same': dataclasses.replace(
                    same, assignments=same.assignments[::-1]
                ),
                'changed': dataclasses.replace(
                    changed, state=assignment.State.APPLIED
                ),
                'missing': make_entry('missing'),
            }
        )

        self.assertEqual({'changed', 'more', 'missing'}, different)

    def test_deleted_entries_leave_nothing_behind(self) -> None:
        ledger = self.open()
        ledger.put(make_entry())
        ledger.put(make_entry(uuidsentinel.other))

        ledger.delete([uuidsentinel.server, uuidsentinel.unknown])

        self.assertEqual(
            {uuidsentinel.other}, set(self.reopen(ledger).list_entries())
        )
        with self.plain() as db:
            rows = db.execute('SELECT DISTINCT consumer_uuid FROM assignment')
            self.assertEqual([(uuidsentinel.other,)], rows.fetchall())

    def test_every_change_is_synced_to_a_log_beside_the_file(self) -> None:
        ledger = self.open()

        def ask(pragma: str) -> Any:
            return ledger._db.execute(f'PRAGMA {pragma}').fetchone()[0]

        self.assertEqual('wal', ask('journal_mode'))
        full = 2
        self.assertEqual(full, ask('synchronous'))
        with self.plain() as db:
            mode = db.execute('PRAGMA journal_mode').fetchone()
            self.assertEqual(('wal',), mode)

    def test_a_missing_folder_is_made(self) -> None:
        self.path = os.path.join(self.folder, 'a', 'b', 'ledger.sqlite')

        self.open().put(make_entry())

        self.assertTrue(os.path.exists(self.path))

    def test_it_can_be_read_with_other_tools_while_it_is_open(self) -> None:
        ledger = self.open()
        ledger.put(make_entry())

        with self.plain() as db:
            rows = db.execute('SELECT state FROM entry').fetchall()

        self.assertEqual([('claimed',)], rows)


class RefusedLedgerTest(LedgerTestCase):
    def assert_refused(self, *words: str) -> None:
        err = self.assertRaises(exception.LedgerError, self.open)
        for word in (self.path, *words):
            self.assertIn(word, str(err))

    def start_holding(
        self, hold: Callable[[], contextlib.AbstractContextManager[Any]]
    ) -> multiprocessing.process.BaseProcess:
        """Have another process enter a context, and stay in it."""
        context = multiprocessing.get_context('fork')
        mine, theirs = context.Pipe()

        def run() -> None:
            with hold():
                theirs.send(True)
                signal.pause()

        process = context.Process(target=run)
        process.start()
        self.addCleanup(process.join)
        self.addCleanup(process.kill)
        self.assertTrue(mine.poll(30))
        return process

    def open_elsewhere(self) -> str:
        """Open it in another process; give what that says."""
        done = subprocess.run(
            [sys.executable, '-c', OPEN, self.path],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return done.stdout

    def test_a_second_process_is_refused_until_the_first_ends(self) -> None:
        ledger = self.open()

        said = self.open_elsewhere()

        self.assertIn('another process of this machine uses the ledger', said)
        self.assertIn('[ext_resources] ledger_path', said)
        ledger.close()
        self.assertEqual('', self.open_elsewhere())

    def test_so_is_one_for_which_a_file_was_deleted(self) -> None:
        for suffix in ('', '.lock'):
            ledger = self.open()
            os.unlink(f'{self.path}{suffix}')

            said = self.open_elsewhere()

            with self.subTest(suffix=suffix):
                self.assertIn(
                    'another process of this machine uses the ledger', said
                )
            ledger.close()

    def test_so_is_one_for_which_both_files_were_deleted(self) -> None:
        self.open()
        for suffix in ('', '.lock'):
            os.unlink(f'{self.path}{suffix}')

        said = self.open_elsewhere()

        self.assertIn(
            f'another process of this machine (pid {os.getpid()}) uses the '
            'ledger',
            said,
        )

    def test_so_is_one_after_many_such_starts(self) -> None:
        self.open()
        for suffix in ('', '.lock'):
            os.unlink(f'{self.path}{suffix}')
        self.fill_queue(process_lock.make_name(self.path))

        said = self.open_elsewhere()

        self.assertIn('another process of this machine uses the ledger', said)

    def fill_queue(self, name: str) -> None:
        """Connect until no more can."""
        with contextlib.suppress(BlockingIOError):
            while True:
                with socket.socket(socket.AF_UNIX) as asking:
                    asking.settimeout(0)
                    asking.connect(name)

    def test_so_is_one_for_which_the_folder_was_replaced(self) -> None:
        self.path = os.path.join(os.path.dirname(self.path), 'new', 'ledger')
        ledger = self.open()
        shutil.rmtree(os.path.dirname(self.path))

        self.assertIn('another process', self.open_elsewhere())

        ledger.close()
        self.assertEqual('', self.open_elsewhere())

    def test_other_ledgers_of_the_folder_are_not_in_use(self) -> None:
        self.open()
        self.path += '.other'

        self.assertEqual('', self.open_elsewhere())

    def test_a_process_of_another_user_keeps_nobody_from_it(self) -> None:
        if os.geteuid():
            self.skipTest('this process cannot be another user')
        log = self.useFixture(fixtures.FakeLogger())

        self.start_holding(self.take_name)

        self.open().put(make_entry())

        self.assertIn('Address already in use', log.output)

    @contextlib.contextmanager
    def take_name(self) -> Iterator[None]:
        """Take the name in the kernel, as a user without rights."""
        os.setuid(65534)
        with socket.socket(socket.AF_UNIX) as taken:
            taken.bind(process_lock.make_name(self.path))
            taken.listen()
            yield

    def test_nor_does_one_to_which_no_more_can_connect(self) -> None:
        if os.geteuid():
            self.skipTest('this process cannot be another user')
        # The kernel tells of many, in several answers.
        for number in range(500):
            other = socket.socket(socket.AF_UNIX)
            self.addCleanup(other.close)
            other.bind(f'{process_lock.make_name(self.path)}-{number}')
            other.listen()
        self.start_holding(self.take_name)
        self.fill_queue(process_lock.make_name(self.path))

        self.open().put(make_entry())

    def test_where_the_kernel_does_not_tell_whose_it_is_it_is_in_use(
        self,
    ) -> None:
        """An older one; or it has no such question at all."""
        self.open()
        for suffix in ('', '.lock'):
            os.unlink(f'{self.path}{suffix}')
        self.fill_queue(process_lock.make_name(self.path))

        self.patch(process_lock, '_UID', 99)
        self.assertRaises(exception.LedgerInUse, self.open)
        self.patch(process_lock, '_NETLINK_SOCK_DIAG', 77)
        self.assertRaises(exception.LedgerInUse, self.open)

    def test_so_is_one_that_comes_by_a_symbolic_link(self) -> None:
        self.open().put(make_entry())
        target, self.path = self.path, f'{self.path}-link'
        os.symlink(os.path.basename(target), self.path)

        said = self.open_elsewhere()

        self.assertIn('another process of this machine uses the ledger', said)
        self.assertIn(target, said)

    def test_a_link_to_where_nothing_is_yet_makes_it_there(self) -> None:
        target = os.path.join(os.path.dirname(self.path), 'new', 'ledger')
        os.symlink(target, self.path)

        self.open().put(make_entry())

        self.assertTrue(os.path.isfile(target))

    def test_a_cut_shm_file_ends_the_process_and_loses_nothing(self) -> None:
        # SQLite maps it, and Linux sends the signal (mmap(2)).
        def run() -> None:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            ledger = ledger_mod.Ledger(self.path)
            ledger.put(make_entry())
            os.truncate(f'{self.path}-shm', 0)
            ledger.put(make_entry('other'))

        process = multiprocessing.get_context('fork').Process(target=run)
        process.start()
        process.join()

        self.assertEqual(-signal.SIGBUS, process.exitcode)
        entries = self.open().list_entries()
        self.assertEqual([uuidsentinel.server], list(entries))

    def test_a_process_that_was_killed_blocks_nobody(self) -> None:
        @contextlib.contextmanager
        def hold() -> Iterator[None]:
            ledger = ledger_mod.Ledger(self.path)
            ledger.put(make_entry())
            yield

        process = self.start_holding(hold)
        self.assert_refused('another process')

        process.kill()
        process.join()

        self.assertEqual(
            {uuidsentinel.server: make_entry()}, self.open().list_entries()
        )

    def test_a_newer_version_is_refused_and_left_as_it_is(self) -> None:
        self.open().close()
        with self.plain() as db:
            db.execute('PRAGMA user_version = 4')

        self.assert_refused('version 4', 'the package that wrote the ledger')

        with self.plain() as db:
            version = db.execute('PRAGMA user_version').fetchone()
            self.assertEqual((4,), version)
        # It is not kept locked.
        self.assert_refused('version 4')

    def test_a_file_that_is_no_ledger_is_refused(self) -> None:
        with open(self.path, 'w') as file:
            file.write('[DEFAULT]\nthis is not a database\n' * 100)

        self.assert_refused('cannot be opened', 'not a database')

        with open(self.path) as file:
            self.assertEqual('[DEFAULT]\n', file.readline())

    def test_a_folder_in_its_place_is_refused(self) -> None:
        os.mkdir(self.path)

        self.assert_refused('cannot be opened', *WRITABLE)

    def test_a_file_where_its_folder_should_be_is_refused(self) -> None:
        with open(os.path.join(self.folder, 'file'), 'w'):
            self.path = os.path.join(self.folder, 'file', 'ledger.sqlite')

        self.assert_refused('cannot be opened', *WRITABLE)

    def test_only_a_damaged_file_is_to_be_moved_away(self) -> None:
        os.mkdir(self.path)

        err = self.assertRaises(exception.LedgerError, self.open)

        self.assertNotIn('moved away', str(err))

    def test_a_file_of_a_read_only_file_system_is_not_called_damaged(
        self,
    ) -> None:
        ledger = self.open()
        ledger._db.execute('PRAGMA query_only = ON')

        err = self.assertRaises(
            exception.LedgerError, ledger.put, make_entry()
        )

        for word in ('cannot be written', *WRITABLE):
            self.assertIn(word, str(err))
        self.assertNotIn('moved away', str(err))

    def test_a_damaged_page_is_refused_with_advice(self) -> None:
        ledger = self.open()
        ledger.put(make_entry())
        ledger.close()
        with open(self.path, 'r+b') as file:
            file.seek(4096)
            file.write(b'\xff' * (os.path.getsize(self.path) - 4096))

        self.assert_refused('malformed', 'moved away')

    def test_a_row_that_makes_no_sense_is_refused(self) -> None:
        for change in (
            "entry SET state = 'sold'",
            "entry SET purpose = 'lost'",
            "entry SET cpus = '7-3'",
            "entry SET cpus = x'ff'",
            "entry SET claimed_at = 'yesterday'",
            "entry SET claimed_at = '2026-11-22T03:04:05'",
            "entry SET enforcers = '{'",
            "entry SET enforcers = '[]'",
            "entry SET enforcers = '{\"rmd\": 1}'",
            "assignment SET units = 'ff'",
            "assignment SET units = '[1]'",
            "assignment SET units = '{\"max\": Infinity}'",
            f"assignment SET units = '{'[' * 9999}'",
            "assignment SET amount = 'many'",
            'assignment SET amount = 2147483648',
        ):
            with self.subTest(change=change):
                self.path = os.path.join(self.make_folder(), 'ledger.sqlite')
                ledger = self.open()
                ledger.put(make_entry())
                with self.plain() as db:
                    db.execute(f'UPDATE {change}')

                err = self.assertRaises(
                    exception.LedgerError, ledger.list_entries
                )

                self.assertIn('cannot be read', str(err))
                self.assertIn('moved away', str(err))


class FullDiskTest(LedgerTestCase):
    """The disk is full: nothing is half written, and it works again."""

    def fill(self, ledger: ledger_mod.Ledger) -> int:
        """Write until it is refused; give how many entries there are."""
        for number in range(500):
            try:
                ledger.put(make_entry(f'server-{number}'))
            except exception.LedgerError as err:
                self.assertIn('cannot be written', str(err))
                self.assertIn('full', str(err))
                self.assertIn('Free space', str(err))
                return number
        raise AssertionError('it was never full')

    def test_a_full_disk_changes_nothing(self) -> None:
        ledger = self.open()
        ledger._db.execute('PRAGMA max_page_count = 10')

        written = self.fill(ledger)

        expected = {f'server-{number}' for number in range(written)}
        self.assertEqual(expected, set(ledger.list_entries()))
        with self.plain() as db:
            rows = db.execute('SELECT count(*) FROM assignment').fetchone()
            self.assertEqual((2 * written,), rows)

    def test_a_disk_that_has_room_again_is_written_to(self) -> None:
        ledger = self.open()
        ledger._db.execute('PRAGMA max_page_count = 10')
        written = self.fill(ledger)
        ledger._db.execute('PRAGMA max_page_count = 1000')

        ledger.put(make_entry())

        self.assertEqual(written + 1, len(self.reopen(ledger).list_entries()))

    def test_a_write_that_the_kernel_refuses_changes_nothing(self) -> None:
        # The limit is the process's: another one has to run into it.
        context = multiprocessing.get_context('fork')
        mine, theirs = context.Pipe()

        def run() -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            ledger = ledger_mod.Ledger(self.path)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
            number = 0
            try:
                while number < 500:
                    ledger.put(make_entry(f'server-{number}'))
                    number += 1
            except exception.LedgerError as err:
                theirs.send((number, str(err)))
            # As a process ends that is killed.
            os._exit(0)

        process = context.Process(target=run)
        process.start()
        self.addCleanup(process.join)
        self.assertTrue(mine.poll(30))
        written, message = mine.recv()
        process.join()

        self.assertIn('cannot be written', message)
        self.assertGreater(written, 3)
        self.assertEqual(
            {f'server-{number}' for number in range(written)},
            set(self.open().list_entries()),
        )


class StatusTest(LedgerTestCase):
    """What health checks are told of writing."""

    def setUp(self) -> None:
        super().setUp()
        self.ledger = self.open()

    def break_off(self) -> None:
        self.ledger._db.execute('PRAGMA query_only = 1')
        self.assertRaises(exception.LedgerError, self.ledger.put, make_entry())

    def test_a_ledger_that_was_opened_works(self) -> None:
        self.assertEqual('', self.ledger.status.failure)

    def test_a_failure_is_kept_with_the_time_of_the_last_success(self) -> None:
        before = self.ledger.status

        self.break_off()

        self.assertIn('readonly', self.ledger.status.failure)
        self.assertEqual(
            before.last_success_at, self.ledger.status.last_success_at
        )

    def test_a_file_that_was_deleted_or_replaced_is_a_failure(self) -> None:
        for other in (None, b''):
            ledger = self.ledger = self.reopen(self.ledger)
            os.rename(self.path, f'{self.path}.lost')
            if other is not None:
                pathlib.Path(self.path).write_bytes(other)

            err = self.assertRaises(
                exception.LedgerError, ledger.put, make_entry()
            )

            for words in (
                self.path,
                'was deleted, replaced',
                'The ledger is lost',
            ):
                self.assertIn(words, str(err))
            self.assertEqual(str(err), ledger.status.failure)
            self.assertEqual({}, ledger.list_entries())
            os.rename(f'{self.path}.lost', self.path)
            ledger.check()
            self.assertEqual('', ledger.status.failure)

    def test_it_is_seen_without_a_claim_too(self) -> None:
        os.rename(self.path, f'{self.path}.lost')

        self.ledger.check()

        self.assertIn('was deleted', self.ledger.status.failure)
        os.rename(f'{self.path}.lost', self.path)
        self.ledger.check()
        self.assertEqual('', self.ledger.status.failure)

    def assert_lost(self) -> None:
        """A round sees it, and a claim is refused."""
        self.ledger.check()
        self.assertIn('The ledger is lost', self.ledger.status.failure)
        err = self.assertRaises(
            exception.LedgerError, self.ledger.put, make_entry('late')
        )
        self.assertIn('The ledger is lost', str(err))
        self.ledger.check()
        self.assertIn('The ledger is lost', self.ledger.status.failure)

    def test_files_that_are_emptied_are_a_failure(self) -> None:
        for suffixes in (('', '-wal'), ('',), ('-wal',)):
            for entries in ([], [make_entry()]):
                self.path = os.path.join(self.make_folder(), 'ledger.sqlite')
                self.ledger = self.open()
                for one in entries:
                    self.ledger.put(one)
                for suffix in suffixes:
                    os.truncate(f'{self.path}{suffix}', 0)

                with self.subTest(suffixes=suffixes, entries=len(entries)):
                    self.assert_lost()

    def test_so_are_files_that_another_program_has_touched_since(self) -> None:
        self.ledger.put(make_entry())
        for suffix in ('', '-wal'):
            os.truncate(f'{self.path}{suffix}', 0)
        with (
            contextlib.suppress(sqlite3.Error),
            contextlib.closing(sqlite3.connect(self.path, timeout=0)) as db,
            db,
        ):
            db.execute('CREATE TABLE other (name TEXT)')

        self.assert_lost()

    def test_a_claim_alone_notices_an_emptied_file(self) -> None:
        self.ledger.put(make_entry())
        for suffix in ('', '-wal'):
            os.truncate(f'{self.path}{suffix}', 0)

        self.assertRaises(
            exception.LedgerError, self.ledger.put, make_entry('late')
        )

        self.assertNotIn('late', self.ledger.list_entries())
        self.assertIn('The ledger is lost', self.ledger.status.failure)

    def test_an_older_copy_that_is_written_over_it_is_a_failure(self) -> None:
        self.ledger = self.reopen(self.ledger)
        older = pathlib.Path(self.path).read_bytes()
        self.ledger.put(make_entry())
        pathlib.Path(self.path).write_bytes(older)
        os.truncate(f'{self.path}-wal', 0)

        self.assert_lost()

    def test_a_change_of_another_program_is_a_failure(self) -> None:
        for change in (
            "DELETE FROM entry WHERE consumer_uuid = 'server-1'",
            'UPDATE assignment SET units = \'{"mask": "1"}\'',
            "DELETE FROM published WHERE rp_uuid = 'a'",
        ):
            self.path = os.path.join(self.make_folder(), 'ledger.sqlite')
            self.ledger = self.open()
            self.ledger.add_published({'a': ()})
            for number in range(2):
                self.ledger.put(make_entry(f'server-{number}'))
            with self.plain() as db:
                db.execute(change)

            with self.subTest(change=change):
                self.assert_lost()

    def test_so_is_a_row_that_has_other_bytes(self) -> None:
        """SQLite has no checksums: it reads them as what was written."""
        self.ledger.put(make_entry())
        with self.plain() as db:
            db.execute('PRAGMA wal_checkpoint(TRUNCATE)')
        file = pathlib.Path(self.path)
        file.write_bytes(file.read_bytes().replace(b'"mask"', b'"mark"'))
        self.assertNotEqual(
            {uuidsentinel.server: make_entry()}, self.ledger.list_entries()
        )

        self.assert_lost()

    def test_it_ends_when_what_was_written_is_there_again(self) -> None:
        self.ledger.put(make_entry())
        with self.plain() as db:
            db.execute("UPDATE entry SET flavor = 'm1.lead'")
        self.assert_lost()
        with self.plain() as db:
            db.execute("UPDATE entry SET flavor = 'm1.gold'")

        self.ledger.check()

        self.assertEqual('', self.ledger.status.failure)

    def test_writes_and_checkpoints_are_no_loss(self) -> None:
        def tidy(how: str) -> None:
            with self.plain() as db:
                db.execute(f'PRAGMA wal_checkpoint({how})')

        for number in range(60):
            self.ledger.put(make_entry(f'server-{number}'))
            self.ledger.check()
            tidy(('PASSIVE', 'FULL', 'RESTART', 'TRUNCATE')[number % 4])
            self.ledger.check()
            self.assertEqual('', self.ledger.status.failure)

        self.assertEqual(60, len(self.reopen(self.ledger).list_entries()))

    def test_a_success_ends_it(self) -> None:
        before = self.ledger.status
        self.break_off()
        self.ledger._db.execute('PRAGMA query_only = 0')

        self.ledger.put(make_entry())

        self.assertEqual('', self.ledger.status.failure)
        self.assertLess(
            before.last_success_at, self.ledger.status.last_success_at
        )

    def test_trying_again_finds_out_that_it_goes_on(self) -> None:
        self.break_off()

        self.ledger.check()

        self.assertIn('readonly', self.ledger.status.failure)

    def test_trying_again_finds_out_that_it_is_over(self) -> None:
        self.ledger.put(make_entry())
        self.break_off()
        self.ledger._db.execute('PRAGMA query_only = 0')
        entries = self.ledger.list_entries()
        size = os.path.getsize(f'{self.ledger.path}-wal')

        self.ledger.check()

        self.assertEqual('', self.ledger.status.failure)
        self.assertEqual(entries, self.ledger.list_entries())
        # Something was really written, and not only asked for.
        self.assertLess(size, os.path.getsize(f'{self.ledger.path}-wal'))

    def test_while_nothing_fails_nothing_is_tried_again(self) -> None:
        before = self.ledger.status

        self.ledger.check()

        self.assertIs(before, self.ledger.status)


#: Written by the last release that knew version 1 only.
VERSION_1 = pathlib.Path(__file__).parents[3] / 'data' / 'ledger-1.sqlite'

#: Written by a release that knew version 2.
VERSION_2 = VERSION_1.with_name('ledger-2.sqlite')

SERVERS = [
    f'{n * 8}-{n * 4}-4{n * 3}-8{n * 3}-{n * 12}' for n in ('1', '2', '3', '4')
]


def dump(path: str) -> dict[str, Any]:
    """Return the columns and the rows of each table."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        names = db.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1"
        ).fetchall()
        found: dict[str, Any] = {
            name: (
                db.execute(f'PRAGMA table_info({name})').fetchall(),
                db.execute(f'PRAGMA foreign_key_list({name})').fetchall(),
                db.execute(f'SELECT * FROM {name}').fetchall(),
            )
            for (name,) in names
        }
        (found['version'],) = db.execute('PRAGMA user_version').fetchone()
    return found


class VersionsTest(LedgerTestCase):
    """From version 1 of the tables, and back."""

    def setUp(self) -> None:
        super().setUp()
        shutil.copy(VERSION_1, self.path)

    def test_what_version_1_knew_is_there(self) -> None:
        ledger = self.open()

        entries = ledger.list_entries()

        self.assertEqual(SERVERS, sorted(entries))
        self.assertEqual(
            ['applied', 'claimed', 'releasing', 'applied'],
            [entries[uuid].state for uuid in SERVERS],
        )
        first, second, third, _fourth = (entries[uuid] for uuid in SERVERS)
        self.assertEqual(
            {'CUSTOM_LLC_WAYS': 4, 'CUSTOM_RDT_CLOS': 1},
            {one.resource_class: one.amount for one in first.assignments},
        )
        self.assertEqual({'rmd': {'policy': 'gold'}}, first.enforcers)
        self.assertEqual(frozenset({1, 2, 7}), first.cpus)
        self.assertIsNone(second.cpus)
        self.assertEqual(
            {'mask': '30', 'max': '6'}, second.assignments[0].units
        )
        self.assertEqual(frozenset(), third.cpus)
        self.assertEqual(4, len(ledger.list_published()))

    def test_what_it_did_not_know_is_unknown(self) -> None:
        for uuid, entry in self.open().list_entries().items():
            self.assertEqual(uuid, entry.server_uuid)
            self.assertIsNone(entry.project_id)
            self.assertIsNone(entry.flavor)
            self.assertIsNone(entry.claimed_at)

    def test_it_is_the_same_as_one_that_was_made_anew(self) -> None:
        self.open().close()
        fresh = os.path.join(self.folder, 'fresh.sqlite')
        ledger_mod.Ledger(fresh).close()

        old, new = dump(self.path), dump(fresh)

        self.assertEqual(new.keys(), old.keys())
        for name in ('entry', 'assignment', 'published'):
            self.assertEqual(new[name][:2], old[name][:2])
        self.assertEqual(3, old['version'])

    def test_an_upgrade_that_breaks_off_changes_nothing(self) -> None:
        with self.plain() as db:
            db.execute('ALTER TABLE entry ADD COLUMN flavor TEXT')
        before = dump(self.path)

        err = self.assertRaises(exception.LedgerError, self.open)

        self.assertIn('duplicate column', str(err))
        self.assertEqual(before, dump(self.path))

    def test_one_that_goes_back_is_as_it_was(self) -> None:
        before = dump(self.path)
        self.open().close()

        ledger_mod.downgrade(self.path)

        self.assertEqual(before, dump(self.path))
        self.assertEqual(SERVERS, sorted(self.open().list_entries()))

    def test_going_back_keeps_what_was_written_meanwhile(self) -> None:
        ledger = self.open()
        ledger.delete(SERVERS[1:])
        ledger.put(make_entry())
        ledger.close()

        ledger_mod.downgrade(self.path)

        entries = self.open().list_entries()
        self.assertEqual({SERVERS[0], uuidsentinel.server}, set(entries))
        self.assertEqual(
            make_entry().assignments, entries[uuidsentinel.server].assignments
        )

    def test_what_a_move_keeps_stops_going_back(self) -> None:
        for name, purpose in (
            ('migration', assignment.Purpose.MIGRATION_SOURCE),
            ('migration', assignment.Purpose.MIGRATION_DEST),
            (SERVERS[0], assignment.Purpose.MIGRATION_DEST),
        ):
            ledger = self.open()
            ledger.put(
                make_entry(name, server_uuid=SERVERS[0], purpose=purpose)
            )
            ledger.close()
            before = dump(self.path)

            err = self.assertRaises(
                exception.LedgerError, ledger_mod.downgrade, self.path
            )

            for word in ('confirm or revert', SERVERS[0]):
                self.assertIn(word, str(err))
            self.assertNotIn('moved away', str(err))
            self.assertEqual(before, dump(self.path))
            ledger = self.open()
            ledger.delete([name])
            ledger.close()

    def test_what_version_2_knew_is_there(self) -> None:
        shutil.copy(VERSION_2, self.path)
        before = dump(str(VERSION_2))

        entries = self.open().list_entries()

        self.assertEqual(SERVERS, sorted(entries))
        self.assertEqual(
            {assignment.Purpose.OWN}, {o.purpose for o in entries.values()}
        )
        after = dump(self.path)
        self.assertEqual((2, 3), (before['version'], after['version']))
        for name in ('assignment', 'published', 'published_trait'):
            self.assertEqual(before[name], after[name])
        self.assertEqual(
            [(*row, 'own') for row in before['entry'][2]], after['entry'][2]
        )

    def test_a_ledger_in_use_does_not_go_back(self) -> None:
        self.open()

        self.assertRaises(
            exception.LedgerInUse, ledger_mod.downgrade, self.path
        )


class ReaderTest(LedgerTestCase):
    """Reading beside the process that writes."""

    def test_a_reader_sees_each_change(self) -> None:
        ledger = self.open()
        ledger.put(make_entry())
        self.assertEqual(
            {uuidsentinel.server: make_entry()},
            ledgers.read_entries(self.path),
        )

        ledger.delete([uuidsentinel.server])

        self.assertEqual({}, ledgers.read_entries(self.path))

    def test_a_reader_in_the_middle_stops_no_start_and_no_write(self) -> None:
        self.open().close()
        uri = f'file:{self.path}?mode=ro'
        with contextlib.closing(
            sqlite3.connect(uri, uri=True, isolation_level=None)
        ) as reader:
            reader.execute('BEGIN')
            reader.execute('SELECT * FROM entry').fetchall()

            ledger = self.open()
            ledger._db.execute('PRAGMA busy_timeout = 0')
            ledger.put(make_entry())

            self.assertEqual(
                [], reader.execute('SELECT * FROM entry').fetchall()
            )
        self.assertEqual([uuidsentinel.server], list(ledger.list_entries()))


class ModesTest(LedgerTestCase):
    """Other users see nothing of the ledger."""

    def setUp(self) -> None:
        super().setUp()
        before = os.umask(0)
        self.addCleanup(os.umask, before)

    def find_mode(self, path: str) -> int:
        return stat.S_IMODE(os.stat(path).st_mode)

    def list_modes(self) -> dict[str, int]:
        folder = os.path.dirname(self.path)
        return {
            name: self.find_mode(os.path.join(folder, name))
            for name in os.listdir(folder)
        }

    def test_new_files_are_for_their_owner_alone(self) -> None:
        self.path = os.path.join(self.folder, 'new', 'ledger.sqlite')

        self.open().put(make_entry())

        names = [f'ledger.sqlite{one}' for one in ('', '-shm', '-wal')]
        self.assertEqual(
            dict.fromkeys([*names, 'ledger.sqlite.lock'], 0o600),
            self.list_modes(),
        )
        self.assertEqual(0o750, self.find_mode(os.path.dirname(self.path)))

    def test_older_files_are_closed_to_others_with_a_line(self) -> None:
        folder = os.path.join(self.folder, 'ext_resources')
        os.mkdir(folder)
        self.path = os.path.join(folder, 'ledger.sqlite')
        shutil.copy(VERSION_1, self.path)
        for suffix in ('', '-wal', '.lock'):
            with open(f'{self.path}{suffix}', 'a') as file:
                os.chmod(file.fileno(), 0o644)

        with self.assertLogs(ledger_mod.__name__, logging.INFO) as logs:
            self.open()

        self.assertEqual({0o600}, set(self.list_modes().values()))
        self.assertEqual(0o750, self.find_mode(folder))
        for word in (self.path, 'from 0644 to 0600'):
            self.assertIn(word, '\n'.join(logs.output))

    def test_a_folder_of_other_software_is_left_as_it_is(self) -> None:
        os.chmod(self.folder, 0o755)

        self.open()

        self.assertEqual(0o755, self.find_mode(self.folder))

    def test_nothing_is_allowed_that_was_not(self) -> None:
        folder = os.path.join(self.folder, 'ext_resources')
        os.mkdir(folder, mode=0o705)
        self.path = os.path.join(folder, 'ledger.sqlite')

        self.open()

        self.assertEqual(0o700, self.find_mode(folder))
