# SPDX-License-Identifier: Apache-2.0

"""The hosts of a site as they were read, and what plans on them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from nova_ext_resources.claims import base
from nova_ext_resources import exception
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import amounts
from nova_ext_resources.reservation import flavor
from nova_ext_resources.reservation import fleets
from nova_ext_resources.reservation import host as host_mod
from nova_ext_resources.reservation import order
from nova_ext_resources.reservation import planner
from nova_ext_resources.reservation import publication
from nova_ext_resources.reservation import server_demand
from nova_ext_resources.reservation.store import admission
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import publications
from nova_ext_resources.reservation.store import slots


class Site(Protocol):
    """The cloud that reservations are for."""

    def list_hosts(
        self,
        taken: Mapping[str, Mapping[host_view.Place, int]],
        publications: publication.Publications,
    ) -> Sequence[host_mod.Host]:
        """Return all hosts with what is left of them now.

        :param taken: server -> the places of the slot that it has taken, of
            which it uses nothing
        :param publications: what hosts have published
        """

    def list_enabled(self) -> Mapping[str, bool]:
        """Return name of each host -> whether its compute is enabled."""

    def check_zones(self) -> None:
        """Check that the zones of these hosts are known.

        :raises ComputeUnavailable: Nova did not say them
        """

    def find_flavor(self, name: str) -> flavor.Flavor | None:
        """Return a flavor, None if there is none of this name or id."""

    def check_project(self, project: str) -> None:
        """Check that there is such a project, as far as keystone says.

        :raises InvalidLimits: there is none
        """


class Survey:
    """Reads the hosts when they are needed for the first time.

    Each method may also raise ``StoreError`` and, if it needs hosts,
    ``PlacementError``, ``ComputeUnavailable`` and ``InvalidConfiguration``.

    :param trackers: all that are installed, by name
    :param tests: all claim tests that are installed, by name
    :param clock: returns seconds since the epoch
    """

    def __init__(
        self,
        database: databases.Database,
        site: Site,
        trackers: Mapping[str, base.Tracker],
        tests: Mapping[str, base.ClaimTest],
        clock: Callable[[], float],
    ) -> None:
        self._database = database
        self._site = site
        self._trackers = trackers
        self._tests = tests
        self._clock = clock
        self._fleet: fleets.Fleet | None = None
        self._admission: admission.Admission | None = None
        self._classes: frozenset[str] = frozenset()
        self._traits: frozenset[str] = frozenset()

    @property
    def has_hosts(self) -> bool:
        """Whether they were read."""
        return self._fleet is not None

    def find_fleet(self) -> fleets.Fleet:
        """Return the hosts, with what was booked when they were refreshed."""
        if self._fleet is None:
            now = self._now()
            taken = slots.list_places(self._database, now)
            known = publications.read(self._database, now)
            hosts = self._site.list_hosts(taken, known)
            self._fleet = fleets.Fleet(hosts, self._trackers)
            self._admission = self._make_admission(self._fleet, now)
            places = self._fleet.calendar.places
            self._classes = frozenset(place[1] for place in places)
            self._traits = frozenset[str]().union(
                *(one.traits for host in hosts for one in host.providers)
            )
        return self._fleet

    def find_admission(self) -> admission.Admission:
        """Return what plans on these hosts."""
        self.find_fleet()
        assert self._admission is not None
        return self._admission

    def find_changing(self) -> admission.Admission:
        """Return what can change states: no hosts are needed for that."""
        if self._admission is not None:
            return self._admission
        return self._make_admission(fleets.Fleet((), self._trackers))

    def refresh(self) -> fleets.Fleet:
        """Return the hosts with all that is booked on them now."""
        fleet = self.find_fleet()
        self.find_admission().refresh(self._now())
        return fleet

    def check_zone(self, key: str, zone: str) -> None:
        """Check that a host is in a zone.

        :param key: the reservation that asks for it
        :raises InvalidReservation: none is
        """
        zones = amounts.list_zones(self.find_fleet().hosts.values())
        self._site.check_zones()
        if zone not in zones:
            known = ', '.join(filter(None, zones)) or 'none'
            raise exception.InvalidReservation(
                key=key,
                field='zone',
                reason=f'no host is in zone {zone!r}; known: {known}',
            )

    def check_demand(self, key: str, demand: server_demand.Demand) -> None:
        """Check that some host has each class and each trait.

        :param key: the reservation that asks for them
        :raises InvalidReservation: none has
        """
        self.find_fleet()
        order.check_demand(key, demand, self._classes, self._traits)

    def _make_admission(
        self, fleet: fleets.Fleet, since: int | None = None
    ) -> admission.Admission:
        return admission.Admission(
            self._database, planner.Planner(fleet, self._tests), since
        )

    def _now(self) -> int:
        return int(self._clock())
