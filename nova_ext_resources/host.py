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

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import threading

from oslo_log import log as logging

from nova_ext_resources import alarms
from nova_ext_resources import books
from nova_ext_resources import discovery
from nova_ext_resources import enforcement
from nova_ext_resources import exception
from nova_ext_resources import healing
from nova_ext_resources import ledger as ledger_mod
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import provider
from nova_ext_resources.objects import stats as stats_obj
from nova_ext_resources.objects import view as view_obj
from nova_ext_resources.plugins import base
from nova_ext_resources import server_locks

LOG = logging.getLogger(__name__)

#: How often one refresh looks at the host, while servers come and go.
_MAX_LOOKS = 3

#: Seconds that it waits before another look for what is under way.
_MAX_PAUSE = 2.0


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
        self.enforcement = enforcement.Enforcement(host, enforcers, trackers)
        self._ledger = ledger
        self._discovery = discovery.Discovery(
            providers,
            host,
            trackers=trackers,
            check=self.enforcement.check_definition,
        )
        self._books = books.Books(
            host=host,
            node=node,
            trackers=trackers,
            entries=ledger.list_entries(),
            found=discovery.Found(missing=frozenset(providers)),
            resource_classes=frozenset(
                one.name
                for name in providers
                for one in self._discovery.list_definitions(name)
            ),
        )
        for one in enforcers.values():
            one.list_entries = self._list_entries
        for provider_plugin in providers.values():
            provider_plugin.list_entries = self._list_entries
        self._servers = server_locks.ServerLocks()
        self._refreshing = threading.Lock()
        self._published = ledger.list_published()
        self._problems: tuple[alarms.Problem, ...] = ()
        self._has_cut_stats = False

    # -- what Nova may ask at any time ---------------------------------

    @property
    def view(self) -> view_obj.HostView:
        return self._books.view

    @property
    def found(self) -> discovery.Found:
        return self._books.found

    @property
    def problems(self) -> tuple[alarms.Problem, ...]:
        """What the last healing could not mend."""
        return self._problems

    @property
    def has_cut_stats(self) -> bool:
        """Whether the scheduler sees totals only, see :meth:`stats`."""
        return self._has_cut_stats

    @property
    def ledger_status(self) -> ledger_mod.Status:
        return self._ledger.status

    @property
    def is_settled(self) -> bool:
        """Whether nothing waits to be mended."""
        return not self._problems and all(
            entry.state is not assignment.State.RELEASING
            for entry in self.entries.values()
        )

    @property
    def booked(self) -> dict[str, assignment.Entry]:
        """See :attr:`.books.Books.booked`."""
        return self._books.booked

    @property
    def entries(self) -> dict[str, assignment.Entry]:
        """What each server holds, by its uuid."""
        return self._books.entries

    def _list_entries(self) -> dict[str, assignment.Entry]:
        return self.entries

    def find_entry(self, consumer_uuid: str) -> assignment.Entry | None:
        return self._books.find_entry(consumer_uuid)

    def holds(self, consumer_uuid: str) -> bool:
        """Tell whether a server has a claim that is not being released."""
        return self._books.holds(consumer_uuid)

    def stats(self) -> str:
        """Give the document for Nova's host state."""
        text = stats_obj.encode(self.view)
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
        made = self._books.make_providers()
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
                is_moving = self._servers.is_any_held
                if not (left and is_moving) and self._books.rebuild(
                    found, before, may_refuse=bool(left)
                ):
                    return
                self._servers.wait_until_free(_MAX_PAUSE)

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
            entry = self._books.take(
                request, tests=self._tests, published=self._published
            )
            if entry.assignments:
                self._write(entry)
            return entry

    def _write(self, entry: assignment.Entry) -> None:
        try:
            self._ledger.put(entry)
        except exception.LedgerError:
            self._books.rebook(drop=[entry.consumer_uuid])
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
        real = self.enforcement.apply(entry)
        applied = dataclasses.replace(
            entry, assignments=real, state=assignment.State.APPLIED
        )
        if applied == self.find_entry(entry.consumer_uuid):
            return
        self._ledger.put(applied)
        self._books.rebook(put=applied)

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

    def release_all(self, consumer_uuids: Iterable[str]) -> None:
        """Release servers together, at the start; all are tried.

        :raises EnforcementFailed, LedgerError: the first failure
        """
        self._release(consumer_uuids)

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
        entries = self._books.mark_releasing(consumer_uuids)
        if not entries:
            return
        uuids = [one.consumer_uuid for one in entries]
        self._ledger.set_state(uuids, assignment.State.RELEASING)
        done, failures = self.enforcement.release_all(entries)
        gone = {one.consumer_uuid for one in done}
        self._ledger.delete(gone)
        self._books.rebook(drop=gone)
        if failures:
            raise failures[0]

    # -- healing -------------------------------------------------------

    def reconcile(self, live: Iterable[str]) -> None:
        """See :func:`.healing.reconcile`; before Nova has work for us."""
        self._report(healing.reconcile(self, frozenset(live)))

    def heal(self) -> None:
        """See :func:`.healing.heal`."""
        self._ledger.retry()
        self._report(healing.heal(self))

    def clear(
        self, consumer_uuid: str, applied: Mapping[str, frozenset[str]]
    ) -> None:
        """Take out of force what the ledger does not know.

        :raises EnforcementFailed: it may still be in force
        """
        with self._servers.hold(consumer_uuid):
            # It may have come back meanwhile.
            if self.find_entry(consumer_uuid) is None:
                self.enforcement.release_leftover(consumer_uuid, applied)

    def mend(self, consumer_uuid: str) -> None:
        """Finish a release, or put into force what should be.

        :raises EnforcementFailed, LedgerError: it did not work this time
        """
        with self._servers.hold(consumer_uuid):
            entry = self.find_entry(consumer_uuid)
            if entry is None:
                return
            if entry.state is assignment.State.RELEASING:
                self._release([consumer_uuid])
            else:
                self._apply(entry)

    def _report(self, problems: Sequence[alarms.Problem]) -> None:
        for problem in problems:
            if problem not in self._problems:
                LOG.error(
                    'Host %(host)s: %(problem)s',
                    {'host': self.host, 'problem': problem},
                )
        left = {(one.alarm, one.subject) for one in problems}
        for one in self._problems:
            if (one.alarm, one.subject) not in left:
                LOG.info(
                    'Host %(host)s: over is %(alarm)s %(subject)s',
                    {
                        'host': self.host,
                        'alarm': one.alarm,
                        'subject': one.subject,
                    },
                )
        self._problems = tuple(problems)

    def list_unbookable(self) -> list[alarms.Problem]:
        """See :meth:`.books.Books.list_unbookable`."""
        return self._books.list_unbookable()

    def close(self) -> None:
        self._ledger.close()
