# SPDX-License-Identifier: Apache-2.0

"""The host's loop goes on, whatever the others do."""

from collections.abc import Callable
import dataclasses
import logging
import socket
import threading
import time
import types
from typing import Any
from unittest import mock

import fixtures
from keystoneauth1 import adapter
from keystoneauth1 import session
from keystoneauth1 import token_endpoint

from nova_ext_resources.facts import consumer_role
from nova_ext_resources.facts import deletion_evidence
from nova_ext_resources.host.claims import allocation_writer
from nova_ext_resources.host.reconcile import orphaned_entries
from nova_ext_resources.host.reconcile import rebuild_entries
from nova_ext_resources.host.service import health
from nova_ext_resources.host.service import periodic
from nova_ext_resources.objects import alarm
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.publish import publisher
from nova_ext_resources.testing import fake_clock
from nova_ext_resources import worker
from tests.unit.host import test_manager_meanwhile
from tests.unit.host import with_host
from tests.unit import publication

SERVER = test_manager_meanwhile.SERVER

#: Seconds for what takes no time unless something is wrong.
WAIT = 60


def read_alarms(observed: health.Health) -> str:
    return ' '.join(one.text for one in observed.snapshot().alarms)


class HungPlacement:
    """Accepts connections and answers nothing."""

    def __init__(self) -> None:
        self._socket = socket.create_server(('127.0.0.1', 0))
        self._socket.settimeout(WAIT)
        self._connections: list[socket.socket] = []
        port = self._socket.getsockname()[1]
        self.client = placement_client.Client(
            adapter.Adapter(
                session.Session(
                    auth=token_endpoint.Token(
                        f'http://127.0.0.1:{port}', 'token'
                    )
                ),
                service_type='placement',
            )
        )

    def wait_for_request(self) -> None:
        connection, _address = self._socket.accept()
        self._connections.append(connection)

    def close(self) -> None:
        for one in (*self._connections, self._socket):
            one.close()


class PeriodicTest(test_manager_meanwhile.ActingHostTestCase):
    #: Of what is missing, in seconds.
    now = 0.0

    def make_periodic(
        self,
        client: Any,
        expect: Callable[[Any], object] = lambda _: None,
        **answers: Any,
    ) -> periodic.Periodic:
        made = publisher.Publisher(
            client,
            with_host.NODE,
            publication.Source(self.host.providers),
            interval=0.01,
        )
        self.addCleanup(made.stop)
        loop = self.make_loop(
            health.Health('host1'), made, expect=expect, interval=0.01
        )
        with_host.answer(loop, **answers)
        self.addCleanup(loop.stop)
        made.start()
        loop.start()
        return loop

    def make_loop(
        self,
        observed: health.Health,
        publishing: Any = None,
        expect: Callable[[Any], object] = lambda _: None,
        interval: float = 60,
        **fields: Any,
    ) -> periodic.Periodic:
        servers: Any = types.SimpleNamespace(expect=expect)
        return periodic.Periodic(
            self.host,
            with_host.COMPUTE,
            observed,
            publishing or mock.Mock(spec=publisher.Publisher),
            self.make_restore(),
            orphans=self.make_orphans(),
            servers=servers,
            interval=interval,
            **fields,
        )

    def make_restore(self) -> rebuild_entries.RebuildEntries:
        placement: Any = with_host.Placement()
        writer: Any = self.host
        publishing: Any = types.SimpleNamespace(doubled=())
        return rebuild_entries.RebuildEntries(
            self.host, placement, writer, publishing
        )

    def make_orphans(
        self, is_repairing: bool = False
    ) -> orphaned_entries.OrphanedEntries:
        compute = dataclasses.replace(
            with_host.COMPUTE,
            examine=lambda _: deletion_evidence.Evidence(
                words='gone', is_proof=True
            ),
        )
        placement: Any = with_host.Placement()
        return orphaned_entries.OrphanedEntries(
            self.host,
            compute,
            placement,
            mock.Mock(spec=allocation_writer.AllocationWriter),
            loops=worker.WorkerGroup(),
            age=1800,
            max_gap=1200,
            is_repairing=is_repairing,
            clock=fake_clock.FakeClock(lambda: self.now),
        )

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT
        while not is_so():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_a_placement_that_hangs_delays_no_repair(self) -> None:
        placement = HungPlacement()
        self.start()
        self.make_periodic(placement.client)
        self.addCleanup(placement.close)
        placement.wait_for_request()

        for _ in range(3):
            self.enforcer.in_force.clear()
            self.wait_for(lambda: SERVER in self.enforcer.in_force)

    def fail_threads(self, name: str, number: int) -> list[int]:
        """Let so many starts of such threads fail; return what is left."""
        left, start = [number], threading.Thread.start

        def start_or_fail(thread: threading.Thread) -> None:
            if thread.name == name and left[0]:
                left[0] -= 1
                raise RuntimeError("can't start new thread")
            start(thread)

        self.useFixture(
            fixtures.MonkeyPatch('threading.Thread.start', start_or_fail)
        )
        return left

    def test_servers_are_compared_once_a_thread_can_be_started(self) -> None:
        self.start()
        loop, observed = self.make_asking([[]])
        self.fail_threads('ext-resources-live', 2)

        loop.accept_host()
        loop.run_round()
        self.assertIn(
            "query of Nova: RuntimeError: can't start new thread",
            read_alarms(observed),
        )
        loop.run_round()
        assert loop._asking is not None
        loop._asking.join(WAIT)
        loop.run_round()

        self.assertEqual({}, self.host.entries)
        self.assertEqual('', read_alarms(observed))

    def test_they_are_compared_again_once_one_can_be_started(self) -> None:
        self.start()
        loop, _observed = self.make_asking([[SERVER], [SERVER]])
        self.run_answered(loop)
        asking = loop._asking
        loop._asked_at -= periodic._PAUSE
        left = self.fail_threads('ext-resources-live', 1)

        loop.run_round()
        self.assertEqual([0], left)
        self.assertIs(asking, loop._asking)
        loop.run_round()

        self.assertIsNot(asking, loop._asking)

    def test_what_only_a_round_meets_ends_no_loop(self) -> None:
        errors = [RuntimeError('oops')]

        def expect(_uuids: object) -> None:
            while errors:
                raise errors.pop()

        self.patch(worker, 'MAX_DOUBLINGS', float('-inf'))
        placement = HungPlacement()
        self.make_periodic(placement.client, expect=expect)
        self.addCleanup(placement.close)
        self.wait_for(lambda: not errors)
        self.start()
        self.enforcer.in_force.clear()

        self.wait_for(lambda: SERVER in self.enforcer.in_force)

    def test_a_comparison_with_a_bug_is_reported_and_ends_nothing(
        self,
    ) -> None:
        def fail() -> list[alarm.Problem]:
            raise ZeroDivisionError('oops')

        observed = health.Health('host1')
        publishing = mock.Mock(spec=publisher.Publisher)
        loop = self.make_loop(observed, publishing, list_differences=fail)

        loop.run_round()

        publishing.wake_soon.assert_called_once_with()
        self.assertIn('comparison: ZeroDivisionError', read_alarms(observed))

    def test_metrics_hear_of_the_servers_after_a_round(self) -> None:
        expected: list[list[str]] = []
        loop = self.make_loop(
            health.Health('host1'),
            expect=lambda uuids: expected.append(list(uuids)),
        )
        self.start()

        loop.run_round()

        self.assertEqual([[SERVER]], expected)

    def make_asking(
        self, answers: list[list[str]]
    ) -> tuple[periodic.Periodic, health.Health]:
        """Make a loop that is run by hand; Nova gives these answers."""
        observed = health.Health('host1')
        loop = self.make_loop(observed)
        with_host.answer(
            loop,
            list_roles=lambda _: dict.fromkeys(
                answers.pop(0), consumer_role.Role.SERVER
            ),
        )
        self.addCleanup(loop.stop)
        return loop, observed

    def run_answered(self, loop: periodic.Periodic) -> None:
        """Have Nova asked, and run the round after its answer."""
        if loop._asking is None:
            loop.accept_host()
        else:
            # As if it were long ago.
            loop._asked_at -= periodic._PAUSE
            loop.run_round()
        assert loop._asking is not None
        loop._asking.join(WAIT)
        loop.run_round()

    def list_absent(self, observed: health.Health) -> list[str]:
        return [
            one.subject
            for one in observed.snapshot().alarms
            if one.name == alarm.NOT_IN_NOVA
        ]

    def test_nova_is_not_asked_before_it_has_checked_the_host(self) -> None:
        loop, _observed = self.make_asking([])

        loop.run_round()

        self.assertIsNone(loop._asking)

    def test_who_is_missing_for_long_is_reported_and_not_released(
        self,
    ) -> None:
        other = test_manager_meanwhile.OTHER
        loop, observed = self.make_asking(
            [[SERVER], [], [], [SERVER], [], [SERVER]]
        )
        self.start()

        seen = []
        for number in range(6):
            self.run_answered(loop)
            seen.append(self.list_absent(observed))
            if number == 1:
                self.start(other, cpu=2)

        self.assertEqual([[], [], [SERVER], [other], [other], [other]], seen)
        self.assertEqual({SERVER, other}, {*self.host.entries})

    def test_who_has_been_released_since_is_not_reported(self) -> None:
        loop, observed = self.make_asking([[SERVER], [], []])
        self.start()
        for _ in range(3):
            self.run_answered(loop)
        self.assertEqual([SERVER], self.list_absent(observed))

        self.host.release(SERVER)
        loop.run_round()

        self.assertEqual([], self.list_absent(observed))

    def list_names(self, observed: health.Health) -> list[str]:
        return [one.name for one in observed.snapshot().alarms]

    def run_missing(
        self, loop: periodic.Periodic, observed: health.Health
    ) -> list[list[str]]:
        """Run the loop after each answer; return the alarms of each."""
        found = []
        for _ in range(5):
            self.run_answered(loop)
            found.append(self.list_names(observed))
            self.now += 600
        return found

    def test_the_alarm_of_an_orphan_replaces_that_of_what_is_missing(
        self,
    ) -> None:
        loop, observed = self.make_asking([[SERVER]])
        self.start()
        self.run_answered(loop)
        with_host.answer(loop, list_roles=lambda _entries: {})

        found = self.run_missing(loop, observed)

        absent, orphaned = [alarm.NOT_IN_NOVA], [alarm.ORPHANED_ENTRY]
        self.assertEqual([[], absent, absent, absent, orphaned], found)
        self.assertEqual([SERVER], [*self.host.entries])

    def test_an_orphan_is_released_where_an_option_says_so(self) -> None:
        loop, observed = self.make_asking([[SERVER]])
        loop._orphans = self.make_orphans(is_repairing=True)
        self.start()
        self.run_answered(loop)
        with_host.answer(loop, list_roles=lambda _entries: {})

        found = self.run_missing(loop, observed)

        self.assertEqual([[], *[[alarm.NOT_IN_NOVA]] * 3, []], found)
        self.assertEqual({}, self.host.entries)

    def test_it_does_not_age_while_nova_cannot_be_asked(self) -> None:
        """Neither for its servers nor for the hosts of others."""
        for method in ('list_roles', 'find_hosts'):
            loop, observed = self.make_asking([[SERVER]])
            self.start()
            self.run_answered(loop)
            with_host.answer(loop, list_roles=lambda _entries: {})
            self.run_missing(loop, observed)
            failures = [OSError('away')]
            ask = getattr(loop._compute, method)

            def fail(given: Any, ask: Any = ask, left: Any = failures) -> Any:
                if left:
                    raise left.pop()
                return ask(given)

            with_host.answer(loop, **{method: fail})
            self.run_answered(loop)

            with self.subTest(method):
                self.assertEqual([], failures)
                self.assertEqual(
                    [alarm.NOT_IN_NOVA], self.list_names(observed)
                )

    def test_whose_release_is_tried_again_is_not_missing(self) -> None:
        loop, observed = self.make_asking([[], [], []])
        self.start()
        self.enforcer.is_failing = True
        for _ in range(3):
            self.run_answered(loop)

        self.assertEqual([SERVER], [*self.host.entries])
        self.assertEqual([], self.list_absent(observed))

    def test_who_is_being_started_is_not_missing(self) -> None:
        loop, observed = self.make_asking([[SERVER], [], []])
        self.start()

        with self.host.starting(SERVER):
            for _ in range(3):
                self.run_answered(loop)

        self.assertEqual([], self.list_absent(observed))

    def test_nova_is_not_asked_again_so_soon(self) -> None:
        loop, _observed = self.make_asking([[], []])
        self.run_answered(loop)
        asking = loop._asking

        loop.run_round()

        self.assertIs(asking, loop._asking)

    def test_it_is_asked_again_sooner_while_a_server_moves(self) -> None:
        loop, _observed = self.make_asking([[SERVER], ['migration']])
        self.start()
        self.run_answered(loop)
        asking = loop._asking
        loop._asked_at -= periodic._MOVE_PAUSE
        loop.run_round()
        self.assertIs(asking, loop._asking)

        self.host.park(SERVER, 'migration')
        loop.run_round()

        self.assertIsNot(asking, loop._asking)

    def test_what_a_move_has_left_is_released_at_any_time(self) -> None:
        answers = [
            {SERVER: consumer_role.Role.SERVER},
            {SERVER: consumer_role.Role.LEFT},
        ]
        loop, observed = self.make_asking([])
        with_host.answer(loop, list_roles=lambda _entries: answers.pop(0))
        self.start()

        self.run_answered(loop)
        self.assertEqual([SERVER], [*self.host.entries])
        self.run_answered(loop)

        self.assertEqual({}, self.host.entries)
        self.assertEqual([], self.list_absent(observed))

    def test_a_move_with_which_nova_does_not_go_on_is_reported(self) -> None:
        loop, observed = self.make_asking([])
        with_host.answer(
            loop,
            list_roles=lambda _entries: {
                'migration': consumer_role.Role.IN_DOUBT
            },
        )
        self.start()
        self.host.park(SERVER, 'migration')

        seen = []
        for _ in range(2):
            self.run_answered(loop)
            seen.append(
                [(one.name, one.subject) for one in observed.snapshot().alarms]
            )

        self.assertEqual([[], [(alarm.MIGRATION_UNCLEAR, SERVER)]], seen)
        self.assertEqual(['migration'], [*self.host.entries])

    def test_what_it_has_claimed_for_one_that_does_not_come(self) -> None:
        loop, observed = self.make_asking([])
        answers: list[dict[str, consumer_role.Role]] = [
            *[{SERVER: consumer_role.Role.IN_DOUBT}] * 2,
            *[{}] * 2,
        ]
        with_host.answer(loop, list_roles=lambda _entries: answers.pop(0))
        self.host.claim(with_host.make_claim(SERVER, 1), is_move=True)
        self.host.prepare(SERVER)

        seen = []
        while answers:
            self.run_answered(loop)
            seen += [
                (one.name, one.text) for one in observed.snapshot().alarms
            ]

        self.assertEqual(
            [alarm.MIGRATION_UNCLEAR, alarm.NOT_IN_NOVA],
            [name for name, _text in seen],
        )
        for _name, text in seen:
            self.assertRegex(text, 'for a move of server|may still move')
            self.assertNotIn('had before', text)

    def test_a_guest_whose_server_is_elsewhere_is_reported(self) -> None:
        loop, observed = self.make_asking([])
        roles = {SERVER: consumer_role.Role.ELSEWHERE}
        hosts = ['host2', 'host3', 'host3', 'host3']
        with_host.answer(loop, list_roles=lambda _entries: roles)
        with_host.answer(
            loop, find_hosts=lambda uuids: dict.fromkeys(uuids, hosts.pop(0))
        )
        self.start()

        seen: list[str] = []
        while hosts:
            self.run_answered(loop)
            seen.append(read_alarms(observed))
            self.assertEqual([SERVER], [*self.host.entries])

        self.assertEqual(['', ''], seen[:2])
        for text in seen[2:]:
            self.assertIn(f'{SERVER} is on host host1, while', text)
            self.assertIn('Nova has the server on host host3,', text)
        (told,) = observed.snapshot().alarms
        self.assertEqual(
            (alarm.GUEST_HERE_SERVER_ELSEWHERE, SERVER),
            (told.name, told.subject),
        )
        roles[SERVER] = consumer_role.Role.SERVER
        hosts.append('host1')
        self.run_answered(loop)
        self.assertEqual('', read_alarms(observed))

    def test_it_is_logged_when_it_begins_and_when_it_comes_back(self) -> None:
        doubt = {'migration': consumer_role.Role.IN_DOUBT}
        gone_on: dict[str, consumer_role.Role] = {
            'migration': consumer_role.Role.SOURCE
        }
        answers = [*[doubt] * 4, gone_on, *[doubt] * 3]
        loop, _observed = self.make_asking([])
        with_host.answer(loop, list_roles=lambda _entries: answers.pop(0))
        self.start()
        self.host.park(SERVER, 'migration')
        log = self.useFixture(fixtures.FakeLogger(level=logging.ERROR))

        seen = []
        while answers:
            self.run_answered(loop)
            seen.append(log.output.count('does not continue'))

        self.assertEqual([0, 1, 1, 1, 1, 1, 2, 2], seen)

    def test_who_is_gone_is_released_though_requests_are_not_known(
        self,
    ) -> None:
        failures: list[str] = []

        def fail() -> dict[str, Any]:
            failures.append('asked')
            raise OSError('no topology')

        placement = HungPlacement()
        self.start()
        # It runs here, without an entry.
        self.enforcer.in_force.add(test_manager_meanwhile.OTHER)
        loop = self.make_periodic(
            placement.client,
            list_roles=lambda _: {
                test_manager_meanwhile.OTHER: consumer_role.Role.SERVER
            },
            list_requests=fail,
        )

        # Before the publisher is stopped, which waits for its request.
        self.addCleanup(placement.close)
        loop.accept_host()

        self.wait_for(lambda: SERVER not in self.host.entries)
        self.wait_for(lambda: len(failures) > 1)
        self.assertEqual((), self.host.problems)

    def test_a_nova_that_hangs_delays_no_repair(self) -> None:
        is_asked, is_over = threading.Event(), threading.Event()

        def list_roles(_entries: object) -> dict[str, consumer_role.Role]:
            is_asked.set()
            is_over.wait()
            return {SERVER: consumer_role.Role.SERVER}

        placement = HungPlacement()
        self.start()
        self.make_periodic(
            placement.client, list_roles=list_roles
        ).accept_host()
        self.addCleanup(placement.close)
        self.addCleanup(is_over.set)
        self.assertTrue(is_asked.wait(WAIT))

        self.enforcer.in_force.clear()

        self.wait_for(lambda: SERVER in self.enforcer.in_force)
        self.assertFalse(is_over.is_set())
