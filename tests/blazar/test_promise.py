# SPDX-License-Identifier: Apache-2.0

"""The acceptance tests of OPNFV Promise, asked of our API.

Those of danube.3.0, ``source/test/promise-intents.coffee``, by their numbers.
01 adds a provider, which is decided against. 04, 06 and the end of 14 are
about servers: ``dev/gate/scenarios/promise.py`` plays them, with all others
again.
"""

from typing import Any

from tests.blazar import test_rest


class PromiseTest(test_rest.RestTestCase):
    """Two hosts of eight CPUs, in a zone each."""

    def read_capacity(self, kind: str, start: float, end: float) -> int:
        """Return the least that there is of all zones in a window."""
        answer = self.ask(
            'GET',
            f'/extended/capacity/amounts?from={self.time(start)}'
            f'&until={self.time(end)}&step={int((end - start) * 60)}m',
            roles=test_rest.ADMIN,
        )
        return sum(one[kind] for one in answer.body['capacity'])

    def plan(self, name: str, **fields: Any) -> None:
        answer = self.ask(
            'POST',
            '/extended/capacity/changes',
            {'name': name, 'host': 'a', 'reason': 'a test', **fields},
            roles=test_rest.ADMIN,
        )
        self.assertEqual(201, answer.status, answer.body)

    def test_02_and_12_increase_capacity(self) -> None:
        self.plan('more', amounts={'VCPU': 4}, starts_at=self.time(10))

        self.assertEqual(16, self.read_capacity('total', 9, 10))
        self.assertEqual(20, self.read_capacity('total', 10, 11))
        self.reserve(10, 20, servers=5)
        answer = self.create(starts_at=self.time(9), duration='1h', servers=5)
        self.assertEqual(409, answer.status)

    def test_11_decrease_capacity_of_a_later_window(self) -> None:
        window = {'starts_at': self.time(10), 'ends_at': self.time(20)}

        self.plan('less', amounts={'VCPU': -4}, **window)

        self.assertEqual(12, self.read_capacity('total', 10, 20))
        self.assertEqual(16, self.read_capacity('total', 20, 30))
        answer = self.create(servers=4, **window)
        self.assertEqual(409, answer.status)
        self.assertIn('3 can be had in that time', answer.text)

    def test_03_query_capacity_total(self) -> None:
        self.assertEqual(16, self.read_capacity('total', 0, 1))

    def test_05_reservation_for_immediate_use(self) -> None:
        made = self.create(servers=2, duration='2h').body['reservation']

        self.assertEqual('active', made['state'])
        self.assertEqual(8, self.read_capacity('reserved', 0, 1))

    def test_07_and_08_reservation_for_future_use_found_by_window(
        self,
    ) -> None:
        made = self.reserve(10, 20)

        window = f'from={self.time(9)}&until={self.time(21)}'
        self.assertEqual(
            [made['id']], self.list_ids(f'{window}&scope=exclusive')
        )
        window = f'from={self.time(15)}&until={self.time(16)}'
        self.assertEqual([made['id']], self.list_ids(window))
        self.assertEqual([], self.list_ids(f'{window}&scope=inclusive'))

    def test_09_and_10_update_and_cancel(self) -> None:
        made = self.reserve(10, 20)
        path = f'/extended/reservations/{made["id"]}'

        changed = self.ask('PUT', path, {'servers': 4})
        self.assertEqual(200, changed.status)
        self.assertEqual(0, self.read_capacity('available', 10, 20))
        self.assertEqual(204, self.ask('DELETE', path).status)

        self.assertEqual(16, self.read_capacity('available', 10, 20))
        self.assertEqual([], self.list_ids('state=pending'))

    def test_13_query_capacity_available(self) -> None:
        self.reserve(10, 20, servers=3)

        self.assertEqual(4, self.read_capacity('available', 10, 20))
        self.assertEqual(16, self.read_capacity('available', 20, 30))

    def test_14_what_is_asked_for_too_much_conflicts(self) -> None:
        future: dict[str, Any] = {
            'starts_at': self.time(10),
            'duration': '2h',
        }
        for when in ({}, future):
            answer = self.create(servers=5, **when)

            self.assertEqual(409, answer.status)
            self.assertIn('4 can be had in that time', answer.text)
        self.assertEqual([], self.list_ids())
