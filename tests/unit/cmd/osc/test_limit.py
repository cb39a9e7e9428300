# SPDX-License-Identifier: Apache-2.0

"""Tests of the commands that set, list and delete limits."""

import json
import pathlib

from tests.unit.cmd.osc import shells

LIMIT = 'extended reservation limit'
CREATE = 'extended reservation create lease --flavor large'


class LimitTest(shells.ShellTestCase):
    def configure(self, *lines: str) -> None:
        text = '\n'.join(['[ext_resources_reservation]', *lines, ''])
        path = pathlib.Path(self.config)
        path.write_text(path.read_text() + text)

    def list_limits(self) -> list[list[str]]:
        rows = json.loads(self.succeed(f'{LIMIT} list -f json'))
        return [list(one.values()) for one in rows]

    def test_what_is_set_is_shown(self) -> None:
        made = json.loads(
            self.succeed(f'{LIMIT} set red --max-ahead 90d -f json')
        )
        self.succeed(f'{LIMIT} set blue --max-duration none')

        self.assertEqual(
            {
                'project': 'red',
                'max_ahead': '12w6d',
                'max_duration': 'none',
            },
            made,
        )
        self.assertEqual(
            [['blue', 'none', 'none'], ['red', '12w6d', 'none']],
            self.list_limits(),
        )

    def test_those_of_the_configuration_hold_for_all_others(self) -> None:
        self.configure('max_ahead = 7200', 'max_duration = 3600')
        self.succeed(f'{LIMIT} set red --max-duration 2h')

        self.assertEqual([['red', '2h', '2h']], self.list_limits())
        for arguments, wanted in (
            ('--start +1h --duration 61m', 'may not last 1h1m: 1h is the'),
            ('--start +1h', 'may not be without an end: it lasts 1h'),
            ('--start +3h --duration 1h', 'may not start at 2030-01-01T03'),
            ('--duration 121m --project red', 'may not last 2h1m: 2h is'),
            ('--start +3h --duration 1h --project red', 'may not start at'),
        ):
            with self.subTest(arguments):
                self.assertIn(wanted, self.fail_with(f'{CREATE} {arguments}'))
        self.succeed(f'{CREATE} --duration 2h --project red')

    def test_an_update_is_checked_as_well(self) -> None:
        self.succeed(f'{CREATE} --duration 1h')
        self.configure('max_duration = 600')

        errors = self.fail_with('extended reservation update lease --end +2h')

        self.assertIn('may not last 2h: 10m is the most', errors)
        self.succeed('extended reservation update lease --end +30m')

    def test_one_that_is_deleted(self) -> None:
        self.succeed(f'{LIMIT} set red --max-ahead 1h')

        self.succeed(f'{LIMIT} delete red')

        self.assertEqual([], self.list_limits())
        self.assertIn(
            'Project red has no limits of its own',
            self.fail_with(f'{LIMIT} delete red'),
        )

    def test_bad_arguments(self) -> None:
        for arguments, wanted in (
            ('set', 'required: <project>'),
            ('set red --max-ahead 90', 'not a duration'),
            ('set red --max-duration 0s', 'between one second'),
            ("set ''", 'no id of a project'),
        ):
            with self.subTest(arguments):
                self.assertIn(wanted, self.fail_with(f'{LIMIT} {arguments}'))
