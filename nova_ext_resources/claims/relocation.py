# SPDX-License-Identifier: Apache-2.0

"""Which providers get what consumers hold on the compute node itself. Pure.

The resources of a host may have been counted on its compute node before this
package found on which of its parts they are, such as the ways of two caches.
Each consumer gets all that it holds of a class on one provider; classes that
the same providers have go together. Where it fits is decided as a claim is,
with the same tests. All consumers are placed, or none is.
"""

from collections.abc import Iterator, Mapping, Sequence
import dataclasses
import itertools
from typing import TypeAlias

from nova_ext_resources.claims import base
from nova_ext_resources.claims import decide
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import requirements

#: How many choices of providers are tried for one consumer.
_MAX_OPTIONS = 256

#: How often consumers that were placed are placed anew because a later one
#: fits nowhere. To place all of them is a search that may take for ever.
_MAX_DEAD_ENDS = 200


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mover:
    """A consumer that holds something on the compute node.

    :ivar request: what is known of it; its allocations are those that it has
        below the compute node already
    :ivar amounts: resource class -> amount that it holds on the compute node
    :ivar former: uuids of the providers of which the ledger has units for it
    """

    request: assignment.ClaimRequest
    amounts: Mapping[str, int]
    former: frozenset[str] = frozenset()

    @property
    def consumer_uuid(self) -> str:
        return self.request.consumer_uuid


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UnplacedConsumer:
    """A consumer that fits nowhere.

    :ivar shortfalls: why, of the choice that comes nearest
    """

    mover: Mover
    shortfalls: tuple[exception.Shortfall, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RelocationPlan:
    """What becomes of all consumers.

    :ivar chosen: consumer -> resource class -> uuid of the provider
    :ivar refusal: the first that fits nowhere; then nothing is chosen
    """

    chosen: Mapping[str, Mapping[str, str]] = dataclasses.field(
        default_factory=dict
    )
    refusal: UnplacedConsumer | None = None


#: Resource class -> rp_uuid, and what becomes of the consumer there.
_Choice: TypeAlias = tuple[Mapping[str, str], decide.Decision]


def plan(
    view: host_view.HostView,
    movers: Sequence[Mover],
    *,
    trackers: Mapping[str, base.Tracker],
    tests: Sequence[base.ClaimTest],
) -> RelocationPlan:
    """Choose a provider for each class of each consumer.

    The same for the same consumers, in whatever order they come. Those whose
    CPUs are known come first, because they have the least choice; then those
    with the most.

    :param view: the host, without what these consumers hold
    """
    search = _Search(trackers, tests)
    chosen = search.place(view, sorted(movers, key=_rank))
    if chosen is None:
        return RelocationPlan(refusal=search.refusal)
    return RelocationPlan(chosen=chosen)


def _rank(mover: Mover) -> tuple[bool, int, str]:
    is_free = not mover.request.near_cpus
    return is_free, -sum(mover.amounts.values()), mover.consumer_uuid


class _Search:
    """Places consumers one after the other, and goes back where it must."""

    def __init__(
        self,
        trackers: Mapping[str, base.Tracker],
        tests: Sequence[base.ClaimTest],
    ) -> None:
        self._trackers = trackers
        self._tests = tests
        self._dead_ends = 0
        self.refusal: UnplacedConsumer | None = None

    def place(
        self, view: host_view.HostView, movers: Sequence[Mover]
    ) -> dict[str, Mapping[str, str]] | None:
        # A loop: a host may have more consumers than Python nests calls.
        placed: list[Mapping[str, str]] = []
        untried: list[Iterator[_Choice]] = []
        while len(placed) < len(movers):
            if len(untried) == len(placed):
                fitting = self._list_fitting(view, movers[len(placed)])
                untried.append(iter(fitting))
            if (choice := next(untried[-1], None)) is not None:
                option, decision = choice
                placed.append(option)
                view = decision.view
                continue
            untried.pop()
            if not placed or self._dead_ends >= _MAX_DEAD_ENDS:
                return None
            placed.pop()
        uuids = [one.consumer_uuid for one in movers]
        return dict(zip(uuids, placed, strict=True))

    def _list_fitting(
        self, view: host_view.HostView, mover: Mover
    ) -> list[_Choice]:
        """Return where it fits, the best choice first."""
        decided = [
            (option, self._decide(view, mover, option))
            for option in _list_options(view, mover.amounts)
        ]
        fitting = [one for one in decided if one[1].fits]
        if not fitting:
            self._note_dead_end(mover, [one for _option, one in decided])
        return sorted(fitting, key=lambda one: self._score(view, mover, *one))

    def _decide(
        self, view: host_view.HostView, mover: Mover, option: Mapping[str, str]
    ) -> decide.Decision:
        return decide.decide(
            view,
            _make_request(mover, option),
            trackers=self._trackers,
            tests=self._tests,
            may_move=False,
        )

    def _score(
        self,
        view: host_view.HostView,
        mover: Mover,
        option: Mapping[str, str],
        decision: decide.Decision,
    ) -> tuple[int, bool, int, list[tuple[str, str]]]:
        """Return how good a choice is; the least is the best.

        The provider with the least room left, so that the others keep room
        for those that need much.
        """
        unmet = sum(
            one.count_unmet(view, decision.request) for one in self._tests
        )
        is_new = not mover.former >= frozenset(option.values())
        room = sum(
            view.tracked[rp_uuid, name].state.available
            for name, rp_uuid in option.items()
        )
        return unmet, is_new, room, sorted(option.items())

    def _note_dead_end(
        self, mover: Mover, decisions: Sequence[decide.Decision]
    ) -> None:
        self._dead_ends += 1
        if self.refusal is None:
            reasons = [one.shortfalls for one in decisions]
            nearest = min(reasons, key=_weigh, default=())
            self.refusal = UnplacedConsumer(mover=mover, shortfalls=nearest)


def _weigh(shortfalls: Sequence[exception.Shortfall]) -> tuple[int, int]:
    return sum(one.is_permanent for one in shortfalls), len(shortfalls)


def _list_options(
    view: host_view.HostView, amounts: Mapping[str, int]
) -> Iterator[dict[str, str]]:
    """Return choices, resource class -> rp_uuid."""
    together: dict[tuple[str, ...], list[str]] = {}
    for name in sorted(amounts):
        having = sorted(rp for rp, other in view.tracked if other == name)
        together.setdefault(tuple(having), []).append(name)
    choices = itertools.product(*together)
    for chosen in itertools.islice(choices, _MAX_OPTIONS):
        yield {
            name: rp_uuid
            for rp_uuid, names in zip(chosen, together.values(), strict=True)
            for name in names
        }


def _make_request(
    mover: Mover, option: Mapping[str, str]
) -> assignment.ClaimRequest:
    """Return a request for all that a consumer has then, and no more.

    What it has may not be what its flavor requests, as after a resize that
    is not confirmed.
    """
    request = mover.request
    allocations = {rp: dict(one) for rp, one in request.allocations.items()}
    for name, rp_uuid in option.items():
        held = allocations.setdefault(rp_uuid, {})
        held[name] = held.get(name, 0) + mover.amounts[name]
    amounts: dict[str, int] = {}
    for one in allocations.values():
        for name, amount in one.items():
            amounts[name] = amounts.get(name, 0) + amount
    group = requirements.RequestGroup(suffix='', resources=amounts)
    return dataclasses.replace(
        request,
        allocations=allocations,
        requirement=dataclasses.replace(request.requirement, groups=(group,)),
    )
