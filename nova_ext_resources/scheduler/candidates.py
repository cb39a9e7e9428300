# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Which allocation candidates a host can really give, best first.

Pure. Placement offers a candidate when the amounts add up; whether ways lie
side by side, a class of service is left, and the CPUs are near the cache,
the host's stats document tells. The answers are those of
:mod:`nova_ext_resources.claims` on the view of the same document (a test
compares them), but nothing is built to come to a plain one: ten thousand
hosts are asked per request.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from nova_ext_resources.claim_tests import cache_affinity
from nova_ext_resources.claim_tests import capacity
from nova_ext_resources import claims
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import requirement
from nova_ext_resources.objects import stats
from nova_ext_resources.objects import view as view_obj
from nova_ext_resources.plugins import base
from nova_ext_resources.scheduler import affinity

#: An allocation request as ``GET /allocation_candidates`` gives it.
Candidate: TypeAlias = Mapping[str, Any]

#: Its ``allocations``: rp_uuid -> {'resources': {resource class: amount}}.
Allocations: TypeAlias = Mapping[str, Mapping[str, Any]]

#: Looks at the host's NUMA cells, only when somebody must know; None when
#: the host has not reported any.
FindFree: TypeAlias = Callable[[], affinity.FreeCpus | None]

#: What garbled records raise. They never keep a host out.
_GARBLED = (AttributeError, IndexError, KeyError, TypeError, ValueError)


#: Of what is not understood: the host alone decides.
_UNKNOWN = (0, 0, 0)


class Fit(NamedTuple):
    """How an amount fits into one resource class of one provider.

    :ivar fits: whether it does
    :ivar loss: by how much the most that one server can get shrinks
    :ivar free: how many units are free in all
    """

    fits: bool
    loss: int = 0
    free: int = 0


#: The smaller, the better: how many providers it touches, what it costs
#: them, and how much they have (so that full ones are filled up first).
Rank: TypeAlias = tuple[int, int, int]


class Judge:
    """Answers for one request; remembers what it has computed.

    :param trackers: all that are installed; a host may publish others, and
        is then the only one to decide on them
    :param sizes: see :data:`affinity.Sizes`; None when it is not known
        whether the server is pinned
    """

    def __init__(
        self,
        trackers: Mapping[str, base.Tracker],
        sizes: affinity.Sizes | None,
    ) -> None:
        self.trackers = trackers
        self.sizes = sizes
        self._fits: dict[tuple[object, ...], Fit | None] = {}

    def choose(
        self,
        document: stats.Document,
        candidates: Iterable[Candidate],
        find_free: FindFree,
    ) -> list[Candidate]:
        """Give the candidates that can be had, the best one first."""
        ranked = []
        free: affinity.FreeCpus | None = None
        is_free_known = False
        for candidate in candidates:
            rated = self._rate(document, candidate['allocations'])
            if rated is None:
                continue
            rank, domains = rated
            if domains and self.sizes is not None:
                if self.sizes and not is_free_known:
                    free, is_free_known = find_free(), True
                if not self._has_cpus(domains, free):
                    continue
            ranked.append((rank, candidate))
        if len(ranked) > 1:
            # Equal ones stay in placement's order.
            ranked.sort(key=_get_rank)
        return [candidate for _rank, candidate in ranked]

    def explain(
        self,
        document: stats.Document,
        candidates: Iterable[Candidate],
        find_free: FindFree,
    ) -> tuple[exception.Shortfall, ...]:
        """Give every reason against every candidate, sorted."""
        view = stats.make_view(document, self.trackers)
        tests: list[base.ClaimTest] = [capacity.CapacityTest(self.trackers)]
        if self.sizes == ():
            tests.append(cache_affinity.CacheAffinityTest(self.trackers))
        found: set[exception.Shortfall] = set()
        for candidate in candidates:
            request = make_claim_request(candidate)
            found.update(claims.find_shortfalls(view, request, tests))
            if self.sizes:
                found.update(self._explain_cpus(view, request, find_free()))
        return tuple(sorted(found))

    def _rate(
        self, document: stats.Document, allocations: Allocations
    ) -> tuple[Rank, list[frozenset[int]]] | None:
        """Rank a candidate, and say whose CPUs it serves.

        :returns: None when it cannot be had
        """
        places = loss = free = 0
        domains = []
        implied = set()
        try:
            for record, amount in _list_records(document, allocations):
                fit = self._find_fit(record, amount)
                if fit is None:
                    continue
                if not fit.fits:
                    return None
                places += 1
                loss += fit.loss
                free += fit.free
                if 'i' in record:
                    implied.add(tuple(record['i']))
                if 'c' in record and not self._follows(record):
                    domains.append(bitmask.parse_list(record['c']))
            if implied and not self._has_all(document, allocations, implied):
                return None
        except _GARBLED:
            return _UNKNOWN, []
        return (places, loss, free), domains

    def _follows(self, record: Mapping[str, Any]) -> bool:
        """Tell whether the units serve a floating server anywhere."""
        return self.sizes == () and bool(record.get('f'))

    def _has_all(
        self,
        document: stats.Document,
        allocations: Allocations,
        implied: Iterable[tuple[str, str]],
    ) -> bool:
        """Tell whether what comes along, such as a class, is left."""
        for rp_uuid, name in implied:
            own = allocations.get(rp_uuid)
            record = document.get(rp_uuid, {}).get(name)
            if record is None or (own and name in own['resources']):
                continue
            fit = self._find_fit(record, 1)
            if fit is not None and not fit.fits:
                return False
        return True

    def _has_cpus(
        self,
        domains: list[frozenset[int]],
        free: affinity.FreeCpus | None,
    ) -> bool:
        if not self.sizes:
            return False
        return free is None or affinity.fits(domains, self.sizes, free)

    def _find_fit(self, record: Mapping[str, Any], amount: int) -> Fit | None:
        """Say how an amount fits; None when we do not understand it.

        States repeat: the free ways of a thousand hosts take a few dozen
        shapes. So each shape is computed once.
        """
        key = (record['t'], amount, *record['s'].items())
        try:
            return self._fits[key]
        except KeyError:
            fit = self._fits[key] = self._compute_fit(record, amount)
            return fit

    def _compute_fit(
        self, record: Mapping[str, Any], amount: int
    ) -> Fit | None:
        tracker = self.trackers.get(record['t'])
        if tracker is None:
            return None
        try:
            state = tracker.from_dict(record['s'])
        except _GARBLED:
            return None
        if not tracker.fits(state, amount):
            return Fit(False)
        left, _units = tracker.take(state, amount)
        return Fit(True, state.available - left.available, state.free)

    def _explain_cpus(
        self,
        view: view_obj.HostView,
        request: assignment.ClaimRequest,
        free: affinity.FreeCpus | None,
    ) -> Iterable[exception.Shortfall]:
        if free is None or not self.sizes:
            return
        places = claims.list_places(view, request.allocations)
        domains = {}
        for place in places:
            cpus = view.tracked[place].cpus
            if cpus is not None:
                domains[place] = bitmask.parse_list(cpus)
        if not domains:
            return
        reasons = affinity.find_reasons(domains, self.sizes, free)
        for (rp_uuid, resource_class), reason in reasons.items():
            yield exception.Shortfall(
                rp_uuid=rp_uuid,
                resource_class=resource_class,
                requested=places[rp_uuid, resource_class],
                available=0,
                reason=reason,
            )


def take(
    document: stats.Document,
    candidate: Candidate,
    trackers: Mapping[str, base.Tracker],
) -> stats.Document:
    """Give the document as it will be once a server holds the candidate.

    What does not fit was not given from this document; it stays as it is.
    """
    view = stats.make_view(document, trackers)
    try:
        view, taken = claims.take(
            view, make_claim_request(candidate), trackers
        )
    except exception.ClaimError:
        return document
    changed = {rp: dict(records) for rp, records in document.items()}
    for one in taken:
        place = one.rp_uuid, one.resource_class
        record = changed[one.rp_uuid][one.resource_class]
        changed[one.rp_uuid][one.resource_class] = {
            **record,
            's': view.tracked[place].state.to_dict(),
        }
    return changed


def make_claim_request(candidate: Candidate) -> assignment.ClaimRequest:
    """Make a claim of a candidate, of a server that nobody has pinned yet.

    Its requirement is empty: a class that placement allocates on a provider
    that the document does not have may just not be in the document yet.
    """
    return assignment.ClaimRequest(
        consumer_uuid='',
        allocations={
            rp_uuid: allocation['resources']
            for rp_uuid, allocation in candidate['allocations'].items()
        },
        requirement=requirement.Requirement(),
    )


def _list_records(
    document: stats.Document, allocations: Allocations
) -> list[tuple[Mapping[str, Any], int]]:
    """Give (record, amount) of what is asked for and published."""
    found = []
    for rp_uuid, allocation in allocations.items():
        records = document.get(rp_uuid)
        if records is not None:
            for name, amount in allocation['resources'].items():
                record = records.get(name)
                if record is not None:
                    found.append((record, amount))
    return found


def _get_rank(pair: tuple[Rank, Candidate]) -> Rank:
    return pair[0]
