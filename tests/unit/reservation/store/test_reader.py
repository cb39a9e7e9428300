# SPDX-License-Identifier: Apache-2.0

"""Tests of what follows the store when it cannot be read."""

from unittest import mock

import fixtures

from nova_ext_resources import exception
from nova_ext_resources.reservation import promise_ledger
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import history
from nova_ext_resources.reservation.store import reader
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import slots
from nova_ext_resources.reservation.store import tables
from tests.unit.reservation import hosts
from tests.unit.reservation.store import stores


class ReaderTest(stores.StoreTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.database = databases.Database(self.url)
        self.admission = stores.make_admission(self.url)
        self.promises = promise_ledger.Promises()
        self.reader = reader.Reader(self.promises)

    def read(self, oldest: int = 0) -> None:
        with self.database.transaction() as connection:
            self.reader.refresh(connection, oldest)

    def find_peak(self) -> int:
        return self.promises.find_peak(('a', 'VCPU'), 0, 100)

    def test_a_failure_half_way_leaves_all_as_it_was(self) -> None:
        self.admit(self.admission, 'lease', hosts.span(5, 9))
        self.read()
        revisions = self.reader.revisions
        self.admit(self.admission, 'other', hosts.span(5, 9))
        err = exception.StoreUnavailable(reason='away')

        for oldest in (0, -1):
            with mock.patch.object(servers, 'read_servers', side_effect=err):
                self.assertRaises(
                    exception.StoreUnavailable, self.read, oldest
                )

            self.assertEqual(4, self.find_peak())
            self.assertEqual(revisions, self.reader.revisions)
        self.read()
        self.assertEqual(8, self.find_peak())

    def test_a_clock_that_is_set_back_brings_back_what_had_ended(
        self,
    ) -> None:
        self.admit(self.admission, 'lease', hosts.span(5, 9))
        self.read()
        self.read(9)
        self.assertEqual(0, self.find_peak())

        self.read(8)

        self.assertEqual(4, self.find_peak())

    def test_what_is_taken_and_freed_is_followed(self) -> None:
        self.admit(self.admission, 'lease', hosts.span(5, 9))
        self.read()

        taken = slots.take(
            self.database, 'lease', 'one', lambda held: held[0], now=-100
        )
        self.read()
        self.assertEqual(0, self.find_peak())
        assert taken is not None
        self.assertEqual(('lease', taken), self.promises.find_taken('one'))

        slots.free(self.database, 'lease', taken)
        self.read()
        self.assertEqual(4, self.find_peak())
        self.assertIsNone(self.promises.find_taken('one'))


class ThreadsTest(stores.StoreTestCase):
    """What several threads read at once is taken in any order."""

    def setUp(self) -> None:
        super().setUp()
        self.database = databases.Database(self.url)
        self.admission = stores.make_admission(self.url)
        self.promises = promise_ledger.Promises()
        self.reader = reader.Reader(self.promises)

    def fetch(self, oldest: int = 0, slack: int = 0) -> reader.Changes:
        with self.database.transaction() as connection:
            return self.reader.fetch(connection, oldest, slack)

    def find_peak(self) -> int:
        return self.promises.find_peak(('a', 'VCPU'), 0, 100)

    def test_to_read_changes_nothing(self) -> None:
        self.admit(self.admission, 'lease', hosts.span(5, 9))

        changes = self.fetch()

        self.assertEqual(0, self.find_peak())
        self.assertTrue(self.reader.apply(changes))
        self.assertEqual(4, self.find_peak())

    def test_what_is_older_changes_nothing(self) -> None:
        self.reader.apply(self.fetch())
        self.admit(self.admission, 'lease', hosts.span(5, 9))
        early = self.fetch()
        slots.take(
            self.database, 'lease', 'one', lambda held: held[0], now=-100
        )
        late = self.fetch()

        self.assertTrue(self.reader.apply(late))
        self.assertTrue(self.reader.apply(early))

        self.assertIsNotNone(self.promises.find_taken('one'))
        self.assertEqual(late.revisions, self.reader.revisions)

    def test_what_is_newer_is_taken_though_another_was_faster(self) -> None:
        self.reader.apply(self.fetch())
        self.admit(self.admission, 'lease', hosts.span(5, 9))
        early = self.fetch()
        self.admit(self.admission, 'other', hosts.span(5, 9))
        late = self.fetch()

        self.assertTrue(self.reader.apply(early))
        self.assertTrue(self.reader.apply(late))

        self.assertEqual(8, self.find_peak())

    def test_what_was_read_as_a_whole_is_read_again(self) -> None:
        """What was released meanwhile is not in it."""
        self.admit(self.admission, 'lease', hosts.span(5, 9))
        first, second = self.fetch(), self.fetch()
        self.admit(self.admission, 'other', hosts.span(5, 9))
        third = self.fetch()

        self.assertTrue(self.reader.apply(first))
        self.assertFalse(self.reader.apply(second))
        self.assertFalse(self.reader.apply(third))
        self.assertEqual(4, self.find_peak())
        self.assertTrue(self.reader.apply(self.fetch()))
        self.assertEqual(8, self.find_peak())

    def test_who_has_read_the_clock_earlier_reads_nothing_anew(self) -> None:
        self.admit(self.admission, 'lease', hosts.span(5, 900))
        self.reader.apply(self.fetch(0, 100))
        self.reader.apply(self.fetch(200, 100))

        for oldest in (100, 199):
            changes = self.fetch(oldest, 100)
            self.assertFalse(changes.is_whole)
            self.assertEqual(200, changes.oldest)

        self.assertTrue(self.fetch(99, 100).is_whole)


class RestoredTest(stores.StoreTestCase):
    """The database is restored from a copy under a running program."""

    def setUp(self) -> None:
        super().setUp()
        self.database = databases.Database(self.url)
        self.promises = promise_ledger.Promises()
        self.reader = reader.Reader(self.promises)
        self.log = self.useFixture(fixtures.FakeLogger())
        self.write('early')
        self.copy = stores.dump(self.url)
        self.write('later')
        self.read()

    def write(self, key: str) -> None:
        self.admit(stores.make_admission(self.url), key, hosts.span(5, 9))

    def read(self) -> None:
        with self.database.transaction() as connection:
            self.reader.refresh(connection, 0)

    def restore(self) -> None:
        with self.database.transaction() as connection:
            for table in reversed(tables.METADATA.sorted_tables):
                connection.execute(table.delete())
            for table in tables.METADATA.sorted_tables:
                if rows := self.copy[table.name]:
                    connection.execute(
                        table.insert(), [one._asdict() for one in rows]
                    )

    def check(self) -> None:
        """Check that all is as whoever begins anew reads it."""
        promises = promise_ledger.Promises()
        with self.database.transaction() as connection:
            reader.Reader(promises).refresh(connection, 0)
        self.read()
        self.assertEqual(
            promises.find_peak(('a', 'VCPU'), 0, 100),
            self.promises.find_peak(('a', 'VCPU'), 0, 100),
        )
        for _again in range(2):
            self.assertEqual(1, self.log.output.count('all data is read anew'))
            self.read()

    def test_before_anything_is_written(self) -> None:
        self.restore()

        self.check()

    def test_after_other_writes_with_higher_revisions(self) -> None:
        self.restore()
        longest = 2**24 - 1
        self.useFixture(
            fixtures.MonkeyPatch('secrets.randbelow', lambda _most: longest)
        )
        self.write('other')
        stores.make_admission(self.url).change(
            'early', state.State.CANCELLED, now=0, reason='not needed'
        )

        self.check()

    def test_after_as_many_other_writes(self) -> None:
        self.restore()
        self.write('other')

        self.check()

    def test_with_a_row_of_history_from_while_it_was_restored(self) -> None:
        self.restore()
        with self.database.transaction() as connection:
            seen = {
                number: revision
                for number, revision in self.reader.revisions.items()
                if not history.has_had(connection, {number: revision})
            }
            history.add(connection, seen)

        self.check()

    def test_a_lagging_server_is_noticed_each_way(self) -> None:
        ahead = stores.dump(self.url)
        self.restore()
        self.check()

        self.copy = ahead
        self.restore()
        self.read()

        self.assertEqual(8, self.promises.find_peak(('a', 'VCPU'), 0, 100))


class OldestTest(stores.StoreTestCase):
    def test_a_clock_that_goes_back_a_little_changes_nothing(self) -> None:
        choose = reader.choose_oldest

        self.assertEqual(900, choose(0, 1000, 100))
        self.assertEqual(900, choose(900, 950, 100))
        self.assertEqual(799, choose(900, 899, 100))
