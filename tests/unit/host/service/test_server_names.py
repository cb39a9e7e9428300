# SPDX-License-Identifier: Apache-2.0

from collections.abc import Mapping
import threading
from typing import Any

import fixtures

from nova_ext_resources.facts import server
from nova_ext_resources.host.service import server_names
from tests import base

GOLD = server.NovaServer(flavor='gold')


class ServerListTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.answers: list[Any] = []
        self.asked = threading.Semaphore(0)

    def make(self, **fields: Any) -> server_names.ServerList:
        fields = {'interval': 600.0, 'pause': 0.01, **fields}
        return server_names.ServerList(self.ask, host='host1', **fields)

    def ask(self) -> Mapping[str, server.NovaServer]:
        self.asked.release()
        answer: Mapping[str, server.NovaServer] = self.answers.pop(0)
        return answer

    def wait(self) -> bool:
        return self.asked.acquire(timeout=60)

    def test_not_known_yet_is_not_none_at_all(self) -> None:
        made = self.make()
        made.run_once()

        self.assertEqual({}, made.latest)
        self.assertRaises(
            server_names.ServersUnknown, made.list_uuids, patience=0.01
        )
        self.answers.append({})
        made.run_once()
        self.assertEqual((), made.list_uuids())

    def test_what_is_known_stays_when_nova_does_not_answer(self) -> None:
        self.answers.append({'server': GOLD})
        made = self.make()
        for _ in range(3):
            made.run_once()

        self.assertEqual({'server': GOLD}, made.latest)
        self.assertEqual(('server',), made.list_uuids())
        self.assertEqual(1, self.log.output.count('alarms and metrics lack'))

    def test_it_asks_when_somebody_comes_and_not_otherwise(self) -> None:
        self.answers = [{'old': GOLD}, {'old': GOLD, 'new': GOLD}]
        made = self.make()
        self.addCleanup(made.stop)
        made.start()
        self.assertTrue(self.wait())
        self.assertEqual(('old',), made.list_uuids())

        made.expect(['old'])
        self.assertFalse(self.asked.acquire(timeout=0.1))
        made.expect(['old', 'new'])

        self.assertTrue(self.wait())

    def test_it_begins_to_ask_when_a_name_is_needed(self) -> None:
        self.answers.append({'server': GOLD})
        made = self.make()
        self.addCleanup(made.stop)

        made.look_up('server')
        made.list_uuids(patience=60)

        self.assertEqual(GOLD, made.look_up('server'))
        self.assertIsNone(made.look_up('another'))

    def test_it_asks_nothing_after_its_end(self) -> None:
        made = self.make()
        made.stop()

        self.assertIsNone(made.look_up('server'))
        self.assertFalse(self.asked.acquire(timeout=0.05))

    def test_it_asks_again_by_itself(self) -> None:
        made = self.make(interval=0.02)
        self.addCleanup(made.stop)
        made.start()

        for _ in range(3):
            self.assertTrue(self.wait())

    def test_it_ends_at_once(self) -> None:
        made = self.make()
        made.start()
        self.assertTrue(self.wait())

        made.stop(timeout=60.0)

        assert made._thread
        self.assertFalse(made._thread.is_alive())
