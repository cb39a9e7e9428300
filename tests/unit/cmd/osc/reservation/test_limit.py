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
                'max_duration': '52w1d',
            },
            made,
        )
        self.assertEqual(
            [['blue', '52w1d', 'none'], ['red', '12w6d', '52w1d']],
            self.list_limits(),
        )

    def test_those_of_the_configuration_hold_for_all_others(self) -> None:
        self.configure('max_ahead = 7200', 'max_duration = 3600')
        self.succeed(f'{LIMIT} set red --max-duration 2h')

        self.assertEqual([['red', '2h', '2h']], self.list_limits())
        for arguments, wanted in (
            ('--start +1h --duration 61m', 'may not last 1h1m: the longest'),
            ('--start +1h', 'may not be without an end: the longest'),
            ('--start +3h --duration 1h', 'may not start at 2030-01-01T03'),
            (
                '--duration 121m --project red',
                'may not last 2h1m: the longest duration is 2h',
            ),
            ('--start +3h --duration 1h --project red', 'may not start at'),
        ):
            with self.subTest(arguments):
                if 'red' not in arguments:
                    arguments += ' --project blue'
                self.assertIn(wanted, self.fail_with(f'{CREATE} {arguments}'))
        self.succeed(f'{CREATE} --duration 2h --project red')
        # What has no project is the operators'.
        self.succeed(f'{CREATE} --start +3h')

    def test_those_that_hold_by_default(self) -> None:
        for arguments, wanted in (
            ('', 'without an end: the longest duration is 52w1d'),
            ('--duration 366d', '52w2d: the longest duration is 52w1d'),
            ('--start +366d --duration 1h', '52w1d from now'),
            (
                '--duration 1h --at-most 1001',
                'may not be for 1001 servers: the limit is 1000',
            ),
        ):
            with self.subTest(arguments):
                line = f'{CREATE} --project red {arguments}'
                self.assertIn(wanted, self.fail_with(line))
        self.succeed(f'{CREATE} --project red --duration 365d')

    def test_none_hold_where_the_configuration_says_so(self) -> None:
        for number, text in enumerate(('-1', '0')):
            with self.subTest(text):
                self.configure(
                    'max_ahead = -1',
                    f'max_duration = {text}',
                    f'max_servers = {text}',
                    f'project_reservations = {text}',
                )
                self.succeed(
                    f'{CREATE} --project p{number} --start +{number + 1}00w '
                    '--at-most 9999 --duration 400d'
                )

    def test_a_project_has_so_many_reservations(self) -> None:
        self.configure('project_reservations = 2')
        line = 'extended reservation create {} --flavor large --duration 1h'
        red = f'{line} --project red'
        for name in ('one', 'two'):
            self.succeed(red.format(name))
        # An answer may have been lost.
        self.succeed(red.format('one'))

        self.assertIn(
            'Reservation three may not be made: its project has 2 '
            'reservations that are not over, and the limit is 2. Cancel one '
            'of them, or ask',
            self.fail_with(red.format('three')),
        )
        self.succeed(f'{line} --project blue'.format('three'))
        self.succeed('extended reservation update two --servers 1')
        self.succeed('extended reservation cancel one')
        self.succeed(red.format('four'))

    def test_what_is_no_project_gets_none(self) -> None:
        self.site.projects = ['red']
        for command in ('limit set {}', 'quota set {} VCPU 1'):
            with self.subTest(command):
                line = f'extended reservation {command}'
                self.assertIn(
                    'The limits of project blue cannot be set: unknown',
                    self.fail_with(line.format('blue')),
                )
                self.succeed(line.format('red'))

    def test_an_update_is_checked_as_well(self) -> None:
        self.succeed(f'{CREATE} --duration 1h --project red')
        self.configure('max_duration = 600')

        errors = self.fail_with('extended reservation update lease --end +2h')

        self.assertIn('may not last 2h: the longest duration is 10m', errors)
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
            ("set ''", 'not a project id'),
        ):
            with self.subTest(arguments):
                self.assertIn(wanted, self.fail_with(f'{LIMIT} {arguments}'))
