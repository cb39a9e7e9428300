# SPDX-License-Identifier: Apache-2.0

"""Blazar in a process of its own: filled with leases, and asked for a host.

Runs in the environment of Blazar (``tox -e blazar``), where nothing of this
package is needed. The rows are those that Blazar writes for a lease of
``virtual:instance``, and the tables those that it makes, with the indexes that
InnoDB adds to foreign keys: without them a search takes much longer on
SQLite.
"""

from collections.abc import Iterator
import datetime
import sys
from typing import Any
import uuid

from blazar.db.sqlalchemy import facade_wrapper
from blazar.db.sqlalchemy import models
from blazar.plugins.instances import instance_plugin
from blazar.plugins.oshosts import host_plugin
from oslo_config import cfg
from oslo_db import options as db_options
import sqlalchemy as sa

from dev.bench.harness import leases as leases_mod
from dev.bench.harness import peers

#: Rows that are written at once.
_ROWS = 10_000

#: Before the end of a lease, when Blazar has an event by default.
_BEFORE_END = datetime.timedelta(minutes=60)


class Blazar:
    """One database, and the plugin that searches it."""

    def __init__(self, url: str) -> None:
        conf = cfg.CONF
        conf([], project='blazar', default_config_files=[])
        db_options.set_defaults(conf, connection=url)
        self._make_tables()
        # It takes this one's module to be loaded already.
        assert host_plugin.PhysicalHostPlugin
        self._plugin = instance_plugin.VirtualInstancePlugin()

    def _make_tables(self) -> None:
        metadata = models.Lease.metadata
        with facade_wrapper.session_for_write() as session:
            engine = session.get_bind()
            metadata.create_all(engine)
            for table in metadata.sorted_tables:
                for column in table.columns:
                    if column.foreign_keys and not column.primary_key:
                        name = f'ix_{table.name}_{column.name}'
                        sa.Index(name, column).create(engine)

    def fill(self, hosts: int, path: str) -> int:
        """Write hosts, and the leases of a file; return how many."""
        leases = leases_mod.read(path)
        self._insert(models.ComputeHost, map(_make_host, range(hosts)))
        made = [_make_rows(number, one) for number, one in enumerate(leases)]
        for model in (
            models.Lease,
            models.Reservation,
            models.InstanceReservations,
            models.ComputeHostAllocation,
            models.Event,
        ):
            self._insert(model, (row for rows in made for row in rows[model]))
        return len(leases)

    def _insert(self, model: Any, rows: Iterator[dict[str, Any]]) -> None:
        table, left = model.__table__, [*rows]
        while left:
            with facade_wrapper.session_for_write() as session:
                session.execute(sa.insert(table), left[:_ROWS])
            del left[:_ROWS]

    def search(
        self, start: int, end: int, amounts: dict[str, int]
    ) -> int | None:
        """Return the number of the host that a server could have.

        A lease that is created makes two of these searches.
        """
        found = self._plugin.pickup_hosts(
            None,
            {
                'vcpus': amounts['VCPU'],
                'memory_mb': amounts['MEMORY_MB'],
                'disk_gb': amounts['DISK_GB'],
                'amount': 1,
                'affinity': None,
                'resource_properties': '',
                'start_date': _make_date(start),
                'end_date': _make_date(end),
            },
        )
        (host,) = found['added']
        return int(host)


def _make_host(number: int) -> dict[str, Any]:
    capacity = leases_mod.CAPACITY
    return {
        'id': str(number),
        'vcpus': capacity['VCPU'],
        'memory_mb': capacity['MEMORY_MB'],
        'local_gb': capacity['DISK_GB'],
        'cpu_info': '',
        'hypervisor_type': 'QEMU',
        'hypervisor_version': 8002000,
        'hypervisor_hostname': leases_mod.name_host(number),
        'service_name': leases_mod.name_host(number),
        'availability_zone': 'nova',
        'trust_id': str(uuid.UUID(int=number)),
        'reservable': True,
    }


def _make_rows(
    number: int, lease: leases_mod.Lease
) -> dict[Any, list[dict[str, Any]]]:
    """Return the rows of a lease, as the manager writes them."""
    key = str(uuid.UUID(int=number))
    start, end = _make_date(lease.start), _make_date(lease.end)
    times = {
        'start_lease': start,
        'end_lease': end,
        'before_end_lease': max(start, end - _BEFORE_END),
    }
    return {
        models.Lease: [
            {
                'id': key,
                'name': f'lease {number}',
                'start_date': start,
                'end_date': end,
                'status': 'PENDING',
            }
        ],
        models.Reservation: [
            {
                'id': key,
                'lease_id': key,
                'resource_id': key,
                'resource_type': 'virtual:instance',
                'status': 'pending',
            }
        ],
        models.InstanceReservations: [
            {
                'id': key,
                'reservation_id': key,
                'vcpus': lease.amounts['VCPU'],
                'memory_mb': lease.amounts['MEMORY_MB'],
                'disk_gb': lease.amounts['DISK_GB'],
                'amount': 1,
                'flavor_id': key,
                'resource_properties': '',
            }
        ],
        models.ComputeHostAllocation: [
            {
                'id': key,
                'reservation_id': key,
                'compute_host_id': str(lease.host),
            }
        ],
        models.Event: [
            {
                'id': str(uuid.uuid4()),
                'lease_id': key,
                'event_type': kind,
                'time': time,
                'status': 'UNDONE',
            }
            for kind, time in times.items()
        ],
    }


def _make_date(seconds: int) -> datetime.datetime:
    """Return a time as Blazar stores it: in UTC, without a zone."""
    date = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return date.replace(tzinfo=None)


def main() -> None:
    blazar = Blazar(sys.argv[1])
    peers.serve({'fill': blazar.fill, 'search': blazar.search})


if __name__ == '__main__':
    main()
