# SPDX-License-Identifier: Apache-2.0

"""Tests of what is promised soon, by host."""

from nova_ext_resources.objects import planned_hold
from nova_ext_resources.reservation.manager import promised
from nova_ext_resources.reservation.manager import request_cache
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import slots
from tests.unit.reservation import hosts
from tests.unit.reservation.store import stores

NOW = 10


class RenewTest(stores.StoreTestCase):
    """A reservation of all CPUs of two hosts, two servers on each."""

    def setUp(self) -> None:
        super().setUp()
        self.database = databases.Database(self.url)
        both = hosts.make_host('a'), hosts.make_host('b')
        admission = stores.make_admission(self.url, *both)
        self.admit(admission, 'lease', hosts.span(0, 100), least=4)
        with self.database.transaction() as connection:
            self.near = promised.read(
                connection, request_cache.Requests(), NOW, NOW
            )

    def take(self, consumer: str, host: str) -> str:
        """Take the first slot of a host; return its key."""
        found = slots.take(
            self.database,
            'lease',
            consumer,
            lambda held: next(one for one in held if one.host == host),
            now=NOW,
        )
        assert found is not None
        return found.key

    def renew(self, near: promised.Promised, host: str) -> promised.Promised:
        with self.database.transaction() as connection:
            return promised.renew(connection, near, host, NOW)

    def test_slots_of_other_hosts_are_not_read_again(self) -> None:
        taken = self.take('x', 'a')
        self.take('y', 'b')

        found = self.renew(self.near, 'a')

        self.assertEqual(['a'], found.hosts)
        self.assertNotIn(taken, [one.key for _key, one in found.slots])
        self.assertEqual({'x'}, found.consumers)

    def test_who_is_promised_something_elsewhere_is_still_known(self) -> None:
        taken = self.take('y', 'b')
        with self.database.transaction() as connection:
            near = promised.read(
                connection, request_cache.Requests(), NOW, NOW
            )

        found = self.renew(near, 'a')

        self.assertEqual({'y'}, found.consumers)
        self.assertEqual({'y'}, found.list_over(100))
        self.assertIn(planned_hold.make_consumer(taken), found.holds)
        self.assertLessEqual(found.holds, found.list_leaving(100, NOW))
