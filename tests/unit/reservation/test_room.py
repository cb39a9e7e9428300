# SPDX-License-Identifier: Apache-2.0

"""Tests of the CPUs that are chosen for a server of several NUMA cells."""

import itertools

from nova_ext_resources.reservation import future as future_mod
from nova_ext_resources.reservation import room
from tests import base
from tests.unit import builders


class CpusTest(base.TestCase):
    def list_cpus(
        self, cells: list[set[int]], sizes: list[int]
    ) -> list[frozenset[int]]:
        future = future_mod.Future(
            view=builders.make_view(), cells=tuple(map(frozenset, cells))
        )
        return [*itertools.islice(room.list_cpus(future, sizes), 64)]

    def test_each_choice_comes_once(self) -> None:
        cells = [{100, 101}, {102, 103}, {104}]

        self.assertEqual([{100, 101, 102, 103}], self.list_cpus(cells, [2, 2]))
        self.assertEqual(
            [{100, 102}, {100, 104}, {102, 104}],
            self.list_cpus(cells, [1, 1]),
        )

    def test_cells_that_are_full_take_no_time(self) -> None:
        cells = [{number} for number in range(100, 130)]

        self.assertEqual([], self.list_cpus(cells, [2] * 15))

        many = self.list_cpus([*cells, {200, 201}, {202, 203}], [2, 2])
        self.assertEqual([{200, 201, 202, 203}], many)

    def test_more_cells_than_there_are(self) -> None:
        self.assertEqual([], self.list_cpus([{100}, {101}], [1] * 9999))
