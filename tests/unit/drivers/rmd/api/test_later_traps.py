# SPDX-License-Identifier: Apache-2.0

"""Traps of RMD that were found later, with the real libpqos below it."""

from nova_ext_resources.drivers.rmd.api import errors
from nova_ext_resources.drivers.rmd.api import verify
from tests.unit.drivers.rmd.api import with_simulator


class LaterTrapTestCase(with_simulator.RmdTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.uuid = with_simulator.make_uuid()

    def place(self, *core_ids: int, **fields: int) -> dict[int, int]:
        return verify.place_workload(
            self.client,
            with_simulator.make_request(
                with_simulator.make_uuid(), *core_ids, **fields
            ),
        )

    def count_classes(self) -> int:
        """Return how many classes of service RMD can still give."""
        return len(self.simulator.daemon.enforcement.classes.free)


class LibpqosTest(LaterTrapTestCase):
    def test_trap_17_a_class_is_lost_with_an_attempt_so_there_is_one(
        self,
    ) -> None:
        self.simulator.lie()

        err = self.assertRaises(errors.NotEnforced, self.place, 1)

        self.assertEqual(['POST', 'DELETE'], self.changes())
        self.assertEqual(5, self.count_classes())
        for words in ('cache 0 gave ways 0x0', 'libpqos', 'restart RMD'):
            self.assertIn(words, str(err))

    def test_trap_17_so_are_those_of_the_shared_pool(self) -> None:
        self.client = self.make_client(shared_servers=2)
        self.simulator.lie()

        self.assertRaises(
            errors.NotEnforced, self.place, 1, max_ways=0, min_ways=0
        )

        self.assertEqual(['POST', 'DELETE'], self.changes())


class WrongCacheTest(LaterTrapTestCase):
    SETTINGS = {'has_cache_mixup': True, 'seed': 1}  # noqa: RUF012

    def test_trap_17_the_wrong_cache_is_tried_again_and_costs_nothing(
        self,
    ) -> None:
        for core in (1, 13, 2, 14, 3, 15):
            self.place(core, ways=1)

        self.assertIn('DELETE', self.changes())
        self.assertEqual(0, self.count_classes())
