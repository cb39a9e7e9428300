# SPDX-License-Identifier: Apache-2.0

"""Tests of revisions."""

from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import history
from nova_ext_resources.reservation.store import shards
from tests.unit.reservation import hosts
from tests.unit.reservation.store import stores

COUNT = 64


def make_server(host: str, *rp_uuids: str) -> planned_server.PlannedServer:
    return planned_server.PlannedServer(
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
        revisions = shards.Revisions({one: one * 10 for one in range(COUNT)})

        found = [
            shards.choose_revisions([make_server(host, 'pool')], revisions)
            for host in ('a', 'b')
        ]

        pool = shards.find_shard('pool', COUNT)
        self.assertEqual({3: 30, pool: pool * 10}, found[0])
        self.assertEqual({57: 570, pool: pool * 10}, found[1])

    def test_one_that_has_moved_stops_all(self) -> None:
        database = databases.Database(self.url)
        raised = shards.Revisions({5: 0})
        with database.transaction() as connection:
            shards.raise_revisions(connection, raised)

        def raise_both() -> None:
            with database.transaction() as connection:
                both = shards.Revisions({3: 0, 5: 0})
                shards.raise_revisions(connection, both)

        err = self.assertRaises(exception.RevisionMoved, raise_both)

        self.assertIn('shard 5 is not at revision 0', str(err))
        with database.transaction() as connection:
            found, _purged = shards.read_revisions(connection)
        self.assertEqual((0, raised.find_next(5)), (found[3], found[5]))

    def test_two_who_write_the_same_raise_it_to_other_revisions(self) -> None:
        database = databases.Database(self.url)
        with database.transaction() as connection:
            one, other = (
                shards.read_revisions(connection)[0] for _reader in range(2)
            )

        self.assertEqual(one, other)
        self.assertNotEqual(one.find_next(5), other.find_next(5))

    def test_the_next_write_has_a_step_of_its_own(self) -> None:
        before = shards.Revisions({3: 7, 5: 7})

        after = before.follow(before.pick([5]))

        self.assertEqual({3: 7, 5: before.find_next(5)}, after)
        self.assertNotEqual(before.step, after.step)

    def test_old_revisions_are_forgotten_and_said_to_be_gone(self) -> None:
        database = databases.Database(self.url)
        longest = 2**24
        steps = [longest] * 1001 + [longest + 50 - longest * 1002 % 50]
        revisions = shards.Revisions({5: 0}, steps[0])
        with database.transaction() as connection:
            for step in steps:
                revisions = shards.Revisions(revisions, step)
                shards.raise_revisions(connection, revisions)
                revisions = revisions.follow(revisions)
            found, purged = shards.read_revisions(connection)
            kept = [
                history.has_had(connection, {5: one * longest})
                for one in (0, 1, 2, 3)
            ]

        self.assertEqual([False, False, False, True], kept)
        self.assertEqual(revisions[5], found[5])
        self.assertEqual(found[5] - 1000 * longest, purged[5])
        self.assertLess(2 * longest, purged[5])
        self.assertEqual(0, purged[3])

    def test_a_shard_has_had_what_it_was_raised_to_and_no_other(self) -> None:
        database = databases.Database(self.url)
        first = shards.Revisions({3: 0, 5: 0}, 10)
        with database.transaction() as connection:
            shards.raise_revisions(connection, first)
            shards.raise_revisions(connection, shards.Revisions({5: 10}, 7))
            found = [
                history.has_had(connection, seen)
                for seen in (
                    {},
                    {3: 10, 5: 0},
                    {3: 10, 5: 10},
                    {5: 17},
                    {3: 17},
                    {3: 10, 5: 9},
                    {7: 10},
                )
            ]

        self.assertEqual([True] * 4 + [False] * 3, found)
