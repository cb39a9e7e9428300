# SPDX-License-Identifier: Apache-2.0

"""Which candidates of a host a server may have beside what is promised."""

from collections.abc import Callable, Hashable, Mapping, Sequence
import functools
from typing import Any

from nova_ext_resources.claims import base
from nova_ext_resources.claims import extra_specs
from nova_ext_resources.claims.schedule import candidates as candidates_mod
from nova_ext_resources.claims.schedule import consumption
from nova_ext_resources import exception
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.objects import requirements
from nova_ext_resources.objects import resource
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation import promise_ledger
from nova_ext_resources.reservation import runs
from nova_ext_resources.reservation import spare
from nova_ext_resources.scheduler.hooks import request_context
from nova_ext_resources.scheduler import request
from nova_ext_resources.scheduler.reservation import decision_cache
from nova_ext_resources.scheduler.reservation import free_capacity

#: An allocation request as in ``GET /allocation_candidates``.
Candidate = Mapping[str, Any]


class Plugins:
    """What is installed, and what is remembered from one server to the next.

    :ivar consumption: units that servers of one request have taken
    :ivar runs: decides about units side by side
    :ivar decisions: what was decided about units side by side
    """

    def __init__(
        self,
        trackers: Mapping[str, base.Tracker],
        tests: Mapping[str, base.ClaimTest],
        grammar: extra_specs.Grammar,
    ) -> None:
        self.trackers = trackers
        self.tests = tests
        self.grammar = grammar
        self.consumption = consumption.Consumption()
        self.runs = runs.Runs(trackers, tests)
        self.decisions = decision_cache.DecisionCache()


class Coresidency:
    """Answers for one server of a request.

    :param now: seconds since the epoch
    :param end: when the server ends
    :param without: a slot that is not to be counted, for the server has it,
        or is to have it
    :param is_reserved: whether it is one of its reservation
    """

    def __init__(
        self,
        installed: Plugins,
        promises: promise_ledger.Promises,
        spec_obj: Any,
        *,
        now: int,
        end: int,
        without: planned_server.PlannedServer | None = None,
        is_reserved: bool = False,
    ) -> None:
        self._is_reserved = is_reserved
        self._installed = installed
        self._promises = promises
        self._spec_obj = spec_obj
        self._without = without
        ongoing = request_context.find(spec_obj)
        self._free = free_capacity.Free(
            ongoing.summaries, ongoing.consumed, installed.trackers
        )
        self._spare = spare.Spare(
            promises,
            self._free.find,
            now=now,
            end=end,
            without=without,
            find_capacity=self._free.find_capacity,
        )
        self._requirement = self._find_requirement()

    def _find_requirement(self) -> requirements.Requirement | None:
        try:
            return request.find_requirement(
                self._spec_obj, self._installed.grammar
            )
        except exception.InvalidExtraSpec:
            # ExtendedResourcesFilter refuses it, where it is enabled.
            return None

    def keep(
        self, host_state: Any, candidates: Sequence[Candidate]
    ) -> Sequence[Candidate]:
        """Return the candidates that break no promise."""
        # What was promised there is of providers that are gone.
        if self._find_former(host_state) is not None:
            return []
        self._free.host_state = host_state
        fits = self._spare.fits
        kept = [one for one in candidates if fits(one['allocations'])]
        if kept and self._requirement is not None:
            if self._promises.is_promised(host_state.nodename):
                return self._keep_runs(host_state, kept)
        return kept

    def _find_former(self, host_state: Any) -> promise_ledger.Promise | None:
        if self._is_reserved:
            return None
        return self._promises.find_former(
            host_state.nodename, host_state.uuid, self._during
        )

    @functools.cached_property
    def _during(self) -> interval.Interval:
        """When the server is there; asked for each of thousands of hosts."""
        return interval.Interval(self._spare.now, self._spare.end)

    def explain(
        self, host_state: Any, candidates: Sequence[Candidate]
    ) -> list[exception.Shortfall]:
        """Return why no candidate of a host is left."""
        former = self._find_former(host_state)
        if former is not None:
            return [_explain_former(former)]
        self._free.host_state = host_state
        found = {
            short
            for one in candidates
            for short in self._spare.explain(one['allocations'])
        }
        if not found:
            found = self._explain_runs(host_state, candidates)
        return sorted(found)

    def _keep_runs(
        self, host_state: Any, candidates: Sequence[Candidate]
    ) -> Sequence[Candidate]:
        """Return those after which units side by side are left."""
        text = request.find_text(host_state)
        if request.is_multiple(self._spec_obj):
            return self._keep_counted(host_state, text, candidates)
        name = host_state.nodename
        host = name, text, self._promises.get_version(name)
        document = functools.cache(lambda: stats.decode(text))
        return [
            one
            for one in candidates
            if self._find_verdict(host, document, one) is None
        ]

    def _find_verdict(
        self,
        host: tuple[str, str | None, int],
        read: Callable[[], stats.Document | None],
        candidate: Candidate,
    ) -> promise_ledger.Promise | None:
        def decide() -> decision_cache.Verdict:
            return self._find_broken(read(), candidate)

        if self._spare.end < interval.FOREVER:
            # The next server of a flavor with a lease ends at another time.
            return decide()[0]
        return self._installed.decisions.find(
            host, self._describe(candidate), self._spare.now, decide
        )

    def _describe(self, candidate: Candidate) -> Hashable:
        """Return all that a verdict depends on, beside the host."""
        asked = tuple(
            (rp_uuid, name, amount)
            for rp_uuid, one in sorted(candidate['allocations'].items())
            for name, amount in sorted(one['resources'].items())
            if name not in resource.NOVA_CLASSES
        )
        own = self._without.key if self._without else None
        return asked, own, self._kind

    @functools.cached_property
    def _kind(self) -> Hashable:
        return repr(self._requirement), self._is_floating

    @functools.cached_property
    def _is_floating(self) -> bool:
        return request.find_sizes(self._spec_obj) == ()

    def _keep_counted(
        self,
        host_state: Any,
        text: str | None,
        candidates: Sequence[Candidate],
    ) -> Sequence[Candidate]:
        """Do the same, and count what servers of the request have taken."""
        document, _is_used = self._installed.consumption.read(
            host_state, text, self._judge
        )
        kept = [
            one
            for one in candidates
            if self._find_broken(document, one)[0] is None
        ]
        if kept:
            host_state.allocation_candidates = kept
            self._installed.consumption.remember(host_state, text, document)
        return kept

    def _find_broken(
        self, document: stats.Document | None, candidate: Candidate
    ) -> decision_cache.Verdict:
        return self._installed.runs.find_verdict(
            document,
            candidate['allocations'],
            self._requirement,
            self._spare,
            is_floating=self._is_floating,
        )

    def _explain_runs(
        self, host_state: Any, candidates: Sequence[Candidate]
    ) -> set[exception.Shortfall]:
        document = stats.decode(request.find_text(host_state))
        broken = [self._find_broken(document, one)[0] for one in candidates]
        return {runs.explain(one) for one in broken if one is not None}

    @functools.cached_property
    def _judge(self) -> candidates_mod.Judge:
        assert self._requirement is not None
        return candidates_mod.Judge(
            self._installed.trackers,
            self._installed.tests,
            request.find_sizes(self._spec_obj),
            self._requirement,
        )


def _explain_former(promise: promise_ledger.Promise) -> exception.Shortfall:
    place, amount = min(promise.slot.places.items())
    is_free = promise.slot.consumer is None
    advice = (
        'cancel the reservation and reserve again'
        if is_free
        else 'a server of the reservation is just coming to the host'
    )
    return exception.Shortfall(
        rp_uuid=place[0],
        resource_class=place[1],
        requested=amount,
        reason='the host was created again after reservation '
        f'{promise.request.key} was planned on it, and now has other resource '
        f'providers; {advice}',
        is_permanent=is_free,
    )
