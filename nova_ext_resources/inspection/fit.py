# SPDX-License-Identifier: Apache-2.0

"""Whether a server fits on a host, and what is short where.

The steps are those of a request: placement leaves out what lacks a resource
class, a trait or an amount; the scheduler's filter leaves out what cannot give
the units, by what hosts have published. The same functions decide here, so
that the reasons are the same.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import enum
import functools
from typing import Any, TypeAlias

from nova_ext_resources.claims import base
from nova_ext_resources.claims import decide
from nova_ext_resources.claims.schedule import candidates as schedule
from nova_ext_resources.claims.trackers import count
from nova_ext_resources import exception
from nova_ext_resources.inspection import aggregates
from nova_ext_resources.inspection import services as services_mod
from nova_ext_resources.objects.documents import host_tree
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import candidates
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import promise_ledger
from nova_ext_resources.reservation import publication
from nova_ext_resources.reservation import runs
from nova_ext_resources.reservation import server_demand
from nova_ext_resources.reservation import spare as spare_mod

#: Nova gives it to the provider of a compute service that is disabled.
DISABLED_TRAIT = 'COMPUTE_STATUS_DISABLED'

#: Says nothing of any host.
_ALL_UP = services_mod.Services()
_ANY_ZONE = aggregates.Zone()


class FitStep(enum.StrEnum):
    """What leaves a host out; each is asked after those before it.

    ``SERVICE``: its compute service is disabled or down, or Nova has none.
    ``ZONE``: it is not in the availability zone that is requested.
    ``CLASSES``: no provider has a resource class.
    ``TRAITS``: no provider has it with the traits that are required.
    ``AMOUNTS``: not enough is free, or an inventory does not allow so much.
    ``POLICY``: the request groups need more providers than there are.
    ``PLACEMENT``: placement does not offer it, and nothing above says why.
    ``UNITS``: the host cannot give the units, such as ways side by side.
    ``RESERVATIONS``: what is free is promised to reservations.
    """

    SERVICE = 'service'
    ZONE = 'zone'
    CLASSES = 'classes'
    TRAITS = 'traits'
    AMOUNTS = 'amounts'
    POLICY = 'policy'
    PLACEMENT = 'placement'
    UNITS = 'units'
    RESERVATIONS = 'reservations'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What becomes of a request on a host.

    :ivar step: what leaves the host out; None when the server fits
    :ivar shortfalls: every reason
    :ivar places: providers that the server would use; of a host that is left
        out, none
    :ivar is_sure: whether the host has published which units are free
    """

    host: host_tree.HostTree
    step: FitStep | None = None
    shortfalls: tuple[exception.Shortfall, ...] = ()
    places: Mapping[str, Mapping[str, int]] = dataclasses.field(
        default_factory=dict
    )
    is_sure: bool = False


#: Provider -> resource class -> amount, of one candidate.
Places: TypeAlias = Mapping[str, Mapping[str, int]]

#: The root of a tree -> what placement offers of it.
Offered: TypeAlias = Mapping[str, Sequence[Places]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostRoom:
    """What a host has left.

    :ivar document: what it has published; None: nothing
    :ivar cells: the free dedicated CPUs of each NUMA cell; None: not known
    """

    tree: host_tree.HostTree
    document: stats.Document | None
    cells: Sequence[set[int]] | None

    @property
    def is_sure(self) -> bool:
        """Whether the host has published which units are free."""
        return self.document is not None


def make_room(
    host: host_tree.HostTree, published: publication.Publications
) -> HostRoom:
    """Return what a host has left now."""
    found = published.get(host.name)
    cells = publication.read_cells(found.cells) if found else None
    return HostRoom(
        tree=host,
        document=stats.decode(found.document) if found else None,
        cells=None if cells is None else [set(one.free) for one in cells],
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Filters:
    """What the scheduler's filters leave of the candidates of a request.

    :ivar promises: to reservations; empty where they are not known
    :ivar now: seconds since the epoch
    :ivar end: when the server ends
    """

    demand: server_demand.Demand
    trackers: Mapping[str, base.Tracker]
    tests: Mapping[str, base.ClaimTest]
    promises: promise_ledger.Promises
    now: int = 0
    end: int = interval.FOREVER

    @functools.cached_property
    def judge(self) -> schedule.Judge:
        asked = self.demand.cells, self.demand.requirement
        return schedule.Judge(self.trackers, self.tests, *asked)

    def keep(
        self, room: HostRoom, options: Sequence[schedule.Candidate]
    ) -> Sequence[schedule.Candidate] | Fit:
        """Return what a host can give, the best first; or why nothing."""
        step, short = FitStep.UNITS, set[exception.Shortfall]()
        if room.document is not None:
            asked = room.document, options, lambda: room.cells
            options = self.judge.choose(*asked)
            if not options:
                short.update(self.judge.explain(*asked))
        view = make_view(room.tree)
        if options and not self.promises.is_empty:
            step = FitStep.RESERVATIONS
            states = [
                (place, one.state) for place, one in view.tracked.items()
            ]
            spare = spare_mod.Spare(
                self.promises,
                {place: one.free for place, one in states}.get,
                now=self.now,
                end=self.end,
                find_capacity={p: s.free + s.used for p, s in states}.get,
            )
            broken = [self._list_broken(room, one, spare) for one in options]
            short.update(*broken)
            options = [
                a for a, b in zip(options, broken, strict=True) if not b
            ]
        return options or Fit(
            host=room.tree,
            step=step,
            shortfalls=decide.name_providers(view, short),
            is_sure=room.is_sure,
        )

    def _list_broken(
        self,
        room: HostRoom,
        candidate: schedule.Candidate,
        spare: spare_mod.Spare,
    ) -> list[exception.Shortfall]:
        """Return why a server breaks promises, as ReservationFilter does."""
        allocations = candidate['allocations']
        if found := spare.explain(allocations):
            return found
        broken, _end = runs.Runs(self.trackers, self.tests).find_verdict(
            room.document,
            allocations,
            self.demand.requirement,
            spare,
            is_floating=self.demand.cells == (),
        )
        return [runs.explain(broken)] if broken else []


class Examiner:
    """Explains one request for host after host.

    :param offered: what placement offers
    :param published: what hosts have published
    :param services: which hosts Nova can use; by default, all
    :param zone: in which the host must be; by default, any
    """

    def __init__(
        self,
        filters: Filters,
        offered: Offered,
        *,
        published: publication.Publications,
        services: services_mod.Services = _ALL_UP,
        zone: aggregates.Zone = _ANY_ZONE,
    ) -> None:
        self._filters = filters
        self._offered = offered
        self._published = published
        self._services = services
        self._zone = zone

    def examine(self, host: host_tree.HostTree) -> Fit:
        """Return what becomes of the request on a host."""
        step, reason = find_exclusion(host, self._services, self._zone)
        if step:
            return Fit(
                host=host,
                step=step,
                shortfalls=(_of_host(self._filters.demand, reason),),
            )
        offered = self._offered.get(host.root.rp_uuid)
        if not offered:
            return explain_absence(host, self._filters.demand)
        room = make_room(host, self._published)
        kept = self._filters.keep(room, [make_option(one) for one in offered])
        if isinstance(kept, Fit):
            return kept
        chosen = kept[0]['allocations']
        return Fit(
            host=host,
            places={uuid: one['resources'] for uuid, one in chosen.items()},
            is_sure=room.is_sure,
        )


def find_exclusion(
    host: host_tree.HostTree,
    services: services_mod.Services,
    zone: aggregates.Zone,
) -> tuple[FitStep | None, str]:
    """Return why Nova does not use a host, whatever is free there.

    :returns: the step that leaves it out, None if it may be used; the reason
    """
    if DISABLED_TRAIT in host.root.traits:
        return FitStep.SERVICE, (
            'its compute service is disabled; "openstack compute service '
            'set --enable" enables it'
        )
    if reason := services.find_outage(host.name):
        return FitStep.SERVICE, reason
    named = services.find_host(host.name)
    if reason := zone.find_exclusion(host.root.rp_uuid, named):
        return FitStep.ZONE, reason
    return None, ''


def explain_absence(
    host: host_tree.HostTree, demand: server_demand.Demand
) -> Fit:
    """Return why placement does not offer a host."""
    ways = candidates.CandidateSearch(
        make_view(host), make_providers(host), demand
    )
    listed = [*ways]
    for step, found in (
        (FitStep.CLASSES, _list_absent(host, demand)),
        (FitStep.TRAITS, _list_without_traits(host, demand)),
        (FitStep.AMOUNTS, _list_shortfalls(host, listed)),
    ):
        if found:
            short = ways.qualify(sorted(found))
            return Fit(host=host, step=step, shortfalls=short)
    step, reason = _explain_policy(host, listed)
    short = ways.qualify([_of_host(demand, reason)])
    return Fit(host=host, step=step, shortfalls=short)


def _explain_policy(
    host: host_tree.HostTree, found: Sequence[Places]
) -> tuple[FitStep, str]:
    """Return why placement does not offer a host that has all.

    :param found: candidates that the host seems to have
    """
    if not found:
        return FitStep.POLICY, (
            'group_policy=isolate needs a provider for each request group, '
            'and this host has fewer'
        )
    if not any(host.root.rp_uuid in one for one in found):
        return FitStep.PLACEMENT, (
            'the flavor requests nothing of the compute node itself, so Nova '
            'finds no host: it needs candidates that use the compute node. '
            'Request a resource class of the compute node: '
            f'{", ".join(sorted(host.root.amounts)) or "there is none now"}'
        )
    return FitStep.PLACEMENT, (
        'placement does not offer this host, though all requested resources '
        'look free; the host has changed meanwhile, or is in no tree that '
        'placement may use. Try again'
    )


def make_view(host: host_tree.HostTree) -> host_view.HostView:
    """Return the amounts of a host as a view."""
    return host_view.HostView(
        tracked={
            (one.rp_uuid, name): host_view.Tracked(
                tracker='count',
                state=count.CountState(amount.capacity, amount.used),
                inventory=amount.inventory,
            )
            for one in host.offering
            for name, amount in one.amounts.items()
        },
        keys={one.rp_uuid: host.make_key(one) for one in host.offering},
    )


def make_providers(
    host: host_tree.HostTree,
) -> list[host_provider.Provider]:
    """Return the providers of a host, as far as candidates need them."""
    return [
        host_provider.Provider(
            rp_uuid=one.rp_uuid, name=one.name, traits=one.traits
        )
        for one in host.offering
    ]


def make_option(
    allocations: Mapping[str, Mapping[str, int]],
) -> dict[str, Any]:
    """Return allocations in the form of a candidate of placement."""
    return {
        'allocations': {
            rp_uuid: {'resources': dict(resources)}
            for rp_uuid, resources in allocations.items()
        }
    }


def _list_absent(
    host: host_tree.HostTree, demand: server_demand.Demand
) -> list[exception.Shortfall]:
    """Return the resource classes that no provider of a host has."""
    had = {name for one in host.offering for name in one.amounts}
    return [
        _make_shortfall(
            name,
            amount,
            'no provider of this host has this resource class',
            is_permanent=True,
        )
        for name, amount in demand.requirement.resources.items()
        if name not in had
    ]


def _list_without_traits(
    host: host_tree.HostTree, demand: server_demand.Demand
) -> list[exception.Shortfall]:
    """Return what no provider has with the traits, or beside the rest."""
    missing = candidates.list_missing(
        make_view(host), make_providers(host), demand
    )
    wanted = {
        word
        for one in demand.traits.values()
        for word in (*one.required, *(f'!{each}' for each in one.forbidden))
    }
    reason = (
        'no provider of this host has this class together with the traits '
        f'{", ".join(sorted(wanted))}'
        if wanted
        else (
            'no provider of this host has all resource classes of the '
            'request group'
        )
    )
    return [
        _make_shortfall(name, amount, reason, is_permanent=True)
        for name, amount, _reason in missing
    ]


def _list_shortfalls(
    host: host_tree.HostTree, found: Sequence[candidates.Allocations]
) -> list[exception.Shortfall]:
    """Return what the providers that come nearest have too little of."""
    if not found:
        return []
    amounts = {one.rp_uuid: one.amounts for one in host.offering}
    keys = {one.rp_uuid: host.make_key(one) for one in host.offering}
    short = []
    for rp_uuid, resources in found[0].items():
        for name, wanted in resources.items():
            amount = amounts[rp_uuid][name]
            inventory = amount.inventory
            error = inventory.find_unit_error(wanted) if inventory else None
            if not error and wanted > amount.capacity:
                error = _explain_capacity(amount.capacity)
            if error or wanted > amount.free:
                short.append(
                    _make_shortfall(
                        name,
                        wanted,
                        error
                        or f'{amount.used} of {amount.capacity} are '
                        f'allocated, short by {wanted - amount.free}',
                        available=amount.free,
                        rp_uuid=rp_uuid,
                        rp_key=keys[rp_uuid],
                        is_permanent=bool(error and amount.capacity),
                    )
                )
    return short


def _explain_capacity(capacity: int) -> str:
    if not capacity:
        return (
            'all units are reserved; Nova reserves the class of a bare-metal '
            'node that is in use, is being cleaned, or is in maintenance'
        )
    return (
        f'this provider has only {capacity} in total, even if all servers '
        'leave it'
    )


def _of_host(demand: server_demand.Demand, reason: str) -> exception.Shortfall:
    """Return a reason that is about a whole host."""
    name, amount = min(demand.requirement.resources.items())
    return _make_shortfall(name, amount, reason, is_permanent=True)


def _make_shortfall(
    resource_class: str, requested: int, reason: str, **fields: Any
) -> exception.Shortfall:
    return exception.Shortfall(
        resource_class=resource_class,
        requested=requested,
        reason=reason,
        **fields,
    )
