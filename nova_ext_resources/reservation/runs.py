# SPDX-License-Identifier: Apache-2.0

"""Whether slots that need units side by side still find them.

Pure. Of cache ways, amounts are not enough: the host chooses which ways a
server gets, and those that are left may be apart. So the decision itself is
asked, on the view that the host publishes, for each time at which slots of
that host are promised.

A decision takes a tenth of a millisecond. So of times that follow each other
only those count at which most slots are promised at once, unless these are too
many; and slots that ask for the same, of the same places, are decided on once,
whenever they are.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import dataclasses
from typing import TypeAlias

from nova_ext_resources.claims import base
from nova_ext_resources.claims import decide
from nova_ext_resources.claims.trackers import count
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import requirements
from nova_ext_resources.objects import resource
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import promise_ledger
from nova_ext_resources.reservation import server_demand
from nova_ext_resources.reservation import spare as spare_mod

#: What slots have in common that can be exchanged: what they take of which
#: places, their CPUs, and what they ask for.
Kind: TypeAlias = tuple[
    tuple[tuple[str, str, int, bool], ...], tuple[int, ...] | None, str
]

#: Slots that are promised at once.
Together: TypeAlias = Sequence[tuple[Kind, promise_ledger.Promise]]

#: So many different ones are remembered.
_MAX_DEMANDS = 10_000


class Runs:
    """Asks on the views of hosts.

    :param trackers: all that are installed, by name
    :param tests: all claim tests that are installed, by name; those run that
        the host has enabled
    """

    def __init__(
        self,
        trackers: Mapping[str, base.Tracker],
        tests: Mapping[str, base.ClaimTest],
    ) -> None:
        self._trackers = trackers
        self._tests = tests
        #: Id of a demand -> it, and what is the same for others like it.
        self._demands: dict[int, tuple[server_demand.Demand, str]] = {}

    def needs_units(
        self, view: host_view.HostView, promise: promise_ledger.Promise
    ) -> bool:
        """Return whether amounts do not say if a slot can be had."""
        return any(
            place in view.tracked
            and not isinstance(
                self._trackers[view.tracked[place].tracker], count.CountTracker
            )
            for place in promise.slot.places
        )

    def find_verdict(
        self,
        document: stats.Document | None,
        allocations: spare_mod.Allocations,
        requirement: requirements.Requirement | None,
        spare: spare_mod.Spare,
        *,
        is_floating: bool,
    ) -> tuple[promise_ledger.Promise | None, int]:
        """Return a slot that a server breaks, and until when that holds.

        :param document: of the host; None where nothing is known
        :param spare: has what is promised while the server is there
        :returns: see :meth:`find_broken`; the end of what is promised that
            ends first: fewer slots may be broken then
        """
        if document is None:
            return None, interval.FOREVER
        view = stats.make_view(document, self._trackers)
        # What a host cannot do now says nothing of a later time.
        rules = dataclasses.replace(view.constraints, refused={})
        view = dataclasses.replace(view, constraints=rules)
        promised = spare.list_promises({place[0] for place in view.tracked})
        request = assignment.ClaimRequest(
            consumer_uuid='',
            allocations={
                uuid: one['resources'] for uuid, one in allocations.items()
            },
            requirement=requirement or requirements.Requirement(groups=()),
            pinning=None if is_floating else assignment.Pinning(),
        )
        broken = self.find_broken(view, promised, request, spare.now)
        ends = (one.during.end for one in promised)
        return broken, min(ends, default=interval.FOREVER)

    def find_broken(
        self,
        view: host_view.HostView,
        promises: Iterable[promise_ledger.Promise],
        request: assignment.ClaimRequest,
        now: int,
    ) -> promise_ledger.Promise | None:
        """Return a slot that can be had before a server comes, not after.

        None also where the host would refuse the server.

        :param view: of what is there now
        :param promises: those of the host, while the server is there
        :param request: what the server asks for
        :param now: seconds since the epoch
        """
        wanted = [one for one in promises if self.needs_units(view, one)]
        if not wanted:
            return None
        decision = self._decide(view, request)
        if not decision.fits:
            return None
        after, before = _Placed(self, decision.view), _Placed(self, view)
        for peak in list_peaks(wanted, now, self.describe):
            if after.find_missed(peak.most) is None:
                continue
            # The most may be too many anyhow, and fewer not.
            for together in (peak.most, *peak.list_fewer()):
                missed = after.find_missed(together)
                if missed and not before.find_missed(together):
                    return missed
        return None

    def describe(self, promise: promise_ledger.Promise) -> Kind:
        """Return what is the same for all slots that ask for the same."""
        demand = promise.request.demand
        found = self._demands.get(id(demand))
        if found is None:
            if len(self._demands) >= _MAX_DEMANDS:
                self._demands.clear()
            # The demand is kept, so that its id is not used again.
            found = self._demands[id(demand)] = demand, repr(demand)
        slot = promise.slot
        asked = tuple(
            (one.rp_uuid, one.resource_class, one.amount, one.is_allocated)
            for one in slot.assignments
        )
        cpus = None if slot.cpus is None else tuple(sorted(slot.cpus))
        return asked, cpus, found[1]

    def place(
        self, view: host_view.HostView, promise: promise_ledger.Promise
    ) -> host_view.HostView | None:
        """Return the view with the server of a slot; None if it cannot be."""
        decision = self._decide(view, _make_request(view, promise))
        return decision.view if decision.fits else None

    def _decide(
        self, view: host_view.HostView, request: assignment.ClaimRequest
    ) -> decide.Decision:
        names = decide.name_tests(view)
        return decide.decide(
            view,
            request,
            trackers=self._trackers,
            tests=[self._tests[one] for one in names if one in self._tests],
        )


class _Placed:
    """Views with servers of slots, one after the other."""

    def __init__(self, runs: Runs, view: host_view.HostView) -> None:
        self._runs = runs
        self._view = view
        #: What slots ask for -> the view with all of them; None if the last
        #: one does not fit.
        self._known: dict[tuple[Kind, ...], host_view.HostView | None] = {}

    def find_missed(self, together: Together) -> promise_ledger.Promise | None:
        """Return the first of several slots that does not fit any more."""
        view = self._view
        kinds: tuple[Kind, ...] = ()
        for kind, promise in together:
            kinds = (*kinds, kind)
            if kinds not in self._known:
                self._known[kinds] = self._runs.place(view, promise)
            found = self._known[kinds]
            if found is None:
                return promise
            view = found
        return None


@dataclasses.dataclass(slots=True, kw_only=True)
class Peak:
    """What is promised at once, until something begins after an end.

    :ivar growing: whenever something begins: each has what the one before has,
        and more
    :ivar until: when the next peak begins, in seconds since the epoch
    """

    growing: list[Together]
    until: int = interval.FOREVER

    @property
    def most(self) -> Together:
        """All that is promised at once."""
        return self.growing[-1]

    def list_fewer(self) -> Iterator[Together]:
        """Return what is promised before and after that, of the same."""
        yield from self.growing[-2::-1]
        ends = {promise.during.end for _kind, promise in self.most}
        for end in sorted(ends):
            if end < self.until:
                yield [one for one in self.most if end < one[1].during.end]


def list_peaks(
    promises: Iterable[promise_ledger.Promise],
    now: int,
    describe: Callable[[promise_ledger.Promise], Kind],
) -> list[Peak]:
    """Return all that is promised at once, in order of time."""
    rest = sorted(promises, key=lambda one: one.during.start)
    starts = sorted({max(one.during.start, now) for one in rest})
    active: list[tuple[Kind, promise_ledger.Promise]] = []
    found: list[Peak] = []
    index = 0
    for start in starts:
        left = [one for one in active if start < one[1].during.end]
        if not found or len(left) < len(active):
            if found:
                found[-1].until = start
            found.append(Peak(growing=[]))
        while index < len(rest) and rest[index].during.start <= start:
            left.append((describe(rest[index]), rest[index]))
            index += 1
        active = sorted(left, key=_rank)
        found[-1].growing.append(active)
    return found


def _rank(one: tuple[Kind, promise_ledger.Promise]) -> tuple[int, str, str]:
    """Order slots: the largest first, which is the hardest to place.

    Those that ask for the same follow each other.
    """
    (asked, cpus, demand), promise = one
    amount = sum(each[2] for each in asked)
    return -amount, f'{asked} {cpus} {demand}', promise.slot.key


def _make_request(
    view: host_view.HostView, promise: promise_ledger.Promise
) -> assignment.ClaimRequest:
    """Return what the server of a slot will ask for."""
    allocations: dict[str, dict[str, int]] = {}
    for one in promise.slot.assignments:
        place = one.rp_uuid, one.resource_class
        if one.is_allocated and place in view.tracked:
            classes = allocations.setdefault(one.rp_uuid, {})
            classes[one.resource_class] = one.amount
    demand = promise.request.demand
    return assignment.ClaimRequest(
        consumer_uuid=promise.slot.key,
        allocations=allocations,
        requirement=demand.requirement,
        cpus=promise.slot.cpus,
        # Which CPUs it will have is not known.
        pinning=assignment.Pinning()
        if demand.cells and promise.slot.cpus is None
        else None,
    )


def explain(promise: promise_ledger.Promise) -> exception.Shortfall:
    """Return why a server may not come that would break a promise."""
    slot = promise.slot
    place, amount = min(
        (place, amount)
        for place, amount in slot.places.items()
        if place[1] not in resource.NOVA_CLASSES
    )
    start = interval.format_time(slot.during.start)
    return exception.Shortfall(
        rp_uuid=place[0],
        resource_class=place[1],
        requested=amount,
        reason=f'reservation {promise.request.key} needs this many adjacent '
        f'units from {start} on, and they would no longer be free',
    )
