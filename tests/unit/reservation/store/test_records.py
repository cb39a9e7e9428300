# SPDX-License-Identifier: Apache-2.0

"""Tests of what is shown of reservations."""

from typing import Any

from nova_ext_resources.reservation import state as state_mod
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import records
from tests.unit.reservation import hosts
from tests.unit.reservation.store import stores

State = state_mod.State


class RecordsTest(stores.StoreTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.admission = stores.make_admission(self.url)
        self.admit(self.admission, 'late', hosts.span(9, 12), least=3)
        self.admit(
            self.admission, 'early', hosts.span(3, 9), project='red', least=2
        )
        self.admit(self.admission, 'gone', hosts.span(4, 9), project='red')
        self.admission.change(
            'gone', State.CANCELLED, now=2, reason='not needed'
        )

    def find(self, now: int = 0, **wanted: Any) -> list[records.Record]:
        with databases.Database(self.url).transaction() as connection:
            return records.list_records(connection, now, **wanted)

    def list_keys(self, now: int = 0, **wanted: Any) -> list[str]:
        return [one.request.key for one in self.find(now, **wanted)]

    def test_the_first_to_start_is_the_first(self) -> None:
        self.assertEqual(['early', 'gone', 'late'], self.list_keys())

    def test_those_with_a_second_of_a_window(self) -> None:
        for during, wanted in (
            (hosts.span(0, 3), []),
            (hosts.span(0, 4), ['early']),
            (hosts.span(8, 9), ['early', 'gone']),
            (hosts.span(9), ['late']),
        ):
            self.assertEqual(wanted, self.list_keys(during=during))

    def test_those_of_a_name(self) -> None:
        names = ('x', 'x~2', 'x~10', 'X~2', 'xy', 'x~y', 'x~2~3', 'xx~2')
        odd = ('\\', '\\~2', '%', '%~2', '_', '_~2', 'é', 'é~2')
        for start, key in enumerate((*names, *odd), 20):
            during = hosts.span(start, start + 1)
            self.admit(self.admission, key, during)

        for name, wanted in (
            ('x', ['x', 'x~2', 'x~10']),
            ('X', ['X~2']),
            ('x~2', ['x~2', 'x~2~3']),
            ('\\', ['\\', '\\~2']),
            ('%', ['%', '%~2']),
            ('_', ['_', '_~2']),
            ('é', ['é', 'é~2']),
            ('', []),
        ):
            with self.subTest(name=name):
                self.assertEqual(wanted, self.list_keys(name=name))

    def test_those_of_a_project(self) -> None:
        self.assertEqual(['early', 'gone'], self.list_keys(project='red'))
        self.assertEqual([], self.list_keys(project='blue'))

    def test_those_in_a_state_that_the_clock_decides(self) -> None:
        for now, state, wanted in (
            (2, State.PENDING, ['early', 'late']),
            (3, State.ACTIVE, ['early']),
            (9, State.ENDED, ['early']),
            (9, State.CANCELLED, ['gone']),
        ):
            found = self.list_keys(now, wanted=[state])

            self.assertEqual(wanted, found, f'{state} at {now}')

    def test_what_a_record_has(self) -> None:
        (one,) = self.find(now=4, key='late')

        self.assertEqual(hosts.span(9, 12), one.during)
        self.assertEqual(['a', 'b'], one.hosts)
        self.assertEqual(3, len(one.servers))
        self.assertEqual(stores.REASON, one.last.reason)

    def test_what_is_released_has_no_servers(self) -> None:
        (one,) = self.find(key='gone')

        self.assertEqual((), one.servers)
        self.assertEqual('not needed', one.last.reason)
