# SPDX-License-Identifier: Apache-2.0

"""Subscriptions by the extension ``/v1/extended`` of Blazar's API."""

from typing import Any

from tests.blazar import base
from tests.blazar import test_rest

PATH = '/extended/subscriptions'
URL = 'https://hooks.example.org/x'


class SubscriptionsTest(test_rest.RestTestCase):
    def subscribe(self, asked: Any = None, **document: Any) -> base.Answer:
        body = {'url': URL, **document}
        return self.ask('POST', PATH, body, **(asked or {}))

    def make_one(self, **document: Any) -> Any:
        answer = self.subscribe(**document)
        self.assertEqual(201, answer.status, answer.body)
        return answer.body['subscription']

    def test_one_is_made_shown_listed_and_deleted(self) -> None:
        made = self.make_one(events=['reservation.degraded'])
        self.assertTrue(made.pop('secret').startswith('whsec_'))
        self.assertEqual('project', made['project'])

        path = f'{PATH}/{made["id"]}'
        shown = self.ask('GET', path).body['subscription']
        # There may be a token in its path.
        self.assertTrue(shown['url'].endswith('/...'), shown['url'])
        self.assertEqual({**made, 'url': shown['url']}, shown)
        self.assertEqual([shown], self.ask('GET', PATH).body['subscriptions'])
        self.assertEqual(204, self.ask('DELETE', path).status)

        self.assertEqual(404, self.ask('GET', path).status)
        self.assertEqual(404, self.ask('DELETE', path).status)
        self.assertEqual([], self.ask('GET', PATH).body['subscriptions'])

    def test_those_of_other_projects(self) -> None:
        path = f'{PATH}/{self.make_one()["id"]}'
        other = {'project': 'other'}

        self.assertEqual(
            [], self.ask('GET', PATH, **other).body['subscriptions']
        )
        for method in ('GET', 'DELETE'):
            self.assertEqual(404, self.ask(method, path, **other).status)
        self.assertEqual(
            200, self.ask('GET', path, roles=test_rest.ADMIN, **other).status
        )

    def test_words_that_say_no_to_all(self) -> None:
        made = self.make_one(all_projects='false')
        admin = {'project': 'other', 'roles': test_rest.ADMIN}

        self.assertEqual('project', made['project'])
        for query, wanted in (('', []), ('?all=0', []), ('?all=1', [made])):
            answer = self.ask('GET', f'{PATH}{query}', **admin)
            found = [one['id'] for one in answer.body['subscriptions']]
            self.assertEqual([one['id'] for one in wanted], found)
        self.assertEqual(400, self.subscribe(all_projects='maybe').status)

    def test_only_administrators_are_told_of_all(self) -> None:
        watched = {'zone': 'north', 'resource_class': 'VCPU', 'threshold': 4}

        self.assertEqual(403, self.subscribe(all_projects=True).status)
        self.assertEqual(400, self.subscribe(**watched).status)
        answer = self.subscribe(
            {'roles': test_rest.ADMIN}, all_projects=True, **watched
        )

        self.assertEqual(201, answer.status, answer.body)
        self.assertIsNone(answer.body['subscription']['project'])
        self.assertEqual([], self.ask('GET', PATH).body['subscriptions'])

    def test_readers(self) -> None:
        path = f'{PATH}/{self.make_one()["id"]}'
        reader = {'roles': 'reader'}

        self.assertEqual(403, self.subscribe(reader).status)
        self.assertEqual(403, self.ask('GET', PATH, **reader).status)
        self.assertEqual(403, self.ask('DELETE', path, **reader).status)

    def test_a_reservation_of_another_project(self) -> None:
        own = self.reserve(1, 2)['id']

        self.make_one(reservation=own)

        self.assertEqual(
            404,
            self.subscribe({'project': 'other'}, reservation=own).status,
        )
        self.assertEqual(404, self.subscribe(reservation='none').status)

    def test_bad_input_makes_nothing(self) -> None:
        documents: list[dict[str, Any]] = [
            {'url': None},
            {'url': 5},
            {'url': 'http://example.org'},
            {'url': 'https://169.254.169.254/'},
            {'url': 'https://example.org/\x00'},
            {'events': 'reservation'},
            {'events': []},
            {'events': [None]},
            {'events': [['reservation']]},
            {'remaining': ['soon']},
            {'remaining': [3600]},
            {'remaining': {}},
            {'reservation': 5},
            {'reservation': ''},
            {'secret': 5},
            {'secret': 'whsec_x'},
            {'project': 'other'},
            {'unknown': 1},
        ]
        for document in documents:
            answer = self.subscribe(**document)
            self.assertEqual(400, answer.status, f'{document} {answer.body}')
        self.assertEqual([], self.ask('GET', PATH).body['subscriptions'])
