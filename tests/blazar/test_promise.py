# SPDX-License-Identifier: Apache-2.0

"""The acceptance tests of OPNFV Promise, asked of our API.

Those of danube.3.0, ``source/test/promise-intents.coffee``, by their numbers.
The page of the requirements says what becomes of those that are not here: 01
adds a provider, 04 and 06 create servers, 02, 11 and 12 change a capacity by
hand.
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
