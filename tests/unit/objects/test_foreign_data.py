# SPDX-License-Identifier: Apache-2.0

"""Tests of loading what others wrote."""

from typing import Any

from nova_ext_resources.objects import foreign_data
from tests import base


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
            ('{"a": {"b": 1, "b": 1}}', "'b' is there twice"),
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
