# SPDX-License-Identifier: Apache-2.0

"""Real Nova services with our driver, in process, on native threads."""

from collections.abc import Callable
import os
import pathlib
import sys
import threading
import time
import traceback
from typing import Any
from unittest import mock
import warnings

import fixtures
import nova.conf
from nova import context as nova_context
from nova import objects
from nova.tests.functional import integrated_helpers
from testtools import content

from nova_ext_resources.objects.documents import stats
from nova_ext_resources.testing import rmd_simulator
from tests.functional import rounds
from tests.functional import shared
from tests.functional.shared import databases
from tests.functional.shared import garbage
from tests.functional.shared import leftovers
from tests.functional.shared import patience
from tests.functional.shared import routes
from tests.functional.shared import rules
from tests.functional.shared import workers
from tests.functional.virt import slow

CONF = nova.conf.CONF

#: To wait for a thread, on a machine that does much else.
SECONDS = 180.0

_NOVA_CONF = """
[ext_resources]
host_config_dir = {folder}
inventory_providers = {plugins}
enforcers = {enforcers}
refresh_interval = 3600

[ext_resources_placement]
auth_type = admin_token
endpoint = {placement}
token = admin
endpoint_override = {placement}
"""

HOST_CONF = """
[ext_resources_rmd]
url = {url}
timeout = 30
retries = 0
"""


class Killed(BaseException):
    """Ends a thread; with ``SystemExit``, eventlet would end the test."""


def _describe() -> str:
    """Return what each thread does, for a test that waits in vain."""
    names = {one.ident: one.name for one in threading.enumerate()}
    return '\n'.join(
        f'{names.get(ident)}:\n{"".join(traceback.format_stack(frame))}'
        for ident, frame in sys._current_frames().items()
    )


class NovaTestCase(integrated_helpers.ProviderUsageBaseTestCase):
    """Starts computes with one RMD simulator each.

    ``self.rmds`` has the simulators by host.
    """

    compute_driver = 'ext_resources.FakeDriver'
    api_major_version = 'v2.1'
    plugins = 'rmd'
    enforcers = 'rmd'

    #: Appended to the configuration file of each host.
    host_options = ''

    def setUp(self) -> None:
        garbage.collect_threads()
        self.useFixture(leftovers.NoBusyThreads())
        # Nova's own tests wait for five seconds, or ten.
        patience.make_patient(self, '_wait_')
        # Nova's test base looks for its paste file in the source tree; a
        # wheel puts it below the prefix.
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.conf.paths.state_path_def',
                lambda *parts: os.path.join(sys.prefix, *parts),
            )
        )
        shared.install()
        self.useFixture(rules.NoFakePolicy())
        self.useFixture(routes.OneRouter())
        self.useFixture(databases.SharedSqlite())
        super().setUp()
        self.useFixture(slow.SlowNova())
        self.useFixture(workers.WokenWorkers())
        patience.make_patient(self.notifier, 'wait_for_')
        self.useFixture(rounds.OneAtATime())
        # Of libraries that Nova uses; its fixture turns some into errors.
        warnings.filterwarnings('ignore', category=ResourceWarning)
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        # Nova lets its tests read nothing below /sys.
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.drivers.rmd.api.client.RESCTRL',
                str(self.folder / 'resctrl'),
            )
        )
        self.flags(
            enabled_filters=[
                'ComputeFilter',
                'NUMATopologyFilter',
                'ExtendedResourcesFilter',
            ],
            available_filters=[
                'nova.scheduler.filters.all_filters',
                'nova_ext_resources.scheduler.filters.all_filters',
            ],
            weight_classes=[
                'nova.scheduler.weights.all_weighers',
                'nova_ext_resources.scheduler.weighers.all_weighers',
            ],
            group='filter_scheduler',
        )
        self.scheduler_service.stop()  # type: ignore[has-type]
        self.scheduler_service = self.start_service('scheduler')
        CONF.set_override('state_path', str(self.folder))
        self._write_conf()
        self.rmds: dict[str, Any] = {}

    def _write_conf(self) -> None:
        path = self.folder / 'ext.conf'
        path.write_text(
            _NOVA_CONF.format(
                folder=self.folder,
                plugins=self.plugins,
                enforcers=self.enforcers,
                placement=self.placement.fixture.endpoint,
            )
        )
        CONF.set_override('config_file', [str(path)])

    def start_host(self, host: str, **settings: Any) -> Any:
        """Start a simulator and a compute service; give the latter."""
        rmd = self.useFixture(rmd_simulator.RmdSimulatorFixture(**settings))
        self.rmds[host] = rmd
        path = self.folder / f'{host}.conf'
        path.write_text(HOST_CONF.format(url=rmd.url) + self.host_options)
        service = self._start_compute(host)
        self.addCleanup(service.driver._ext.stop)
        self.publish(service)
        return service

    def stop_compute(self, service: Any) -> None:
        """Stop a compute service; its ledger is free afterwards.

        Nova has a thread do that, and does not wait for it.
        """
        service.stop()
        service.driver._ext.stop()

    def start_again(self, service: Any) -> Any:
        """Start a compute service anew; its guests have run all the time.

        Returns when a round knows which servers Nova has there.
        """

        def load(virtapi: Any, *_args: Any) -> Any:
            service.driver.virtapi = virtapi
            return service.driver

        with mock.patch('nova.virt.driver.load_compute_driver', load):
            made = self._start_compute(service.host)
        ext = made.driver._ext
        self.addCleanup(ext.stop)
        self.wait_until(lambda: ext.host._repair._is_compared)
        return made

    def wait_until(self, is_so: Callable[[], Any]) -> None:
        deadline = time.monotonic() + SECONDS
        while not is_so():
            if time.monotonic() > deadline:
                self.addDetail('threads', content.text_content(_describe()))
                self.fail(f'not so after {SECONDS} seconds')
            time.sleep(0.1)

    def read_view(self, host: str) -> str:
        """Boot a server; return the view that Nova writes for it."""
        self.boot(self.make_flavor(), host=host)
        node = objects.ComputeNode.get_first_node_by_host_for_old_compat(
            nova_context.get_admin_context(), host
        )
        return str(node.stats[stats.KEY])

    def publish(self, service: Any) -> None:
        """Run one round of the publisher, and Nova's periodic after it."""
        ext = service.driver._ext
        ext.periodic.run_round()
        ext.publisher.run_round()
        assert not ext.publisher.status.failure, ext.publisher.status
        self._run_periodics()

    def make_flavor(self, **extra_specs: Any) -> str:
        specs = {
            name.replace('__', ':'): str(value)
            for name, value in extra_specs.items()
        }
        return str(
            self._create_flavor(vcpu=2, memory_mb=64, disk=0, extra_spec=specs)
        )

    def make_pinned_flavor(self, ways: int) -> str:
        return self.make_flavor(
            hw__cpu_policy='dedicated', resources__CUSTOM_LLC_WAYS=ways
        )

    def boot(self, flavor: str, state: str = 'ACTIVE', **kwargs: Any) -> Any:
        return self._create_server(
            flavor_id=flavor,
            networks='none',
            expected_state=state,
            **kwargs,
        )

    def _shelve_server(
        self, server: Any, expected_state: str = 'SHELVED_OFFLOADED'
    ) -> Any:
        """Shelve a server; Nova shows the state before it leaves the host."""
        made = super()._shelve_server(server, expected_state)
        if expected_state == 'SHELVED_OFFLOADED':
            self._wait_for_server_parameter(
                server, {'OS-EXT-SRV-ATTR:host': None}
            )
        return made

    def assert_in_force(
        self, server: Any, ways: int, host: Any = None
    ) -> None:
        """Compare ledger, RMD and the CPUs that Nova has pinned."""
        host = host or self.host
        entry = host.find_entry(server['id'])
        assert entry is not None, f'{server["id"]} is not in the ledger'
        simulator = self.rmds[host.host].simulator
        held = {
            int(one.rp_key.removeprefix('L3_')): int(one.units['mask'], 16)
            for one in entry.assignments
            if one.resource_class == 'CUSTOM_LLC_WAYS'
        }
        real = {
            cache_id: mask
            for cache_id, mask in simulator.ways_of(server['id']).items()
            if cache_id in held
        }
        self.assertEqual(held, real)
        self.assertEqual([ways], [m.bit_count() for m in held.values()])
        self.assertEqual(entry.cpus, simulator.group_of(server['id']).cpus)

    def assert_allocated_as_held(self, server: Any) -> None:
        allocated = self._get_allocations_by_server_uuid(server['id'])
        entry = self.host.find_entry(server['id'])
        for one in entry.assignments:
            if one.is_allocated:
                self.assertEqual(
                    {one.resource_class: one.amount},
                    allocated[one.rp_uuid]['resources'],
                )

    def list_workloads(self, host: str) -> list[Any]:
        return list(self.rmds[host].simulator.daemon.list_records())

    def list_reasons(
        self, server: Any, event: str, *actions: str
    ) -> list[str]:
        """Return what an operator reads in the events of an action.

        Nova ends its own events when all that is waited for is over.
        """
        found: list[Any] = []

        def have_ended() -> bool:
            found[:] = [
                one
                for one in self.list_events(server, *actions)
                if one['event'].startswith(event)
            ]
            return all(one['finish_time'] for one in found)

        self.wait_until(have_ended)
        return [one['details'] for one in found]

    def list_events(self, server: Any, *actions: str) -> list[Any]:
        """Return the events of the last of these actions, or of all."""
        path = f'/servers/{server["id"]}/os-instance-actions'
        last = next(
            one['request_id']
            for one in self.admin_api.api_get(path).body['instanceActions']
            if not actions or one['action'] in actions
        )
        action = self.admin_api.api_get(f'{path}/{last}').body
        return list(action['instanceAction']['events'])
