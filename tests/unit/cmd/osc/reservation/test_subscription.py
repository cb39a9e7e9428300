# SPDX-License-Identifier: Apache-2.0

"""Tests of the commands of subscriptions."""

import json
import pathlib
from typing import Any

from nova_ext_resources.reservation.webhook import signature
from tests.unit.cmd.osc import shells

SUBSCRIPTION = 'extended reservation subscription'
URL = 'https://hooks.example.org/x'
HIDDEN = 'https://hooks.example.org/...'


class SubscriptionTest(shells.ShellTestCase):
    def create(self, arguments: str = '') -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            self.succeed(f'{SUBSCRIPTION} create {URL} {arguments} -f json')
        )
        return found

    def list_ids(self, arguments: str = '', column: str = 'Id') -> list[str]:
        rows = json.loads(
            self.succeed(f'{SUBSCRIPTION} list {arguments} -f json')
        )
        return [one[column] for one in rows]

    def test_what_is_made_is_shown_without_its_secret(self) -> None:
        made = self.create(
            '--project red --event allocation --event reservation.ending '
            '--remaining 1d --remaining 90m'
        )

        shown = json.loads(
            self.succeed(f'{SUBSCRIPTION} show {made["id"]} -f json')
        )

        signature.check_secret(made.pop('secret'))
        self.assertEqual(URL, made['url'])
        # Its path may be a token.
        self.assertEqual({**made, 'url': HIDDEN}, shown)
        self.assertEqual([HIDDEN], self.list_ids(column='Url'))
        del shown['id']
        self.assertEqual(
            {
                'project': 'red',
                'state': 'active',
                'url': HIDDEN,
                'events': [
                    'allocation.released',
                    'allocation.taken',
                    'reservation.ending',
                ],
                'reservation': '',
                'remaining': ['1d', '1h30m'],
                'zone': '',
                'resource_class': '',
                'threshold': '',
                'created_at': '2030-01-01T00:00:00Z',
                'sent': 0,
                'failures': 0,
                'failure': '',
                'suspended_at': '',
            },
            shown,
        )

    def test_of_capacity(self) -> None:
        made = self.create('--zone north --class VCPU --threshold 10')

        self.assertEqual(['capacity.enough', 'capacity.low'], made['events'])
        self.assertEqual(
            ('north', 'VCPU', 10),
            (made['zone'], made['resource_class'], made['threshold']),
        )

    def test_a_secret_of_ones_own(self) -> None:
        secret = signature.make_secret()

        made = self.create(f'--secret {secret}')

        self.assertEqual(secret, made['secret'])

    def test_list_and_delete(self) -> None:
        first = self.create('--project red')['id']
        second = self.create()['id']
        self.assertEqual({first, second}, set(self.list_ids()))
        self.assertEqual([first], self.list_ids('--project red'))

        self.succeed(f'{SUBSCRIPTION} delete {first}')

        self.assertEqual([second], self.list_ids())
        for action in ('show', 'delete'):
            self.assertIn(
                f'There is no subscription {first}',
                self.fail_with(f'{SUBSCRIPTION} {action} {first}'),
            )

    def test_of_one_reservation(self) -> None:
        self.succeed(
            'extended reservation create lease --flavor large --project red '
            '--duration 1h'
        )
        self.create('--reservation lease --project red')

        for arguments in (
            '--reservation other',
            '--reservation lease --project blue',
        ):
            self.assertIn(
                'There is no reservation',
                self.fail_with(f'{SUBSCRIPTION} create {URL} {arguments}'),
            )
        self.assertEqual(1, len(self.list_ids()))

    def test_a_project_has_so_many(self) -> None:
        for _number in range(20):
            self.create('--project red')

        self.assertIn(
            'may have 20',
            self.fail_with(f'{SUBSCRIPTION} create {URL} --project red'),
        )
        self.create('--project blue')

    def test_bad_arguments_make_nothing(self) -> None:
        watched = '--zone a --class VCPU --threshold 1'
        for arguments, wanted in (
            ('', 'required: <url>'),
            ('http://example.org', 'url: it must begin with https://'),
            ('https://127.0.0.1/', 'url: 127.0.0.1 is neither'),
            ('https://[::1]/', 'url: ::1 is neither'),
            ('https://a@example.org/', 'url: it must have no user'),
            ("''", 'url: '),
            (f'{URL} --event x', "events: 'x' is unknown"),
            (f'{URL} --event capacity', 'events: without zone'),
            (
                f'{URL} --event allocation --remaining 1h',
                'remaining: the event',
            ),
            (f'{URL} --remaining 1', 'remaining: '),
            (f'{URL} --remaining 1s', 'from 1m to 366d'),
            (f'{URL} --remaining 367d', 'from 1m to 366d'),
            (
                URL + ''.join(f' --remaining {one}h' for one in range(1, 12)),
                'at most 10 values',
            ),
            (f'{URL} --zone a', 'resource_class: it is missing'),
            (f'{URL} --zone a --class VCPU', 'threshold: it is missing'),
            (f'{URL} --zone a --class x --threshold 1', 'resource_class: '),
            (f'{URL} --zone a --class VCPU --threshold 0', 'whole number'),
            (f"{URL} --zone '' --class VCPU --threshold 1", 'zone: '),
            (f'{URL} {watched} --project red', 'only operators'),
            (f'{URL} {watched} --reservation x', 'reservation: '),
            (f'{URL} {watched} --event reservation', 'events: without'),
            (f"{URL} --project 'a\nb'", 'project: '),
            (f'{URL} --secret x', 'secret: it must be'),
        ):
            with self.subTest(arguments=arguments):
                errors = self.fail_with(f'{SUBSCRIPTION} create {arguments}')

                self.assertIn(wanted, errors)
        self.assertEqual([], self.list_ids())

    def test_what_the_operator_allows(self) -> None:
        with pathlib.Path(self.config).open('a') as file:
            file.write(
                '[ext_resources_reservation]\n'
                'webhook_urls = http://10.0.0.1:8080/a\n'
                'webhook_networks = 10.0.0.0/24\n'
            )

        self.succeed(f'{SUBSCRIPTION} create http://10.0.0.1:8080/a/b')

        for url in (URL, 'http://10.0.0.1:8080/b'):
            self.assertIn(
                'webhook_urls', self.fail_with(f'{SUBSCRIPTION} create {url}')
            )

    def test_options_that_are_wrong(self) -> None:
        with pathlib.Path(self.config).open('a') as file:
            file.write(
                '[ext_resources_reservation]\nwebhook_networks = 10.0.0.1/8\n'
            )

        self.assertIn(
            'webhook_networks',
            self.fail_with(f'{SUBSCRIPTION} create {URL}'),
        )
