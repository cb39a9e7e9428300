# SPDX-License-Identifier: Apache-2.0

"""The ledger: a server's coming and going, and a restart of a full host.

Wall time, because waiting for the disk is what a synced ledger costs. The
peer is the sqlite3 module with the same statements, and nothing around it.
"""

from collections.abc import Iterator
import contextlib
import functools
import json
import logging
import os
import sqlite3
import statistics
import tempfile
from typing import Any
import uuid

from oslo_config import cfg

from dev.bench.harness import rows as rows_mod
from dev.bench.harness import timing
from nova_ext_resources.drivers import base
from nova_ext_resources.host.ledger import ledger
from nova_ext_resources.host import manager
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import requirements
from nova_ext_resources.objects import resource
from nova_ext_resources import plugins

WAYS = 'CUSTOM_LLC_WAYS'
SEATS = 'CUSTOM_LICENCE_SEAT'

WARM_UP = 20
CLAIMS = 400
ENTRIES = 10_000
REPETITIONS = 5

MAX_CLAIM_MS = 20.0
MAX_RECONCILE_MS = 1000.0

NODE = host_provider.Node(
    uuid=str(uuid.UUID(int=1)), hypervisor_hostname='bench'
)
CACHE = host_provider.make_rp_uuid(NODE.uuid, 'L3_0')
LICENCES = host_provider.make_rp_uuid(NODE.uuid, 'LICENCES')


class Licences(base.InventoryProvider):
    """A resource of which ten thousand servers can hold some."""

    def definitions(self) -> tuple[resource.ResourceDefinition, ...]:
        return (
            resource.ResourceDefinition(
                name=SEATS, units='seats', description='Seats of a licence.'
            ),
        )

    def discover(self) -> tuple[host_provider.HostProvider, ...]:
        return (
            host_provider.HostProvider(
                key='LICENCES',
                inventories={SEATS: class_inventory.Inventory(total=ENTRIES)},
            ),
        )


class Host:
    """A host with made-up caches and licences, over a ledger on disk."""

    def __init__(self) -> None:
        conf = cfg.ConfigOpts()
        conf([], project='nova', default_config_files=[])
        self._trackers = plugins.load_trackers()
        self._tests = plugins.load_claim_tests(
            self._trackers, ['granularity', 'capacity', 'cache_affinity']
        )
        self._enforcers = plugins.load_with_options(
            plugins.ENFORCERS, ['noop'], conf, 'bench'
        )
        self._providers: dict[str, base.InventoryProvider] = {
            **plugins.load_with_options(
                plugins.INVENTORY_PROVIDERS, ['fake'], conf, 'bench'
            ),
            'licences': Licences(
                plugins.register_opts(conf, 'licences', ()), 'bench'
            ),
        }

    def start(self, path: str) -> manager.HostManager:
        host = manager.HostManager(
            host='bench',
            node=NODE,
            providers=self._providers,
            trackers=self._trackers,
            tests=self._tests,
            enforcers=self._enforcers,
            ledger=ledger.Ledger(path),
        )
        host.refresh()
        return host


def run() -> list[rows_mod.Row]:
    # It names everybody whom it releases.
    logging.getLogger(manager.__name__).setLevel(logging.ERROR)
    host = Host()
    with tempfile.TemporaryDirectory(prefix='bench-ledger-') as folder:
        return [
            *_run_claims(host, folder),
            *_run_restart(host, folder, 'all servers there', ENTRIES),
            *_run_restart(host, folder, 'all servers gone', 0),
        ]


def _run_claims(host: Host, folder: str) -> list[rows_mod.Row]:
    resources = host.start(os.path.join(folder, 'claims.sqlite'))
    mine, theirs = [], []
    with _plain(os.path.join(folder, 'plain.sqlite')) as db:
        for number in range(WARM_UP + CLAIMS):
            consumer = str(uuid.UUID(int=number))
            pair = (
                _time(functools.partial(_come_and_go, resources, consumer)),
                _time(functools.partial(_write_plainly, db, consumer)),
            )
            # The first ones make the files grow.
            if number >= WARM_UP:
                mine.append(pair[0])
                theirs.append(pair[1])
    resources.close()
    slowest = timing.percentile(mine, 99)
    return [
        rows_mod.make_row(
            'claim and release, synced, p99', slowest, MAX_CLAIM_MS
        ),
        rows_mod.compare(
            'claim and release, synced, median : plain sqlite3',
            statistics.median(mine),
            statistics.median(theirs),
            None,
        ),
        rows_mod.compare(
            'claim and release, synced, p99 : plain sqlite3',
            slowest,
            timing.percentile(theirs, 99),
            None,
        ),
    ]


def _come_and_go(resources: manager.HostManager, consumer: str) -> None:
    resources.claim(
        assignment.ClaimRequest(
            consumer_uuid=consumer,
            allocations={CACHE: {WAYS: 4}},
            requirement=requirements.Requirement(),
            cpus=frozenset({1, 2}),
        )
    )
    resources.release(consumer)


@contextlib.contextmanager
def _plain(path: str) -> Iterator[sqlite3.Connection]:
    """Make the same tables, as durable, by the ledger itself."""
    ledger.Ledger(path).close()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute('PRAGMA synchronous = FULL')
        db.execute('PRAGMA foreign_keys = ON')
        yield db


def _write_plainly(db: sqlite3.Connection, consumer: str) -> None:
    held = [
        (consumer, CACHE, WAYS, 'L3_0', 4, '{"mask": "1e"}', True),
        (consumer, NODE.uuid, 'CUSTOM_RDT_CLOS', 'RDT', 1, '{}', False),
    ]
    db.execute('BEGIN IMMEDIATE')
    db.execute('DELETE FROM entry WHERE consumer_uuid = ?', (consumer,))
    db.execute(
        'INSERT INTO entry (consumer_uuid, state, cpus, enforcers) '
        'VALUES (?, ?, ?, ?)',
        (consumer, 'claimed', '1-2', '{}'),
    )
    db.executemany('INSERT INTO assignment VALUES (?, ?, ?, ?, ?, ?, ?)', held)
    db.execute('COMMIT')
    db.execute('BEGIN IMMEDIATE')
    db.execute(
        "UPDATE entry SET state = 'releasing' WHERE consumer_uuid = ?",
        (consumer,),
    )
    db.execute('COMMIT')
    db.execute('BEGIN IMMEDIATE')
    db.execute('DELETE FROM entry WHERE consumer_uuid = ?', (consumer,))
    db.execute('COMMIT')


def _run_restart(
    host: Host, folder: str, what: str, live: int
) -> list[rows_mod.Row]:
    """Open a full ledger and reconcile it with what Nova has."""
    consumers = [str(uuid.UUID(int=number)) for number in range(ENTRIES)]
    path = os.path.join(folder, f'full-{live}.sqlite')
    mine, theirs = [], []
    for _ in range(REPETITIONS):
        _fill(path, consumers)
        theirs.append(_time(functools.partial(_read_plainly, path)))
        resources: list[manager.HostManager] = []

        def restart(kept: list[Any] = resources) -> None:
            kept.append(host.start(path))
            kept[0].reconcile(consumers[:live])

        mine.append(_time(restart))
        assert len(resources[0].entries) == live
        resources[0].close()
    ours, peer = statistics.median(mine), statistics.median(theirs)
    name = f'{ENTRIES:,} entries reconcile, {what}'
    return [
        rows_mod.make_row(name, ours, MAX_RECONCILE_MS),
        rows_mod.compare(f'{name} : sqlite3 and json', ours, peer, None),
    ]


def _fill(path: str, consumers: list[str]) -> None:
    with _plain(path) as db:
        db.execute('BEGIN')
        db.executemany(
            'INSERT OR REPLACE INTO entry (consumer_uuid, state, enforcers) '
            "VALUES (?, 'applied', '{}')",
            [(one,) for one in consumers],
        )
        db.executemany(
            'INSERT OR REPLACE INTO assignment '
            "VALUES (?, ?, ?, 'LICENCES', 1, '{}', 1)",
            [(one, LICENCES, SEATS) for one in consumers],
        )
        db.execute('COMMIT')


def _read_plainly(path: str) -> list[Any]:
    with contextlib.closing(sqlite3.connect(path)) as db:
        entries = db.execute('SELECT * FROM entry').fetchall()
        held = db.execute('SELECT * FROM assignment').fetchall()
    return [
        *((*row[:3], json.loads(row[3])) for row in entries),
        *((*row[:5], json.loads(row[5]), row[6]) for row in held),
    ]


def _time(call: timing.Call) -> float:
    """Give milliseconds by the clock."""
    _none, spent = timing.spend(call)
    return spent.wall
