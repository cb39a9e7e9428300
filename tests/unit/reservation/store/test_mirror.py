# SPDX-License-Identifier: Apache-2.0

"""Tests that a planner which follows the store is as the store is."""

import contextlib
import random
from typing import Any

from nova_ext_resources import exception
from nova_ext_resources.reservation import planner as planner_mod
from nova_ext_resources.reservation import state as state_mod
from nova_ext_resources.reservation.store import admission as admission_mod
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import mirror as mirror_mod
from tests.unit.reservation import hosts
from tests.unit.reservation.store import stores


class MirrorTest(stores.StoreTestCase):
    """Three processes change the store, one after the other."""

    def setUp(self) -> None:
        super().setUp()
        self.database = databases.Database(self.url)
        self.admissions = [stores.make_admission(self.url) for _ in range(3)]
        self.now = 0
        self.moved = 0

    def act(self, key: str, dice: random.Random) -> None:
        """Cancel what is there, now and then; else ask for more."""
        self.now += dice.random() < 0.2
        admission = dice.choice(self.admissions)
        held = sorted(admission._mirror.held)
        if held and dice.random() < 0.4:
            state = state_mod.State.CANCELLED
            # Another one may have cancelled it since.
            with contextlib.suppress(exception.StateRefused):
                admission.change(
                    dice.choice(held), state, now=self.now, reason='not needed'
                )
        else:
            self.ask_for(admission, key, dice)

    def ask_for(
        self,
        admission: admission_mod.Admission,
        key: str,
        dice: random.Random,
    ) -> None:
        start = self.now + dice.randint(0, 12)
        answer = self.admit(
            admission,
            key,
            hosts.span(start, start + dice.randint(1, 8)),
            self.now,
            demand=hosts.make_demand(_={'VCPU': dice.choice([3, 4, 5, 8])}),
        )
        if isinstance(answer, planner_mod.Plan):
            self.moved += len(answer.moved)

    def read(self, mirror: mirror_mod.Mirror) -> Any:
        with self.database.transaction() as connection:
            mirror.refresh(connection, self.now)
        planner = mirror.planner
        self.assertEqual([], hosts.list_overbooked(planner.fleet.calendar))
        return mirror.held, dict(planner.fleet.bookings), mirror.owners

    def make_new(self) -> mirror_mod.Mirror:
        fleet = (hosts.make_host('a'), hosts.make_host('b'))
        return mirror_mod.Mirror(hosts.make_planner(*fleet))

    def test_what_was_followed_equals_what_is_read_at_once(self) -> None:
        self.patch(admission_mod, 'KEPT_SECONDS', 0)
        self.patch(admission_mod, 'FIXED_SECONDS', 0)
        dice, seldom = random.Random(7), self.make_new()
        for number in range(120):
            self.act(f'{number}', dice)
            if not number % 10:
                new = self.read(self.make_new())

                self.assertEqual(new, self.read(seldom))
                for one in self.admissions:
                    self.assertEqual(new, self.read(one._mirror))

        self.assertGreater(self.moved, 1)
