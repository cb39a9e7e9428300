# SPDX-License-Identifier: Apache-2.0

"""Tests of revisions."""

from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.reservation import server as server_mod
from nova_ext_resources.reservation.store import database as database_mod
from nova_ext_resources.reservation.store import shards
from tests.unit.reservation import hosts
from tests.unit.reservation.store import stores

COUNT = 64


def make_server(host: str, *rp_uuids: str) -> server_mod.PlannedServer:
    return server_mod.PlannedServer(
        key='lease/0',
        host=host,
        during=hosts.span(0),
        assignments=tuple(
            assignment.Assignment(
                rp_uuid=one, rp_key='', resource_class='VCPU', amount=1
            )
            for one in rp_uuids
        ),
    )


class ShardsTest(stores.StoreTestCase):
    def test_a_shard_is_the_same_everywhere_and_for_ever(self) -> None:
        # What runs now and what is installed next must agree.
        found = [shards.find_shard(one, COUNT) for one in ('a', 'b', 'Grüße')]

        self.assertEqual([3, 57, 49], found)

    def test_hosts_that_share_a_provider_share_a_shard(self) -> None:
        revisions = {one: one * 10 for one in range(COUNT)}

        found = [
            shards.choose_revisions([make_server(host, 'pool')], revisions)
            for host in ('a', 'b')
        ]

        pool = shards.find_shard('pool', COUNT)
        self.assertEqual({3: 30, pool: pool * 10}, found[0])
        self.assertEqual({57: 570, pool: pool * 10}, found[1])

    def test_one_that_has_moved_stops_all(self) -> None:
        database = database_mod.Database(self.url)
        with database.transaction() as connection:
            shards.raise_revisions(connection, {5: 0})

        def raise_both() -> None:
            with database.transaction() as connection:
                shards.raise_revisions(connection, {3: 0, 5: 0})

        err = self.assertRaises(exception.RevisionMoved, raise_both)

        self.assertIn('shard 5 is not at revision 0', str(err))
        with database.transaction() as connection:
            found, _purged = shards.read_revisions(connection)
        self.assertEqual((0, 1), (found[3], found[5]))
