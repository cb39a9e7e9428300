# SPDX-License-Identifier: Apache-2.0

"""Traps of RMD that were found later, with the real libpqos below it."""

import contextlib

import fixtures

from nova_ext_resources.drivers.rmd.api import errors
from nova_ext_resources.drivers.rmd.api import odds
from nova_ext_resources.drivers.rmd.api import values
from nova_ext_resources.drivers.rmd.api import verify
from tests import base
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


class OddsTest(LaterTrapTestCase):
    """How often RMD is right is drawn for each pool when it starts."""

    SETTINGS = {'has_cache_mixup': True, 'seed': 1}  # noqa: RUF012

    def place_many(self, odds: float, count: int = 30) -> None:
        self.simulator.daemon.resctrl.mixup_odds = odds
        for number in range(count):
            uuid = with_simulator.make_uuid()
            # Twelve misses in a row are rare, but possible.
            with contextlib.suppress(errors.NotEnforced):
                verify.place_workload(
                    self.client,
                    with_simulator.make_request(uuid, 1 + number % 2),
                )
                self.client.delete_workload(uuid)

    def test_trap_18_a_bad_pool_is_noticed_until_it_is_better(self) -> None:
        self.place_many(0.72)
        self.assertEqual({}, self.client.odds.list_bad())

        self.place_many(0.27, 12)
        ((pool, (misses, tries)),) = self.client.odds.list_bad().items()
        self.assertEqual((values.GUARANTEED, 24), (pool, tries))
        self.assertGreater(misses, 14)

        self.place_many(0.72)
        self.assertEqual({}, self.client.odds.list_bad())


class SingleCacheTest(LaterTrapTestCase):
    SETTINGS = {'sockets': 1, 'cpus': 24}  # noqa: RUF012

    def test_trap_18_one_cache_has_no_odds(self) -> None:
        add = self.useFixture(fixtures.MockPatchObject(odds.Odds, 'add')).mock

        self.place(1)

        add.assert_not_called()


class MeasureTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.odds = odds.Odds()

    def add(self, misses: int, hits: int) -> None:
        for is_miss in [True] * misses + [False] * hits:
            self.odds.add('p', is_miss=is_miss)

    def test_fifteen_of_the_last_attempts_are_bad(self) -> None:
        self.add(14, 0)
        self.assertEqual({}, self.odds.list_bad())

        self.add(1, 0)
        self.assertEqual({'p': (15, 15)}, self.odds.list_bad())

    def test_what_was_long_ago_is_forgotten(self) -> None:
        self.add(15, 9)
        self.assertEqual({'p': (15, 24)}, self.odds.list_bad())

        self.add(0, 1)
        self.assertEqual({}, self.odds.list_bad())

    def test_pools_are_told_apart(self) -> None:
        self.add(14, 0)
        self.odds.add('q', is_miss=True)

        self.assertEqual({}, self.odds.list_bad())
