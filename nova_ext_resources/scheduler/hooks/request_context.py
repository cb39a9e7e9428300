# SPDX-License-Identifier: Apache-2.0

"""What Nova's scheduler knows of a request, and does not hand to filters.

Exact numbers of what is free are in the ``provider_summaries`` that placement
gives with the candidates. ``SchedulerManager`` has them, and passes them to a
method of its own; a thin wrapper around that keeps them. Another wrapper keeps
the hosts that Nova tries, and all hosts for the next server of a request: what
filters return for one server is all that Nova asks them about for the next
one, and a reserved server gets one host only. A third one names no alternates
of which something is promised: the conductor claims on them later, and nobody
looks again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses
import functools
import inspect
from typing import Any
import weakref

from nova.scheduler import manager
from oslo_log import log as logging

from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.scheduler import in_flight_claims

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(slots=True, kw_only=True)
class OngoingRequest:
    """One request for one or more servers.

    :ivar summaries: of placement, as of the beginning; None where this Nova
        does not show them
    :ivar consumed: what servers of the same request have taken since
    :ivar offer: what Nova asks before it claims; None for a server that asks
        nothing of ours
    :ivar tried: the hosts that Nova tries for the present server, in order
    :ivar hosts: those that a reserved server may have, and their candidates
    :ivar placed: server -> its host, of reserved servers
    :ivar taken: (reservation, slot) of each of them
    :ivar check: called when Nova has claimed for a server, with the context,
        the client of placement, the server and the candidate; returns whether
        the claim stands
    :ivar narrow: called with the hosts that Nova may name as alternates;
        returns those that it does name
    :ivar score: called with hosts; returns how well the server fills the time
        of each until something is promised, 0 to 1. None where it has no end
    :ivar is_begun: whether Nova may have claimed for a server of it
    """

    summaries: Mapping[str, Any] | None = None
    consumed: dict[host_view.Place, int] = dataclasses.field(
        default_factory=dict
    )
    offer: in_flight_claims.Offer | None = None
    tried: list[Any] = dataclasses.field(default_factory=list)
    hosts: list[tuple[Any, list[Any]]] | None = None
    placed: dict[str, Any] = dataclasses.field(default_factory=dict)
    taken: list[tuple[str, planned_server.PlannedServer]] = dataclasses.field(
        default_factory=list
    )
    check: Callable[[Any, Any, str, Any], bool] | None = None
    narrow: Callable[[Iterable[Any]], list[Any]] | None = None
    score: Callable[[Iterable[Any]], list[float]] | None = None
    is_begun: bool = False
    _seen: list[tuple[Any, int, Any]] = dataclasses.field(default_factory=list)

    def take(self, server: str, candidate: Any) -> bool:
        """Return whether Nova may claim a candidate for a server."""
        return self.offer is None or self.offer.take(
            self.tried, server, candidate
        )

    def give_back(self, server: str) -> None:
        """Note that Nova could not claim for a server."""
        if self.offer is not None:
            self.offer.give_back(server)

    def note(self, hosts: Iterable[Any]) -> None:
        """Note what Nova may choose of: the first candidate of a host."""
        self.is_begun = True
        self._seen = [
            (one, one.num_instances, one.allocation_candidates[0])
            for one in hosts
            if one.allocation_candidates
        ]

    def count_consumed(self) -> None:
        """Count what Nova has chosen since: it counts servers of a host."""
        for host_state, before, candidate in self._seen:
            if host_state.num_instances <= before:
                continue
            for rp_uuid, allocation in candidate['allocations'].items():
                for name, amount in allocation['resources'].items():
                    place = rp_uuid, name
                    self.consumed[place] = self.consumed.get(place, 0) + amount
            self._put_first(host_state, candidate)
        self._seen = []

    def _put_first(self, host_state: Any, candidate: Any) -> None:
        """Let the candidate that was claimed be the first one of its host.

        Others, too, take the first one for that.
        """
        for number, (one, candidates) in enumerate(self.hosts or ()):
            if one is host_state and self.hosts:
                others = [each for each in candidates if each is not candidate]
                self.hosts[number] = one, [candidate, *others]

    def restore(self) -> list[Any] | None:
        """Return the hosts for one more reserved server; None for others."""
        if self.hosts is None:
            return None
        self.count_consumed()
        for host_state, candidates in self.hosts:
            host_state.allocation_candidates = [*candidates]
        return [one for one, _candidates in self.hosts]


#: Nova's request -> what is known of it, as long as it lives.
_REQUESTS: weakref.WeakKeyDictionary[Any, OngoingRequest] = (
    weakref.WeakKeyDictionary()
)


def find(spec_obj: Any) -> OngoingRequest:
    """Return what is known of a request; make it if nothing is."""
    return _REQUESTS.setdefault(spec_obj, OngoingRequest())


def _keep_summaries(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def get_all_host_states(
        self: Any,
        context: Any,
        spec_obj: Any,
        provider_summaries: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        _REQUESTS[spec_obj] = OngoingRequest(summaries=provider_summaries)
        return original(
            self, context, spec_obj, provider_summaries, *args, **kwargs
        )

    return get_all_host_states


def _keep_hosts(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def get_sorted_hosts(
        self: Any,
        spec_obj: Any,
        host_states: Sequence[Any],
        index: int,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        ongoing = find(spec_obj)
        if index and (kept := ongoing.restore()) is not None:
            host_states = kept
        ongoing.tried = original(
            self, spec_obj, host_states, index, *args, **kwargs
        )
        return ongoing.tried

    return get_sorted_hosts


def _narrow_alternates(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def get_alternate_hosts(
        self: Any,
        selected_hosts: Sequence[Any],
        spec_obj: Any,
        hosts: Sequence[Any],
        index: int,
        num_alts: int,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        if num_alts:
            if index:
                # What Nova does itself, and does not do with index 0.
                hosts = self._get_sorted_hosts(spec_obj, hosts, index)
            # Some were tried again at the end, and come there only.
            hosts = [*dict.fromkeys(reversed(hosts))][::-1]
            if (narrow := find(spec_obj).narrow) is not None:
                hosts = narrow(hosts)
        return original(
            self, selected_hosts, spec_obj, hosts, 0, num_alts, *args, **kwargs
        )

    return get_alternate_hosts


#: Nova's method -> its arguments, what is put in its place, and what does not
#: work without. Also in ``virt.compat.private_api``.
_WRAPPED = {
    '_get_all_host_states': (
        ['self', 'context', 'spec_obj', 'provider_summaries'],
        _keep_summaries,
        'free resources are read from late reports of the hosts',
    ),
    '_get_sorted_hosts': (
        ['self', 'spec_obj', 'host_states', 'index'],
        _keep_hosts,
        'reserved servers of one request get slots of one host only, and '
        'simultaneous requests get the same host',
    ),
    '_get_alternate_hosts': (
        ['self', 'selected_hosts', 'spec_obj', 'hosts', 'index', 'num_alts'],
        _narrow_alternates,
        (
            'after a failed build, the server may get resources that were '
            'promised meanwhile'
        ),
    ),
}


@functools.cache
def install() -> None:
    """Put all wrappers in place, where this Nova has the methods."""
    for name, (arguments, wrap, loss) in _WRAPPED.items():
        replace_function(manager.SchedulerManager, name, arguments, wrap, loss)


def replace_function(
    owner: Any,
    name: str,
    arguments: list[str],
    wrap: Callable[[Callable[..., Any]], Callable[..., Any]],
    loss: str,
) -> None:
    """Wrap a function of Nova, where Nova has it with these arguments.

    :param owner: Nova's module or class
    :param loss: what does not work otherwise
    """
    original = getattr(owner, name, None)
    if original is not None:
        names = list(inspect.signature(original).parameters)
        if names[: len(arguments)] == arguments:
            setattr(owner, name, wrap(original))
            return
    LOG.error(
        '%(owner)s of this Nova has no %(name)s(%(arguments)s): %(loss)s. '
        'Install a release of nova-ext-resources that supports this release '
        'of Nova.',
        {
            'owner': owner.__name__,
            'name': name,
            'arguments': ', '.join(arguments),
            'loss': loss,
        },
    )
