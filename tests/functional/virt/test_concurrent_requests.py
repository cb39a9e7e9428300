# SPDX-License-Identifier: Apache-2.0

"""Servers of requests at the same time, which Nova sends to one host."""

import threading
from typing import Any

import fixtures
from nova.compute import manager

from tests.functional.virt import base

#: Two of them are RMD's own.
CLASSES = 3

SECONDS = 60


class ConcurrentRequestsTest(base.NovaTestCase):
    """Two hosts with one class of service each, and ways for many servers."""

    host_options = f'num_closids = {CLASSES}\n'

    def setUp(self) -> None:
        super().setUp()
        self.services = {
            host: self.start_host(host, clos=CLASSES)
            for host in ('host1', 'host2')
        }
        self.builds: list[str] = []
        self.go = threading.Event()
        self.addCleanup(self.go.set)
        build = manager.ComputeManager._do_build_and_run_instance

        def wait_and_build(service: Any, *args: Any, **kwargs: Any) -> Any:
            self.builds.append(service.host)
            self.go.wait(SECONDS)
            return build(service, *args, **kwargs)

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.compute.manager.ComputeManager'
                '._do_build_and_run_instance',
                wait_and_build,
            )
        )

    def boot_both(self) -> list[str]:
        """Boot two servers, of which no host shows anything meanwhile."""
        flavor = self.make_pinned_flavor(1)
        made = [self.boot(flavor, 'BUILD') for _number in range(2)]
        self.wait_until(lambda: len(self.builds) == len(made))
        self.go.set()
        return [
            self._wait_for_state_change(one, 'ACTIVE')['OS-EXT-SRV-ATTR:host']
            for one in made
        ]

    def test_each_gets_a_host_that_can_build_it(self) -> None:
        hosts = self.boot_both()

        self.assertEqual(['host1', 'host2'], sorted(hosts))
        # Not one was refused by its host.
        self.assertEqual(sorted(hosts), sorted(self.builds))
