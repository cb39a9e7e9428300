# SPDX-License-Identifier: Apache-2.0

"""A cloud without services, for tests of what works with hosts."""

from collections.abc import Sequence
from typing import Any

from nova_ext_resources.claims import extra_specs
from nova_ext_resources import exception
from nova_ext_resources.reservation import api
from nova_ext_resources.reservation import errors
from nova_ext_resources.reservation import flavor
from nova_ext_resources.reservation import host
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation import survey
from tests.unit.reservation import hosts

#: 2030-01-01T00:00Z.
NOW = 1893456000

HOUR = 3600


class FixedSite:
    """Has the hosts and flavors that it is given.

    :ivar asked: how often the hosts were read
    :ivar taken: what was said then of slots that are taken
    :ivar known: what hosts had published by then
    :ivar has_zones: whether Nova says the zones
    :ivar projects: ids of all that there are; None: nobody says
    :ivar disabled: hosts that are there, and not among those
    """

    def __init__(
        self,
        hosts: Sequence[host.Host],
        flavors: Sequence[flavor.Flavor] = (),
    ) -> None:
        self.hosts = hosts
        self.flavors = {one.name: one for one in flavors}
        self.asked = 0
        self.has_zones = True
        self.disabled: tuple[str, ...] = ()
        self.projects: Sequence[str] | None = None
        self.taken: Any = None
        self.known: Any = None

    def list_hosts(self, taken: Any, known: Any = None) -> Sequence[host.Host]:
        self.asked += 1
        self.taken, self.known = taken, known
        return self.hosts

    def list_enabled(self) -> dict[str, bool]:
        found = {one.name: True for one in self.hosts}
        return {**found, **dict.fromkeys(self.disabled, False)}

    def check_zones(self) -> None:
        if not self.has_zones:
            raise exception.ComputeUnavailable(action='list', reason='away')

    def find_flavor(self, name: str) -> flavor.Flavor | None:
        return self.flavors.get(name)

    def check_project(self, project: str) -> None:
        if self.projects is not None and project not in self.projects:
            raise errors.InvalidLimits(project=project, reason='unknown')


class NoSite:
    """A cloud of which nothing is known."""

    def list_hosts(self, taken: Any, known: Any = None) -> Sequence[host.Host]:
        raise exception.PlacementUnavailable(action='list', detail='away')

    def list_enabled(self) -> dict[str, bool]:
        raise exception.PlacementUnavailable(action='list', detail='away')

    def check_zones(self) -> None:
        raise exception.ComputeUnavailable(action='list', reason='away')

    def find_flavor(self, name: str) -> flavor.Flavor | None:
        raise exception.ComputeUnavailable(action='show', reason='away')

    def check_project(self, project: str) -> None:
        pass


class Clock:
    """A clock that tests set."""

    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def make_reservations(
    url: str, site: survey.Site, clock: Clock, **fields: Any
) -> api.Reservations:
    return api.Reservations(
        databases.Database(url),
        site,
        trackers=hosts.TRACKERS,
        tests=hosts.make_tests(),
        grammar=extra_specs.Grammar(),
        clock=clock,
        **fields,
    )


def make_site() -> FixedSite:
    """Make two hosts of eight CPUs in a zone each, and a flavor of four."""
    return FixedSite(
        [
            hosts.make_host('a', zone='north'),
            hosts.make_host('b', zone='south'),
        ],
        [
            flavor.Flavor(
                name='large', vcpus=4, extra_specs={'hw:cpu_policy': 'shared'}
            ),
            flavor.Flavor(
                name='mixed', vcpus=4, extra_specs={'hw:cpu_policy': 'mixed'}
            ),
            flavor.Flavor(name='empty'),
        ],
    )
