# SPDX-License-Identifier: Apache-2.0

"""How many guests run at a time."""

import os
import pathlib

import fixtures

from dev.kernel import plan
from dev.kernel import room
from tests import base


class RoomTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.meminfo = folder / 'meminfo'
        self.jobs = [plan.Job(series='6.12')] * 6

    def count(self, *, cpus: int, mebibytes: int) -> int:
        self.meminfo.write_text(
            'MemTotal:       99999999 kB\n'
            'MemFree:          100000 kB\n'
            f'MemAvailable:   {mebibytes * 1024} kB\n'
        )
        with fixtures.MonkeyPatch(
            'os.sched_getaffinity', lambda _pid: set(range(cpus))
        ):
            return room.count_guests(self.jobs, self.meminfo)

    def test_each_takes_a_cpu(self) -> None:
        self.assertEqual(2, self.count(cpus=2, mebibytes=65536))

    def test_each_takes_its_memory_and_that_of_its_emulator(self) -> None:
        # A guest with 3 GiB.
        self.assertEqual(3, self.count(cpus=8, mebibytes=3 * 4096))
        self.assertEqual(2, self.count(cpus=8, mebibytes=3 * 4096 - 1))

    def test_as_many_as_there_are_do(self) -> None:
        self.assertEqual(6, self.count(cpus=64, mebibytes=1 << 20))

    def test_the_largest_of_them_counts(self) -> None:
        self.jobs[0] = plan.Job(series='6.12', machine='epyc16')

        self.assertEqual(2, self.count(cpus=8, mebibytes=3 * 4096))

    def test_one_always_runs(self) -> None:
        self.assertEqual(1, self.count(cpus=8, mebibytes=100))

    def test_this_machine_says_what_it_has(self) -> None:
        self.assertIn(
            room.count_guests(self.jobs),
            range(1, len(os.sched_getaffinity(0)) + 1),
        )
