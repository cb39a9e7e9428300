# SPDX-License-Identifier: Apache-2.0

"""Tests of the reservations that all threads of a process share."""

from concurrent import futures
import threading
import time
from typing import Any

from nova_ext_resources import exception
from nova_ext_resources.reservation import api
from nova_ext_resources.reservation.blazar import keeper
from tests.unit.reservation import sites
from tests.unit.reservation.store import stores


class KeeperTest(stores.StoreTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.site = sites.make_site()
        self.opened: list[api.Reservations] = []
        self.keeper = keeper.Keeper(self.open)

    def open(self) -> api.Reservations:
        made = sites.make_reservations(self.url, self.site, sites.Clock())
        self.opened.append(made)
        self.addCleanup(made.close)
        return made

    def test_it_is_opened_once_and_not_before(self) -> None:
        self.assertEqual([], self.opened)

        for _time in range(2):
            with self.keeper.use() as found:
                self.assertEqual([found], self.opened)
        self.assertEqual(0, self.site.asked)

    def test_one_thread_has_it_at_a_time(self) -> None:
        inside: list[int] = []
        most: list[int] = []

        def use(number: int) -> None:
            with self.keeper.use():
                inside.append(number)
                most.append(len(inside))
                time.sleep(0.001)
                inside.remove(number)

        with futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(use, range(32)))

        self.assertEqual(1, max(most))
        self.assertEqual(1, len(self.opened))

    def test_others_go_on_while_hosts_are_read(self) -> None:
        with self.keeper.use() as before:
            before.prepare()
        reading, done = threading.Event(), threading.Event()
        list_hosts = self.site.list_hosts

        def list_slowly(*known: Any) -> Any:
            reading.set()
            self.assertTrue(done.wait(30))
            return list_hosts(*known)

        self.patch(self.site, 'list_hosts', list_slowly)
        with futures.ThreadPoolExecutor(1) as pool:
            refreshed = pool.submit(self.keeper.refresh)
            self.assertTrue(reading.wait(30))
            with self.keeper.use() as meanwhile:
                found = meanwhile.create({'name': 'x', 'flavor': 'large'})
            done.set()
            refreshed.result(30)

        self.assertIs(before, meanwhile)
        with self.keeper.use() as after:
            self.assertIsNot(before, after)
            self.assertEqual(found, after.get('x'))

    def test_if_hosts_cannot_be_read_those_known_before_stay(self) -> None:
        with self.keeper.use() as before:
            before.prepare()

        def fail(*_known: Any) -> Any:
            raise exception.PlacementUnavailable(action='list', detail='away')

        self.patch(self.site, 'list_hosts', fail)

        self.assertRaises(exception.PlacementUnavailable, self.keeper.refresh)

        with self.keeper.use() as after:
            self.assertIs(before, after)

    def block(self, name: str) -> tuple[threading.Event, threading.Event]:
        """Let a question to the cloud wait; return its start, and its end."""
        asked, answered = threading.Event(), threading.Event()
        ask = getattr(self.site, name)

        def wait(*known: Any) -> Any:
            asked.set()
            self.assertTrue(answered.wait(30))
            return ask(*known)

        self.patch(self.site, name, wait)
        return asked, answered

    def test_others_go_on_while_nova_is_asked_for_a_flavor(self) -> None:
        asked, answered = self.block('find_flavor')
        with futures.ThreadPoolExecutor(1) as pool:
            found = pool.submit(self.keeper.read_flavors, {'flavor': 'large'})
            self.assertTrue(asked.wait(30))
            with self.keeper.use() as meanwhile:
                self.assertEqual([], meanwhile.list_reservations())
            self.assertFalse(found.done())
            answered.set()

            self.assertEqual(
                {'large': self.site.flavors['large']}, found.result(30)
            )

    def test_others_go_on_while_hosts_are_read_for_the_first_time(
        self,
    ) -> None:
        asked, answered = self.block('list_hosts')
        with futures.ThreadPoolExecutor(2) as pool:
            prepared = [pool.submit(self.keeper.prepare) for _ in range(2)]
            self.assertTrue(asked.wait(30))
            with self.keeper.use() as meanwhile:
                self.assertEqual([], meanwhile.list_reservations())
            self.assertFalse(any(one.done() for one in prepared))
            answered.set()
            for one in prepared:
                one.result(30)

        self.assertEqual(1, self.site.asked)
        self.keeper.prepare()
        self.assertEqual(1, self.site.asked)

    def test_nova_is_not_asked_again_for_what_is_known(self) -> None:
        names = ('large', 'none')
        flavors = [self.keeper.read_flavors({'flavor': one}) for one in names]
        self.assertEqual({}, self.keeper.read_flavors({'flavor': 1}))
        self.assertEqual({}, self.keeper.read_flavors({}))

        def fail(_name: str) -> Any:
            raise exception.ComputeUnavailable(action='show', reason='away')

        self.patch(self.site, 'find_flavor', fail)
        with self.keeper.use() as reservations:
            reservations.create(
                {'name': 'x', 'flavor': 'large'}, flavors=flavors[0]
            )
            refused = self.assertRaises(
                exception.InvalidReservation,
                reservations.create,
                {'name': 'y', 'flavor': 'none'},
                flavors=flavors[1],
            )
        self.assertIn('there is no flavor none', str(refused))
