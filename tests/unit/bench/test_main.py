# SPDX-License-Identifier: Apache-2.0

"""Tests of what the benchmarks print, and how they end."""

import configparser
import json

import fixtures

from dev.bench import __main__ as bench_main
from dev.bench.harness import needs
from dev.bench.harness import peers
from dev.bench.harness import rows
from dev.bench.harness import timing
from tests import base


def make_row(ours: float, goal: float | None = 1.5) -> rows.Row:
    return rows.Row(what='it', ours=ours, peer=2.0, ratio=ours / 2, goal=goal)


class BenchTestCase(base.TestCase):
    def test_an_unknown_name_lists_the_names(self) -> None:
        stderr = self.useFixture(fixtures.StringStream('stderr')).stream
        self.useFixture(fixtures.MonkeyPatch('sys.stderr', stderr))

        self.assertEqual(2, bench_main.main(['no-such']))
        self.assertEqual(2, bench_main.main([]))

        stderr.seek(0)
        self.assertIn('scheduler', stderr.read())

    def test_an_option_of_one_that_has_none_is_told(self) -> None:
        stderr = self.useFixture(fixtures.StringStream('stderr')).stream
        self.useFixture(fixtures.MonkeyPatch('sys.stderr', stderr))

        self.assertEqual(2, bench_main.main(['trace', '--shape', '5x40']))

        stderr.seek(0)
        self.assertIn('trace has no options', stderr.read())

    def test_helpers_are_no_benchmarks(self) -> None:
        names = bench_main.list_names()

        self.assertIn('scheduler', names)
        self.assertNotIn('harness', names)

    def test_what_a_benchmark_needs_is_an_environment_of_tox(self) -> None:
        parser = configparser.ConfigParser(interpolation=None)
        parser.read(peers.ROOT / 'tox.ini')

        for name, environment in needs.NEEDS.items():
            self.assertIn(name, bench_main.list_names())
            self.assertIn(f'testenv:{environment}', parser)
        self.assertEqual(0, needs.main(['trace']))

    def test_the_last_line_is_json(self) -> None:
        line = rows.format_json('scheduler', [make_row(1.0)])

        self.assertEqual(
            {
                'name': 'scheduler',
                'rows': [
                    {
                        'what': 'it',
                        'ours': 1.0,
                        'peer': 2.0,
                        'ratio': 0.5,
                        'goal': 1.5,
                    }
                ],
                'ok': True,
            },
            json.loads(line),
        )

    def test_a_missed_goal_is_told(self) -> None:
        missed = [make_row(1.0), make_row(4.0)]

        self.assertFalse(json.loads(rows.format_json('x', missed))['ok'])
        self.assertIn('MISSED', rows.format_table(missed))

    def test_a_row_without_a_goal_only_informs(self) -> None:
        self.assertTrue(make_row(100.0, None).is_ok)

    def test_a_limit_is_a_peer(self) -> None:
        self.assertTrue(rows.make_row('size', 9, 10, 'bytes').is_ok)
        self.assertFalse(rows.make_row('size', 11, 10, 'bytes').is_ok)
        self.assertTrue(rows.make_row('size', 11, None, 'bytes').is_ok)

    def test_pairs_are_compared_by_their_medians(self) -> None:
        row = rows.compare_pairs('it', [(1, 10), (2, 2), (3, 9), (6, 0)], 0.4)

        self.assertEqual((2.5, 5.5), (row.ours, row.peer))
        self.assertEqual(0.6667, row.ratio)
        self.assertFalse(row.is_ok)

    def test_small_ratios_keep_their_digits(self) -> None:
        small = rows.Row(
            what='it', ours=2.0, peer=3000.0, ratio=0.000667, goal=0.002
        )

        table = rows.format_table([small, make_row(2.0)])

        self.assertIn('0.000667  <= 0.002 ok', table)
        self.assertIn('1.000  <= 1.5 ok', table)

    def test_both_sides_are_run_equally_often(self) -> None:
        calls: list[str] = []

        timing.compare(
            lambda: (
                lambda: calls.append('ours'),
                lambda: calls.__iadd__(['peer', *'x' * 1000]),
            ),
            3,
        )

        # One round warms up.
        self.assertEqual(4, calls.count('ours'))
        self.assertEqual(4, calls.count('peer'))

    def test_percentiles(self) -> None:
        values = [float(n) for n in range(100)]

        self.assertEqual(99.0, timing.percentile(values, 99))
        self.assertEqual(50.0, timing.percentile(values, 50))
        self.assertEqual(7.0, timing.percentile([7.0], 99))
