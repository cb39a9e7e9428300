# SPDX-License-Identifier: Apache-2.0

"""Tests of what a lease asks for."""

import dataclasses
import datetime
from typing import Any

from nova_ext_resources import exception
from nova_ext_resources.reservation.blazar import orders
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import records
from nova_ext_resources.reservation.store import states
from tests import base
from tests.unit.reservation import hosts
from tests.unit.reservation import sites

NOW, HOUR = sites.NOW, sites.HOUR


def date(hours: float) -> datetime.datetime:
    """Return a date as Blazar has it: in UTC, and without saying so."""
    return datetime.datetime(2030, 1, 1) + datetime.timedelta(hours=hours)


def make_values(start: float, end: float, **fields: Any) -> dict[str, Any]:
    return {'start_date': date(start), 'end_date': date(end), **fields}


def make_record(start: float = 1, end: float = 2) -> records.Record:
    during = interval.Interval(NOW + int(start * HOUR), NOW + int(end * HOUR))
    return records.Record(
        request=hosts.make_request(
            'key',
            during,
            least=2,
            most=4,
            flavor='large',
            zone='north',
            affinity=plan_request.Affinity.SAME_HOST,
        ),
        during=during,
        last=states.Change(
            state=state.State.PENDING, changed_at=NOW, reason='made'
        ),
        state=state.State.PENDING,
        servers=(),
    )


class OrderTest(base.TestCase):
    def make(self, start: float = 1, end: float = 2, **fields: Any) -> Any:
        return orders.make_order(
            'key',
            make_values(start, end, **fields),
            project='red',
            now=NOW,
            max_priority=5,
        )

    def test_dates_and_project_are_those_of_the_lease(self) -> None:
        self.assertEqual(
            {
                'name': 'key',
                'project': 'red',
                'starts_at': '2030-01-01T01:00:00Z',
                'ends_at': '2030-01-01T02:00:00Z',
            },
            self.make(),
        )

    def test_what_starts_before_now_starts_now(self) -> None:
        for start in (0, -0.01):
            self.assertNotIn('starts_at', self.make(start))

    def test_what_blazar_says_is_not_asked_for(self) -> None:
        found = self.make(
            id='x', lease_id='y', resource_type='z', status='ok', zone=None
        )

        self.assertEqual(self.make(), found)

    def test_numbers_of_servers(self) -> None:
        for given, wanted in (
            ({'amount': 2}, {'servers': 2, 'at_most': 2}),
            ({'amount': '2'}, {'servers': 2, 'at_most': 2}),
            ({'min': 2}, {'servers': 2}),
            ({'max': 3}, {'at_most': 3}),
            ({'min': 1, 'max': 3}, {'servers': 1, 'at_most': 3}),
        ):
            with self.subTest(**given):
                found = self.make(**given)

                self.assertEqual({**self.make(), **wanted}, found)

    def test_blazars_own_words(self) -> None:
        for given, wanted in (
            ({'affinity': True}, {'affinity': 'same-host'}),
            ({'affinity': 'False'}, {'affinity': 'different-hosts'}),
            ({'affinity': 'None'}, {'affinity': 'any'}),
            ({'affinity': 'any'}, {'affinity': 'any'}),
            ({'flavor_id': 'x'}, {'flavor': 'x'}),
            ({'priority': '5'}, {'priority': 5}),
        ):
            with self.subTest(**given):
                found = self.make(**given)

                self.assertEqual({**self.make(), **wanted}, found)

    def test_what_a_lease_cannot_ask_for(self) -> None:
        for given in (
            {'name': 'x'},
            {'project': 'x'},
            {'duration': '1h'},
            {'at_most': 1},
            {'amount': 1, 'min': 1},
            {'amount': 1.5},
            {'amount': True},
            {'amount': [1]},
            {'priority': 6},
            {'priority': 'high'},
        ):
            with self.subTest(**given):
                err = self.assertRaises(
                    exception.InvalidReservation, self.make, **given
                )

                self.assertEqual(next(iter(given)), getattr(err, 'field', ''))


class ChangesTest(base.TestCase):
    def make(
        self, start: float = 1, end: float = 2, at: float = 0, **fields: Any
    ) -> dict[str, Any]:
        return orders.make_changes(
            make_record(),
            make_values(start, end, **fields),
            now=NOW + int(at * HOUR),
            max_priority=5,
        )

    def test_what_is_the_same_is_no_change(self) -> None:
        self.assertEqual({}, self.make())
        self.assertEqual(
            {},
            self.make(
                flavor='large', zone='north', affinity='true', priority=0
            ),
        )

    def test_dates(self) -> None:
        for start, end, at, wanted in (
            (1, 3, 0, {'ends_at': '2030-01-01T03:00:00Z'}),
            (0.5, 2, 0, {'starts_at': '2030-01-01T00:30:00Z'}),
            (0, 2, 0, {'starts_at': 'now'}),
            (1, 2, 1.5, {}),
            # Refused later, with what can be done.
            (1.7, 2, 1.5, {'starts_at': '2030-01-01T01:42:00Z'}),
        ):
            with self.subTest(start=start, end=end, at=at):
                self.assertEqual(wanted, self.make(start, end, at))

    def test_numbers_of_servers(self) -> None:
        for given, wanted in (
            ({'amount': 3}, {'servers': 3, 'at_most': 3}),
            ({'min': 3}, {'servers': 3, 'at_most': 4}),
            ({'min': 6}, {'servers': 6, 'at_most': 6}),
            ({'max': 3}, {'at_most': 3}),
        ):
            with self.subTest(**given):
                self.assertEqual(wanted, self.make(**given))

    def test_what_a_lease_keeps(self) -> None:
        for name, value in (
            ('flavor', 'small'),
            ('resources', {'VCPU': 1}),
            ('extra_specs', {}),
            ('zone', 'south'),
            ('affinity', 'false'),
        ):
            with self.subTest(name):
                given: Any = {name: value}
                err = self.assertRaises(
                    exception.InvalidReservation, self.make, **given
                )

                self.assertIn('make another lease', str(err))

    def test_what_is_undone_is_as_before(self) -> None:
        self.assertEqual(
            {
                'starts_at': '2030-01-01T01:00:00Z',
                'ends_at': '2030-01-01T02:00:00Z',
                'servers': 2,
                'at_most': 4,
                'priority': 0,
                'at_end': 'keep',
            },
            orders.make_undo(make_record()),
        )
        record = make_record()
        record = dataclasses.replace(
            record,
            request=dataclasses.replace(record.request, expires_after=5400),
        )
        self.assertEqual('1h30m', orders.make_undo(record)['expires_after'])
