# SPDX-License-Identifier: Apache-2.0

"""Tests of the commands that set, list and delete quotas."""

import json
from typing import Any

from tests.unit.cmd.osc import shells

QUOTA = 'extended reservation quota'
CREATE = 'extended reservation create lease --flavor large'


class QuotaTest(shells.ShellTestCase):
    def list_quotas(self, arguments: str = '') -> list[list[Any]]:
        rows = json.loads(self.succeed(f'{QUOTA} list {arguments} -f json'))
        return [list(one.values()) for one in rows]

    def test_what_is_set_is_shown(self) -> None:
        made = json.loads(
            self.succeed(f'{QUOTA} set red VCPU 100 --days 7 -f json')
        )
        self.succeed(f'{QUOTA} set blue VCPU 0')
        self.succeed(f'{CREATE} --project red --duration 95m')

        self.assertEqual(
            {
                'project': 'red',
                'resource_class': 'VCPU',
                'unit_hours': 100,
                'days': 7,
                'used': 0,
                'left': 100,
            },
            made,
        )
        self.assertEqual(
            [
                ['blue', 'VCPU', 0, 30, 0, 0],
                ['red', 'VCPU', 100, 7, 6.34, 93.66],
            ],
            self.list_quotas(),
        )
        self.assertEqual(1, len(self.list_quotas('--project red')))
        self.assertEqual([], self.list_quotas('--project green'))

    def test_what_exceeds_it_is_refused(self) -> None:
        self.succeed(f'{QUOTA} set red VCPU 8')

        errors = self.fail_with(f'{CREATE} --project red --duration 3h')

        self.assertIn('exceeds what project red may reserve', errors)
        self.assertIn('VCPU: 12 unit-hours requested, 8 left', errors)
        self.assertIn('1 can be had for 2h', errors)
        self.assertIn(
            'There is no reservation',
            self.fail_with('extended reservation show lease'),
        )

    def test_one_that_is_deleted(self) -> None:
        self.succeed(f'{QUOTA} set red VCPU 8')

        self.succeed(f'{QUOTA} delete red VCPU')

        self.assertEqual([], self.list_quotas())
        self.assertIn(
            'Project red has no quota for VCPU',
            self.fail_with(f'{QUOTA} delete red VCPU'),
        )

    def test_bad_arguments(self) -> None:
        for arguments, wanted in (
            ('set red VCPU', 'required: <unit-hours>'),
            ('set red VCPU x', 'not a whole number'),
            ('set red VCPU 1.5', 'not a whole number'),
            ('set red VCPU -- -1', 'not a whole number'),
            ('set red VCPU 99999999999999999', 'from 0 to'),
            (f'set red VCPU {5000 * "9"}', '18 digits'),
            ('set red VCPU 1 --days 0', 'from 1 to 3650'),
            ('set red VCPU 1 --days 9999', 'from 1 to 3650'),
            ('set red vcpu 1', 'not a resource class'),
            ("set red '' 1", 'not a resource class'),
            ("set '' VCPU 1", 'not a project id'),
            ("set 'a ' VCPU 1", 'not a project id'),
            ('delete red', 'required: <resource-class>'),
        ):
            with self.subTest(arguments=arguments):
                errors = self.fail_with(f'{QUOTA} {arguments}')

                self.assertIn(wanted, errors)
        self.assertEqual([], self.list_quotas())
