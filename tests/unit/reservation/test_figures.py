# SPDX-License-Identifier: Apache-2.0

"""Tests of what is promised, taken and lent."""

import dataclasses

from nova_ext_resources.claims.trackers import count
from nova_ext_resources.reservation import figures
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import slots
from tests.unit.reservation import sites
from tests.unit.reservation import test_api

State = state.State


class FiguresTest(test_api.ApiTestCase):
    """Two hosts of eight CPUs in a zone each."""

    def read(self) -> figures.Figures:
        """Read the hosts anew, as each measurement does."""
        api = sites.make_reservations(self.url, self.site, self.clock)
        return api.read_figures()

    def read_one(self, zone: str) -> figures.Figure:
        return self.read().kinds[zone, 'VCPU']

    def hold(self, host: str, cpus: int) -> None:
        """Let servers without a slot hold CPUs of a host."""
        place = (host, 'VCPU')
        self.site.hosts = [
            one
            if one.name != host
            else dataclasses.replace(
                one,
                view=dataclasses.replace(
                    one.view,
                    tracked={
                        place: dataclasses.replace(
                            one.view.tracked[place],
                            state=count.CountState(8, used=cpus),
                        )
                    },
                ),
            )
            for one in self.site.hosts
        ]

    def take(self, key: str) -> None:
        slots.take(
            databases.Database(self.url),
            key,
            'a server',
            lambda held: held[0],
            now=int(self.clock.now),
        )

    def test_where_nothing_is_reserved(self) -> None:
        self.hold('a', 3)

        found = self.read()

        self.assertEqual(
            {
                ('north', 'VCPU'): figures.Figure(
                    total=8, used=3, promised=0, available=5
                ),
                ('south', 'VCPU'): figures.Figure(
                    total=8, used=0, promised=0, available=8
                ),
            },
            found.kinds,
        )
        self.assertEqual(sites.NOW, found.measured_at)
        self.assertEqual(
            {State.PENDING: 0, State.ACTIVE: 0, State.DEGRADED: 0},
            found.reservations,
        )
        self.assertEqual((0, 0), (found.taken, found.free))

    def test_what_is_promised_and_taken(self) -> None:
        self.create('now', servers=2, zone='north')
        self.create('later', servers=2, starts_at='+2h', zone='south')
        self.create('gone', zone='south', duration='1h')
        self.api.cancel('gone')
        self.take('now')

        found = self.read()

        self.assertEqual(
            figures.Figure(total=8, used=0, promised=8, taken=4, available=0),
            found.kinds['north', 'VCPU'],
        )
        self.assertEqual(
            figures.Figure(total=8, used=0, promised=0, available=8),
            found.kinds['south', 'VCPU'],
        )
        self.assertEqual(
            {State.PENDING: 1, State.ACTIVE: 1, State.DEGRADED: 0},
            found.reservations,
        )
        self.assertEqual((1, 1), (found.taken, found.free))

    def test_what_is_lent_is_what_must_be_given_back(self) -> None:
        self.create('lease', starts_at='+2h', duration='1h', zone='north')

        for held, lent in ((4, 0), (5, 1), (8, 4)):
            self.hold('a', held)
            self.assertEqual(lent, self.read_one('north').lent)
        self.assertEqual(0, self.read_one('south').lent)
        self.clock.now += 3 * sites.HOUR
        self.assertEqual(0, self.read_one('north').lent)

    def test_what_is_degraded(self) -> None:
        self.create('lease', starts_at='+2h', servers=2, zone='north')
        self.api._survey.find_changing().change(
            'lease', State.DEGRADED, now=sites.NOW, reason='test'
        )

        self.assertEqual(8, self.read_one('north').degraded)
        self.assertEqual(0, self.read_one('south').degraded)
        self.assertEqual(1, self.read().reservations[State.DEGRADED])

    def test_slots_of_a_host_that_is_gone(self) -> None:
        self.create('lease', zone='north')
        self.take('lease')
        self.site.hosts = self.site.hosts[1:]

        found = self.read()

        self.assertEqual([('south', 'VCPU')], [*found.kinds])
        self.assertEqual((1, 0), (found.taken, found.free))
