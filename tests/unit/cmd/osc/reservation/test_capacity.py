# SPDX-License-Identifier: Apache-2.0

"""Tests of the commands that show capacity and the calendar."""

import json
import os
import pathlib
from typing import Any
from xml.etree import ElementTree

from tests.unit.cmd.osc import shells

NAMESPACE = '{http://www.w3.org/2000/svg}'


class CapacityTest(shells.ShellTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.succeed(
            'extended reservation create lease --flavor large --servers 3 '
            '--start +2h --end +4h'
        )

    def read(self, arguments: str) -> list[list[Any]]:
        rows = json.loads(
            self.succeed(f'extended reservation capacity {arguments} -f json')
        )
        return [list(one.values()) for one in rows]

    def test_amounts(self) -> None:
        rows = self.read('--zone south --duration 3h')

        self.assertEqual(
            [
                [
                    'south',
                    'VCPU',
                    '2030-01-01T00:00:00Z',
                    '2030-01-01T02:00:00Z',
                    *(8, 0, 0, 8),
                ],
                [
                    'south',
                    'VCPU',
                    '2030-01-01T02:00:00Z',
                    '2030-01-01T03:00:00Z',
                    *(8, 0, 4, 4),
                ],
            ],
            rows,
        )

    def test_how_many_servers_fit(self) -> None:
        rows = self.read('--flavor large --from +1h --until +5h --step 2h')

        self.assertEqual([1, 1], [one[-1] for one in rows])

    def test_bad_arguments(self) -> None:
        for arguments, wanted in (
            ('--step 1', 'is not a duration'),
            ('--step 1s', 'shorter period'),
            ('--from +2h --until +1h', '--from, --until'),
            ('--zone east', 'known: north, south'),
            ('--flavor tiny', 'no flavor tiny'),
        ):
            errors = self.fail_with(
                f'extended reservation capacity {arguments}'
            )

            self.assertIn(wanted, errors)

    def test_a_zone_without_a_name(self) -> None:
        self.assertIn(
            "no host is in zone ''; known: north",
            self.fail_with("extended reservation capacity --zone ''"),
        )


class CalendarTest(shells.ShellTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.succeed(
            'extended reservation create "a&b<c>" --flavor large --servers 3 '
            '--start +2h --end +4h'
        )

    def test_letters(self) -> None:
        output = self.succeed(
            'extended reservation calendar --width 50 --duration 8h'
        )

        self.assertEqual(
            [
                '2030-01-01T00:00:00Z to 2030-01-01T08:00:00Z (UTC)',
                '  |01. 00:00  |01. 02:00  |01. 04:00  |01. 06:00',
                'a             [a&b<c> 2--]',
                'b             [a&b<c> 1--]',
            ],
            output.splitlines()[:-1],
        )

    def test_by_zone(self) -> None:
        output = self.succeed('extended reservation calendar --by zone')

        self.assertIn('\nnorth ', output)
        self.assertIn('\nsouth ', output)

    def test_a_picture(self) -> None:
        path = os.path.join(self.folder, 'chart.svg')

        output = self.succeed(f'extended reservation calendar --svg {path}')

        self.assertEqual('', output)
        root = ElementTree.fromstring(pathlib.Path(path).read_text())
        titles = [one.text or '' for one in root.iter(f'{NAMESPACE}title')]
        self.assertEqual(3, len(titles))
        self.assertIn('a&b<c>: 2 servers, pending, 2030-01-01T02', titles[1])

    def test_a_file_that_cannot_be_written(self) -> None:
        errors = self.fail_with(
            'extended reservation calendar --svg /no/folder/chart.svg'
        )

        self.assertIn('cannot be written', errors)
        self.assertIn('Name another file', errors)

    def test_bad_arguments(self) -> None:
        for arguments, wanted in (
            ('--width 0', 'not a whole number from 1 on'),
            ('--width 99999999999', 'is more than 10000'),
            ('--until +0h', 'between one second and'),
            ('--from 9999-12-31T23:59:59-14:00', 'after 9999'),
        ):
            errors = self.fail_with(
                f'extended reservation calendar {arguments}'
            )

            self.assertIn(wanted, errors)

    def test_very_long_times(self) -> None:
        for arguments in (
            '--duration 365d',
            '--duration 36525d',
            '--until 9999-12-31T23:59:59Z',
            '--from 9999-12-31T23:59:59Z',
        ):
            self.succeed(f'extended reservation calendar {arguments}')
