# SPDX-License-Identifier: Apache-2.0

"""The extension ``/v1/extended`` of Blazar's API."""

import re
from typing import Any

from blazar import policy
from oslo_policy import generator
from oslo_policy import policy as oslo_policy

from nova_ext_resources.reservation.blazar import policies
from nova_ext_resources.reservation.blazar import rest
from nova_ext_resources.reservation.blazar import words
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import slots
from tests.blazar import base

ADMIN = 'admin,member,reader'


class RestTestCase(base.BlazarTestCase):
    def create(self, **order: Any) -> base.Answer:
        body = {'flavor': 'large', **order}
        return self.ask('POST', '/extended/reservations', body)

    def reserve(self, start: float, end: float, **order: Any) -> Any:
        """Reserve from one hour to another, and return the reservation."""
        answer = self.create(
            starts_at=self.time(start), ends_at=self.time(end), **order
        )
        self.assertEqual(201, answer.status, answer.body)
        return answer.body['reservation']

    def time(self, hours: float) -> str:
        return self.date(hours).replace(' ', 'T') + ':00Z'

    def list_ids(self, query: str = '', **asked: Any) -> list[str]:
        answer = self.ask('GET', f'/extended/reservations?{query}', **asked)
        self.assertEqual(200, answer.status, answer.body)
        return [one['id'] for one in answer.body['reservations']]


class LimitTest(RestTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.open_store().limits.set_limits(
            'project', ahead=2 * 3600, duration=3600
        )

    def test_what_goes_beyond_is_refused_with_the_limit(self) -> None:
        for start, end, wanted in (
            (3, 4, 'may not start at 2030-01-01T03:00:00Z: the latest start'),
            (1, 3, 'may not last 2h: the longest duration is 1h'),
        ):
            answer = self.create(
                starts_at=self.time(start), ends_at=self.time(end)
            )

            self.assertEqual(409, answer.status)
            self.assertIn(wanted, answer.text)
        self.assertEqual({}, self.list_states())
        self.reserve(2, 3)

    def test_a_change_that_goes_beyond_changes_nothing(self) -> None:
        made = self.reserve(1, 2)

        path = f'/extended/reservations/{made["id"]}'
        answer = self.ask('PUT', path, {'ends_at': self.time(3)})

        self.assertEqual(409, answer.status)
        found = self.ask('GET', path).body['reservation']
        self.assertEqual('2030-01-01T02:00:00Z', found['ends_at'])

    def test_leases_have_the_same(self) -> None:
        answer = self.lease('long', 1, 3)

        self.assertEqual(409, answer.status)
        self.assertIn(
            'may not last 2h: the longest duration is 1h', answer.text
        )
        lease = self.make('short', 1, 2)
        answer = self.update(lease, end_date=self.date(3))
        self.assertEqual(409, answer.status)
        self.assertEqual('PENDING', self.show(lease)['status'])


class ReservationsTest(RestTestCase):
    def test_one_is_made_and_shown(self) -> None:
        made = self.reserve(
            1, 2, servers=2, at_most=3, zone='north', affinity='same-host'
        )

        path = f'/extended/reservations/{made["id"]}'
        found = self.ask('GET', path).body['reservation']
        self.assertEqual(
            {
                'id': made['id'],
                'state': 'pending',
                'reason': 'asked for by user user',
                'starts_at': '2030-01-01T01:00:00Z',
                'ends_at': '2030-01-01T02:00:00Z',
                'project': 'project',
                'flavor': 'large',
                'resources': {'VCPU': 4},
                'servers': 2,
                'servers_at_least': 2,
                'servers_at_most': 3,
                'servers_taken': 0,
                'taken_by': {},
                'zone': 'north',
                'affinity': 'same-host',
                'priority': 0,
                'expires_at': None,
                'at_end': 'keep',
            },
            made,
        )
        self.assertEqual(
            [
                {
                    'changed_at': '2030-01-01T00:00:00Z',
                    'state': 'pending',
                    'reason': 'asked for by user user',
                }
            ],
            found.pop('changes'),
        )
        self.assertEqual(made, found)

    def test_the_servers_in_it_are_shown(self) -> None:
        made = self.create(servers=2).body['reservation']
        slots.take(
            databases.Database(f'sqlite:///{self.folder}/reservations.db'),
            made['id'],
            'a server',
            lambda held: held[1],
            now=int(self.now()),
        )

        path = f'/extended/reservations/{made["id"]}'
        found = self.ask('GET', path).body['reservation']

        self.assertEqual(1, found['servers_taken'])
        self.assertEqual({f'{made["id"]}/1': 'a server'}, found['taken_by'])

    def test_no_trust_is_left_in_keystone(self) -> None:
        self.keystone.answers = 0

        self.reserve(1, 2)

    def test_by_default_it_starts_now_and_has_no_end(self) -> None:
        made = self.create().body['reservation']

        self.assertEqual('active', made['state'])
        self.assertIsNone(made['ends_at'])

    def test_a_refusal_has_the_counter_offer(self) -> None:
        self.reserve(1, 3, servers=4)

        answer = self.create(starts_at=self.time(2), duration='1h')

        self.assertEqual(409, answer.status)
        self.assertIn('None can be had in that time', answer.text)
        self.assertIn('from 2030-01-01T03:00:00Z', answer.text)
        self.assertNotIn('Host', answer.text)

    def test_the_log_has_a_refusal_without_a_traceback(self) -> None:
        for order in ({'servers': 9}, {'flavor': 'tiny'}, {'colour': 'red'}):
            answer = self.create(**order)

            self.assertIn(answer.status, (400, 409), answer.body)
        self.ask('GET', '/extended/reservations/none')

        self.assertIn('Host a: VCPU', self.log.output)
        self.assertNotIn('Traceback', self.log.output)

    def test_a_later_start_may_be_accepted(self) -> None:
        self.reserve(1, 3, servers=4)

        made = self.create(
            starts_at=self.time(2), duration='1h', delay='2h'
        ).body['reservation']

        self.assertEqual(self.time(3), made['starts_at'])

    def test_what_makes_no_sense(self) -> None:
        for wrong in (
            {'name': 'x'},
            {'project': 'other'},
            {'servers': 0},
            {'flavor': 'tiny'},
            {'starts_at': 'tomorrow'},
            {'colour': 'red'},
        ):
            with self.subTest(**wrong):
                answer = self.create(**wrong)

                self.assertEqual(400, answer.status, answer.body)
        self.assertEqual([], self.list_ids())

    def send(self, method: str, path: str, data: str, **headers: str) -> Any:
        return self.client.open(
            f'/v1{path}',
            method=method,
            data=data,
            environ_base={'REMOTE_ADDR': '127.0.0.1'},
            headers={**self.make_headers('project', ADMIN), **headers},
        )

    def test_bodies_that_are_no_object(self) -> None:
        json = {'Content-Type': 'application/json'}
        for method, path in (
            ('POST', '/extended/reservations'),
            ('PUT', '/extended/reservations/any'),
            ('POST', '/extended/capacity/changes'),
            ('POST', '/extended/subscriptions'),
        ):
            for data in ('[1]', '"x"', 'null', '3', '{', '[' * 100_000):
                with self.subTest(path, data=data[:9]):
                    answer = self.send(
                        method, path, data, Accept='*/*', **json
                    )

                    self.assertEqual(400, answer.status_code, answer.data)
                    self.assertIn(b'the body is not', answer.data)
        self.assertEqual([], self.list_ids())

    def test_a_body_of_another_type_is_refused(self) -> None:
        answer = self.send(
            'POST',
            '/extended/reservations',
            '{"flavor": "large"}',
            **{'Content-Type': 'text/plain'},
        )

        self.assertEqual(415, answer.status_code, answer.data)
        self.assertEqual([], self.list_ids())

    def test_who_names_no_type_gets_json(self) -> None:
        answer = self.send(
            'POST',
            '/extended/reservations',
            '{"flavor": "large"}',
            **{'Content-Type': 'application/json'},
        )

        self.assertEqual(201, answer.status_code, answer.data)
        made = answer.get_json()['reservation']['id']
        self.assertEqual([made], self.list_ids())

    def test_it_is_changed_and_cancelled(self) -> None:
        made = self.reserve(1, 2)
        path = f'/extended/reservations/{made["id"]}'

        changed = self.ask('PUT', path, {'servers': 3, 'duration': '3h'})
        cancelled = self.ask('DELETE', path)

        self.assertEqual(200, changed.status)
        self.assertEqual(3, changed.body['reservation']['servers'])
        self.assertEqual(self.time(4), changed.body['reservation']['ends_at'])
        self.assertEqual(204, cancelled.status)
        found = self.ask('GET', path).body['reservation']
        self.assertEqual('cancelled', found['state'])
        self.assertEqual(
            [
                'asked for by user user',
                'changed by user user',
                'cancelled by user user',
            ],
            [one['reason'] for one in found['changes']],
        )

    def test_its_servers_need_something_else_elsewhere(self) -> None:
        made = self.reserve(1, 2, zone='north')
        path = f'/extended/reservations/{made["id"]}'

        for changes, flavor, zone in (
            ({'zone': 'south'}, 'large', 'south'),
            ({'resources': {'VCPU': 8}, 'zone': None}, '', None),
        ):
            answer = self.ask('PUT', path, changes)

            self.assertEqual(200, answer.status, answer.body)
            found = answer.body['reservation']
            self.assertEqual((flavor, zone), (found['flavor'], found['zone']))

    def test_what_is_over_is_not_changed(self) -> None:
        made = self.reserve(1, 2)
        path = f'/extended/reservations/{made["id"]}'
        self.ask('DELETE', path)
        self.pass_time(0.1)

        for method, body in (('PUT', {'servers': 2}), ('DELETE', None)):
            self.assertEqual(409, self.ask(method, path, body).status)

    def test_that_of_a_lease_is_changed_with_its_lease(self) -> None:
        lease = self.make('night', 1, 2)
        path = f'/extended/reservations/{lease["reservations"][0]["id"]}'

        for method, body in (('PUT', {'servers': 2}), ('DELETE', None)):
            answer = self.ask(method, path, body)

            self.assertEqual(400, answer.status)
            self.assertIn(f'by lease {lease["id"]} (night)', answer.text)
        self.assertEqual('pending', self.read(lease).state)

    def test_those_without_a_lease_are_no_orphans(self) -> None:
        made = self.reserve(1, 2)

        self.play_monitor()

        self.assertEqual([made['id']], [*self.list_states()])


class ListTest(RestTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.early = self.reserve(1, 3)['id']
        self.late = self.reserve(4, 6)['id']
        self.gone = self.reserve(4, 6)['id']
        self.ask('DELETE', f'/extended/reservations/{self.gone}')

    def test_by_window(self) -> None:
        for query, wanted in (
            (f'from={self.time(3)}&until={self.time(4)}', []),
            (f'from={self.time(2)}&until={self.time(4)}', [self.early]),
            (f'until={self.time(2)}', [self.early]),
            (f'from={self.time(5)}&state=pending', [self.late]),
            (
                f'from={self.time(0)}&until={self.time(5)}&scope=exclusive',
                [self.early],
            ),
            (
                f'from={self.time(5)}&until={self.time(5.5)}&state=pending'
                '&scope=inclusive',
                [],
            ),
            (
                f'from={self.time(5)}&until={self.time(9)}&state=pending'
                '&scope=inclusive',
                [self.late],
            ),
        ):
            with self.subTest(query):
                self.assertEqual(wanted, self.list_ids(query))

    def test_a_window_may_have_no_end(self) -> None:
        later = self.reserve(100, 101)['id']

        self.assertEqual(
            [self.late, later],
            self.list_ids(f'from={self.time(5)}&state=pending'),
        )

    def test_by_zone(self) -> None:
        south = self.reserve(9, 10, zone='south')['id']

        self.assertEqual([south], self.list_ids('zone=south'))
        self.assertEqual(
            [self.early, self.late], self.list_ids('zone=north&state=pending')
        )

    def test_by_state(self) -> None:
        self.assertEqual([self.gone], self.list_ids('state=cancelled'))
        self.assertEqual(3, len(self.list_ids('state=cancelled,pending')))

    def reserve_other(self) -> str:
        """Reserve for another project, and return the id."""
        order = {
            'flavor': 'large',
            'starts_at': self.time(9),
            'ends_at': self.time(10),
        }
        path = '/extended/reservations'
        answer = self.ask('POST', path, order, project='other')
        return str(answer.body['reservation']['id'])

    def test_page_by_page(self) -> None:
        """Two begin at the same time, and one of the first page changes."""
        every = self.list_ids()
        self.assertEqual([self.early, *sorted([self.late, self.gone])], every)
        self.reserve_other()

        for limit in (1, 2, 3, 4):
            with self.subTest(limit=limit):
                found: list[str] = []
                page = self.list_ids(f'limit={limit}')
                while page:
                    self.assertLessEqual(len(page), limit)
                    found += page
                    query = f'limit={limit}&marker={page[-1]}'
                    page = self.list_ids(query)
                self.assertEqual(every, found)
        # It need not be among those that are asked for.
        self.assertEqual(
            [self.late] if self.gone < self.late else [],
            self.list_ids(f'marker={self.gone}&state=pending&limit=0'),
        )

    def test_what_makes_no_sense(self) -> None:
        theirs = self.reserve_other()
        for query in (
            'limit=-1',
            'limit=many',
            'marker=unknown',
            f'marker={theirs}',
            'from=tomorrow',
            'scope=near',
            'state=red',
            'zone=east',
            f'from={self.time(2)}&until={self.time(1)}',
        ):
            with self.subTest(query):
                answer = self.ask('GET', f'/extended/reservations?{query}')

                self.assertEqual(400, answer.status, answer.body)


class CapacityTest(RestTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.reserve(2, 4, servers=3)

    def ask_capacity(self, what: str, query: str) -> base.Answer:
        return self.ask(
            'GET', f'/extended/capacity/{what}?{query}', roles=ADMIN
        )

    def test_how_many_servers_fit(self) -> None:
        window = f'from={self.time(1)}&until={self.time(5)}'
        answer = self.ask(
            'GET', f'/extended/capacity/servers?flavor=large&{window}'
        )
        south = self.ask_capacity(
            'servers', f'resources=VCPU:2&zone=south&step=4h&{window}'
        )

        self.assertEqual(
            [(self.time(1), 4), (self.time(2), 1), (self.time(4), 4)],
            [
                (one['starts_at'], one['servers'])
                for one in answer.body['capacity']
            ],
        )
        self.assertEqual(
            [
                {
                    'starts_at': self.time(1),
                    'ends_at': self.time(5),
                    'servers': 2,
                }
            ],
            south.body['capacity'],
        )

    def test_amounts(self) -> None:
        answer = self.ask_capacity('amounts', 'zone=south')

        self.assertEqual(
            [
                (0, 2, 8, 0, 0, 8),
                (2, 4, 8, 0, 4, 4),
                (4, 24, 8, 0, 0, 8),
            ],
            [
                (
                    *(
                        int(hour)
                        for hour in (
                            self.hours(one['starts_at']),
                            self.hours(one['ends_at']),
                        )
                    ),
                    one['total'],
                    one['used'],
                    one['reserved'],
                    one['available'],
                )
                for one in answer.body['capacity']
            ],
        )

    def hours(self, text: str) -> int:
        day, hour = int(text[8:10]), int(text[11:13])
        return (day - 1) * 24 + hour

    def test_what_makes_no_sense(self) -> None:
        for what, query in (
            ('amounts', 'zone=east'),
            ('amounts', 'step=1s'),
            ('amounts', 'step=soon'),
            ('servers', ''),
            ('servers', 'flavor=tiny'),
            ('servers', 'resources=VCPU'),
        ):
            with self.subTest(what=what, query=query):
                answer = self.ask_capacity(what, query)

                self.assertEqual(400, answer.status, answer.body)


class CapacityChangesTest(RestTestCase):
    PATH = '/extended/capacity/changes'

    def ask_admin(self, *args: Any) -> base.Answer:
        return self.ask(*args, roles=ADMIN)

    def plan(self, **fields: Any) -> base.Answer:
        plan = {
            'name': 'night',
            'host': 'a',
            'maintenance': True,
            'starts_at': self.time(1),
            'ends_at': self.time(3),
            'reason': 'new memory',
            **fields,
        }
        return self.ask_admin('POST', self.PATH, plan)

    def test_one_is_planned_shown_and_deleted(self) -> None:
        made = self.plan()

        self.assertEqual(201, made.status, made.body)
        change = made.body['change']
        self.assertEqual([], change.pop('moved'))
        self.assertEqual([], change.pop('degraded'))
        self.assertEqual(
            {
                'name': 'night',
                'host': 'a',
                'provider': '',
                'provider_uuid': '',
                'maintenance': True,
                'amounts': {},
                'starts_at': '2030-01-01T01:00:00Z',
                'ends_at': '2030-01-01T03:00:00Z',
                'reason': 'new memory',
                'created_by': 'user',
                'created_at': '2030-01-01T00:00:00Z',
            },
            change,
        )
        path = f'{self.PATH}/night'
        shown = self.ask_admin('GET', path)
        self.assertEqual({'change': change}, shown.body)
        listed = self.ask_admin('GET', self.PATH)
        self.assertEqual({'changes': [change]}, listed.body)
        self.assertEqual(200, self.ask_admin('DELETE', path).status)
        self.assertEqual([], self.ask_admin('GET', self.PATH).body['changes'])
        for method in ('GET', 'DELETE'):
            self.assertEqual(404, self.ask_admin(method, path).status)

    def test_what_is_promised_refuses_it_or_makes_way(self) -> None:
        made = self.reserve(2, 4, zone='north')['id']
        free = self.reserve(2, 4)['id']

        refused = self.plan()
        forced = self.plan(force=True)

        self.assertEqual(409, refused.status)
        self.assertIn(made, refused.text)
        self.assertIn(free, refused.text)
        self.assertEqual(201, forced.status)
        self.assertEqual([free], forced.body['change']['moved'])
        self.assertEqual([made], forced.body['change']['degraded'])

    def test_more_that_others_count_on(self) -> None:
        plan = {'name': 'x', 'host': 'a', 'amounts': {'VCPU': 4}}
        plan |= {'reason': 'more', 'starts_at': self.time(1)}
        self.assertEqual(201, self.ask_admin('POST', self.PATH, plan).status)
        made = self.reserve(2, 4, zone='north', servers=3)['id']
        path = f'{self.PATH}/x'

        self.assertEqual(409, self.ask_admin('DELETE', path).status)
        gone = self.ask_admin('DELETE', f'{path}?force=1')

        self.assertEqual(200, gone.status, gone.body)
        self.assertEqual([made], gone.body['change']['degraded'])

    def test_what_is_over_is_listed_if_asked_for(self) -> None:
        self.plan()
        self.clock.advance_time_seconds(3 * 3600)

        for query, number in (('', 0), ('?all=1', 1)):
            found = self.ask_admin('GET', f'{self.PATH}{query}')
            self.assertEqual(number, len(found.body['changes']))

    def test_what_makes_no_sense(self) -> None:
        for wrong in (
            {'host': 'c'},
            {'amounts': {'VCPU': 1}},
            {'starts_at': self.time(3)},
            {'starts_at': '2020-01-01T00:00Z'},
            {'reason': ''},
            {'reason': 3},
            {'x': 1},
            {'name': 3},
        ):
            with self.subTest(wrong=wrong):
                answer = self.plan(**wrong)
                self.assertEqual(400, answer.status, answer.body)
        self.assertEqual([], self.ask_admin('GET', self.PATH).body['changes'])

    def test_only_what_says_so_forces(self) -> None:
        made = self.reserve(2, 4)['id']
        for value in (False, 0, 'false', None, 'yes', 2, [1]):
            with self.subTest(value=value):
                answer = self.plan(force=value)
                self.assertIn(answer.status, (400, 409), answer.body)
                wrong = value in (None, 'yes', 2, [1])
                self.assertEqual(400 if wrong else 409, answer.status)
        self.assertEqual(201, self.plan(force='true').status)
        self.assertEqual(
            [], self.ask_admin('GET', f'{self.PATH}?all=0').body['changes'][1:]
        )
        self.assertTrue(made)

        plan = {'name': 'x', 'host': 'b', 'amounts': {'VCPU': 8}}
        plan |= {'reason': 'more', 'starts_at': self.time(5)}
        self.assertEqual(201, self.ask_admin('POST', self.PATH, plan).status)
        self.reserve(6, 8, zone='south', servers=4)
        for query, status in (
            ('?force=0', 409),
            ('?force=false', 409),
            ('?force=', 400),
            ('?force=maybe', 400),
            ('?force=TRUE', 200),
        ):
            answer = self.ask_admin('DELETE', f'{self.PATH}/x{query}')
            self.assertEqual(status, answer.status, query)

    def test_what_is_no_plan(self) -> None:
        for wrong in (
            {'name': 'rack/1'},
            {'name': 'night.json'},
            {'maintenance': None, 'amounts': {'VCPU': -4.0}},
        ):
            answer = self.plan(**wrong)
            self.assertEqual(400, answer.status, answer.body)
        for plan in ([], [1], 'x', 3):
            answer = self.ask_admin('POST', self.PATH, plan)
            self.assertEqual(400, answer.status, answer.body)
        self.assertEqual([], self.ask_admin('GET', self.PATH).body['changes'])

    def test_who_may_see_may_not_plan(self) -> None:
        """Support can be given reading, and planning without force."""
        self.allow('get')
        self.plan()
        path = f'{self.PATH}/night'
        for one in (path, self.PATH):
            self.assertEqual(200, self.ask('GET', one).status)
        self.assertEqual(403, self.ask('POST', self.PATH, {}).status)
        self.assertEqual(403, self.ask('DELETE', path).status)

        self.allow('post', 'delete')

        body = {'name': 'x', 'host': 'b', 'maintenance': True, 'reason': 'y'}
        body['starts_at'] = self.time(9)
        forced = self.ask('POST', self.PATH, {**body, 'force': True})
        self.assertEqual(403, forced.status)
        self.assertEqual(201, self.ask('POST', self.PATH, body).status)
        self.assertEqual(403, self.ask('DELETE', f'{path}?force=1').status)
        self.assertEqual(200, self.ask('DELETE', path).status)

    def allow(self, *actions: str) -> None:
        """Let anybody do something in this test."""
        rules = policy._ENFORCER.rules
        for action in actions:
            name = f'blazar:extended:capacity_changes_{action}'
            self.addCleanup(rules.__setitem__, name, rules[name])
            rules[name] = oslo_policy.RuleDefault(name, '@').check

    def test_only_an_admin_may(self) -> None:
        self.plan()
        path = f'{self.PATH}/night'

        for method, one, body in (
            ('GET', self.PATH, None),
            ('GET', path, None),
            ('POST', self.PATH, {'name': 'x'}),
            ('DELETE', path, None),
        ):
            answer = self.ask(method, one, body)
            self.assertEqual(403, answer.status, answer.body)


class PoliciesTest(RestTestCase):
    def test_a_project_has_its_own_reservations(self) -> None:
        made = self.reserve(1, 2)
        path = f'/extended/reservations/{made["id"]}'

        for method, body in (
            ('GET', None),
            ('PUT', {'servers': 2}),
            ('DELETE', None),
        ):
            answer = self.ask(method, path, body, project='other')
            self.assertEqual(404, answer.status, answer.body)
        self.assertEqual([], self.list_ids(project='other'))
        self.assertEqual([], self.list_ids('all=1', project='other'))

    def test_an_admin_has_all_and_sees_hosts(self) -> None:
        made = self.reserve(1, 2, zone='south')
        path = f'/extended/reservations/{made["id"]}'
        admin = {'project': 'operators', 'roles': ADMIN}

        shown = self.ask('GET', path, **admin)
        changed = self.ask('PUT', path, {'priority': 5}, **admin)

        self.assertEqual({'b': 1}, shown.body['reservation']['hosts'])
        self.assertEqual(200, changed.status)
        self.assertEqual([], self.list_ids(**admin))
        self.assertEqual([made['id']], self.list_ids('all=1', **admin))
        self.assertEqual(204, self.ask('DELETE', path, **admin).status)

    def test_what_only_an_admin_may(self) -> None:
        made = self.reserve(1, 2)
        path = f'/extended/reservations/{made["id"]}'

        for answer in (
            self.create(priority=1),
            self.create(priority='1'),
            self.ask('PUT', path, {'priority': 1}),
            self.ask('GET', '/extended/capacity/amounts'),
        ):
            self.assertEqual(403, answer.status, answer.body)
        self.assertEqual(201, self.create(priority=-1).status)

    def test_a_reader_changes_nothing(self) -> None:
        made = self.reserve(1, 2)
        path = f'/extended/reservations/{made["id"]}'

        for method, one, body in (
            ('POST', '/extended/reservations', {'flavor': 'large'}),
            ('PUT', path, {'servers': 2}),
            ('DELETE', path, None),
        ):
            answer = self.ask(method, one, body, roles='reader')
            self.assertEqual(403, answer.status, answer.body)
        shown = self.ask('GET', path, roles='reader')
        self.assertEqual(200, shown.status)

    def test_without_a_role_nothing_is_seen(self) -> None:
        for path in (
            '/extended/reservations',
            '/extended/capacity/servers?flavor=large',
        ):
            answer = self.ask('GET', path, roles='')

            self.assertEqual(403, answer.status, answer.body)

    def test_no_request_is_served_without_a_project(self) -> None:
        made = self.reserve(1, 2)
        headers = self.make_headers('project', ADMIN)
        del headers['X-Project-Id']
        self.patch(self, 'make_headers', lambda *_args: headers)
        requests = [
            (method, re.sub('<[^>]*>', made['id'], str(rule)))
            for rule in self.client.application.url_map.iter_rules()
            if str(rule).startswith('/v1/extended/')
            for method in rule.methods - {'HEAD', 'OPTIONS'}
        ]

        for scope in (
            {},
            {'X-Domain-Id': 'd'},
            {'Openstack-System-Scope': 'all'},
        ):
            headers |= scope
            for method, path in requests:
                with self.subTest(f'{method} {path} {scope}'):
                    answer = self.ask(method, path.removeprefix('/v1'), {})

                    self.assertEqual(403, answer.status, answer.body)
                    self.assertIn('has no project', answer.text)
        self.assertIn(
            ('DELETE', f'/v1/extended/reservations/{made["id"]}'), requests
        )
        self.assertEqual([made['id']], [*self.list_states()])

    def test_a_word_of_no_meaning_is_refused(self) -> None:
        cases = {
            'reservations?stat=ended': "'stat'",
            'reservations?until=2030-01-01T00:00Z&al=1': "'al'",
            'capacity/servers?flavour=large': 'flavor, from, resources',
            'reservations/1?force=1': 'has no parameters',
        }
        for path, text in cases.items():
            with self.subTest(path=path):
                answer = self.ask('GET', f'/extended/{path}', roles=ADMIN)

                self.assertEqual(400, answer.status, answer.body)
                self.assertIn(text, str(answer.body))

    def test_each_request_with_a_query_has_words(self) -> None:
        requests = rest.rest.routes_with_query_support

        self.assertEqual(
            {one.rpartition('.')[2] for one in requests}, words.WORDS.keys()
        )

    def test_users_see_no_hosts_in_a_list(self) -> None:
        self.reserve(1, 2)

        path = '/extended/reservations'
        [mine] = self.ask('GET', path).body['reservations']
        [whole] = self.ask('GET', path, roles=ADMIN).body['reservations']

        self.assertNotIn('hosts', mine)
        self.assertEqual({'a': 1}, whole['hosts'])

    def test_each_can_be_changed_by_operators(self) -> None:
        policy.init()

        for one in policies.list_policies():
            self.assertIn(one.name, policy._ENFORCER.registered_rules)

    def test_the_generator_of_samples_finds_them(self) -> None:
        found = generator.get_policies_dict(['nova_ext_resources'])

        self.assertEqual(
            [one.name for one in policies.list_policies()],
            [one.name for one in found['nova_ext_resources']],
        )
