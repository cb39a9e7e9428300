# SPDX-License-Identifier: Apache-2.0

"""Tests of the commands that plan changes of capacity."""

import getpass
import json
from typing import Any

import fixtures

from tests.unit.cmd.osc import shells

CHANGE = 'extended reservation capacity change'
CREATE = f'{CHANGE} create'
RESERVE = 'extended reservation create lease --flavor large'
WHY = '--reason "new memory"'


class CapacityChangeTest(shells.ShellTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.patch(getpass, 'getuser', lambda: 'me')
        for name in ('OS_USERNAME', 'SUDO_USER'):
            self.useFixture(fixtures.EnvironmentVariable(name))

    def read(self, line: str) -> Any:
        return json.loads(self.succeed(f'{line} -f json'))

    def list_names(self, arguments: str = '') -> list[str]:
        return [one['Name'] for one in self.read(f'{CHANGE} list {arguments}')]

    def test_what_is_planned_is_shown(self) -> None:
        made = self.read(
            f'{CREATE} night --host a --maintenance --start +1h '
            f'--duration 2h {WHY}'
        )
        self.read(f'{CREATE} more --host b --increase VCPU=4 {WHY}')
        self.read(f'{CREATE} less --host b --decrease VCPU=2 {WHY}')

        self.assertEqual([], made.pop('moved'))
        self.assertEqual([], made.pop('degraded'))
        self.assertEqual(
            {
                'name': 'night',
                'host': 'a',
                'provider': '',
                'what': 'maintenance',
                'starts_at': '2030-01-01T01:00:00Z',
                'ends_at': '2030-01-01T03:00:00Z',
                'reason': 'new memory',
                'created_by': 'me',
                'created_at': '2030-01-01T00:00:00Z',
            },
            made,
        )
        self.assertEqual(made, self.read(f'{CHANGE} show night'))
        found = self.read(f'{CHANGE} list --long')
        self.assertEqual(
            [
                ('less', 'b', 'b', '2 VCPU less', ''),
                ('more', 'b', 'b', '4 VCPU more', ''),
                ('night', 'a', '', 'maintenance', '2030-01-01T03:00:00Z'),
            ],
            [
                tuple(
                    one[name]
                    for name in ('Name', 'Host', 'Provider', 'What', 'Ends At')
                )
                for one in found
            ],
        )

    def test_who_plans_it(self) -> None:
        """By their own name, be the command run as another user."""
        for number, (name, user) in enumerate(
            (('SUDO_USER', 'ada'), ('OS_USERNAME', 'x' * 300))
        ):
            self.useFixture(fixtures.EnvironmentVariable(name, user))
            made = self.read(
                f'{CREATE} {number} --host a --maintenance --start +{number}h '
                f'--duration 1s {WHY}'
                if number
                else f'{CREATE} 0 --host a --maintenance --duration 1s {WHY}'
            )
            self.assertEqual(user[:255], made['created_by'])

    def test_the_same_again_changes_nothing(self) -> None:
        """Whoever has heard no answer asks once more, also later."""
        for name, times in (('x', '--start +2h --duration 1h'), ('y', '')):
            line = f'{CREATE} {name} --host a --maintenance {times} {WHY}'
            made = self.read(line)
            self.clock.advance_time_seconds(60)

            self.assertEqual(made, self.read(line))
            errors = self.fail_with(line.replace('new memory', 'a disk'))
            self.assertIn('or another reason', errors)
            self.clock.advance_time_seconds(3 * 3600)
            self.assertEqual(made, self.read(line))

    def test_what_is_over_is_listed_if_asked_for(self) -> None:
        self.succeed(f'{CREATE} x --host a --maintenance --end +1h {WHY}')
        self.clock.advance_time_seconds(3600)

        self.assertEqual([], self.list_names())
        self.assertEqual(['x'], self.list_names('--all'))

    def test_what_is_promised_is_named_and_moved_by_force(self) -> None:
        self.succeed(f'{RESERVE} --servers 2 --start +2h --duration 1h')
        self.succeed(
            f'{RESERVE.replace("lease", "run")} --zone north --duration 1h'
        )
        create = f'{CREATE} x --host a --maintenance --duration 3h {WHY}'

        errors = self.fail_with(create)

        self.assertIn('reservations lease would have to be moved', errors)
        self.assertIn('reservations run would lack', errors)
        self.assertEqual([], self.list_names())
        made = self.read(f'{create} --force')
        self.assertEqual(['lease'], made['moved'])
        self.assertEqual(['run'], made['degraded'])
        shown = self.read('extended reservation show lease')
        self.assertEqual({'b': 2}, shown['hosts'])
        shown = self.read('extended reservation show run')
        self.assertEqual('degraded', shown['state'])

    def test_it_is_deleted(self) -> None:
        self.succeed(
            f'{CREATE} x --host a --increase VCPU=4 --start +1h {WHY}'
        )
        self.succeed(f'{RESERVE} --servers 3 --start +1h --zone north')

        errors = self.fail_with(f'{CHANGE} delete x')
        self.assertIn('reservations lease would lack', errors)
        self.assertIn('reservations count on it', errors)
        gone = self.read(f'{CHANGE} delete x --force')

        self.assertEqual(['lease'], gone['degraded'])
        self.assertEqual([], self.list_names('--all'))
        self.assertIn('list the', self.fail_with(f'{CHANGE} show x'))
        self.assertIn('list the', self.fail_with(f'{CHANGE} delete x'))

    def test_what_makes_no_sense_is_refused(self) -> None:
        for arguments, words in (
            (f'--host a {WHY}', 'one of the arguments --maintenance'),
            (f'--host a --increase VCPU=0 {WHY}', 'whole number from 1'),
            (
                f'--host a --increase VCPU=1 --decrease VCPU=1 {WHY}',
                'not allowed with',
            ),
            ('--host a --maintenance', '--reason'),
            (f'--host c --maintenance {WHY}', 'placement has no host c'),
            (
                f'--host a --maintenance --end 2020-01-01T00:00Z {WHY}',
                'ends_at',
            ),
            (f'--host a --decrease VCPU=9 {WHY}', 'has only 8'),
        ):
            with self.subTest(arguments=arguments):
                self.assertIn(words, self.fail_with(f'{CREATE} x {arguments}'))
        self.assertEqual([], self.list_names('--all'))

    def test_the_chart_has_it(self) -> None:
        self.succeed(
            f'{CREATE} night --host a --maintenance --start +6h '
            f'--duration 12h {WHY}'
        )

        for arguments, row in (('', 'a'), ('--by zone', 'north')):
            chart = self.succeed(
                f'extended reservation calendar --width 60 {arguments}'
            )
            self.assertIn('[night: maintenance##', chart)
            self.assertIn('# planned changes of capacity', chart)
            self.assertIn(f'\n{row} ', chart)
        path = f'{self.folder}/chart.svg'
        self.succeed(f'extended reservation calendar --svg {path}')
        with open(path, encoding='utf-8') as file:
            self.assertIn('night: maintenance, 2030-01-01T06', file.read())

    def test_the_capacity_has_it(self) -> None:
        self.succeed(
            f'{CREATE} x --host a --decrease VCPU=3 --start +6h '
            f'--duration 12h {WHY}'
        )

        for step in ('', '--step 12h'):
            found = self.read(
                f'extended reservation capacity --zone north {step}'
            )
            rows = [(one['Total'], one['Available']) for one in found]
            wanted = [(5, 5)] * 2 if step else [(8, 8), (5, 5), (8, 8)]
            self.assertEqual(wanted, rows)
