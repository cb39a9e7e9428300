# SPDX-License-Identifier: Apache-2.0

"""Reservations of this package in a process of their own, on one database.

As a program has them that uses :mod:`nova_ext_resources.reservation.api`: with
all modules that it needs and all plugins that are installed. Only the hosts
are given, which placement would be asked for.
"""

from collections.abc import Sequence
import contextlib
import datetime
import pathlib
import re
import sys

from dev.bench.harness import leased
from dev.bench.harness import leases as leases_mod
from dev.bench.harness import peers
from dev.bench.harness import stores
from nova_ext_resources import exception
from nova_ext_resources import plugins
from nova_ext_resources.reservation import api
from nova_ext_resources.reservation import flavor
from nova_ext_resources.reservation import host
from nova_ext_resources.reservation import index
from nova_ext_resources.reservation.site import loading
from nova_ext_resources.reservation.store import schema

_PROJECT = 'a' * 32


class Site:
    """A cloud of hosts that nothing runs on."""

    def __init__(self, hosts: Sequence[host.Host]) -> None:
        self._hosts = hosts

    def list_hosts(
        self, taken: object, publications: object
    ) -> Sequence[host.Host]:
        """Return the hosts: nobody has taken anything, or published units."""
        return self._hosts

    def list_enabled(self) -> dict[str, bool]:
        """Return all of them."""
        return {one.name: True for one in self._hosts}

    def check_zones(self) -> None:
        """Nobody asks for a zone."""

    def find_flavor(self, _name: str) -> flavor.Flavor | None:
        """Nobody asks for a flavor by its name."""

    def check_project(self, _project: str) -> None:
        """Nobody sets a quota."""


class Program:
    """What one program does with one database."""

    def __init__(self, url: str) -> None:
        self._database = loading.open_database(url)
        self._reservations: api.Reservations | None = None

    def fill(self, path: str) -> int:
        """Make the tables, and write the leases of a file; return how many.

        What is measured is done by another process.
        """
        schema.upgrade(self._database)
        planned = [
            leased.make_planned(number, one)
            for number, one in enumerate(leases_mod.read(path))
        ]
        stores.fill(self._database, planned, leases_mod.NOW)
        return len(planned)

    def load(self, hosts: int) -> None:
        """Load the plugins, and make hosts as if placement had been read."""
        trackers = plugins.load_trackers()
        self._reservations = api.Reservations(
            self._database,
            Site(leased.make_hosts(hosts)),
            trackers=trackers,
            tests=plugins.load_claim_tests(trackers),
            grammar=plugins.load_grammar(),
            clock=lambda: leases_mod.NOW,
        )

    def start(self) -> None:
        """Read all that is reserved, until servers can be planned."""
        self._opened.prepare()

    def admit(self, name: str, start: int, end: int) -> str:
        """Reserve one server; return its host."""
        record = self._opened.create(_make_order(name, start, end))
        (server,) = record.servers
        return server.host

    def refuse(self, name: str, start: int, end: int, servers: int) -> str:
        """Ask for more servers than there are; return the counter-offer."""
        order = {**_make_order(name, start, end), 'servers': servers}
        try:
            self._opened.create(order)
        except exception.ReservationRefused as err:
            return str(err.offers)
        raise AssertionError(f'{order} was not refused')

    def ask_all(self) -> None:
        """Have as many flavors in use as the planner keeps in memory."""
        start = leases_mod.NOW + leases_mod.DAY
        for vcpus in range(1, index.MAX_ASKS + 1):
            order = _make_order(f'vcpus {vcpus}', start, start + 1)
            resources = {**leases_mod.ASKED, 'VCPU': vcpus}
            with contextlib.suppress(exception.ReservationRefused):
                self._opened.create({**order, 'resources': resources})

    @property
    def _opened(self) -> api.Reservations:
        assert self._reservations is not None, 'load comes first'
        return self._reservations


def read_memory() -> float:
    """Return the most memory that this process had so far, in MB.

    Not by ``getrusage``, which counts what its parent had.
    """
    text = pathlib.Path('/proc/self/status').read_text(encoding='ascii')
    (kib,) = re.findall(r'^VmHWM:\s+(\d+) kB$', text, re.MULTILINE)
    return int(kib) * 1024 / 1e6


def _make_order(name: str, start: int, end: int) -> dict[str, object]:
    return {
        'name': name,
        'resources': leases_mod.ASKED,
        'starts_at': _make_date(start),
        'ends_at': _make_date(end),
        'project': _PROJECT,
    }


def _make_date(seconds: int) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat()


def main() -> None:
    program = Program(sys.argv[1])
    peers.serve(
        {
            'fill': program.fill,
            'load': program.load,
            'start': program.start,
            'admit': program.admit,
            'refuse': program.refuse,
            'ask_all': program.ask_all,
            'read_memory': read_memory,
        }
    )


if __name__ == '__main__':
    main()
