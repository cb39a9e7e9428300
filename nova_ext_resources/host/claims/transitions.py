# SPDX-License-Identifier: Apache-2.0

"""Each step of an entry's life, in ledger, host and memory.

:mod:`.entry_table` has the steps, and the actions of each in their order.

A claim's row of the ledger is written before anything on the host is touched:
``CLAIMED`` with the units that the tracker chose, then the enforcers run, then
``APPLIED`` with the units that the server really has. A process that is killed
in between leaves a row that :mod:`.reconcile.repair` carries to its end.
"""

from collections.abc import Collection, Iterable, Sequence
import dataclasses

from oslo_log import log as logging

from nova_ext_resources.claims import base
from nova_ext_resources import clocks
from nova_ext_resources import exception
from nova_ext_resources.host.claims import enforcement as enforcement_mod
from nova_ext_resources.host.claims import entry_table
from nova_ext_resources.host.claims import memory
from nova_ext_resources.host.ledger import ledger as ledger_mod
from nova_ext_resources.objects import assignment

LOG = logging.getLogger(__name__)

State = assignment.State
Event = entry_table.EntryEvent


class Transitions:
    """Takes the steps of the entries of one host.

    The caller holds the locks of the consumers, see :class:`.ClaimManager`.
    """

    def __init__(
        self,
        state: memory.StateMemory,
        enforcement: enforcement_mod.Enforcement,
        ledger: ledger_mod.Ledger,
        *,
        host: str,
        tests: Sequence[base.ClaimTest],
    ) -> None:
        self._state = state
        self._enforcement = enforcement
        self._ledger = ledger
        self._host = host
        self._tests = tuple(tests)

    def check_fits(
        self,
        request: assignment.ClaimRequest,
        published: Collection[str],
        *,
        former: Collection[str],
    ) -> None:
        """Make sure that a claim fits once others have been released.

        :param former: the consumers that would be released
        :raises ClaimError: with every shortfall
        """
        self._state.check_fits(
            request, former=former, tests=self._tests, published=published
        )

    def claim(
        self,
        request: assignment.ClaimRequest,
        published: Collection[str],
        event: entry_table.EntryEvent = Event.CLAIM,
        *,
        applies: bool = False,
    ) -> assignment.Entry:
        """Take everything or nothing; apply what an enforcer chooses itself.

        What the consumer has counted so far is replaced, see :meth:`clear`.
        When this fails, it is for the caller to :meth:`reinstate`.

        :param event: the kind of claim
        :param applies: whether to apply it in any case
        :param published: see :meth:`.StateMemory.allocate`
        :raises ClaimError: with every shortfall
        :raises EnforcementFailed: the units could not be applied
        :raises LedgerError: it could not be written down
        """
        uuid = request.consumer_uuid
        former = self._state.entries.get(uuid)
        entry = self._state.allocate(
            request,
            tests=self._tests,
            published=published,
            claimed_at=clocks.MACHINE.read(),
            event=event,
        )
        made = [entry] if entry.assignments else []
        try:
            if made or former:
                self._ledger.replace([uuid], made)
        except exception.LedgerError:
            if not former:
                self._state.drop([uuid])
            raise
        if not made or not (applies or self._enforcement.chooses_units(entry)):
            return entry
        try:
            return self.apply(entry)
        except exception.ExtResourcesError:
            if not former:
                self.undo(uuid)
            raise

    def apply(
        self,
        entry: assignment.Entry,
        event: entry_table.EntryEvent = Event.PREPARE,
    ) -> assignment.Entry:
        """Apply an entry; return it as it is then.

        :param event: whether it is for a guest that is here
        :raises EnforcementFailed, ClaimError: it is not applied
        :raises LedgerError: it is applied, and the ledger does not say so;
            repair applies it once more
        """
        # Of what fails now, nothing was applied before: it is taken back.
        is_new = entry.state is State.PARKED
        applied = entry_table.advance(entry, event)
        real = self._enforcement.apply(
            dataclasses.replace(
                applied, state=State.CLAIMED if is_new else entry.state
            )
        )
        applied = dataclasses.replace(applied, assignments=real)
        if applied != self._state.entries.get(entry.consumer_uuid):
            self.record(applied)
        return applied

    def record(self, entry: assignment.Entry) -> None:
        """Write an entry to the ledger, then to memory.

        :raises LedgerError: neither was changed
        """
        self._ledger.put(entry)
        self._state.put(entry)

    def recover_units(
        self, request: assignment.ClaimRequest
    ) -> assignment.Entry | None:
        """Return the entry of a server whose settings are all that is left.

        :return: None where it cannot be told for certain which units these
            are
        :raises ClaimError: the host does not offer all of it now
        :raises EnforcementFailed: an enforcer cannot tell
        """
        try:
            entry = self._state.describe(request)
        except ValueError:
            # The host has been updated since the server was built.
            return None
        assignments = self._enforcement.recover_units(entry)
        if assignments is None:
            return None
        entry = dataclasses.replace(entry, assignments=assignments)
        return entry if self._state.can_parse(entry) else None

    def park(
        self,
        leaving: assignment.Entry | None,
        coming: assignment.Entry | None,
        *,
        server_uuid: str,
        migration_uuid: str,
    ) -> None:
        """Give a migration what its server has, and the server what comes.

        See :meth:`.ClaimManager.park`.

        :param leaving: what the server has; None where that is not here
        :param coming: what it is to get here; None where that is elsewhere
        :raises LedgerError: as :meth:`rename`
        :raises EnforcementFailed, ClaimError: it is held, and an enforcer that
            chooses units could not apply it
        """
        old = [one for one in (leaving, coming) if one]
        new = [
            entry_table.advance(one, event, consumer_uuid=uuid)
            for one, event, uuid in (
                (leaving, Event.PARK, migration_uuid),
                (coming, Event.EXCHANGE, server_uuid),
            )
            if one
        ]
        self.rename(old, new)
        for one in new:
            if self._enforcement.chooses_units(one):
                self.apply(one)

    def rename(
        self,
        old: Sequence[assignment.Entry],
        new: Sequence[assignment.Entry],
    ) -> None:
        """Put entries in the place of others, with the same units.

        First, the settings go that have the former uuids: whatever is applied
        has an entry. What cannot be removed is left over from then on.

        :raises LedgerError: nothing was changed but what is applied
        """
        _done, failures = self._enforcement.release_all(
            one for one in old if one.state is not State.PARKED
        )
        for err in failures:
            LOG.error(
                'Host %(host)s: could not remove the settings of a moving '
                'server; this will be retried: %(err)s',
                {'host': self._host, 'err': err},
            )
        for one in old:
            self._enforcement.released.add(one.consumer_uuid)
        gone = [one.consumer_uuid for one in old]
        self._ledger.replace(gone, new)
        self._state.replace(gone, new)

    def undo(self, consumer_uuid: str) -> None:
        """Release after a claim that failed; its server may be here.

        Errors here are logged only, so that the first error is the one
        raised.
        """
        try:
            self.release([consumer_uuid])
        except exception.ExtResourcesError as err:
            LOG.error(
                'Host %(host)s: after a failed claim, the release failed too, '
                'and will be retried: %(err)s',
                {'host': self._host, 'err': err},
            )

    def reinstate(self, entry: assignment.Entry) -> None:
        """Give a guest that runs what it had before a claim that failed.

        No other has got any of it, see :attr:`.StateMemory.former`. Errors are
        logged only, as in :meth:`undo`. What the ledger refuses, the audit
        writes.
        """
        uuid = entry.consumer_uuid
        new = self._state.entries.get(uuid)
        claimed = [one for one in (new,) if one and one != entry]
        self._enforcement.release_all(claimed)
        # What the ledger has until then is applied again after a crash: no
        # other gets it.
        self._state.replace([uuid], [entry], claimed)
        try:
            if uuid in self._ledger.list_different(self._state.entries):
                self._ledger.put(entry)
            self._state.settle(uuid)
            if entry.state is State.APPLIED:
                self.apply(entry)
        except exception.ExtResourcesError as err:
            LOG.error(
                'Host %(host)s: after a failed claim, server %(uuid)s keeps '
                'its former resources, but the resources could not be '
                'applied. This will be retried: %(err)s',
                {'host': self._host, 'uuid': entry.server_uuid, 'err': err},
            )

    def release(self, consumer_uuids: Iterable[str]) -> None:
        """Release servers together; all are tried.

        :raises EnforcementFailed, LedgerError: the first failure
        """
        # Marked first: where the ledger refuses, repair has to release it.
        entries = self._state.mark_releasing(consumer_uuids)
        if not entries:
            return
        self._ledger.set_state(
            [one.consumer_uuid for one in entries], State.RELEASING
        )
        done, failures = self._enforcement.release_all(entries)
        gone = {one.consumer_uuid for one in done}
        if gone:
            self._ledger.delete(gone)
            self._state.drop(gone)
        if failures:
            raise failures[0]

    def clear(self, consumer_uuid: str) -> None:
        """Remove what is applied for a guest whose server is to claim anew.

        Its entry stays as it is until then: no other claim comes between, and
        a process that is killed finds what the guest has.

        :raises EnforcementFailed: not all of it was removed
        """
        entry = self._state.entries[consumer_uuid]
        _, failures = self._enforcement.release_all([entry])
        if failures:
            raise failures[0]
