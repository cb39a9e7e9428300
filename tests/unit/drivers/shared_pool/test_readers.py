# SPDX-License-Identifier: Apache-2.0

"""Readers of pools, and sources that hang."""

import datetime
import os
import pathlib
import threading
import time

import fixtures

from nova_ext_resources.drivers.shared_pool import pool_file
from nova_ext_resources.drivers.shared_pool import readers
from nova_ext_resources.drivers.shared_pool import sources
from nova_ext_resources.objects import pool
from nova_ext_resources.testing import fake_clock
from tests import base

PATIENCE = 60.0
INTERVAL = 30.0


class ReaderTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.path = pathlib.Path(self.make_folder(), 'pool.json')
        self.now = 0.0
        self.clock = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

    def make_reader(
        self, max_age: int | None = None, others_use: str = pool.NOT_FREE
    ) -> readers.PoolReader:
        return readers.PoolReader(
            pool_file.Definition(
                pool=pool.SharedPool(
                    name='rack1',
                    resource_class='CUSTOM_X',
                    others_use=others_use,
                ),
                source='file',
                location=str(self.path),
                unit_size=1,
                max_age=max_age,
            ),
            sources.Source(kind='file', location=str(self.path), unit_size=1),
            interval=INTERVAL,
            clock=fake_clock.FakeClock(lambda: self.now, lambda: self.clock),
        )

    def write(self, total: int) -> None:
        self.path.write_text(f'{{"total": {total}}}')

    def read(self, reader: readers.PoolReader) -> readers.PoolState:
        reader.start()
        reader.wait(self.now + PATIENCE)
        return reader.find_state()

    def find_total(self, state: readers.PoolState) -> int:
        assert state.reading is not None
        return state.reading.total

    def test_it_reads_again_after_the_interval(self) -> None:
        self.write(1)
        reader = self.make_reader()
        self.assertEqual(1, self.find_total(self.read(reader)))
        self.write(2)

        self.now = INTERVAL * 0.84
        self.assertEqual(1, self.find_total(self.read(reader)))
        self.now = INTERVAL * 0.9
        self.assertEqual(2, self.find_total(self.read(reader)))

    def test_one_that_could_not_be_started_is_started_next(self) -> None:
        def fail(_thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        self.write(1)
        reader = self.make_reader()
        with fixtures.MonkeyPatch('threading.Thread.start', fail):
            self.assertRaises(RuntimeError, reader.start)
        reader.wait(PATIENCE)

        self.assertEqual(1, self.find_total(self.read(reader)))

    def test_a_failure_keeps_the_last_good_value(self) -> None:
        self.write(1)
        reader = self.make_reader()
        self.read(reader)
        self.path.unlink()

        self.now += INTERVAL
        state = self.read(reader)
        self.assertEqual(1, self.find_total(state))
        self.assertIn('No such file', state.failure)

        self.write(2)
        self.now += INTERVAL
        self.assertEqual('', self.read(reader).failure)

    def test_a_failure_at_the_start_has_no_value(self) -> None:
        state = self.read(self.make_reader())

        self.assertIsNone(state.reading)
        self.assertNotEqual('', state.failure)

    def test_one_that_hangs_is_not_read_twice(self) -> None:
        self.write(1)
        reader = self.make_reader()
        self.read(reader)
        self.path.unlink()
        os.mkfifo(self.path)
        self.now += INTERVAL
        reader.start()
        hanging = reader._thread
        self.assertTrue(reader.is_working)

        self.now += INTERVAL
        reader.start()

        self.assertIs(hanging, reader._thread)
        state = reader.find_state()
        self.assertEqual(1, self.find_total(state))
        self.assertIn('not answered since 2026-01-01', state.failure)

        # It comes back.
        with open(self.path, 'w') as file:
            file.write('{"total": 2}')
        reader.wait(self.now + PATIENCE)
        state = reader.find_state()
        self.assertEqual((2, ''), (self.find_total(state), state.failure))

    def test_an_old_file_is_used_and_told(self) -> None:
        self.write(1)
        os.utime(self.path, (time.time(), self.clock.timestamp()))
        reader = self.make_reader(max_age=100)
        self.clock += datetime.timedelta(seconds=100)
        self.assertEqual('', self.read(reader).failure)

        # However the clock is set.
        self.clock -= datetime.timedelta(hours=1)
        self.now += 1
        state = reader.find_state()

        self.assertEqual(1, self.find_total(state))
        self.assertIn('max_age', state.failure)

    def test_a_document_without_a_time_is_used_where_that_is_enough(
        self,
    ) -> None:
        for text, fields, key in (
            ('{"total": 2, "free": 1}', {}, ''),
            ('{"total": 2, "free": 1}', {'max_age': 100}, 'max_age'),
            (
                '{"total": 2, "free": 1}',
                {'others_use': pool.NOT_ALLOCATED},
                'others_use not_allocated',
            ),
            (
                '{"total": 2, "reserved": 1}',
                {'others_use': pool.NOT_ALLOCATED},
                '',
            ),
        ):
            with self.subTest(text=text, fields=fields):
                self.path.write_text(text)
                # In the future: that is none.
                os.utime(self.path, (time.time() + 90000,) * 2)

                state = self.read(self.make_reader(**fields))

                self.assertEqual(bool(key), state.reading is None)
                self.assertIn(key, state.failure)
                self.assertEqual(bool(key), 'needs the time' in state.failure)

    def test_a_bug_in_a_source_is_a_failure_too(self) -> None:
        reader = readers.PoolReader(
            self.make_reader().definition,
            sources.Source(kind='none', location='', unit_size=1),
            interval=INTERVAL,
            clock=fake_clock.FakeClock(lambda: self.now),
        )

        self.assertIn('KeyError', self.read(reader).failure)
