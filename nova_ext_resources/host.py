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

"""The extended resources of one host: the one object that a host runs.

Facts come from the inventory providers, truth about servers from the
ledger; both make the view on which claims are decided. ``refresh`` and the
enforcers do I/O; everything that Nova calls while it holds its semaphore
(``view``, ``stats``, ``providers``) reads a snapshot.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
import dataclasses
import threading

from oslo_log import log as logging

from nova_ext_resources import claims
from nova_ext_resources import discovery
from nova_ext_resources import enforcement
from nova_ext_resources import exception
from nova_ext_resources import hostview
from nova_ext_resources import ledger as ledger_mod
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import provider
from nova_ext_resources.objects import resource
from nova_ext_resources.objects import stats as stats_obj
from nova_ext_resources.objects import view as view_obj
from nova_ext_resources.plugins import base

LOG = logging.getLogger(__name__)

#: How often one refresh looks at the host, while servers come and go.
_MAX_LOOKS = 3

#: Seconds that it waits before another look for what is under way.
_MAX_PAUSE = 2.0

#: How many servers one line of the log names.
_MAX_LISTED = 20


class HostResources:
    """Claims, applies, releases and reconciles. Safe to share by threads.

    Calls for different servers run side by side; those for one server run
    one after the other.

    :param node: the compute node below which providers are published
    :param providers: inventory providers by name, in order
    :raises InvalidConfiguration: a resource needs an enforcer and none of
        the enabled ones serves it
    :raises LedgerError: the ledger cannot be read
    """

    def __init__(
        self,
        *,
        host: str,
        node: provider.Node,
        providers: Mapping[str, base.InventoryProvider],
        trackers: Mapping[str, base.Tracker],
        tests: Sequence[base.ClaimTest],
        enforcers: Mapping[str, base.Enforcer],
        ledger: ledger_mod.Ledger,
    ) -> None:
        self.host = host
        self.node = node
        self._trackers = trackers
        self._tests = tuple(tests)
        self._enforcement = enforcement.Enforcement(host, enforcers)
        self._ledger = ledger
        self._discovery = discovery.Discovery(
            providers,
            host,
            trackers=trackers,
            check=self._check_definition,
        )
        self._classes = frozenset(
            one.name
            for name in providers
            for one in self._discovery.list_definitions(name)
        )
        self._lock = threading.Lock()
        self._servers = enforcement.ServerLocks()
        self._refreshing = threading.Lock()
        self._entries = ledger.list_entries()
        # What is counted in other units than the ledger has, see hostview.
        self._on_paper: dict[str, tuple[assignment.Assignment, ...]] = {}
        self._published = ledger.list_published()
        self._problems: tuple[str, ...] = ()
        self._has_cut_stats = False
        self._found = discovery.Found(missing=frozenset(providers))
        self._view = view_obj.HostView(resource_classes=self._classes)

    # -- what Nova may ask at any time ---------------------------------

    @property
    def view(self) -> view_obj.HostView:
        return self._view

    @property
    def found(self) -> discovery.Found:
        return self._found

    @property
    def problems(self) -> tuple[str, ...]:
        """What the last healing could not mend."""
        return self._problems

    def holds(self, consumer_uuid: str) -> bool:
        """Tell whether a server has a claim that is not being released."""
        entry = self.find_entry(consumer_uuid)
        return entry is not None and (
            entry.state is not assignment.State.RELEASING
        )

    def find_entry(self, consumer_uuid: str) -> assignment.Entry | None:
        with self._lock:
            return self._entries.get(consumer_uuid)

    @property
    def entries(self) -> dict[str, assignment.Entry]:
        """What each server holds, by its uuid."""
        with self._lock:
            return dict(self._entries)

    @property
    def booked(self) -> dict[str, assignment.Entry]:
        """The same with the units that count as taken, see ``hostview.book``.

        Only for counting: a server may really have others, which the ledger
        knows.
        """
        with self._lock:
            return self._list_booked()

    def _list_booked(self) -> dict[str, assignment.Entry]:
        return {
            uuid: dataclasses.replace(
                entry,
                assignments=self._on_paper.get(uuid, entry.assignments),
            )
            for uuid, entry in self._entries.items()
        }

    def _note_booked(self, booked: Mapping[str, assignment.Entry]) -> None:
        self._on_paper = {
            uuid: entry.assignments
            for uuid, entry in booked.items()
            if entry.assignments != self._entries[uuid].assignments
        }

    def stats(self) -> str:
        """Give the document for Nova's host state."""
        text = stats_obj.encode(self._view)
        is_cut = stats_obj.is_cut(text)
        if is_cut and not self._has_cut_stats:
            LOG.warning(
                'Host %(host)s: it has too many providers or resource '
                'classes for Nova to carry their state to the scheduler '
                '(%(limit)d bytes): only totals are published there, and '
                'servers may be sent here that this host then refuses',
                {'host': self.host, 'limit': stats_obj.MAX_BYTES},
            )
        self._has_cut_stats = is_cut
        return text

    def providers(self) -> tuple[provider.Provider, ...]:
        """Give the tree that placement shall see. May write the ledger.

        :raises LedgerError: it cannot be remembered, so it must not be
            published
        """
        with self._lock:
            held = _list_held(self._entries.values())
            made = hostview.make_providers(
                self._found.providers, self._view, node=self.node, held=held
            )
        new = {one.rp_uuid for one in made} - self._published
        if new:
            self._ledger.add_published(new)
            self._published |= new
        return made

    # -- looking at the host -------------------------------------------

    def refresh(self) -> None:
        """Look at the host and make the view anew. Does I/O."""
        with self._refreshing:
            for left in reversed(range(_MAX_LOOKS)):
                before = self.entries
                found = self._discovery.look()
                with self._lock:
                    if not left or not self._is_moving(before):
                        self._rebuild(found, before)
                        return
                self._servers.wait_until_free(_MAX_PAUSE)

    def _is_moving(self, before: Mapping[str, assignment.Entry]) -> bool:
        """Tell whether a look may have seen half of a change.

        What a server has just got would count as held and as foreign use,
        and too little would be published until the next round.
        """
        return before != self._entries or self._servers.is_any_held

    def _rebuild(
        self,
        found: discovery.Found,
        before: Mapping[str, assignment.Entry],
    ) -> None:
        settled = [
            entry
            for uuid, entry in self._entries.items()
            if entry.state is not assignment.State.CLAIMED
            and before.get(uuid) == entry
        ]
        view = hostview.make_view(
            found.providers,
            node=self.node,
            trackers=self._trackers,
            settled=_list_held(settled),
            resource_classes=self._classes | found.resource_classes,
        )
        self._found = found
        self._view, booked = hostview.book(view, self._entries, self._trackers)
        self._note_booked(booked)

    def _rebook(
        self,
        *,
        drop: Collection[str] = (),
        put: assignment.Entry | None = None,
    ) -> None:
        with self._lock:
            self._view, booked = hostview.rebook(
                self._view,
                self._list_booked(),
                self._trackers,
                drop=drop,
                put=put,
            )
            if put is not None:
                self._entries[put.consumer_uuid] = put
            self._entries = {uuid: self._entries[uuid] for uuid in booked}
            self._note_booked(booked)

    # -- the life of a claim -------------------------------------------

    def claim(self, request: assignment.ClaimRequest) -> assignment.Entry:
        """Take everything that a server asks for, or nothing.

        A server that holds something already gets it back first: a claim
        of the same server replaces the former one.

        :return: its entry; where the host chose another domain shows in it
        :raises ClaimError: with every shortfall
        :raises LedgerError: it could not be written down
        """
        with self._servers.hold(request.consumer_uuid):
            self._release([request.consumer_uuid])
            entry = self._take(request)
            if entry.assignments:
                self._write(entry)
            return entry

    def _take(self, request: assignment.ClaimRequest) -> assignment.Entry:
        with self._lock:
            view = self._view
            gone = claims.list_gone(view, request, self._published)
            request, found = claims.find_place(view, request, self._tests)
            found = (*found, *gone)
            if found:
                raise claims.make_error(self.host, request, found)
            try:
                view, taken = claims.take(view, request, self._trackers)
            except exception.ClaimError as err:
                # Only with a set of claim tests that lacks "capacity".
                raise claims.make_error(
                    self.host, request, err.shortfalls
                ) from err
            self._view = view
            entry = assignment.Entry(
                consumer_uuid=request.consumer_uuid,
                assignments=taken,
                cpus=request.cpus,
                enforcers=request.requirement.enforcers,
            )
            if taken:
                self._entries[entry.consumer_uuid] = entry
            return entry

    def _write(self, entry: assignment.Entry) -> None:
        try:
            self._ledger.put(entry)
        except exception.LedgerError:
            self._rebook(drop=[entry.consumer_uuid])
            raise

    def apply(self, consumer_uuid: str, *, must_hold: bool = False) -> None:
        """Put a server's claim into force; again is once.

        A claim that fails is released. What had been in force before stays
        in the ledger, and healing tries again.

        :param must_hold: whether it is an error to hold nothing
        :raises EnforcementFailed, ClaimError, LedgerError: it is not in
            force
        """
        with self._servers.hold(consumer_uuid):
            entry = self.find_entry(consumer_uuid)
            if entry is None or not self.holds(consumer_uuid):
                self._check_empty(consumer_uuid, must_hold)
                return
            try:
                self._apply(entry)
            except exception.ExtResourcesError:
                if entry.state is assignment.State.CLAIMED:
                    self._undo(consumer_uuid)
                raise

    def _check_empty(self, consumer_uuid: str, must_hold: bool) -> None:
        if must_hold:
            raise exception.EnforcementFailed(
                host=self.host,
                enforcer='(any)',
                consumer_uuid=consumer_uuid,
                reason='what it held has been given back meanwhile; start '
                'it again',
            )

    def _apply(self, entry: assignment.Entry) -> None:
        real = self._enforcement.apply(entry)
        applied = dataclasses.replace(
            entry, assignments=real, state=assignment.State.APPLIED
        )
        if applied == self.find_entry(entry.consumer_uuid):
            return
        self._ledger.put(applied)
        self._rebook(put=applied)

    def _undo(self, consumer_uuid: str) -> None:
        """Give back after a failure, which matters more than this one."""
        try:
            self._release([consumer_uuid])
        except exception.ExtResourcesError as err:
            LOG.error(
                'Host %(host)s: giving back failed too and is tried again: '
                '%(err)s',
                {'host': self.host, 'err': err},
            )

    def release(self, consumer_uuid: str) -> None:
        """Take back all that a server holds; nothing held is a success.

        :raises EnforcementFailed, LedgerError: it counts as held until
            healing has managed
        """
        with self._servers.hold(consumer_uuid):
            self._release([consumer_uuid])

    def _release(self, consumer_uuids: Iterable[str]) -> None:
        """Release servers together; all are tried.

        :raises EnforcementFailed, LedgerError: the first failure
        """
        with self._lock:
            entries = [
                dataclasses.replace(entry, state=assignment.State.RELEASING)
                for uuid in consumer_uuids
                if (entry := self._entries.get(uuid))
            ]
            self._entries.update((one.consumer_uuid, one) for one in entries)
        if not entries:
            return
        uuids = [one.consumer_uuid for one in entries]
        self._ledger.set_state(uuids, assignment.State.RELEASING)
        done, failures = self._enforcement.release_all(entries)
        gone = {one.consumer_uuid for one in done}
        self._ledger.delete(gone)
        self._rebook(drop=gone)
        if failures:
            raise failures[0]

    # -- healing -------------------------------------------------------

    def reconcile(self, live: Iterable[str]) -> None:
        """Make ledger and host agree at the start, before Nova has work.

        What servers that are gone hold is released. What was claimed, or
        should be in force and is not, is put into force. Problems are
        logged and stay in :attr:`problems`.

        :param live: uuids of the servers that Nova has on this host
        """
        live = frozenset(live)
        gone = sorted(set(self.entries) - live)
        if gone:
            LOG.warning(
                'Host %(host)s: releasing what %(count)d servers hold that '
                'are gone, such as %(uuids)s',
                {
                    'host': self.host,
                    'count': len(gone),
                    'uuids': ', '.join(gone[:_MAX_LISTED]),
                },
            )
            try:
                self._release(gone)
            except exception.ExtResourcesError as err:
                LOG.error(
                    'Host %(host)s: not all could be released: %(err)s',
                    {'host': self.host, 'err': err},
                )
        self.heal(live=live)

    def heal(self, *, live: Collection[str] | None = None) -> None:
        """Finish releases, and restore what the host has lost.

        :param live: at the start, uuids of the servers that Nova has here.
            No claim is under way then, so what is claimed and not applied
            was left by a crash
        """
        before = self.entries
        applied, problems = self._enforcement.list_applied()
        after = self.entries
        known = before.keys() | after.keys()
        for uuid in self._enforcement.list_leftovers(applied, known, live):
            try:
                self._clear(uuid, applied)
                known.add(uuid)
            except exception.ExtResourcesError as err:
                problems.append(str(err))
        stable = {u: e for u, e in after.items() if before.get(u) == e}
        plan = self._enforcement.plan_healing(
            stable, applied, is_start=live is not None
        )
        for consumer_uuid in plan:
            try:
                self._mend(consumer_uuid)
            except exception.ExtResourcesError as err:
                problems.append(str(err))
        problems += enforcement.list_strangers(applied, known)
        problems += hostview.list_unbookable(
            self._view, self.entries.values(), self._trackers
        )
        self._report(problems)

    def _clear(
        self, consumer_uuid: str, applied: Mapping[str, frozenset[str]]
    ) -> None:
        with self._servers.hold(consumer_uuid):
            # It may have come back meanwhile.
            if self.find_entry(consumer_uuid) is None:
                self._enforcement.release_leftover(consumer_uuid, applied)

    def _mend(self, consumer_uuid: str) -> None:
        with self._servers.hold(consumer_uuid):
            entry = self.find_entry(consumer_uuid)
            if entry is None:
                return
            if entry.state is assignment.State.RELEASING:
                self._release([consumer_uuid])
            else:
                self._apply(entry)

    def _report(self, problems: Sequence[str]) -> None:
        for problem in problems:
            if problem not in self._problems:
                LOG.error(
                    'Host %(host)s: %(problem)s',
                    {'host': self.host, 'problem': problem},
                )
        self._problems = tuple(problems)

    def close(self) -> None:
        self._ledger.close()

    def _check_definition(self, one: resource.ResourceDefinition) -> None:
        """Make sure that a resource can be counted and put into force.

        :raises InvalidConfiguration: it would be sold and mean nothing
        """
        tracker = self._trackers.get(one.type)
        if tracker is None:
            raise exception.InvalidConfiguration(
                option='[ext_resources] inventory_providers',
                value=one.name,
                reason=f'it has type {one.type}, for which no tracker is '
                f'installed; there are {", ".join(sorted(self._trackers))}',
            )
        if tracker.NEEDS_ENFORCER:
            self._enforcement.check_served(one.name)


def _list_held(
    entries: Iterable[assignment.Entry],
) -> tuple[assignment.Assignment, ...]:
    return tuple(one for entry in entries for one in entry.assignments)
