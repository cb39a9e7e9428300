# SPDX-License-Identifier: Apache-2.0

"""What is measured of reservations is real; how long it takes is not tested.

Blazar's side has tests where Blazar is installed, see tests/blazar.
"""

import os
import sys

from dev.bench.harness import admissions
from dev.bench.harness import leased
from dev.bench.harness import leases
from dev.bench.harness import peers
from dev.bench.harness import planning
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import records
from tests import base
from tests.unit.reservation import hosts

SHAPE = leases.Shape(5, 40)


class LeasesTest(base.TestCase):
    def test_a_shape_is_read(self) -> None:
        self.assertEqual(SHAPE, leases.Shape.parse('5x40'))
        for text in ('5', '5x', 'x40', '0x1', '-5x40', '5X40', ''):
            self.assertRaises(ValueError, leases.Shape.parse, text)

    def test_leases_never_take_more_than_there_is(self) -> None:
        for full in (False, True):
            fleet = leased.Leased(SHAPE, full=full)

            self.assertEqual([], hosts.list_overbooked(fleet.calendar))
            self.assertEqual(
                {(f'lease {number}/0') for number in range(len(fleet.leases))},
                {*fleet.fleet.bookings},
            )
        self.assertEqual(
            leased.Leased(SHAPE).leases, leased.Leased(SHAPE).leases
        )

    def test_hosts_are_full_but_for_one(self) -> None:
        fleet = leased.Leased(SHAPE, full=True)

        self.assertEqual({0, 1, 2, 3}, {one.host for one in fleet.leases})
        for _number in range(20):
            during = fleet.draw()
            self.assertEqual(
                [4],
                [
                    host
                    for host in range(SHAPE.hosts)
                    if fleet.fits(host, leases.ASKED, during)
                ],
            )

    def test_they_are_read_as_they_were_written(self) -> None:
        path = os.path.join(self.make_folder(), 'leases.json')
        fleet = leased.Leased(SHAPE)

        leases.write(path, fleet.leases)

        self.assertEqual(fleet.leases, leases.read(path))


class AdmittingTest(base.TestCase):
    """Our side: a process of its own, and a database."""

    def setUp(self) -> None:
        super().setUp()
        self.folder = self.make_folder()
        self.url = f'sqlite:///{self.folder}/reservations.db'

    def fill(self, fleet: leased.Leased) -> peers.Peer:
        path = os.path.join(self.folder, 'leases.json')
        leases.write(path, fleet.leases)
        peer = peers.Peer(
            sys.executable, 'dev.bench.harness.admitting', self.url
        )
        self.addCleanup(peer.close)
        self.assertEqual(len(fleet.leases), peer.ask('fill', path=path)[0])
        peer.ask('load', hosts=SHAPE.hosts)
        peer.ask('start')
        return peer

    def list_records(self) -> dict[str, records.Record]:
        database = databases.Database(self.url)
        self.addCleanup(database.close)
        with database.transaction() as connection:
            found = records.list_records(connection, leases.NOW)
        return {one.request.key: one for one in found}

    def test_the_database_has_the_leases(self) -> None:
        fleet = leased.Leased(SHAPE)

        self.fill(fleet)

        found = self.list_records()
        self.assertEqual(len(fleet.leases), len(found))
        for number, lease in enumerate(fleet.leases):
            record = found[f'lease {number}']
            (server,) = record.servers
            self.assertEqual(
                lease,
                (
                    leases.number_host(server.host),
                    record.during.start,
                    record.during.end,
                    {key[1]: amount for key, amount in server.places.items()},
                ),
            )

    def test_an_admission_is_stored(self) -> None:
        fleet = leased.Leased(SHAPE)
        peer = self.fill(fleet)
        during = fleet.draw()

        host, spent = peer.ask(
            'admit', name='new', start=during.start, end=during.end
        )

        self.assertTrue(
            fleet.fits(leases.number_host(host), leases.ASKED, during)
        )
        record = self.list_records()['new']
        self.assertEqual((during, [host]), (record.during, record.hosts))
        self.assertLess(0, spent.cpu)

    def test_a_refusal_has_a_counter_offer(self) -> None:
        fleet = leased.Leased(SHAPE, full=True)
        peer = self.fill(fleet)
        during = fleet.draw()

        offer, _spent = peer.ask(
            'refuse',
            name='no',
            start=during.start,
            end=during.end,
            servers=planning.SERVERS,
        )

        self.assertIn('10 requested', offer)
        self.assertIn('4 can be had in that time', offer)
        self.assertIn('10 can be had from', offer)
        self.assertNotIn('no', self.list_records())

    def test_memory_is_that_of_the_process(self) -> None:
        peer = self.fill(leased.Leased(SHAPE))
        peer.ask('ask_all')

        memory, _spent = peer.ask('read_memory')

        self.assertGreater(memory, 20)

    def test_a_process_that_ends_is_told(self) -> None:
        peer = self.fill(leased.Leased(SHAPE))

        error = self.assertRaises(RuntimeError, peer.ask, 'no-such-command')

        self.assertIn('has ended with 1 when', str(error))

    def test_all_of_it_is_rows(self) -> None:
        shape = leases.Shape(5, 40)
        bench = admissions.Bench(
            shape=shape, folder=self.folder, rounds=1, has_goals=True
        )

        rows = [
            *bench.measure(
                leased.Leased(shape), leased.Leased(shape, full=True)
            )
        ]

        goals = [row.what for row in rows if row.goal is not None]
        self.assertEqual(4, len(goals), str(goals))
        for row in rows:
            self.assertGreater(row.ours, 0, row.what)


class PlanningTest(base.TestCase):
    def test_all_of_it_is_rows(self) -> None:
        rows = planning.measure(
            SHAPE,
            leased.Leased(SHAPE),
            leased.Leased(SHAPE, full=True),
            has_goals=True,
        )

        self.assertEqual(3, sum(row.goal is not None for row in rows))
