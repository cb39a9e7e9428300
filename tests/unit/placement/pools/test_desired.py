# SPDX-License-Identifier: Apache-2.0

"""What placement shall have of a pool."""

from collections.abc import Mapping
import datetime
from typing import Any

import hypothesis
from hypothesis import strategies as st

from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects.documents import foreign_data
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import pool as pool_obj
from nova_ext_resources.placement.pools import desired
from tests import base
from tests.unit import strategies  # noqa: F401

CLASS = 'CUSTOM_X'
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def make_pool(
    others_use: str = pool_obj.NOT_ALLOCATED, **rules: Any
) -> pool_obj.SharedPool:
    return pool_obj.SharedPool(
        name='a', resource_class=CLASS, others_use=others_use, rules=rules
    )


def make_seen(
    **inventories: class_inventory.Inventory,
) -> host_provider.Provider:
    return host_provider.Provider(
        rp_uuid=make_pool().rp_uuid,
        name='POOL_a',
        inventories=inventories,
        generation=3,
    )


class PoolTargetTest(base.TestCase):
    def make(
        self,
        numbers: Mapping[str, Any],
        used: int = 0,
        seen: int = 0,
        **rules: Any,
    ) -> tuple[int, int, bool]:
        """Return total, reserved, and whether there is a problem."""
        pool = make_pool(**rules)
        reading = pool_obj.Reading(read_at=NOW, **numbers)
        before = (
            make_seen(CUSTOM_X=class_inventory.Inventory(total=seen))
            if seen
            else make_seen()
        )
        settled = desired.settle(pool, reading, used)
        target = desired.make_target(pool, settled, before, {CLASS: used})
        one = target.inventories[CLASS]
        self.assertGreaterEqual(one.capacity, used)
        problem = desired.find_problem(pool, reading, used)
        return one.total, one.reserved, problem is not None

    def test_reserved_is_what_others_use(self) -> None:
        for numbers, used, expected in (
            ({'total': 100}, 0, (100, 0, False)),
            ({'total': 100, 'free': 100}, 0, (100, 0, False)),
            ({'total': 100, 'free': 30}, 50, (100, 20, False)),
            # Servers have not written all that is theirs.
            ({'total': 100, 'free': 90}, 50, (100, 0, False)),
            ({'total': 100, 'free': 0}, 50, (100, 50, False)),
            ({'total': 100, 'reserved': 20}, 50, (100, 20, False)),
            ({'total': 100, 'free': 0}, 0, (100, 100, False)),
        ):
            with self.subTest(numbers=numbers, used=used):
                self.assertEqual(expected, self.make(numbers, used))

    def test_what_others_have_is_not_offered_to_thin_servers(self) -> None:
        # Others have 60 of 100. Servers get 20 each, and write nothing yet.
        reading = pool_obj.Reading(total=100, free=40, read_at=NOW)
        pool = pool_obj.SharedPool(name='a', resource_class=CLASS)
        used, sold = 0, []

        for _server in range(5):
            target = desired.make_target(
                pool,
                desired.settle(pool, reading, used),
                make_seen(),
                {CLASS: used},
            )
            if target.inventories[CLASS].capacity - used < 20:
                break
            used += 20
            sold.append(used)

        self.assertEqual([20, 40], sold)
        self.assertIsNone(desired.find_problem(pool, reading, used))

    def test_by_default_all_that_is_not_free_is_that_of_others(self) -> None:
        for free, used, expected in (
            (40, 0, (100, 60, False)),
            (30, 50, (100, 50, False)),
            (0, 40, (100, 60, False)),
        ):
            with self.subTest(free=free, used=used):
                self.assertEqual(
                    expected,
                    self.make(
                        {'total': 100, 'free': free},
                        used,
                        others_use=pool_obj.NOT_FREE,
                    ),
                )

    def test_the_operator_may_say_what_others_use(self) -> None:
        for free, used, expected in (
            (40, 0, (100, 60, False)),
            (10, 40, (100, 60, False)),
            # Whoever fills it.
            (9, 40, (100, 60, True)),
        ):
            with self.subTest(free=free, used=used):
                self.assertEqual(
                    expected,
                    self.make(
                        {'total': 100, 'free': free},
                        used,
                        others_use=pool_obj.RESERVED,
                        reserved=60,
                    ),
                )

    def test_it_is_never_below_what_servers_hold(self) -> None:
        for numbers, used, seen, expected in (
            ({'total': 40}, 50, 100, (100, 50, True)),
            # Not even the last total is enough, or none is known.
            ({'total': 40}, 50, 45, (50, 0, True)),
            ({'total': 40}, 50, 0, (50, 0, True)),
            ({'total': 100, 'reserved': 60}, 50, 100, (100, 50, True)),
            ({'total': 100, 'reserved': 50}, 50, 100, (100, 50, False)),
        ):
            with self.subTest(numbers=numbers, used=used, seen=seen):
                self.assertEqual(expected, self.make(numbers, used, seen))

    def test_what_the_operator_reserves_is_added(self) -> None:
        for numbers, used, expected in (
            ({'total': 100, 'free': 30}, 50, (100, 30, False)),
            ({'total': 100, 'free': 5}, 0, (100, 100, False)),
        ):
            self.assertEqual(expected, self.make(numbers, used, reserved=10))

    def test_with_a_ratio(self) -> None:
        for total, used, expected in (
            (100, 150, (100, 0, False)),
            (70, 150, (100, 25, True)),
            (70, 151, (100, 24, True)),
        ):
            self.assertEqual(
                expected,
                self.make({'total': total}, used, 100, allocation_ratio=2.0),
            )

    def test_rules_are_those_of_the_inventory(self) -> None:
        pool = make_pool(min_unit=5, step_size=5)
        reading = pool_obj.Reading(total=2, read_at=NOW)

        target = desired.make_target(pool, reading, make_seen(), {})

        self.assertEqual(
            class_inventory.Inventory(
                total=2, min_unit=5, max_unit=5, step_size=5
            ),
            target.inventories[CLASS],
        )

    def test_what_others_have_added_stays(self) -> None:
        seen = host_provider.Provider(
            rp_uuid=make_pool().rp_uuid,
            name='POOL_a',
            traits=frozenset({'CUSTOM_ADDED'}),
            aggregates=frozenset({'added'}),
        )
        reading = pool_obj.Reading(total=2, read_at=NOW)

        target = desired.make_target(make_pool(), reading, seen, {})

        self.assertEqual(
            make_pool().all_traits | {'CUSTOM_ADDED'}, target.traits
        )
        self.assertEqual(
            {make_pool().aggregate_uuid, 'added'}, target.aggregates
        )


class ImpossibleTest(base.TestCase):
    """Numbers of one pool that no inventory can have."""

    @hypothesis.given(
        ratio=st.floats(
            min_value=foreign_data.MIN_RATIO, max_value=foreign_data.MAX_RATIO
        ),
        total=st.integers(min_value=1, max_value=class_inventory.MAX_INT),
        used=st.integers(min_value=0, max_value=10**13),
        reserved=st.integers(min_value=0, max_value=class_inventory.MAX_INT),
    )
    @hypothesis.example(ratio=1e-9, total=100, used=10, reserved=0)
    @hypothesis.example(
        ratio=foreign_data.MIN_RATIO, total=1, used=10**13, reserved=0
    )
    def test_no_more_is_allocated_and_it_is_reported(
        self, ratio: float, total: int, used: int, reserved: int
    ) -> None:
        pool = make_pool(allocation_ratio=ratio, reserved=reserved)
        reading = pool_obj.Reading(total=total, free=total, read_at=NOW)
        seen = make_seen(CUSTOM_X=class_inventory.Inventory(total=total))
        settled = desired.settle(pool, reading, used)

        target = desired.make_target(pool, settled, seen, {CLASS: used})

        one = target.inventories[CLASS]
        problem = desired.find_problem(pool, reading, used)
        if one.capacity < used:
            self.assertEqual(class_inventory.MAX_INT, one.total)
            self.assertIsNotNone(problem)
