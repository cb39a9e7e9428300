# SPDX-License-Identifier: Apache-2.0

"""Hosts whose compute node itself has a class, and a watcher of placement."""

from collections.abc import Callable, Mapping, Sequence
import datetime
import json
import pathlib
import threading
import time
from typing import Any

import fixtures
from nova.scheduler.client import report
from nova.virt import fake as nova_fake
from nova.virt import node as nova_node
from oslo_utils import timeutils
import requests

from nova_ext_resources.host.service import wiring
from nova_ext_resources.objects import alarm
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.publish import root_inventory
from nova_ext_resources.virt.driver import fake
from tests.functional.virt import base
from tests.functional.virt import commands

WAYS = 'CUSTOM_LLC_WAYS'

#: How often a tree is read until nothing is written meanwhile.
_READINGS = 100

#: As many as the caches of a host have for servers.
TOTAL = 20

#: Of a nova-compute that was stopped.
SILENCE = datetime.timedelta(minutes=5)

FILE = """\
meta: {{schema_version: '1.0'}}
providers:
  - identification: {{uuid: $COMPUTE_NODE}}
    inventories:
      additional:
        - CUSTOM_LLC_WAYS: {{total: {total}}}
"""


class PlainDriver(nova_fake.MediumFakeDriver):
    """Nova's own, with an identity that it has again after a restart."""

    vcpus = 64

    def init_host(self, host: str) -> None:
        super().init_host(host)
        if nova_node.read_local_node_uuid() is None:
            (node_uuid,) = self.get_nodenames_by_uuid()
            nova_node.write_local_node_uuid(node_uuid)

    def get_nodenames_by_uuid(self, refresh: bool = False) -> dict[str, str]:
        return {fake._make_node_uuid(n): n for n in self.get_available_nodes()}

    def get_available_resource(self, nodename: str) -> dict[str, Any]:
        data: dict[str, Any] = super().get_available_resource(nodename)
        if data:
            data['uuid'] = fake._make_node_uuid(nodename)
        return data


#: Without any plugin, as if this package were not installed.
NOTHING = """
[ext_resources]
inventory_providers =
enforcers =
"""


class OldInventoryTestCase(commands.Commands, base.NovaTestCase):
    """Each host starts without this package, and with Nova's file."""

    plugins = 'fake'
    enforcers = 'noop'

    #: The driver before this package; that of Nova pins no CPUs.
    plain_driver: type[Any] = fake.FakeDriver

    HOSTS: tuple[str, ...] = ('host1', 'host2')

    def setUp(self) -> None:
        super().setUp()
        self.files = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.path = self.files / 'ways.yaml'
        self.path.write_text(FILE.format(total=TOTAL))
        self.flags(provider_config_location=str(self.files), group='compute')
        self.install()
        self.client = placement_client.Client(self.make_placement())
        self.services: dict[str, Any] = {}
        for host in self.HOSTS:
            self.start_plain(host)

    def start_plain(self, host: str) -> Any:
        """Start a host without this package."""
        return self._start(host, self.plain_driver, NOTHING)

    def start_ours(self, host: str) -> Any:
        """Start a host with this package."""
        return self._start(host, fake.FakeDriver, self.host_options)

    def _start(self, host: str, driver: type[Any], options: str) -> Any:
        """Start a host; its guests have run all the time."""
        former = self.services.get(host)

        def load(virtapi: Any, *_args: Any) -> Any:
            made = driver(virtapi)
            if former is not None:
                made.instances = former.driver.instances
            return made

        (self.folder / f'{host}.conf').write_text(options)
        with fixtures.MonkeyPatch(
            'nova.virt.driver.load_compute_driver', load
        ):
            made = self._start_compute(host)
        self.services[host] = made
        if hasattr(made.driver, '_ext'):
            self.addCleanup(made.driver._ext.stop)
        return made

    def restart(self, host: str) -> Any:
        """Start a host again that has this package."""
        self.stop(host)
        return self.start_ours(host)

    def stop(self, host: str) -> None:
        service = self.services[host]
        service.stop()
        if hasattr(service.driver, '_ext'):
            service.driver._ext.stop()

    def set_down(self, host: str, *, is_down: bool = True) -> None:
        """Have Nova show a nova-compute as one that is silent, or up again."""
        now = timeutils.utcnow(with_timezone=True)
        service = self.services[host].service_ref
        service.last_seen_up = now - is_down * SILENCE
        service.save()

    def force_down(self, host: str, *, is_down: bool = True) -> None:
        """Mark a nova-compute as down, whatever it does, or no longer."""
        uuid = self.services[host].service_ref.uuid
        self.admin_api.put_service_force_down(uuid, is_down)

    def get_ext(self, host: str = 'host1') -> Any:
        return self.services[host].driver._ext

    def make_ways_flavor(self, ways: int) -> str:
        return self.make_pinned_flavor(ways)

    def get_root(self, host: str = 'host1') -> str:
        return str(self._get_provider_uuid_by_host(host))

    def list_below(self, host: str = 'host1') -> dict[str, str]:
        """Return uuid -> name of the providers below the compute node."""
        root = self.get_root(host)
        return {
            one.rp_uuid: one.name
            for one in self.client.list_providers(in_tree=root)
            if one.rp_uuid != root
        }

    def read_offers(self, host: str = 'host1') -> dict[str, tuple[int, int]]:
        """Return what offers ways: name -> what is free, what is held."""
        root = self.get_root(host)
        # Not while other threads write to it.
        readings = (read_tree(self.client, root) for _ in range(_READINGS))
        return next(one for one in readings if one is not None)

    def list_held(self, consumer: str) -> Mapping[str, int]:
        """Return name of the provider -> ways that a consumer holds there."""
        return {
            self._get_resource_provider_by_uuid(rp_uuid)['name']: one[WAYS]
            for rp_uuid, one in self.client.get_allocations(
                consumer
            ).resources.items()
            if WAYS in one
        }

    def list_alarms(self, host: str = 'host1') -> dict[tuple[str, str], str]:
        self.get_ext(host).periodic.run_round()
        return {
            (one.name, one.subject): one.text
            for one in self.get_ext(host).metrics.read_health().alarms
        }


class OneHostTestCase(OldInventoryTestCase):
    HOSTS = ('host1',)

    def start_with_servers(self, *ways: int) -> list[Any]:
        servers = [self.boot(self.make_ways_flavor(one)) for one in ways]
        self.stop('host1')
        return servers

    def assert_stays(self, free: int, held: int, words: str) -> None:
        for _ in range(2):
            offers = self.read_offers()
            self.assertEqual((free, held), offers.pop('host1'))
            self.assertEqual({(0, 0)}, {*offers.values()})
            self.publish(self.services['host1'])
        text = self.list_alarms()[alarm.OLD_INVENTORY, WAYS]
        self.assertIn(words, text)

    def assert_moved(self, free: int, held: int) -> None:
        self.wait_until(lambda: 'host1' not in self.read_offers())
        sums = map(sum, zip(*self.read_offers().values(), strict=True))
        self.assertEqual((free, held), (*sums,))
        self.wait_until(
            lambda: (alarm.OLD_INVENTORY, WAYS) not in self.list_alarms()
        )

    def write_by_others(self) -> None:
        root = self.client.get_provider(self.get_root())
        self.client.set_aggregates(
            root.rp_uuid, root.aggregates, root.generation or 0
        )

    def act(self, server: Any, action: str, **body: Any) -> None:
        self.admin_api.post_server_action(server['id'], {action: body})


def read_tree(
    client: placement_client.Client, root: str
) -> dict[str, tuple[int, int]] | None:
    """Return what offers ways: name -> what is free, and what is held.

    None where something was written meanwhile: then what was read is of two
    different states.
    """
    before = client.list_providers(in_tree=root)
    found = {}
    for one in before:
        ways = client.list_inventories(one.rp_uuid).get(WAYS)
        held = client.list_usages(one.rp_uuid).get(WAYS, 0)
        if ways is not None or held:
            room = ways.total - ways.reserved if ways else 0
            found[one.name] = (max(room - held, 0), held)
    after = client.list_providers(in_tree=root)
    generations = [
        {p.rp_uuid: p.generation for p in x} for x in (before, after)
    ]
    return found if generations[0] == generations[1] else None


def make_answer(status: int, detail: str) -> requests.Response:
    """Make an answer of placement with an error."""
    error = {
        'status': status,
        'detail': detail,
        'code': 'placement.undefined_code',
    }
    made = requests.Response()
    made.status_code = status
    made._content = json.dumps({'errors': [error]}).encode()
    return made


class Refusing(fixtures.Fixture):
    """Something happens to each reshape that Nova sends.

    :param before: called before it; an answer is given in place of one of
        placement
    """

    def __init__(self, before: Callable[[], Any]) -> None:
        self._before = before
        self.count = 0

    def _setUp(self) -> None:
        original = report.SchedulerReportClient.post

        def post(client: Any, url: str, *args: Any, **kwargs: Any) -> Any:
            if url != '/reshaper':
                return original(client, url, *args, **kwargs)
            self.count += 1
            answer = self._before()
            if answer is not None:
                return answer
            return original(client, url, *args, **kwargs)

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.scheduler.client.report.SchedulerReportClient.post', post
            )
        )


class Unread(fixtures.Fixture):
    """The compute node cannot be read while there are faults."""

    def __init__(self, faults: Sequence[Exception]) -> None:
        self._faults = faults

    def _setUp(self) -> None:
        original = root_inventory.RootClasses.read

        def read(*args: Any) -> frozenset[str]:
            for fault in self._faults:
                raise fault
            return original(*args)

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.placement.publish.root_inventory.RootClasses.read',
                read,
            )
        )


class Starting(fixtures.Fixture):
    """Finds a host whose nova-compute has not started yet."""

    ext: Any = None

    def _setUp(self) -> None:
        original = wiring.HostService.start

        def start(ext: Any) -> None:
            self.ext = ext
            original(ext)

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.host.service.wiring.HostService.start',
                start,
            )
        )


class Watcher(fixtures.Fixture):
    """Reads a tree again and again, and keeps each new state."""

    def __init__(self, client: placement_client.Client, root: str) -> None:
        self._client = client
        self._root = root
        self._is_stopping = threading.Event()
        self.seen: list[dict[str, tuple[int, int]]] = []
        self.error = ''

    def _setUp(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.addCleanup(self.stop)

    def stop(self) -> None:
        self._is_stopping.set()
        self._thread.join(base.SECONDS)

    def _run(self) -> None:
        try:
            while not self._is_stopping.is_set():
                reading = read_tree(self._client, self._root)
                if reading is not None and reading not in self.seen[-1:]:
                    self.seen.append(reading)
                time.sleep(0.01)
        # Shown by the test, in whose thread it is not.
        except Exception as err:
            self.error = repr(err)
