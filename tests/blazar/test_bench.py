# SPDX-License-Identifier: Apache-2.0

"""The benchmark's Blazar finds what it would find with leases of its own."""

import os
import sys

from dev.bench.harness import leased
from dev.bench.harness import leases
from dev.bench.harness import peers
from tests import base

SHAPE = leases.Shape(5, 40)


class BenchTest(base.TestCase):
    def fill(self, given: list[leases.Lease], hosts: int) -> peers.Peer:
        folder = self.make_folder()
        path = os.path.join(folder, 'leases.json')
        leases.write(path, given)
        peer = peers.Peer(
            sys.executable,
            'dev.bench.harness.blazar',
            f'sqlite:///{folder}/blazar.db',
        )
        self.addCleanup(peer.close)
        number, _spent = peer.ask('fill', hosts=hosts, path=path)
        self.assertEqual(len(given), number)
        return peer

    def search(self, peer: peers.Peer, start: int, end: int) -> int:
        host: int = peer.ask(
            'search',
            start=leases.NOW + start,
            end=leases.NOW + end,
            amounts=leases.ASKED,
        )[0]
        return host

    def test_a_lease_is_in_the_way_while_it_lasts(self) -> None:
        whole = dict(leases.CAPACITY)
        now = leases.NOW
        peer = self.fill([leases.Lease(0, now, now + 7200, whole)], 2)

        # Hosts with reservations come first.
        self.assertEqual(1, self.search(peer, 3600, 7000))
        self.assertEqual(0, self.search(peer, 7260, 9000))

    def test_what_it_finds_is_free(self) -> None:
        fleet = leased.Leased(SHAPE)
        peer = self.fill(fleet.leases, SHAPE.hosts)

        for _number in range(10):
            during = fleet.draw()
            start, end = during.start - leases.NOW, during.end - leases.NOW

            host = self.search(peer, start, end)

            self.assertTrue(fleet.fits(host, leases.ASKED, during))
