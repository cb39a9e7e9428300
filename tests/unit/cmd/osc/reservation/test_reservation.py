# SPDX-License-Identifier: Apache-2.0

"""Tests of the commands that create, list, show, update and cancel."""

import argparse
import json
import os
import pathlib
from typing import Any

from nova_ext_resources.cmd.osc.reservation import window_arguments
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import slots
from tests.unit.cmd.osc import shells
from tests.unit.reservation import sites

CREATE = 'extended reservation create lease --flavor large'


class CommandsTest(shells.ShellTestCase):
    def read(self, line: str) -> Any:
        return json.loads(self.succeed(f'{line} -f json'))

    def list_names(self, arguments: str = '') -> list[str]:
        rows = self.read(f'extended reservation list {arguments}')
        return [one['Name'] for one in rows]

    def test_what_is_created_is_shown(self) -> None:
        made = self.read(
            f'{CREATE} --servers 2 --at-most 3 --start +1h --duration 2h '
            '--zone north --affinity same-host --priority 2 --project red '
            '--expires-after 30m --at-end shelve --reason "for the night"'
        )

        shown = self.read('extended reservation show lease')

        self.assertEqual(made, shown)
        self.assertEqual(
            {
                'name': 'lease',
                'state': 'pending',
                'flavor': 'large',
                'resources': {'VCPU': 4},
                'starts_at': '2030-01-01T01:00:00Z',
                'ends_at': '2030-01-01T03:00:00Z',
                'servers': 2,
                'servers_at_least': 2,
                'servers_at_most': 3,
                'hosts': {'a': 2},
                'taken_by': {},
                'zone': 'north',
                'affinity': 'same-host',
                'priority': 2,
                'project': 'red',
                'expires_at': '2030-01-01T01:30:00Z',
                'at_end': 'shelve',
                'changes': [
                    {
                        'changed_at': '2030-01-01T00:00:00Z',
                        'state': 'pending',
                        'reason': 'for the night',
                    }
                ],
            },
            shown,
        )

    def test_a_name_that_several_projects_have(self) -> None:
        for project in ('red', 'blue'):
            self.succeed(f'{CREATE} --project {project} --duration 9h')

        for command in ('show', 'cancel', 'update --end +2h'):
            with self.subTest(command=command):
                self.assertIn(
                    'Reservation lease: name: write one of lease~1 of red '
                    '(active), lease~2 of blue (active).',
                    self.fail_with(f'extended reservation {command} lease'),
                )
        shown = self.read('extended reservation cancel lease~1')
        self.assertEqual('red', shown['project'])
        shown = self.read('extended reservation show lease')
        self.assertEqual(
            ('lease~2', 'blue'), (shown['name'], shown['project'])
        )

    def test_the_server_of_a_slot_is_shown(self) -> None:
        self.succeed(f'{CREATE} --servers 2')
        path = os.path.join(self.folder, 'ext_resources', 'reservations.db')
        slots.take(
            databases.Database(f'sqlite:///{path}'),
            'lease',
            'a server',
            lambda held: held[1],
            now=sites.NOW,
        )

        shown = self.read('extended reservation show lease')

        self.assertEqual({'lease/1': 'a server'}, shown['taken_by'])

    def test_the_embedded_database_is_made_below_the_state_path(self) -> None:
        self.succeed('extended reservation list')

        path = os.path.join(self.folder, 'ext_resources', 'reservations.db')
        self.assertTrue(os.path.exists(path))

    def test_amounts_in_place_of_a_flavor(self) -> None:
        made = self.read(
            'extended reservation create lease --resource VCPU=2 '
            '--property hw:cpu_policy=shared'
        )

        self.assertEqual({'VCPU': 2}, made['resources'])
        self.assertEqual('', made['ends_at'])

    def test_a_refusal_has_an_offer(self) -> None:
        self.succeed(f'{CREATE} --servers 3 --end +4h')

        errors = self.fail_with(
            'extended reservation create other --flavor large --servers 2 '
            '--duration 1h'
        )

        self.assertIn('1 can be had in that time.', errors)
        self.assertIn('2 can be had from 2030-01-01T04:00:00Z', errors)
        self.assertEqual(['lease'], self.list_names())

    def test_it_is_updated(self) -> None:
        self.succeed(f'{CREATE} --end +4h')
        self.clock.advance_time_seconds(3600)

        changed = self.read(
            'extended reservation update lease --end +5h --reason longer'
        )

        self.assertEqual('2030-01-01T06:00:00Z', changed['ends_at'])
        self.assertEqual('active', changed['state'])
        self.assertEqual('longer', changed['changes'][-1]['reason'])
        self.assertIn(
            'name a change',
            self.fail_with('extended reservation update lease'),
        )

    def test_it_is_cancelled(self) -> None:
        self.succeed(CREATE)

        gone = self.read('extended reservation cancel lease --reason done')

        self.assertEqual('cancelled', gone['state'])
        self.assertEqual({}, gone['hosts'])
        self.assertEqual('done', gone['changes'][-1]['reason'])
        self.assertIn(
            'cancelled and cannot become',
            self.fail_with('extended reservation cancel lease'),
        )

    def test_servers_that_need_something_else(self) -> None:
        self.succeed(f'{CREATE} --start +1h --zone north')

        for arguments, wanted in (
            ('--resource VCPU=2 --zone south', ('', 'south', {'VCPU': 2})),
            ("--flavor large --zone ''", ('large', '', {'VCPU': 4})),
        ):
            found = json.loads(
                self.succeed(
                    f'extended reservation update lease {arguments} -f json'
                )
            )
            shown = found['flavor'], found['zone'], found['resources']
            self.assertEqual(wanted, shown)

    def test_lists(self) -> None:
        self.succeed(f'{CREATE} --end +2h --project red')
        self.succeed(
            'extended reservation create late --flavor large --start +3h'
        )
        self.succeed('extended reservation create gone --flavor large')
        self.succeed('extended reservation cancel gone')

        self.assertEqual(['lease', 'late'], self.list_names())
        self.assertEqual(['gone', 'lease', 'late'], self.list_names('--all'))
        self.assertEqual(['late'], self.list_names('--from +2h'))
        self.assertEqual(['lease'], self.list_names('--until +3h'))
        self.assertEqual(['lease'], self.list_names('--project red'))
        self.assertEqual([], self.list_names('--zone south'))
        self.assertEqual(
            ['lease', 'late'], self.list_names('--zone north --from now')
        )
        self.assertIn(
            'known: north, south',
            self.fail_with('extended reservation list --zone east'),
        )
        self.assertEqual(
            ['gone', 'late'],
            self.list_names('--state cancelled --state pending'),
        )
        (row,) = self.read('extended reservation list --long --project red')
        self.assertEqual(['a'], row['Hosts'])
        self.assertEqual('created', row['Reason'])

    def test_one_that_there_is_not(self) -> None:
        for command in ('show', 'cancel', 'update --servers 2'):
            name, _space, arguments = command.partition(' ')
            errors = self.fail_with(
                f'extended reservation {name} nothing {arguments}'
            )

            self.assertIn('There is no reservation nothing', errors)
            errors = self.fail_with(f"extended reservation {name} ''")
            self.assertIn('the name is empty', errors)

    def test_bytes_that_are_no_text(self) -> None:
        self.assertRaises(
            argparse.ArgumentTypeError, window_arguments.text, 'a\udcffb'
        )
        self.assertEqual('не 🛑', window_arguments.text('не 🛑'))

    def test_changes_without_a_reason(self) -> None:
        self.succeed(f'{CREATE} --end +4h')

        for command in ('cancel lease', 'update lease --end +5h'):
            errors = self.fail_with(
                f"extended reservation {command} --reason ' '"
            )

            self.assertIn('Reservation lease: reason: ', errors)
        (change,) = self.read('extended reservation show lease')['changes']
        self.assertEqual('created', change['reason'])

    def test_a_name_with_spaces(self) -> None:
        self.succeed(
            "extended reservation create 'a name' --flavor large --end +4h"
        )
        self.succeed("extended reservation cancel 'a name'")

        self.assertIn(
            'without spaces at its ends',
            self.fail_with("extended reservation create ' a' --flavor large"),
        )

    def test_filters_that_nothing_passes(self) -> None:
        self.succeed(f'{CREATE} --project red --duration 1h')

        self.assertEqual([], self.list_names('--project blue'))
        self.assertEqual([], self.list_names("--project ''"))
        for arguments, wanted in (
            ('--state new', 'invalid choice'),
            ('--all --state pending', 'not allowed with'),
        ):
            errors = self.fail_with(f'extended reservation list {arguments}')

            self.assertIn(wanted, errors)

    def test_bad_arguments(self) -> None:
        for arguments, wanted in (
            ('', 'one of the arguments --flavor --resource is required'),
            ('--flavor large --resource VCPU=1', 'not allowed with'),
            ('--resource VCPU', 'such as VCPU=4'),
            ('--resource VCPU=0', 'such as VCPU=4'),
            ('--resource VCPU=1 --resource VCPU=2', 'named twice'),
            ('--flavor large --servers 0', 'a whole number from 1 on'),
            ('--flavor large --servers x', 'a whole number from 1 on'),
            ('--flavor large --servers -1', 'a whole number from 1 on'),
            (f'--flavor large --servers {5000 * "9"}', '18 digits at most'),
            (f'--resource VCPU={5000 * "9"}', '18 digits at most'),
            (
                '--resource VCPU=1 --property resources:VCPU=2',
                'write each amount once',
            ),
            ('--flavor large --servers 3 --at-most 2', '2 is less than'),
            ("--flavor large --zone ''", 'it is empty; leave it out'),
            ("--flavor large --project ' '", 'without spaces'),
            ("--flavor large --reason ' '", 'reason: '),
            (f'--flavor large --reason {2000 * "x"}', '1000 are allowed'),
            ('--flavor large --start=-2h', 'is not a time'),
            ('--flavor large --duration 999999999w', 'a hundred years'),
            ('--flavor large --servers 99999', 'greater than the maximum'),
            ('--flavor large --priority x', 'invalid int value'),
            ('--flavor large --end +1h --duration 1h', 'not allowed with'),
            ('--flavor large --start yesterday', 'is not a time'),
            ('--flavor large --start 2029-01-01T00:00Z', 'before now'),
            ('--flavor large --property a=b', 'flavor has its own'),
            ('--flavor tiny', 'there is no flavor tiny'),
            ('--flavor large --zone east', 'known: north, south'),
        ):
            with self.subTest(arguments=arguments):
                errors = self.fail_with(
                    f'extended reservation create lease {arguments}'
                )

                self.assertIn(wanted, errors)
        for arguments in ('--from yesterday', '--from +2h --until +1h'):
            errors = self.fail_with(f'extended reservation list {arguments}')

            self.assertIn('--from, --until', errors)
        self.assertEqual([], self.list_names('--all'))

    def test_names_in_the_configuration_that_are_misspelt(self) -> None:
        plain = pathlib.Path(self.config).read_text()
        for lines, advice in (
            ('[ext_resources_reservation]\nconection = x', 'Write connection'),
            ('[Ext_Resources_Reservation]\nconection = x', 'no such option'),
            (
                '[ext_resources_reservations]\nconnection = x',
                'Write [ext_resources_reservation]',
            ),
        ):
            with self.subTest(lines=lines):
                pathlib.Path(self.config).write_text(f'{plain}{lines}\n')

                self.assertIn(
                    advice, self.fail_with('extended reservation list')
                )
                self.assertEqual(['nova.conf'], os.listdir(self.folder))

    def test_groups_of_others_in_the_configuration(self) -> None:
        with pathlib.Path(self.config).open('a') as file:
            file.write('[ext_resources_placement]\nx = 1\n[vendor]\nx = 1\n')

        self.assertEqual([], self.list_names())

    def test_configuration_that_cannot_be_read(self) -> None:
        broken = pathlib.Path(self.folder, 'broken.conf')
        for text, wanted in (
            ('connection = x', 'cannot be used'),
            (
                '[ext_resources_reservation]\nconnection = sqlite:////no/x.db',
                'the file /no/x.db cannot be used',
            ),
            (
                '[ext_resources_reservation]\nconnection = sqlite:////dev/full',
                'the file /dev/full cannot be used',
            ),
            (
                '[ext_resources_reservation]\nconnection = sqlite:///x.db',
                'does not name the same file for all programs',
            ),
            ('', 'state_path of Nova is not set'),
            (
                '[DEFAULT]\nstate_path = /dev/null/x',
                'embedded database cannot be created',
            ),
        ):
            broken.write_text(text)

            errors = self.fail_with(
                f'extended reservation list --config-file {broken}'
            )

            self.assertIn(wanted, errors)
        self.assertIn(
            'cannot be used',
            self.fail_with('extended reservation list --config-file /no/file'),
        )
