# SPDX-License-Identifier: Apache-2.0


import logging
import threading
import time
from typing import Any

import fixtures
from oslo_utils.fixture import uuidsentinel as uuids
import requests

from nova_ext_resources import exception
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.publish import publisher
from nova_ext_resources.placement.publish import tree_writer
from tests.unit.placement.api import test_placement_client
from tests.unit import publication

#: Seconds for a thread to get its turn on a busy machine.
PATIENCE = 60.0

#: Requests of the first round of a host without pools: the tree.
FIRST = 1

NODE = host_provider.Node(uuid=uuids.node, hypervisor_hostname='host1')
LIST_URL = f'{test_placement_client.URL}/resource_providers'
ROOT = {
    'uuid': uuids.node,
    'name': 'host1',
    'parent_provider_uuid': None,
    'generation': 0,
}


class PublisherTest(test_placement_client.MockTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.mock = self.make_mock()
        self.log = self.useFixture(
            fixtures.FakeLogger(publisher.LOG.logger.name, level=logging.INFO)
        )
        self.calls: list[str] = []
        self.called = threading.Event()
        self.fault: Exception | None = None
        self.publisher = self.make_publisher()

    def make_publisher(self, interval: float = 60.0) -> publisher.Publisher:
        made = publisher.Publisher(
            test_placement_client.make_client(),
            NODE,
            publication.Source(self.find_wanted),
            interval=interval,
        )
        self.addCleanup(made.stop)
        return made

    def find_wanted(self) -> tuple[host_provider.Provider, ...]:
        self.calls.append('wanted')
        self.called.set()
        if self.fault:
            raise self.fault
        return ()

    def answer(self, *responses: dict[str, Any]) -> None:
        self.mock.register_uri('GET', LIST_URL, list(responses))

    def succeed(self) -> None:
        self.answer({'json': {'resource_providers': [ROOT]}})

    def wait_for_calls(self, number: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while self.calls.count('wanted') < number:
            self.assertLess(time.monotonic(), deadline)
            self.called.wait(0.1)
            self.called.clear()

    def test_what_becomes_known_meanwhile_deletes_nothing(self) -> None:
        is_known = [False]

        def find_wanted() -> tuple[host_provider.Provider, ...]:
            is_known[0] = True
            return ()

        found: list[bool] = []
        made = publisher.Publisher(
            test_placement_client.make_client(),
            NODE,
            publication.Source(find_wanted, is_complete=lambda: is_known[0]),
        )
        publish = made.publish_once

        def note(*given: Any, may_delete: bool) -> tree_writer.PublishResult:
            found.append(may_delete)
            return publish(*given, may_delete=may_delete)

        made.publish_once = note  # type: ignore[method-assign, assignment]
        self.succeed()

        made.run_round()
        made.run_round()

        self.assertEqual([False, True], found)

    def test_a_round_publishes_what_is_wanted_by_then(self) -> None:
        self.succeed()

        self.publisher.run_round()

        self.assertEqual(['wanted'], self.calls)
        status = self.publisher.status
        self.assertIsNotNone(status.last_success_at)
        self.assertIsNone(status.last_failure_at)
        self.assertEqual(('', 0), (status.failure, status.failures))

    def test_a_tree_that_cannot_be_recorded_is_not_published(
        self,
    ) -> None:
        self.fault = exception.LedgerError(path='x', reason='disk full')

        self.publisher.run_round()

        self.assertEqual(['wanted'], self.calls)
        self.assertEqual(0, self.mock.call_count)
        self.assertIn('disk full', self.publisher.status.failure)

    def test_a_bug_in_a_plugin_is_shown_with_its_place(self) -> None:
        self.fault = ZeroDivisionError('oops')

        self.publisher.run_round()

        self.assertIn('in find_wanted', self.log.output)
        self.assertEqual(
            'ZeroDivisionError: oops', self.publisher.status.failure
        )

    def test_the_same_failure_is_logged_once_until_it_has_passed(
        self,
    ) -> None:
        def refuse(request: Any, context: Any) -> str:
            context.headers['x-openstack-request-id'] = (
                f'req-{len(self.mock.request_history):x}'
            )
            return 'no'

        self.answer({'status_code': 403, 'text': refuse})
        for _ in range(3):
            self.publisher.run_round()
        self.assertEqual(1, self.log.output.count('could not be published'))
        self.assertEqual(3, self.publisher.status.failures)

        self.succeed()
        self.publisher.run_round()
        self.answer({'status_code': 403, 'text': refuse})
        self.publisher.run_round()

        self.assertEqual(2, self.log.output.count('could not be published'))
        self.assertEqual(1, self.log.output.count('Published'))

    def test_a_missing_compute_node_is_told_once_and_waited_for(
        self,
    ) -> None:
        self.answer({'json': {'resource_providers': []}})

        for _ in range(2):
            self.publisher.run_round()

        self.assertEqual(
            1, self.log.output.count('nova-compute creates the provider')
        )
        self.assertIn('ResourceProviderCreationFailed', self.log.output)
        self.assertIn(
            f'openstack resource provider list --name '
            f'{NODE.hypervisor_hostname}',
            self.log.output,
        )

    def test_one_cycle_can_be_run_by_the_caller(self) -> None:
        self.answer({'json': {'resource_providers': []}})

        self.assertRaises(
            exception.NotFound, self.publisher.publish_once, NODE, []
        )

    def test_the_thread_publishes_until_it_is_stopped(self) -> None:
        self.succeed()
        thread_publisher = self.make_publisher(interval=0.01)

        thread_publisher.start()
        self.wait_for_calls(3)
        thread_publisher.stop()

        rounds = len(self.calls)
        time.sleep(0.1)
        self.assertEqual(rounds, len(self.calls))

    def test_waking_does_not_wait_for_the_interval(self) -> None:
        self.succeed()
        self.publisher.start()
        self.wait_for_calls(1)

        self.publisher.wake()

        self.wait_for_calls(2)

    def test_nothing_is_asked_of_placement_for_the_same(self) -> None:
        self.succeed()
        self.publisher.do_round()

        for _again in range(3):
            self.publisher.wake_soon()
            self.publisher.do_round()

        self.assertEqual(FIRST, self.mock.call_count)

    def test_unless_a_round_is_due(self) -> None:
        self.succeed()
        made = self.make_publisher(interval=0.0)
        made.do_round()

        made.do_round()

        self.assertEqual(FIRST + 1, self.mock.call_count)

    def test_or_asked_for(self) -> None:
        self.succeed()
        self.publisher.do_round()

        self.publisher.wake()
        self.publisher.do_round()
        self.publisher.do_round()

        self.assertEqual(FIRST + 1, self.mock.call_count)

    def test_or_the_last_one_has_failed(self) -> None:
        self.fault = ZeroDivisionError('oops')
        self.publisher.do_round()
        self.fault = None
        self.succeed()

        self.publisher.do_round()

        self.assertEqual('', self.publisher.status.failure)

    def test_what_has_changed_is_published(self) -> None:
        is_complete = [False]
        made = publisher.Publisher(
            test_placement_client.make_client(),
            NODE,
            publication.Source(
                self.find_wanted, is_complete=lambda: is_complete[0]
            ),
        )
        self.succeed()
        made.do_round()
        is_complete[0] = True

        made.do_round()

        self.assertEqual(1 + FIRST, self.mock.call_count)

    def test_a_bug_in_a_plugin_is_left_to_the_round(self) -> None:
        self.succeed()
        self.publisher.do_round()
        self.fault = ZeroDivisionError('oops')

        self.publisher.do_round()

        self.assertIn('oops', self.publisher.status.failure)

    def test_the_thread_outlives_every_failure(self) -> None:
        self.answer(
            {'status_code': 503},
            {'exc': requests.exceptions.ReadTimeout},
            {'text': 'garbage'},
            {'status_code': 403},
            {'json': {'resource_providers': [ROOT]}},
        )
        thread_publisher = self.make_publisher(interval=0.01)

        thread_publisher.start()
        deadline = time.monotonic() + PATIENCE
        while thread_publisher.status.last_success_at is None:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

        self.assertGreaterEqual(self.mock.call_count, 5)

    def test_stopping_does_not_wait_for_further_attempts(self) -> None:
        self.answer({'status_code': 503})
        self.publisher.start()
        self.wait_for_calls(1)

        self.publisher.stop()

        self.assertEqual(1, self.calls.count('wanted'))

    def test_stopping_what_was_not_started_is_nothing(self) -> None:
        self.publisher.stop()

        self.assertEqual([], self.calls)

    def test_the_wait_doubles_with_each_failure_up_to_the_interval(
        self,
    ) -> None:
        self.answer({'status_code': 403})
        delays = []

        for _ in range(12):
            self.publisher.run_round()
            failures = self.publisher.status.failures
            delays.append(publisher.find_delay(failures, 60.0))

        for number, delay in enumerate(delays):
            highest = min(2.0**number, 60.0)
            self.assertTrue(highest / 2 <= delay <= highest, delays)

    def test_hosts_do_not_publish_in_step(self) -> None:
        delays = {publisher.find_delay(0, 60.0) for _ in range(20)}

        self.assertGreater(len(delays), 10)
        self.assertTrue(all(54.0 <= delay <= 66.0 for delay in delays))
