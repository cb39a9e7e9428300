# SPDX-License-Identifier: Apache-2.0

"""Quotas and limits by the extension ``/v1/extended`` of Blazar's API."""

from typing import Any

from tests.blazar import base
from tests.blazar import test_rest

QUOTAS = '/extended/quotas'
LIMITS = '/extended/limits'


class QuotaTestCase(test_rest.RestTestCase):
    def ask_admin(
        self, method: str, path: str, body: object = None
    ) -> base.Answer:
        return self.ask(
            method, path, body, project='operators', roles=test_rest.ADMIN
        )

    def list_all(self, path: str, **asked: Any) -> Any:
        """Return what is listed."""
        answer = self.ask('GET', path, **asked)
        self.assertEqual(200, answer.status, answer.body)
        [found] = answer.body.values()
        return found

    def list_projects(self, path: str) -> list[str]:
        """Return the projects that an operator sees."""
        found = self.list_all(f'{path}?all=1', roles=test_rest.ADMIN)
        return [one['project'] for one in found]


class QuotasTest(QuotaTestCase):
    def set_quota(
        self, unit_hours: object, project: str = 'project', **fields: Any
    ) -> base.Answer:
        path = f'{QUOTAS}/{project}/VCPU'
        return self.ask_admin(
            'PUT', path, {'unit_hours': unit_hours, **fields}
        )

    def test_one_is_set_seen_and_deleted(self) -> None:
        made = self.set_quota(100, days=7)
        self.reserve(1, 2.5)

        self.assertEqual(200, made.status, made.body)
        quota = {
            'project': 'project',
            'resource_class': 'VCPU',
            'unit_hours': 100,
            'days': 7,
        }
        self.assertEqual({**quota, 'used': 0, 'left': 100}, made.body['quota'])
        self.assertEqual(
            [{**quota, 'used': 6, 'left': 94}], self.list_all(QUOTAS)
        )
        path = f'{QUOTAS}/project/VCPU'
        self.assertEqual(204, self.ask_admin('DELETE', path).status)
        self.assertEqual([], self.list_all(QUOTAS))
        gone = self.ask_admin('DELETE', path)
        self.assertEqual(404, gone.status)
        self.assertIn('has no quota for VCPU', gone.text)

    def test_it_is_kept(self) -> None:
        self.set_quota(8)

        answer = self.create(
            starts_at=self.time(1), ends_at=self.time(4), servers=2
        )

        self.assertEqual(409, answer.status)
        self.assertIn('24 unit-hours requested, 8 left', answer.text)
        self.assertEqual({}, self.list_states())

    def test_days_are_thirty_by_default(self) -> None:
        self.assertEqual(30, self.set_quota(1).body['quota']['days'])

    def test_a_project_sees_its_own(self) -> None:
        self.set_quota(1)
        self.set_quota(2, project='other')

        [own] = self.list_all(QUOTAS, roles='reader')
        self.assertEqual(1, own['unit_hours'])
        self.assertEqual([own], self.list_all(f'{QUOTAS}?project=project'))
        for query in ('all=1', 'project=other'):
            answer = self.ask('GET', f'{QUOTAS}?{query}')
            self.assertEqual(403, answer.status, answer.body)

    def test_an_operator_sees_all(self) -> None:
        self.set_quota(1)
        self.set_quota(2, project='other')

        self.assertEqual(['other', 'project'], self.list_projects(QUOTAS))
        path = f'{QUOTAS}?project=other'
        [found] = self.list_all(path, roles=test_rest.ADMIN)
        self.assertEqual(2, found['unit_hours'])

    def test_only_an_operator_sets_and_deletes(self) -> None:
        self.set_quota(1)
        path = f'{QUOTAS}/project/VCPU'

        for method, body in (('PUT', {'unit_hours': 9}), ('DELETE', None)):
            answer = self.ask(method, path, body)
            self.assertEqual(403, answer.status, answer.body)
        [found] = self.list_all(QUOTAS)
        self.assertEqual(1, found['unit_hours'])

    def test_what_makes_no_sense(self) -> None:
        for body in (
            {},
            {'days': 3},
            {'unit_hours': 1, 'hours': 1},
            {'unit_hours': -1},
            {'unit_hours': 10**20},
            {'unit_hours': 1.5},
            {'unit_hours': '5'},
            {'unit_hours': None},
            {'unit_hours': True},
            {'unit_hours': 1, 'days': 0},
        ):
            with self.subTest(body=body):
                answer = self.ask_admin('PUT', f'{QUOTAS}/red/VCPU', body)

                self.assertEqual(400, answer.status, answer.body)
        for path in ('red/vcpu', '%20/VCPU', f'{256 * "x"}/VCPU'):
            answer = self.ask_admin(
                'PUT', f'{QUOTAS}/{path}', {'unit_hours': 1}
            )
            self.assertEqual(400, answer.status, answer.body)
        self.assertEqual([], self.list_projects(QUOTAS))


class LimitsTest(QuotaTestCase):
    PATH = f'{LIMITS}/project'

    def test_what_is_no_project_gets_none(self) -> None:
        self.site.projects = ['project']
        for path, body in (
            (f'{QUOTAS}/{{}}/VCPU', {'unit_hours': 1}),
            (f'{LIMITS}/{{}}', {'max_ahead': '1h'}),
        ):
            with self.subTest(path=path):
                for project, status in (('other', 400), ('project', 200)):
                    answer = self.ask_admin('PUT', path.format(project), body)
                    self.assertEqual(status, answer.status, answer.body)

    def test_they_are_set_seen_and_deleted(self) -> None:
        made = self.ask_admin('PUT', self.PATH, {'max_duration': '1h'})

        self.assertEqual(200, made.status, made.body)
        limit = {
            'project': 'project',
            'max_ahead': '52w1d',
            'max_duration': '1h',
        }
        self.assertEqual({'limit': limit}, made.body)
        self.assertEqual([limit], self.list_all(LIMITS))
        self.assertEqual(['project'], self.list_projects(LIMITS))
        answer = self.create(starts_at=self.time(1), ends_at=self.time(3))
        self.assertEqual(409, answer.status)
        self.assertIn(
            'may not last 2h: the longest duration is 1h', answer.text
        )
        self.assertEqual(204, self.ask_admin('DELETE', self.PATH).status)
        self.reserve(1, 3)
        self.assertEqual(404, self.ask_admin('DELETE', self.PATH).status)

    def test_what_was_read_can_be_written(self) -> None:
        [found] = self.list_all(LIMITS)
        del found['project']

        made = self.ask_admin('PUT', self.PATH, found)

        self.assertEqual([made.body['limit']], self.list_all(LIMITS))

    def test_only_an_operator_sets_and_deletes(self) -> None:
        for method, path, body in (
            ('PUT', self.PATH, {'max_duration': 'none'}),
            ('DELETE', self.PATH, None),
            ('GET', f'{LIMITS}?all=1', None),
            ('GET', f'{LIMITS}?project=other', None),
        ):
            answer = self.ask(method, path, body)
            self.assertEqual(403, answer.status, answer.body)

    def test_what_makes_no_sense(self) -> None:
        for body in (
            {'max_ahead': '0s'},
            {'max_ahead': 90},
            {'max_duration': ''},
            {'duration': '1h'},
        ):
            with self.subTest(**body):
                answer = self.ask_admin('PUT', self.PATH, body)

                self.assertEqual(400, answer.status, answer.body)
        self.assertEqual([], self.list_projects(LIMITS))
