# SPDX-License-Identifier: Apache-2.0


"""The publisher's thread against real placement."""

import logging
import time
from typing import Any

import fixtures
from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.publish import provider_tree_cache
from nova_ext_resources.placement.publish import publisher
from tests.functional.placement import hosts
from tests.unit import publication


class PublisherTest(hosts.HostTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(
            fixtures.FakeLogger(publisher.LOG.logger.name, level=logging.INFO)
        )
        self.wanted = hosts.make_host()
        self.cleared: list[None] = []
        self.publisher = self.make_publisher(hosts.NODE)

    def make_publisher(self, node: host_provider.Node) -> publisher.Publisher:
        made = publisher.Publisher(
            self.client,
            node,
            publication.Source(
                lambda: self.wanted,
                on_deleted=lambda: self.cleared.append(None),
            ),
            interval=0.05,
        )
        self.addCleanup(made.stop)
        return made

    def restart(self) -> publisher.Publisher:
        """Start again after five providers were published and remembered.

        Four of them are read by the first publication.
        """
        remembers: dict[str, Any] = {
            'source': publication.Source(lambda: self.wanted),
            'memory': provider_tree_cache.Memory(
                f'{self.make_folder()}/host1.sqlite'
            ),
            'interval': 3600.0,
        }
        self.wanted = (
            *hosts.make_host(),
            hosts.make_wanted('X', CUSTOM_X=1),
            hosts.make_wanted('Y', CUSTOM_X=1),
        )
        publisher.Publisher(self.client, hosts.NODE, **remembers).run_round()
        return publisher.Publisher(self.client, hosts.NODE, **remembers)

    def test_what_is_only_believed_is_read_within_minutes(self) -> None:
        """However long the interval is."""
        made = self.restart()

        pauses = [made.do_round()]
        believed = [made.status.believed]
        made.wake()
        pauses.append(made.do_round())
        believed.append(made.status.believed)

        self.assertEqual([1, 0], believed)
        self.assertLess(pauses[0], 60)
        self.assertGreater(pauses[1], 60)

    def test_it_is_a_success_when_all_was_read(self) -> None:
        made = self.restart()

        made.run_round()
        first = made.status
        made.run_round()

        self.assertEqual('', first.failure)
        self.assertIsNone(first.last_success_at)
        self.assertIsNotNone(made.status.last_success_at)

    def test_what_is_believed_counts_after_a_failure_too(self) -> None:
        made = self.restart()
        self.app.fail('GET', '/traits', 100)

        made.run_round()

        self.assertEqual(5, made.status.believed)
        self.assertIn('503', made.status.failure)

    def wait_for_success(self, made: publisher.Publisher) -> None:
        deadline = time.monotonic() + 60
        while made.status.last_success_at is None:
            self.assertLess(time.monotonic(), deadline, made.status)
            time.sleep(0.02)

    def test_what_the_host_has_is_published(self) -> None:
        self.publisher.start()
        self.wait_for_success(self.publisher)
        self.publisher.stop()

        self.assert_published(*self.wanted)

    def test_at_the_first_start_it_waits_for_nova(self) -> None:
        node = host_provider.Node(uuid=uuids.late, hypervisor_hostname='host2')
        self.wanted = (
            host_provider.Provider(
                rp_uuid=uuids.late_child,
                name='host2_RDT',
                parent_uuid=node.uuid,
            ),
        )
        waiting = self.make_publisher(node)
        waiting.start()
        while not waiting.status.failures:
            time.sleep(0.02)

        self.make_root(node.uuid, node.hypervisor_hostname)
        self.wait_for_success(waiting)

        self.assertEqual(
            node.uuid, self.client.get_provider(uuids.late_child).parent_uuid
        )

    def test_who_holds_what_should_go_is_logged_once_and_kept(self) -> None:
        self.publisher.run_round()
        self.allocate({hosts.L3_0: {hosts.WAYS: 4}})
        self.wanted = ()

        for _ in range(3):
            self.publisher.run_round()

        self.assertEqual(1, self.log.output.count(uuids.server))
        (held,) = self.publisher.status.undeleted
        self.assertEqual((uuids.server,), held.consumers)
        self.allocate({})
        self.publisher.run_round()
        self.assertEqual((), self.publisher.status.undeleted)

    def test_novas_cache_is_cleared_when_anything_was_deleted(self) -> None:
        self.publisher.run_round()
        self.wanted = self.wanted[:2]
        self.assertEqual([], self.cleared)

        self.publisher.run_round()
        self.publisher.run_round()

        self.assertEqual(1, len(self.cleared))

    def test_it_is_cleared_when_placement_goes_away_in_between(self) -> None:
        self.publisher.run_round()
        self.app.fail('DELETE', f'/resource_providers/{hosts.RDT}', 100)
        self.wanted = ()

        self.publisher.run_round()

        self.assertIn('503', self.publisher.status.failure)
        self.assertEqual({hosts.RDT}, set(self.read_ours()))
        self.assertEqual(1, len(self.cleared))

    def test_a_provider_that_is_refused_is_a_failure_until_mended(
        self,
    ) -> None:
        good = self.wanted
        self.client.ensure_provider(uuids.old, good[0].name, hosts.NODE.uuid)
        self.before = {
            **self.before,
            uuids.old: self.client.get_provider(uuids.old),
        }
        for _ in range(2):
            self.publisher.run_round()

        status = self.publisher.status
        self.assertIn(f'create provider {good[0].name}', status.failure)
        self.assertIn('resource provider delete', status.failure)
        self.assertEqual(2, status.failures)
        self.assertEqual(1, self.log.output.count('could not be published'))

        self.client.delete_provider(uuids.old)
        del self.before[uuids.old]
        self.publisher.run_round()

        self.assertEqual('', self.publisher.status.failure)
        self.assert_published(*good)
