# SPDX-License-Identifier: Apache-2.0

"""Tests of loading what others wrote."""

import resource
import time
from typing import Any

from nova_ext_resources.objects.documents import foreign_data
from tests import base

#: Nine times nine times nine and so on.
BOMB = 'a: &a [x, x, x, x, x, x, x, x, x]\n' + ''.join(
    f'{new}: &{new} [{", ".join([f"*{old}"] * 9)}]\n'
    for old, new in zip('abcdefghijk', 'bcdefghijkl', strict=True)
)
MERGES = 'a: &a {x: 1}\n' + ''.join(
    f'{new}: &{new} {{<<: [{", ".join([f"*{old}"] * 9)}]}}\n'
    for old, new in zip('abcdefghijk', 'bcdefghijkl', strict=True)
)
LONG = f'a: &a {"x" * 100_000}\nb: [{", ".join(["*a"] * 1000)}]'


class NumbersTest(base.TestCase):
    def test_whole_numbers_of_placement_are_read(self) -> None:
        for number in (0, 1, foreign_data.MAX_INT):
            self.assertEqual(number, foreign_data.read_whole(number))

    def test_anything_else_is_refused(self) -> None:
        odd: tuple[Any, ...] = (
            *(None, True, 1.0, '1', [], -1, foreign_data.MAX_INT + 1),
            *(10**5000, float('inf'), float('nan')),
        )
        for value in odd:
            with self.subTest(kind=type(value)):
                self.assertRaises(ValueError, foreign_data.read_whole, value)

    def test_a_capacity_is_what_a_ratio_makes_of_a_total(self) -> None:
        most = foreign_data.MAX_INT * foreign_data.MAX_RATIO

        self.assertEqual(most, foreign_data.read_capacity(most))
        self.assertRaises(ValueError, foreign_data.read_capacity, most + 1)

    def test_a_number_may_have_a_fraction(self) -> None:
        self.assertEqual(1.5, foreign_data.read_number(1.5, 0, 2))
        odd: tuple[Any, ...] = (True, '1', 2.5, -1, float('nan'), 10**400)
        for value in odd:
            self.assertRaises(
                ValueError, foreign_data.read_number, value, 0, 2
            )


class JsonTest(base.TestCase):
    def test_json_is_loaded(self) -> None:
        for text in (
            '{"a": [1, 1.5, null, true]}',
            b'{"a": [1, 1.5, null, true]}',
        ):
            self.assertEqual(
                {'a': [1, 1.5, None, True]}, foreign_data.load_json(text)
            )

    def test_other_characters_are_loaded(self) -> None:
        for text in ('["\\u00e4\\ud83d\\ude00"]', '["\u00e4\U0001f600"]'):
            for one in (text, text.encode()):
                self.assertEqual(
                    ['\u00e4\U0001f600'], foreign_data.load_json(one)
                )

    def test_anything_else_is_refused(self) -> None:
        for text, reason in (
            ('', 'Expecting value'),
            ('[Infinity]', 'Infinity is not a number'),
            ('[-Infinity]', '-Infinity is not a number'),
            ('[NaN]', 'NaN is not a number'),
            ('[1e400]', '1e400 is too large'),
            ('9' * 5000, ''),
            ('[' * 100_000, 'nested too deeply'),
            ('{"a": {"b": 1, "b": 1}}', "'b' occurs twice"),
            ('["\\ud800"]', 'surrogates not allowed'),
            ('["\ud800"]', 'surrogates not allowed'),
            (b'["\xed\xa0\x80"]', 'surrogates not allowed'),
            (b'["\xff"]', "can't decode"),
        ):
            with self.subTest(text=text[:20]):
                error = self.assertRaises(
                    ValueError, foreign_data.load_json, text
                )

                self.assertIn(reason, str(error))


class YamlTest(base.TestCase):
    def assert_refused(self, reason: str, text: str) -> None:
        with self.subTest(text=text[:40]):
            error = self.assertRaises(ValueError, foreign_data.load_yaml, text)
            self.assertIn(reason, str(error))
            self.assertLess(len(str(error)), 300)

    def test_a_value_that_cannot_be_built_is_told_with_its_line(self) -> None:
        for value in (
            *('!!bool foo', "!!int ''", '!!float z', '!!timestamp x'),
            *(
                '"\\uD800"',
                '2026-99-99',
                '!!python/name:os.getcwd',
                '{[a]: 1}',
                '<<: 1',
            ),
        ):
            self.assert_refused('line 2: ', f'a:\n  b: {value}')

    def test_a_number_that_others_read_differently_is_refused(self) -> None:
        for number in ('010', '-010', '1:30', '1:30.5', '0b11', '1_000'):
            self.assert_refused(f'line 2: {number} is', f'a:\n- {number}')

    def test_a_number_without_an_end_is_refused(self) -> None:
        for number in ('.inf', '-.inf', '.nan', '1.0e+400'):
            self.assert_refused(f'line 1: {number} is', f'a: {number}')

    def test_numbers_that_mean_one_thing_are_read(self) -> None:
        for text, number in (
            *(('0', 0), ('-5', -5), ('+5', 5), ('0x1f', 31), ('1.50', 1.5)),
            *(('.5', 0.5), ('1.', 1.0), ('1.5e+3', 1500.0), ("'010'", '010')),
            *(('1e3', '1e3'), ('true', True), ('9' * 400, int('9' * 400))),
        ):
            self.assertEqual(number, foreign_data.load_yaml(text))

    def test_a_repeated_key_is_refused_wherever_it_is(self) -> None:
        for text in (
            'pools: []\npools: []',
            'a:\n  - {b: 1, b: 2}',
            'a: &a {b: 1}\nc: {<<: *a, "d": 1, d: 2}',
        ):
            self.assert_refused('occurs twice', text)

    def test_a_key_that_is_merged_is_no_repeated_one(self) -> None:
        self.assertEqual(
            {'o': {'a': {'x': 2}}, 'c': {'x': 2, 'y': 1}},
            foreign_data.load_yaml(
                'o: {a: &a {<<: &b {x: 1}, x: 2}}\nc: {<<: *a, y: 1}'
            ),
        )

    def test_an_alias_is_what_it_stands_for(self) -> None:
        self.assertEqual(
            {'a': [{'x': 1}], 'b': [{'x': 1}]},
            foreign_data.load_yaml('a: &a [{x: 1}]\nb: *a'),
        )

    def test_an_alias_of_itself_is_refused(self) -> None:
        self.assert_refused('line 1: an alias refers', 'a: &a\n  b: *a')

    def test_a_bomb_is_refused_at_once(self) -> None:
        for text in (BOMB, MERGES, LONG):
            began, memory = time.process_time(), _read_memory()

            self.assert_refused('are too large', text)

            self.assertLess(time.process_time() - began, 1)
            self.assertLess(_read_memory() - memory, 100 * 1024)

    def test_what_is_no_text_is_refused(self) -> None:
        for text in ('\x00', '"\\UFFFFFFFF"', '[' * 400, '%YAML 9.9', '[*a]'):
            self.assert_refused('', text)


def _read_memory() -> int:
    """Return the most that this process has had so far, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
