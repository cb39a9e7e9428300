# SPDX-License-Identifier: Apache-2.0

"""Hosts with leases on them, in memory."""

from collections.abc import Mapping, Sequence
import itertools
import random
import uuid

from dev.bench.harness import leases as leases_mod
from nova_ext_resources.claims.checks import capacity
from nova_ext_resources.claims.checks import granularity
from nova_ext_resources.claims.trackers import count
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import requirements
from nova_ext_resources.reservation import fleets
from nova_ext_resources.reservation import host as host_mod
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation import planner
from nova_ext_resources.reservation import server_demand

#: Hosts of which it is tried whether a lease fits there.
_TRIED = 8


class Leased:
    """Hosts with leases on them.

    :ivar leases: all of them
    :param full: whether all hosts but the last have less than a server free
    """

    def __init__(self, shape: leases_mod.Shape, *, full: bool = False) -> None:
        self.rng = random.Random(shape.hosts * shape.leases)
        self.leases: list[leases_mod.Lease] = []
        self.hosts = make_hosts(shape.hosts)
        self.names = [one.name for one in self.hosts]
        self.fleet = fleets.Fleet(self.hosts, {'count': count.CountTracker()})
        self.calendar = self.fleet.calendar
        self.planner = planner.Planner(
            self.fleet,
            {
                'granularity': granularity.GranularityTest(
                    self.fleet.trackers
                ),
                'capacity': capacity.CapacityTest(self.fleet.trackers),
            },
        )
        if full:
            self._fill(shape)
            return
        for _number in range(shape.leases):
            self._lease()

    def draw(self, seconds: int = leases_mod.DAY) -> interval.Interval:
        """Return an interval that starts in these days."""
        days = leases_mod.DAYS * leases_mod.DAY
        start = leases_mod.NOW + self.rng.randrange(days)
        return interval.Interval(start, start + seconds)

    def fits(
        self, number: int, asked: dict[str, int], during: interval.Interval
    ) -> bool:
        """Return whether amounts are free on a host throughout a time."""
        return all(
            self.calendar.find_free((make_uuid(number), name), during)
            >= amount
            for name, amount in asked.items()
        )

    def search(
        self, asked: dict[str, int], during: interval.Interval
    ) -> str | None:
        """Return the first host with room for one server."""
        for name in self.fleet.index.find(asked, during):
            if self.fits(leases_mod.number_host(name), asked, during):
                return name
        return None

    def plan(
        self, servers: int, during: interval.Interval
    ) -> planner.Plan | planner.Refusal:
        """Plan or refuse; nothing has started yet."""
        request = make_request('it', during, leases_mod.ASKED, servers)
        return self.planner.plan(request, now=leases_mod.NOW)

    def _lease(self) -> None:
        """Put one lease on a host where it fits; leave it out if on none."""
        amounts = self.rng.choice(leases_mod.SIZES)
        hours = self.rng.randint(1, 48)
        during = self.draw(hours * leases_mod.HOUR)
        tried = min(_TRIED, len(self.names))
        for number in self.rng.sample(range(len(self.names)), tried):
            if self.fits(number, amounts, during):
                self._book(number, during, amounts)
                return

    def _book(
        self, host: int, during: interval.Interval, amounts: dict[str, int]
    ) -> None:
        """Accept a reservation of one server."""
        number = len(self.leases)
        lease = leases_mod.Lease(host, during.start, during.end, amounts)
        self.leases.append(lease)
        request, server = make_planned(number, lease)
        self.planner.accept(
            request, planner.Plan(during=during, servers=(server,))
        )

    def _fill(self, shape: leases_mod.Shape) -> None:
        """Put leases on all hosts but the last, one after the other.

        Each leaves less than a server free, until all end on one day.
        """
        first = leases_mod.NOW
        last = first + (leases_mod.DAYS + 2) * leases_mod.DAY
        number = max(shape.leases // shape.hosts, 1)
        for host in range(shape.hosts - 1):
            inner = self.rng.sample(range(first + 1, last), number - 1)
            for times in itertools.pairwise([first, *sorted(inner), last]):
                amounts = {'VCPU': self.rng.choice((52, 56, 64))}
                self._book(host, interval.Interval(*times), amounts)


def make_hosts(number: int) -> Sequence[host_mod.Host]:
    """Make hosts as placement has them."""
    return [_make_host(one) for one in range(number)]


def make_uuid(number: int) -> str:
    """Return the uuid of the provider of a host."""
    return str(uuid.UUID(int=number))


def make_planned(
    number: int, lease: leases_mod.Lease
) -> tuple[plan_request.Request, planned_server.PlannedServer]:
    """Return a lease as what was asked for, and what was planned for it."""
    key = f'lease {number}'
    during = interval.Interval(lease.start, lease.end)
    host = leases_mod.name_host(lease.host)
    request = make_request(key, during, lease.amounts, 1)
    rp_uuid = make_uuid(lease.host)
    amounts = {(rp_uuid, host, k): v for k, v in lease.amounts.items()}
    return request, plan_server(request, host, amounts)


def plan_server(
    request: plan_request.Request,
    host: str,
    amounts: Mapping[tuple[str, str, str], int],
) -> planned_server.PlannedServer:
    """Return the only server of a request.

    :param amounts: provider, its name and class -> amount
    """
    return planned_server.PlannedServer(
        key=f'{request.key}/0',
        host=host,
        during=request.during,
        assignments=tuple(
            assignment.Assignment(
                rp_uuid=rp_uuid,
                rp_key=rp_key,
                resource_class=name,
                amount=amount,
            )
            for (rp_uuid, rp_key, name), amount in amounts.items()
        ),
    )


def make_request(
    key: str, during: interval.Interval, amounts: dict[str, int], servers: int
) -> plan_request.Request:
    """Make a request for servers of a flavor."""
    group = requirements.RequestGroup(suffix='', resources=amounts)
    return plan_request.Request(
        key=key,
        during=during,
        least=servers,
        demand=server_demand.Demand(
            requirement=requirements.Requirement(groups=(group,))
        ),
    )


def _make_host(number: int) -> host_mod.Host:
    rp_uuid, name = make_uuid(number), leases_mod.name_host(number)
    root = host_provider.Provider(
        rp_uuid=rp_uuid,
        name=name,
        inventories={
            one: class_inventory.Inventory(total=total)
            for one, total in leases_mod.CAPACITY.items()
        },
    )
    return host_mod.make_host(
        name, [root], host_view.HostView(keys={rp_uuid: name})
    )
