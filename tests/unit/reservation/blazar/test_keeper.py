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
