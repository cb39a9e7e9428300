# SPDX-License-Identifier: Apache-2.0

"""Tests of times and durations as people write them."""

from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import times
from tests import base


class TimesTest(base.TestCase):
    def test_durations(self) -> None:
        for text, seconds in (
            ('1s', 1),
            ('90m', 5400),
            ('2h30m', 9000),
            (' 7d ', 604800),
            ('1w', 604800),
            ('36525d', times.MAX_SECONDS),
        ):
            self.assertEqual(seconds, times.parse_seconds(text))

    def test_what_is_no_duration(self) -> None:
        for text in (
            '',
            '5',
            'h',
            '1.5h',
            '-1h',
            '1y',
            '0s',
            '36526d',
            '1h 2',
        ):
            with self.subTest(text=text):
                self.assertRaises(ValueError, times.parse_seconds, text)

    def test_what_is_written_is_read_again(self) -> None:
        for seconds in (1, 59, 3600, 694861, times.MAX_SECONDS):
            text = times.format_seconds(seconds)

            self.assertEqual(seconds, times.parse_seconds(text))
        self.assertEqual('forever', times.format_seconds(interval.FOREVER))

    def test_times(self) -> None:
        for text, seconds in (
            ('now', 1000),
            ('+1m', 1060),
            ('1970-01-01T00:00Z', 0),
            ('1970-01-01T01:00:01+01:00', 1),
            ('1970-01-01T00:00:01.9Z', 1),
            ('9999-12-31T23:59:59Z', 253402300799),
        ):
            self.assertEqual(seconds, times.parse_time(text, 1000), text)

    def test_what_is_no_time(self) -> None:
        for text, wanted in (
            ('1970-01-01T00:00', 'no time zone'),
            ('tomorrow', 'is not a time'),
            ('', 'is not a time'),
            ('2030-02-29T00:00Z', 'is not a time'),
            ('1969-12-31T23:59Z', 'before 1970'),
            ('9999-12-31T23:59-01:00', 'after 9999'),
            ('+', 'not a duration'),
        ):
            err = self.assertRaises(ValueError, times.parse_time, text, 0)

            self.assertIn(wanted, str(err))
