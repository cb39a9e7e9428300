# SPDX-License-Identifier: Apache-2.0

from typing import Any

from nova_ext_resources import log_on_change
from tests import base


class LogOnChangeTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.logged = log_on_change.LogOnChange()

    def test_what_is_wrong_is_logged_when_it_is_new(self) -> None:
        # What is noted in turn, and which of it is to be logged.
        for noted, expected in (
            ('', ''),
            ('a', 'a'),
            ('aaa', 'a'),
            ('aab', 'ab'),
            ('aba', 'aba'),
            ('a a', 'aa'),
            ('  a', 'a'),
        ):
            with self.subTest(noted):
                logged = log_on_change.LogOnChange()

                found = [one for one in noted if logged.note(one.strip())]

                self.assertEqual(expected, ''.join(found))

    def test_each_subject_is_noted_for_itself(self) -> None:
        for subject, problem, expected in (
            ('a', 'full', True),
            ('b', 'full', True),
            ('a', 'full', False),
            ('b', 'gone', True),
            ('a', '', False),
            ('b', 'gone', False),
            ('a', 'full', True),
        ):
            with self.subTest(f'{subject}: {problem}'):
                self.assertIs(expected, self.logged.note(problem, subject))

        self.assertEqual({'a': 'full', 'b': 'gone'}, self.logged.problems)

    def test_a_recovery_is_noted_once(self) -> None:
        self.logged.note('full', 'a')
        self.logged.note('full', 'b')

        self.assertTrue(self.logged.clear('a'))
        self.assertFalse(self.logged.clear('a'))
        self.assertEqual({'b': 'full'}, self.logged.problems)

    def test_of_all_that_is_wrong_only_what_is_new_is_returned(self) -> None:
        for found, expected in (
            ('ab', 'ab'),
            ('ba', ''),
            ('abc', 'c'),
            ('b', ''),
            ('aab', 'a'),
            ('', ''),
            ('b', 'b'),
        ):
            with self.subTest(found):
                self.assertEqual([*expected], self.logged.list_new(found))

    def test_two_with_the_same_key_are_the_same(self) -> None:
        def get_name(one: tuple[str, int]) -> str:
            return one[0]

        for found, expected in (
            ([('a', 1)], [('a', 1)]),
            ([('a', 2), ('b', 2)], [('b', 2)]),
        ):
            with self.subTest(found):
                self.assertEqual(
                    expected, self.logged.list_new(found, get_name)
                )

    def test_what_is_new_is_logged_with_the_prefix(self) -> None:
        lines: list[str] = []

        def log(text: str, arguments: dict[str, Any]) -> None:
            lines.append(text % arguments)

        logged = log_on_change.LogOnChange('Host a: ')
        logged.log_new(log, ['full', 'slow'])
        logged.log_new(log, ['slow', 'gone'])

        self.assertEqual(
            ['Host a: full', 'Host a: slow', 'Host a: gone'], lines
        )
