# SPDX-License-Identifier: Apache-2.0

"""Tests that what is over can be deleted, and nothing else."""

from typing import Any

import fixtures
import sqlalchemy as sa

from nova_ext_resources.reservation import planner
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import purge
from nova_ext_resources.reservation.store import shards
from tests.unit.reservation import hosts
from tests.unit.reservation.store import stores

DURING = hosts.span(5, 9)


class PurgeTest(stores.StoreTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.database = databases.Database(self.url)
        self.admission = stores.make_admission(self.url)

    def end(self, key: str, now: int) -> None:
        self.admission.change(
            key, state.State.CANCELLED, now=now, reason='not needed'
        )

    def list_keys(self) -> set[str]:
        rows = stores.dump(self.url)
        return {
            one.reservation
            for name in ('reservations', 'states', 'servers')
            for one in rows[name]
        }

    def test_what_is_over_goes_and_all_else_stays(self) -> None:
        for key in ('kept', 'first', 'second', 'late'):
            self.admit(self.admission, key, DURING)
        for now, key in enumerate(('second', 'first', 'late')):
            self.end(key, now)

        for most, deleted, left in (
            (1, 1, {'kept', 'first', 'late'}),
            (9, 1, {'kept', 'late'}),
            (9, 0, {'kept', 'late'}),
        ):
            found = purge.purge(self.database, 1, most)

            self.assertEqual((deleted, left), (found, self.list_keys()))

    def test_who_has_not_read_for_long_misses_no_release(self) -> None:
        self.admit(self.admission, 'lease', DURING, least=4)
        idle = stores.make_admission(self.url)
        before = self.admit(idle, 'other', DURING)
        self.end('lease', 1)

        purge.purge(self.database, 1)

        self.assertIsInstance(before, planner.Refusal)
        after = self.admit(idle, 'other', DURING, least=4)
        self.assertIsInstance(after, planner.Plan)

    def test_what_goes_while_another_reads_is_not_held_for_ever(self) -> None:
        self.admit(self.admission, 'lease', DURING, least=4)
        idle = stores.make_admission(self.url)
        idle._refresh('x', 0)
        self.end('lease', 1)
        read = shards.read_revisions

        def read_and_purge(connection: sa.Connection) -> Any:
            found = read(connection)
            purge.purge(self.database, 1)
            return found

        with fixtures.MonkeyPatch(
            f'{shards.__name__}.read_revisions', read_and_purge
        ):
            idle._refresh('x', 0)
        idle._refresh('x', 0)

        self.assertEqual({}, idle._mirror.held)

    def test_a_key_can_be_used_again(self) -> None:
        self.admit(self.admission, 'lease', DURING)
        self.end('lease', 1)
        purge.purge(self.database, 1)

        plan = self.admit(self.admission, 'lease', hosts.span(7, 8), least=4)

        self.assertIsInstance(plan, planner.Plan)
        self.assertEqual(1, len(self.admission.list_changes('lease')))
