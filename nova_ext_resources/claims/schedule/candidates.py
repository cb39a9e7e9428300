# SPDX-License-Identifier: Apache-2.0

"""Which allocation candidates a host can really give, best first.

Pure. Placement offers a candidate when the amounts add up; whether ways lie
side by side, a class of service is left, and the CPUs are near the cache,
the host's stats document tells. Every answer is that of
:func:`nova_ext_resources.claims.decide.decide` on the view of the document.
Ten thousand hosts are asked per request, and their states repeat: one
decision answers for all candidates that differ in uuids and free CPUs only.

What cannot be read (a tracker that is not installed here, a record of another
version) is left to the host: what can be read still decides, and such a
candidate ranks behind those that can be read in full.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
import operator
from typing import Any, NamedTuple, TypeAlias

from nova_ext_resources.claims import base
from nova_ext_resources.claims.checks import cache_affinity
from nova_ext_resources.claims.checks import numa_affinity
from nova_ext_resources.claims import decide
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects.documents import foreign_data
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import requirements

#: An allocation request as in ``GET /allocation_candidates``.
Candidate: TypeAlias = Mapping[str, Any]

#: Dedicated CPUs of each guest NUMA cell: () when the server floats, None
#: when that is not known.
Sizes: TypeAlias = tuple[int, ...] | None

#: Returns the free dedicated CPUs of each of the host's NUMA cells; None
#: when the host has not reported any. Called when it matters only.
FindFree: TypeAlias = Callable[[], Sequence[set[int]] | None]


class Rank(NamedTuple):
    """The smaller, the better.

    :ivar unread: amounts of which the document says nothing readable, such
        as those of a provider of other software
    :ivar moves: amounts that the host must take from siblings, and one where
        the CPUs must be in several domains
    :ivar places: how many amounts it says something of
    :ivar loss: by how much the most that one server can get there shrinks
    :ivar free: how many units are free there (full ones are filled first)
    """

    unread: int
    moves: int
    places: int
    loss: int
    free: int


class ShapeVerdict(NamedTuple):
    """What was decided on all candidates of one shape, but for free CPUs.

    :ivar rank: None when no host could give it
    :ivar domains: place -> the CPUs that its units serve
    """

    rank: Rank | None
    domains: Mapping[host_view.Place, frozenset[int]]


_REFUSED = ShapeVerdict(None, {})


class Judge:
    """Answers for one request; remembers what it has decided.

    :param trackers: all that are installed; a host may publish others, and
        is then the only one to decide on them
    :param tests: all claim tests that are installed; those run that the host
        has enabled
    :ivar unread: (resource class, tracker) -> why it could not be read, and
        ('claim test', its name) -> why it could not be run
    """

    def __init__(
        self,
        trackers: Mapping[str, base.Tracker],
        tests: Mapping[str, base.ClaimTest],
        sizes: Sizes,
        requirement: requirements.Requirement,
    ) -> None:
        self.unread: dict[tuple[str, str], str] = {}
        self._trackers = trackers
        self._sizes = sizes
        pinning = assignment.Pinning(sizes=sizes or ())
        self._unpinned = None if sizes == () else pinning
        self._requirement = requirement
        self._asked = frozenset(requirement.resources)
        self._tests = tests
        self._verdicts: dict[tuple[object, ...], ShapeVerdict] = {}
        self._last: tuple[stats.Document, host_view.HostView] | None = None

    def choose(
        self,
        document: stats.Document,
        candidates: Sequence[Candidate],
        find_free: FindFree,
    ) -> list[Candidate]:
        """Return the candidates that can be had, the best one first.

        Where placement has left out some of the host's providers (it limits
        how many candidates it returns), the host may use them all the same.
        That is better than what only a provider of other software could give.
        """
        ranked, refused = [], []
        pinning: assignment.Pinning | None = None
        for one in candidates:
            rank, domains = self._judge(document, one)
            if rank is None:
                refused.append(one)
                continue
            if self._sizes and domains:
                pinning = pinning or self._pin(find_free)
                if pinning and not cache_affinity.can_pin(domains, pinning):
                    if not self._can_spread(document, one, pinning):
                        refused.append(one)
                        continue
                    rank = rank._replace(moves=rank.moves + 1)
            ranked.append((rank, one))
        is_any_sure = any(not rank.unread for rank, _one in ranked)
        if not (is_any_sure or self._are_all_offered(document, candidates)):
            view, pinning = self._read(document), self._pin(find_free)
            for one in refused:
                decision = self._decide(view, one, pinning, may_move=True)
                if decision.fits:
                    ranked.append((self._rank(view, decision), one))
        if len(ranked) > 1:
            # Equal ones stay in placement's order.
            ranked.sort(key=operator.itemgetter(0))
        return [one for _rank, one in ranked]

    def explain(
        self,
        document: stats.Document,
        candidates: Iterable[Candidate],
        find_free: FindFree,
    ) -> tuple[exception.Shortfall, ...]:
        """Return every reason against every candidate as it is, sorted."""
        view, pinning = self._read(document), self._pin(find_free)
        found: set[exception.Shortfall] = set()
        for one in candidates:
            found.update(self._decide(view, one, pinning).shortfalls)
        return tuple(sorted(found))

    def take(
        self, document: stats.Document, candidate: Candidate
    ) -> stats.Document:
        """Return the document as it will be once a server has the candidate.

        What does not fit was not given from this document; it stays as it
        is. Nova itself notes which CPUs are taken.
        """
        view = self._read(document)
        decision = self._decide(view, candidate, self._unpinned, may_move=True)
        return stats.update(document, decision.view, decision.taken)

    def can_give(self, document: stats.Document, candidate: Candidate) -> bool:
        """Return whether the host can give a candidate, whatever its CPUs."""
        view = self._read(document)
        return self._decide(
            view, candidate, self._unpinned, may_move=True
        ).fits

    def _can_spread(
        self,
        document: stats.Document,
        candidate: Candidate,
        pinning: assignment.Pinning,
    ) -> bool:
        """Return whether it fits with CPUs of several domains."""
        if not stats.read_constraints(document.constraints).spreads_pins:
            return False
        return self._decide(self._read(document), candidate, pinning).fits

    def _judge(
        self, document: stats.Document, candidate: Candidate
    ) -> ShapeVerdict:
        """Decide on a candidate as it is, whichever CPUs are free."""
        shape: tuple[object, ...] = ()
        try:
            shape = self._describe(document, candidate['allocations'])
            return self._verdicts[shape]
        except KeyError:
            pass
        except foreign_data.UNREADABLE:
            shape = ()
        view = self._read(document)
        decision = self._decide(view, candidate, self._unpinned)
        verdict = ShapeVerdict(
            self._rank(view, decision) if decision.fits else None,
            self._list_domains(view, decision.request),
        )
        if shape:
            self._verdicts[shape] = verdict
            self._note_full(document, view, decision.request)
        return verdict

    def _list_domains(
        self, view: host_view.HostView, request: assignment.ClaimRequest
    ) -> dict[host_view.Place, frozenset[int]]:
        """Return place -> CPUs, of which the server's have to be."""
        domains: dict[host_view.Place, frozenset[int]] = {}
        for test in self._list_tests(view):
            if isinstance(test, cache_affinity.CacheAffinityTest):
                domains |= cache_affinity.list_domains(view, request)
            # One of several guest cells would do.
            elif isinstance(test, numa_affinity.NumaAffinityTest):
                if self._sizes and len(self._sizes) == 1:
                    domains |= numa_affinity.list_required(view, request)
        return domains

    def _note_full(
        self,
        document: stats.Document,
        view: host_view.HostView,
        request: assignment.ClaimRequest,
    ) -> None:
        """Note what no candidate gets, whatever it needs beside it."""
        for place, amount in view.list_places(request.allocations).items():
            tracked = view.tracked[place]
            if not self._trackers[tracked.tracker].fits(tracked.state, amount):
                record = document.providers[place[0]][place[1]]
                self._verdicts[_describe_units(record, amount)] = _REFUSED

    def _describe(
        self,
        document: stats.Document,
        allocations: Mapping[str, Mapping[str, Any]],
    ) -> tuple[object, ...]:
        """Return all that a decision depends on, but for free CPUs.

        Providers are numbered in the order in which they come. Of what one
        provider can never give, that alone is enough.

        :raises (AttributeError, IndexError, KeyError, TypeError,
            ValueError): a record is none
        """
        shape: list[object] = [document.constraints]
        providers, asked = document.providers, self._asked
        numbers: dict[str, int] = {}
        for rp_uuid, allocation in allocations.items():
            resources = allocation['resources']
            if rp_uuid not in providers:
                if not asked.isdisjoint(resources):
                    shape += asked.intersection(resources)
                continue
            for name, amount in resources.items():
                record = providers[rp_uuid].get(name)
                if record is None:
                    shape += asked.intersection((name,))
                    continue
                units = _describe_units(record, amount)
                if units in self._verdicts:
                    return units
                number = numbers.setdefault(rp_uuid, len(numbers))
                shape += name, number, units
                if 'i' in record:
                    implied, other = record['i']
                    number = numbers.setdefault(implied, len(numbers))
                    record = providers[implied][other]
                    shape += other, number, _describe_units(record, 1)
        return tuple(shape)

    def _are_all_offered(
        self, document: stats.Document, candidates: Iterable[Candidate]
    ) -> bool:
        """Return whether placement offers all that the host has."""
        offered = set().union(*[one['allocations'] for one in candidates])
        for rp_uuid, records in document.providers.items():
            if rp_uuid not in offered and isinstance(records, dict):
                if not self._asked.isdisjoint(records):
                    return False
        return True

    def _read(self, document: stats.Document) -> host_view.HostView:
        """Return the view of a document; the last one is kept."""
        # All candidates of a host are decided one after the other.
        if self._last is None or self._last[0] is not document:
            view = stats.make_view(document, self._trackers, self.unread)
            self._last = document, view
        return self._last[1]

    def _pin(self, find_free: FindFree) -> assignment.Pinning | None:
        if not self._sizes:
            return self._unpinned
        return assignment.Pinning(sizes=self._sizes, free=find_free())

    def _decide(
        self,
        view: host_view.HostView,
        candidate: Candidate,
        pinning: assignment.Pinning | None,
        *,
        may_move: bool = False,
    ) -> decide.Decision:
        request = assignment.ClaimRequest(
            consumer_uuid='',
            allocations={
                rp_uuid: allocation['resources']
                for rp_uuid, allocation in candidate['allocations'].items()
            },
            requirement=self._requirement,
            pinning=pinning,
        )
        return decide.decide(
            view,
            request,
            trackers=self._trackers,
            tests=self._list_tests(view),
            may_move=may_move,
        )

    def _list_tests(self, view: host_view.HostView) -> list[base.ClaimTest]:
        """Return the claim tests that decide for a host, if installed here."""
        names = decide.name_tests(view)
        for name in set(names) - self._tests.keys():
            self.unread['claim test', name] = 'the test is not installed here'
        return [self._tests[one] for one in names if one in self._tests]

    def _rank(
        self, view: host_view.HostView, decision: decide.Decision
    ) -> Rank:
        allocations = decision.request.allocations
        places = view.list_places(allocations)
        states = [
            (view.tracked[one].state, decision.view.tracked[one].state)
            for one in places
        ]
        asked = sum(
            name in self._asked
            for resources in allocations.values()
            for name in resources
        )
        return Rank(
            unread=asked - sum(name in self._asked for _, name in places),
            moves=len(decision.moves),
            places=len(places),
            loss=sum(old.available - new.available for old, new in states),
            free=sum(old.free for old, _new in states),
        )


def _describe_units(
    record: Mapping[str, Any], amount: int
) -> tuple[object, ...]:
    get, state = record.get, record['s']
    # Keys and values one by one: no tuple is made for each pair. With types:
    # True equals 1, but is no number of units.
    return (
        record['t'],
        amount,
        get('c'),
        get('f'),
        get('n'),
        *state,
        *state.values(),
        *map(type, state.values()),
    )
