# SPDX-License-Identifier: Apache-2.0

"""A base for tests of a host: real plugins, a real ledger, a real RMD."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias
import contextlib
import dataclasses
import functools
import os
import sqlite3

import fixtures
from oslo_config import cfg

from nova_ext_resources.claims import base as claims_base
from nova_ext_resources.drivers import base as drivers_base
from nova_ext_resources.drivers.rmd.api import losses
from nova_ext_resources import exception
from nova_ext_resources.facts import deletion_evidence
from nova_ext_resources.host.ledger import ledger as ledger_mod
from nova_ext_resources.host import manager
from nova_ext_resources.host import nova_compute
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import responses
from nova_ext_resources import plugins as plugins_mod
from nova_ext_resources.testing import rmd_simulator
from nova_ext_resources.testing.rmd_simulator import faults
from tests import base
from tests.unit import builders

WAYS = builders.WAYS
CLOS = builders.CLOS

#: The same in every process.
NODE = host_provider.Node(
    uuid='99999999-9999-4999-8999-999999999999', hypervisor_hostname='host1'
)

#: Nova has no servers on the host.
COMPUTE = nova_compute.NovaCompute(
    on_deleted=lambda: None,
    list_roles=lambda _entries: {},
    find_migrations=lambda _server, _uuids: {},
    explain=lambda _uuids, _holding: {},
    examine=lambda _entry: deletion_evidence.Evidence(
        words='', is_proof=False
    ),
    list_known=tuple,
    find_hosts=lambda uuids: dict.fromkeys(uuids, ''),
    list_requests=dict,
    list_servers=dict,
    list_guests=dict,
    find_building=lambda _uuids: (),
    list_problems=tuple,
    long_call_timeout=1800,
)


#: Gets a uuid; returns amounts, by uuid and resource class or reversed.
Reader: TypeAlias = Callable[[str], Mapping[str, Mapping[str, int]]]


def answer(asking: Any, **answers: Any) -> None:
    """Have nova-compute answer what asks it so."""
    asking._compute = dataclasses.replace(asking._compute, **answers)


class Placement:
    """Placement's client, as far as a host asks who has what.

    :ivar read: returns what is allocated to a consumer
    :ivar list_holders: returns what is allocated of a provider
    """

    def __init__(
        self,
        read: Callable[
            [str], Mapping[str, Mapping[str, int]]
        ] = lambda _uuid: {},
        list_holders: Callable[
            [str], Mapping[str, Mapping[str, int]]
        ] = lambda _rp_uuid: {},
    ) -> None:
        self.read = read
        self.list_holders = list_holders

    def get_allocations(self, consumer_uuid: str) -> responses.Allocations:
        return responses.Allocations(
            consumer_uuid=consumer_uuid, resources=self.read(consumer_uuid)
        )


#: A folder in memory, where there is one: it outlives a process that is
#: killed, and syncing costs nothing.
MEMORY = '/dev/shm' if os.access('/dev/shm', os.W_OK) else None

RDT = host_provider.make_rp_uuid(NODE.uuid, 'RDT')

#: Provider of each cache domain.
DOMAINS = tuple(
    host_provider.make_rp_uuid(NODE.uuid, f'L3_{cache_id}')
    for cache_id in (0, 1)
)

TESTS = ('granularity', 'capacity', 'cache_affinity')


def make_claim(
    consumer_uuid: str,
    ways: int = 2,
    *,
    domain: int = 0,
    cpus: frozenset[int] | None = frozenset({1, 2}),
    **fields: Any,
) -> assignment.ClaimRequest:
    """Make the claim of a pinned server for ways of one domain."""
    given: dict[str, Any] = {
        'allocations': {DOMAINS[domain]: {WAYS: ways}},
        'requirement': builders.make_requirement(_={WAYS: ways}),
    }
    return assignment.ClaimRequest(
        consumer_uuid=consumer_uuid, cpus=cpus, **{**given, **fields}
    )


def pop_readers(options: dict[str, Any]) -> list[Any]:
    """Take those of a constructor out of options, in its order."""
    names = [name for name in ('entries', 'guests') if name in options]
    return [options.pop(name) for name in names]


# Looking for entry points takes longer than most tests.
@functools.cache
def load_pure() -> tuple[
    dict[str, claims_base.Tracker], tuple[claims_base.ClaimTest, ...]
]:
    trackers = plugins_mod.load_trackers()
    tests = plugins_mod.load_claim_tests(trackers, TESTS)
    return trackers, tuple(tests.values())


@functools.cache
def load_class(namespace: str, name: str) -> Any:
    return plugins_mod.load_classes(namespace, [name])[name]


def load(
    conf: cfg.ConfigOpts, namespace: str, name: str, **options: Any
) -> dict[str, Any]:
    """Make a plugin as a service does, with these options.

    ``entries`` and ``guests``, among them, are readers.
    """
    readers = pop_readers(options)
    cls = load_class(namespace, name)
    group = plugins_mod.register_opts(conf, name, cls.OPTIONS)
    for option, value in options.items():
        conf.set_override(option, value, f'{plugins_mod.GROUP_PREFIX}{name}')
    made = plugins_mod.make(namespace, name, cls, group, 'host1', *readers)
    return {name: made}


def make_host(
    providers: Mapping[str, drivers_base.InventoryProvider],
    enforcers: Mapping[str, drivers_base.Enforcer],
    ledger: ledger_mod.Ledger,
    *,
    spreads_pins: bool = False,
) -> manager.HostManager:
    trackers, tests = load_pure()
    return manager.HostManager(
        host='host1',
        node=NODE,
        providers=providers,
        trackers=trackers,
        tests=dict(zip(TESTS, tests, strict=True)),
        enforcers=enforcers,
        ledger=ledger,
        spreads_pins=spreads_pins,
    )


def masks_of(entries: Mapping[str, assignment.Entry]) -> dict[str, list[int]]:
    """Return provider -> the mask of each server, as the ledger has them."""
    masks: dict[str, list[int]] = {}
    for entry in entries.values():
        for one in entry.assignments:
            if one.resource_class == WAYS:
                mask = bitmask.parse_mask(one.units['mask'])
                masks.setdefault(one.rp_uuid, []).append(mask)
    return masks


class HostTestCase(base.TestCase):
    """Makes hosts; each test has its own folder for ledgers."""

    def setUp(self) -> None:
        super().setUp()
        folder = self.useFixture(fixtures.TempDir(rootdir=MEMORY)).path
        self.ledger_path = os.path.join(folder, 'ledger.sqlite')

    def load(
        self, namespace: str, name: str, **options: Any
    ) -> dict[str, Any]:
        return load(self.conf, namespace, name, **options)

    def load_fake(self, **options: Any) -> dict[str, Any]:
        given = {'ways': 11, 'reserved_ways': 0, 'num_closids': 8}
        return self.load(
            plugins_mod.INVENTORY_PROVIDERS, 'fake', **{**given, **options}
        )

    def load_noop(self) -> dict[str, Any]:
        return self.load(plugins_mod.ENFORCERS, 'noop')

    def open_ledger(self) -> ledger_mod.Ledger:
        ledger = ledger_mod.Ledger(self.ledger_path)
        self.addCleanup(ledger.close)
        return ledger

    def make_noop_host(
        self, *, spreads_pins: bool = False, **options: Any
    ) -> manager.HostManager:
        """Make a host that exists in the configuration only, discovered."""
        host = make_host(
            self.load_fake(**options),
            self.load_noop(),
            self.open_ledger(),
            spreads_pins=spreads_pins,
        )
        host.refresh()
        return host

    def read_rows(self) -> dict[str, str]:
        """Read server -> state from the ledger's file, past the host."""
        db = sqlite3.connect(f'file:{self.ledger_path}?mode=ro', uri=True)
        try:
            rows = db.execute('SELECT consumer_uuid, state FROM entry')
            return dict(rows.fetchall())
        finally:
            db.close()

    def assert_consistent(self, host: manager.HostManager) -> None:
        """The host's view is exactly what servers hold, once each."""
        masks = masks_of(host.entries)
        for rp_uuid in DOMAINS:
            held = masks.get(rp_uuid, [])
            together = 0
            for mask in held:
                self.assertTrue(bitmask.is_contiguous(mask), f'{mask:b}')
                self.assertEqual(0, together & mask, 'sold twice')
                together |= mask
            tracked = host.view.tracked[rp_uuid, WAYS]
            taken = bitmask.parse_mask(str(tracked.state.to_dict()['t']))
            self.assertEqual(f'{together:b}', f'{taken:b}')
        self.assertEqual(
            len(host.entries),
            host.view.tracked[RDT, CLOS].state.used,
            str(host.entries),
        )
        self.assertEqual(
            {u: str(e.state) for u, e in host.entries.items()},
            self.read_rows(),
        )
        self.assertEqual(frozenset(), host.list_unwritten())


class BackendTestCase(HostTestCase):
    """Has something that puts ways into force, and can look at it."""

    def list_in_force(self) -> dict[str, dict[int, int]]:
        """Return server -> masks that are in force, whoever made it."""
        raise NotImplementedError

    def start(
        self,
        host: manager.HostManager,
        consumer_uuid: str,
        ways: int = 2,
        **fields: Any,
    ) -> assignment.Entry:
        """Claim and apply, as the build of a server does."""
        host.claim(make_claim(consumer_uuid, ways, **fields))
        try:
            host.apply(consumer_uuid)
        except exception.ExtResourcesError:
            # So does the driver.
            with contextlib.suppress(exception.ExtResourcesError):
                host.release(consumer_uuid)
            raise
        entry = host.find_entry(consumer_uuid)
        assert entry is not None
        return entry

    def assert_agreement(self, host: manager.HostManager) -> None:
        """Ledger, view and host say the same."""
        self.assert_consistent(host)
        in_force = self.list_in_force()
        self.assertEqual(set(host.entries), set(in_force))
        for uuid, entry in host.entries.items():
            for one in entry.assignments:
                if one.resource_class == WAYS:
                    cache_id = int(one.rp_key.removeprefix('L3_'))
                    self.assertEqual(
                        f'{in_force[uuid][cache_id]:x}', one.units['mask']
                    )


class RmdHostTestCase(BackendTestCase):
    """Has a simulated RMD and makes hosts that use it."""

    #: Fields of the simulator's settings, for all tests of a class.
    SETTINGS: dict[str, Any] = {}  # noqa: RUF012 - read only

    def setUp(self) -> None:
        super().setUp()
        self.fixture = self.useFixture(
            rmd_simulator.RmdSimulatorFixture(**self.SETTINGS)
        )
        self.simulator = self.fixture.simulator
        # Another test may get the same port.
        self.addCleanup(losses.forget_all)

    def fail_request(
        self, number: int, kind: faults.Kind, when: faults.When
    ) -> None:
        """Let RMD serve so many requests less one, and fail the next."""
        if number > 1:
            self.simulator.faults.add(
                faults.Fault(kind='slow', seconds=0, count=number - 1)
            )
        self.simulator.faults.add(
            faults.Fault(kind=kind, when=when, count=1, body='?')
        )

    def load_rmd(self, namespace: str, **options: Any) -> dict[str, Any]:
        given = {'url': self.fixture.url, 'timeout': 60.0, 'retries': 0}
        plugins = self.load(namespace, 'rmd', **{**given, **options})
        for plugin in plugins.values():
            self.addCleanup(plugin._client.close)
        return plugins

    def make_rmd_host(self, **options: Any) -> manager.HostManager:
        """Make a host that has looked at its RMD."""
        providers, enforcers = (
            self.load_rmd(namespace, entries=lambda: host.entries, **options)
            for namespace in (
                plugins_mod.INVENTORY_PROVIDERS,
                plugins_mod.ENFORCERS,
            )
        )
        host: manager.HostManager = make_host(
            providers, enforcers, self.open_ledger()
        )
        host.refresh()
        return host

    def list_in_force(self) -> dict[str, dict[int, int]]:
        """Return server -> masks that are in force in RMD, whoever made it."""
        return {
            uuid: self.simulator.ways_of(uuid)
            for group in self.simulator.list_groups()
            for uuid in group['workloads']
        }
