# SPDX-License-Identifier: Apache-2.0

"""What a host has and what its servers hold, in memory, without I/O.

The ledger has the same entries on the disk; :mod:`.transitions` keeps the
two in step.
"""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
import dataclasses
import datetime
import itertools
import threading
from typing import TypeVar

from nova_ext_resources.claims import base
from nova_ext_resources.claims import decide
from nova_ext_resources.claims import relocation
from nova_ext_resources.host.claims import entry_table
from nova_ext_resources.host.inventory import discovery
from nova_ext_resources.host.inventory import view as view_mod
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_constraints
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import host_view

Entries = Mapping[str, assignment.Entry]

_T = TypeVar('_T')

#: Of an entry that the host's own figures do not contain.
_UNAPPLIED = (assignment.State.CLAIMED, assignment.State.PARKED)


class StateMemory:
    """The entries of all servers, and the view in which they are taken.

    Values are replaced and never changed, so that reading needs no lock.

    :ivar entries: what each server holds, by consumer uuid
    :ivar view: what claims are decided on; made of what was found and of
        the entries
    :ivar empty: the view in which no server holds anything
    :ivar settled: the entries that the host's own figures contain: applied
        during the whole discovery
    :ivar found: what is known of the host so far
    :ivar unallocated: consumer uuid -> what it holds and placement should
        have allocated to it, and has not
    :param entries: as the ledger has them
    :param resource_classes: what its plugins define
    :param constraints: what its enforcers can never do
    """

    def __init__(
        self,
        *,
        host: str,
        node: host_provider.Node,
        trackers: Mapping[str, base.Tracker],
        entries: Entries,
        found: discovery.DiscoveredResources,
        resource_classes: frozenset[str],
        constraints: host_constraints.Constraints = host_constraints.NONE,
    ) -> None:
        self._host = host
        self._node = node
        self._trackers = trackers
        self._classes = resource_classes
        self._constraints = constraints
        self._lock = threading.Lock()
        self.entries = entries
        #: What consumers had before a claim that is not final, or what the
        #: ledger has yet of a claim that was given up: they may get that
        #: back, and no other gets it.
        self.former: Entries = {}
        self.found = found
        self.unallocated: Mapping[str, Sequence[assignment.Assignment]] = {}
        self.empty = host_view.HostView(resource_classes=resource_classes)
        self.settled: Sequence[assignment.Entry] = ()
        self.view = self.empty

    def make_providers(self) -> tuple[host_provider.Provider, ...]:
        """Return the tree that placement shall see."""
        with self._lock:
            return view_mod.make_providers(
                self.found.providers,
                self.view,
                node=self._node,
                assignments=itertools.chain(
                    view_mod.list_assignments(self.entries.values()),
                    *self.unallocated.values(),
                ),
            )

    def withhold(
        self,
        unallocated: Iterable[
            tuple[assignment.Entry, Sequence[assignment.Assignment]]
        ],
    ) -> None:
        """Reserve in placement what it has not allocated, and servers hold.

        :param unallocated: entries, and what is to be reserved for each; of
            one that has changed meanwhile, nothing is
        """
        with self._lock:
            self.unallocated = {
                entry.consumer_uuid: missing
                for entry, missing in unallocated
                if self.entries.get(entry.consumer_uuid) == entry
            }

    def allocate(
        self,
        request: assignment.ClaimRequest,
        *,
        tests: Sequence[base.ClaimTest],
        published: Collection[str],
        claimed_at: datetime.datetime | None = None,
        event: entry_table.EntryEvent = entry_table.EntryEvent.CLAIM,
    ) -> assignment.Entry:
        """Claim everything or nothing; replace what the consumer has.

        :param published: uuids of all providers that this host ever
            published
        :param event: the kind of claim
        :raises ClaimError: with every shortfall
        :raises EntryStepRefused: the consumer must not claim like this
        """
        with self._lock:
            uuid = request.consumer_uuid
            own, others = self._split(uuid)
            step = entry_table.find_step(own[0] if own else None, event)
            view = self._book_again(own, others) if own else self.view
            decision = self._decide(view, request, tests, published)
            entry = request.make_entry(
                decision.taken,
                claimed_at,
                state=step.state,
                purpose=step.purpose,
            )
            taken = {uuid: entry} if decision.taken else {}
            self.entries = {**others, **taken}
            self.view = decision.view
            for one in own:
                self.former = {**self.former, uuid: one}
                self.view = self._book_again([one, entry], self.entries)
            self.unallocated = _without(self.unallocated, {uuid})
            return entry

    def check_fits(
        self,
        request: assignment.ClaimRequest,
        *,
        former: Collection[str],
        tests: Sequence[base.ClaimTest],
        published: Collection[str],
    ) -> None:
        """Make sure that a claim fits when others have been released.

        :param former: the consumers whose entries the claim replaces
        :param published: see :meth:`allocate`
        :raises ClaimError: with every shortfall
        """
        with self._lock:
            entries = _without(self.entries, former)
            left = [
                one for uuid, one in self.entries.items() if uuid in former
            ]
            view = self._book_again(left, entries)
        self._decide(view, request, tests, published)

    def _decide(
        self,
        view: host_view.HostView,
        request: assignment.ClaimRequest,
        tests: Sequence[base.ClaimTest],
        published: Collection[str],
    ) -> decide.Decision:
        """Return what a request gets; see :meth:`allocate`."""
        decision = decide.decide(
            view,
            request,
            trackers=self._trackers,
            tests=tests,
            published=published,
        )
        if not decision.fits:
            raise decision.make_error(self._host)
        return decision

    def plan_relocation(
        self,
        movers: Sequence[relocation.Mover],
        *,
        allocated: Mapping[str, host_view.Amounts],
        tests: Sequence[base.ClaimTest],
    ) -> relocation.RelocationPlan:
        """Choose where consumers get what they have on the compute node.

        The ledger may be older than what is there now, as after a time
        without this package. So an entry counts only if placement has
        allocated something to its consumer on providers of this host. What
        is allocated without an entry, such as room for servers to come, is
        counted.

        :param allocated: consumer uuid -> what placement has allocated to it
            below the compute node
        """
        others = _without(allocated, {one.consumer_uuid for one in movers})
        with self._lock:
            entries = {u: self.entries.get(u) for u in others}
            view = view_mod.book(
                self.empty, filter(None, entries.values()), self._trackers
            )
        view = view_mod.count(
            view,
            [
                one
                for uuid, amounts in others.items()
                for one in view_mod.list_unrecorded(amounts, entries[uuid])
            ],
            self._trackers,
        )
        return relocation.plan(
            view, movers, trackers=self._trackers, tests=tests
        )

    def describe(self, request: assignment.ClaimRequest) -> assignment.Entry:
        """Return the entry of a server that is applied, without its units.

        :raises ClaimError: of what it requests, not all is allocated on what
            this host offers now
        :raises ValueError: an attribute of the flavor makes no sense
        """
        missing = decide.Decision(
            request=request,
            view=self.view,
            shortfalls=tuple(decide.list_missing(self.view, request)),
        )
        if not missing.fits:
            raise missing.make_error(self._host)
        assignments = decide.describe(self.view, request, self._trackers)
        step = entry_table.find_step(None, entry_table.EntryEvent.RECOGNIZE)
        return request.make_entry(
            assignments, state=step.state, purpose=step.purpose
        )

    def can_parse(self, entry: assignment.Entry) -> bool:
        """Return whether its units can be counted."""
        view = self.view
        return all(
            self._trackers[tracked.tracker].can_parse(one.units)
            for one in entry.assignments
            if (tracked := view.tracked.get((one.rp_uuid, one.resource_class)))
        )

    def mark_releasing(
        self, consumer_uuids: Iterable[str]
    ) -> list[assignment.Entry]:
        """Count no longer on what these servers hold; return their entries."""
        with self._lock:
            entries = [
                entry_table.advance(entry, entry_table.EntryEvent.RELEASE)
                for uuid in consumer_uuids
                if (entry := self.entries.get(uuid))
            ]
            self.entries = {
                **self.entries,
                **{one.consumer_uuid: one for one in entries},
            }
        return entries

    def rebuild(
        self,
        found: discovery.DiscoveredResources,
        before: Entries,
        *,
        may_refuse: bool,
    ) -> bool:
        """Make the view of what was found.

        :param before: the entries when discovery began
        :param may_refuse: whether to refuse when entries have changed since:
            what a server has just got would count as held and as used by
            others, and too little would be published until the next round
        :return: whether it was made
        """
        with self._lock:
            if may_refuse and before != self.entries:
                return False
            self.settled = [
                entry
                for uuid, entry in self.entries.items()
                if entry.state not in _UNAPPLIED and before.get(uuid) == entry
            ]
            self.empty = view_mod.make_view(
                found.providers,
                uuids={
                    one.key: one.make_rp_uuid(self._node)
                    for one in found.providers
                },
                trackers=self._trackers,
                settled=view_mod.list_assignments(self.settled),
                resource_classes=self._classes | found.resource_classes,
                constraints=dataclasses.replace(
                    self._constraints,
                    classes=host_constraints.unite(
                        [self._constraints.classes, found.constraints]
                    ),
                ),
            )
            self.found = found
            self.view = self._count(self.empty, self.entries)
            return True

    def put(self, entry: assignment.Entry) -> None:
        """Replace an entry by what its server really has."""
        self.replace([], [entry])

    def settle(self, consumer_uuid: str) -> None:
        """Give others what a consumer had before its last claim."""
        if consumer_uuid in self.former:
            own = self.entries.get(consumer_uuid)
            self.replace([consumer_uuid], [own] if own else [])

    def drop(self, consumer_uuids: Collection[str]) -> None:
        """Forget entries; unknown ones are passed over."""
        self.replace(consumer_uuids, [])

    def replace(
        self,
        gone: Collection[str],
        made: Sequence[assignment.Entry],
        former: Iterable[assignment.Entry] = (),
    ) -> None:
        """Forget entries and put others, as one change.

        In between, no claim finds units free that are in both. What those
        that are gone had before is free, too.

        :param former: what no other gets before :meth:`settle`
        """
        with self._lock:
            new = {one.consumer_uuid: one for one in made}
            uuids = {*gone, *new}
            old = [one for u, one in self.entries.items() if u in uuids]
            old += [one for u, one in self.former.items() if u in gone]
            self.former = {
                **_without(self.former, gone),
                **{one.consumer_uuid: one for one in former},
            }
            self.entries = {**_without(self.entries, uuids), **new}
            self.unallocated = _without(self.unallocated, gone)
            if view_mod.list_assignments(old) != view_mod.list_assignments(
                new.values()
            ):
                self.view = self._book_again([*old, *made], self.entries)

    def _split(
        self, consumer_uuid: str
    ) -> tuple[list[assignment.Entry], Entries]:
        """Return what a consumer has, and what all others have."""
        own = self.entries.get(consumer_uuid)
        others = _without(self.entries, {consumer_uuid})
        return ([own] if own else []), others

    def _book_again(
        self, changed: Iterable[assignment.Entry], entries: Entries
    ) -> host_view.HostView:
        """Return the view, booked anew where these have, or had, something.

        :param entries: all that are counted
        """
        places = {
            (one.rp_uuid, one.resource_class)
            for one in view_mod.list_assignments(changed)
        }
        view = self.view
        for place in places & self.empty.tracked.keys():
            view = view.with_state(place, self.empty.tracked[place].state)
        return self._count(view, entries, places)

    def _count(
        self,
        view: host_view.HostView,
        entries: Entries,
        places: Container[decide.Place] | None = None,
    ) -> host_view.HostView:
        """Count what consumers have, and what they may get back."""
        view = view_mod.book(
            view, _list_latest_first(entries), self._trackers, places=places
        )
        for one in self.former.values():
            view = view_mod.keep(view, one, entries, self._trackers, places)
        return view


def _list_latest_first(entries: Entries) -> list[assignment.Entry]:
    return list(entries.values())[::-1]


def _without(
    by_consumer: Mapping[str, _T], consumer_uuids: Collection[str]
) -> Mapping[str, _T]:
    return {u: e for u, e in by_consumer.items() if u not in consumer_uuids}
