# SPDX-License-Identifier: Apache-2.0

from nova_ext_resources import debounce
from nova_ext_resources.testing import fake_clock
from tests import base


class DebounceTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.now = 0.0

    def make_debounce(
        self, confirmations: int = 1, age: float = 0.0
    ) -> debounce.Debounce[str, int]:
        return debounce.Debounce(
            confirmations=confirmations,
            age=age,
            clock=fake_clock.FakeClock(lambda: self.now),
        )

    def test_one_look_is_believed_where_nothing_else_is_wanted(self) -> None:
        made = debounce.Debounce[str, int]()

        self.assertEqual({'a': 1}, made.observe({'a': 1}))

    def test_what_lasts_was_the_same_in_enough_looks_in_a_row(self) -> None:
        # What each look sees, and whether that lasts by two or three of them.
        rows: tuple[tuple[dict[str, int], set[str], set[str]], ...] = (
            ({'a': 1}, set(), set()),
            ({'a': 1, 'b': 1}, {'a'}, set()),
            ({'a': 1, 'b': 1}, {'a', 'b'}, {'a'}),
            ({'a': 2, 'b': 1}, {'b'}, {'b'}),
            ({'a': 2}, {'a'}, set()),
            ({'b': 1}, set(), set()),
            ({'a': 2, 'b': 1}, {'b'}, set()),
            ({}, set(), set()),
            ({'b': 1}, set(), set()),
        )
        two, three = self.make_debounce(2), self.make_debounce(3)

        for number, (seen, by_two, by_three) in enumerate(rows):
            with self.subTest(number):
                self.assertEqual(
                    {key: seen[key] for key in by_two}, two.observe(seen)
                )
                self.assertEqual(
                    {key: seen[key] for key in by_three}, three.observe(seen)
                )

    def test_what_lasts_is_as_old_as_is_wanted(self) -> None:
        made = self.make_debounce(age=60.0)

        for now, value, expected in (
            (0.0, 1, False),
            (59.9, 1, False),
            (60.0, 1, True),
            (61.0, 2, False),
            (120.9, 2, False),
            (121.0, 2, True),
        ):
            with self.subTest(now):
                self.now = now
                self.assertIs(expected, 'a' in made.observe({'a': value}))

    def test_age_and_confirmations_are_both_needed(self) -> None:
        made = self.make_debounce(confirmations=3, age=10.0)

        for now, expected in (
            (0.0, False),
            (20.0, False),
            (20.0, True),
        ):
            with self.subTest(now):
                self.now = now
                self.assertIs(expected, bool(made.observe({'a': 1})))

    def test_a_look_that_says_nothing_changes_nothing(self) -> None:
        made = self.make_debounce(confirmations=2, age=10.0)
        made.observe({'a': 1, 'b': 1})
        self.now = 10.0

        lasting = made.observe({'b': 1}, lambda key, _value: key == 'a')
        self.assertEqual({'b': 1}, lasting)

        # The look did not confirm it, however much later that was.
        self.now = 99.0
        lasting = made.observe({}, lambda _key, _value: True)
        self.assertEqual({'b': 1}, lasting)
        self.assertEqual({'a': 1}, made.observe({'a': 1}))

    def test_what_no_look_has_seen_since_does_not_grow_older(self) -> None:
        made = self.make_debounce(age=10.0)
        made.observe({'a': 1})
        self.now = 99.0

        self.assertEqual({}, made.observe({}, lambda _key, _value: True))

        self.assertEqual({'a': 1}, made.observe({'a': 1}))

    def test_what_a_look_says_nothing_of_may_depend_on_it(self) -> None:
        made = self.make_debounce()
        made.observe({'a': 1, 'b': 2})

        self.assertEqual({'b': 2}, made.observe({}, lambda _, one: one > 1))
