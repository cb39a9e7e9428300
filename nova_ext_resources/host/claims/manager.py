# SPDX-License-Identifier: Apache-2.0

"""The life of a claim: taken, applied, moved, released.

Which step comes next is decided here, with the locks of the servers held;
:mod:`.transitions` takes it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
import contextlib
import dataclasses
from typing import NamedTuple

from nova_ext_resources.claims import base
from nova_ext_resources import exception
from nova_ext_resources.facts import server
from nova_ext_resources.host.claims import enforcement as enforcement_mod
from nova_ext_resources.host.claims import entry_table
from nova_ext_resources.host.claims import locks
from nova_ext_resources.host.claims import memory
from nova_ext_resources.host.claims import recent_consumers
from nova_ext_resources.host.claims import transitions
from nova_ext_resources.host.ledger import ledger as ledger_mod
from nova_ext_resources.objects import assignment

State = assignment.State
Purpose = assignment.Purpose
Event = entry_table.EntryEvent


class _Unused(NamedTuple):
    """A claim that can be undone, and what a guest had before it."""

    entry: assignment.Entry
    former: assignment.Entry | None = None


class ClaimManager:
    """Claims, applies and releases. Safe to share by threads.

    Calls for different servers run side by side; those for one server run
    one after the other.

    :ivar state: entries and view; entries change by the transitions only
    :ivar gone: servers that Nova has released here, and that have not
        claimed since; a claim that failed makes none of them
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
        self.host = host
        self.state = state
        self.enforcement = enforcement
        self._ledger = ledger
        self._transitions = transitions.Transitions(
            state, enforcement, ledger, host=host, tests=tests
        )
        self._servers = locks.ServerLocks()
        self._published = ledger.list_published()
        self.gone = recent_consumers.Recent()
        # One item for each start; threads change it, one item at a time.
        self._starting: list[str] = []
        # By consumer, what can be undone: claims as they were made, which
        # Nova has not used since.
        self._unused: dict[str, _Unused] = {}

    @property
    def entries(self) -> Mapping[str, assignment.Entry]:
        """What each server holds, by its uuid."""
        return self.state.entries

    def find_entry(self, consumer_uuid: str) -> assignment.Entry | None:
        return self.state.entries.get(consumer_uuid)

    def holds(self, consumer_uuid: str) -> bool:
        """Return whether a server has a claim that is not being released."""
        entry = self.find_entry(consumer_uuid)
        return entry is not None and entry.state is not State.RELEASING

    def has_own(self, server_uuid: str) -> bool:
        """Return whether a server has a claim that no move has yet to end."""
        return self._find_entry(server_uuid, Purpose.OWN) is not None

    @contextlib.contextmanager
    def starting(self, consumer_uuid: str) -> Iterator[None]:
        """Surround a start, from the claim to the end of its last step.

        Meanwhile repair leaves its claim alone, however long it takes.
        """
        self._starting.append(consumer_uuid)
        try:
            yield
        finally:
            self._starting.remove(consumer_uuid)

    def is_starting(self, consumer_uuid: str) -> bool:
        return consumer_uuid in self._starting

    def list_consumers(self, server_uuid: str) -> list[str]:
        """Return under which uuids a server holds anything, sorted.

        Its own, and those of its moves.
        """
        return sorted(
            uuid
            for uuid, entry in self.entries.items()
            if entry.server_uuid == server_uuid
        )

    def claim(
        self,
        request: assignment.ClaimRequest,
        *,
        is_move: bool = False,
        is_running: bool = False,
    ) -> assignment.Entry:
        """Take everything that a server asks for, or nothing.

        What the consumer holds already is released first: a new claim replaces
        the former one. A move also replaces what former moves have left; the
        guest of a server that moves to its own host runs on with what it has.
        Where an enforcer chooses the units itself, they are applied before
        this returns.

        :param is_move: whether the guest comes later, with :meth:`apply`
        :param is_running: whether a guest may run with what the consumer
            holds: when the claim fails, the consumer has that again. Of a
            guest that is off it would keep CPUs that Nova gives to others
        :return: its entry; where the host chose another domain shows in it
        :raises ClaimError: with every shortfall
        :raises EnforcementFailed: the units could not be applied
        :raises LedgerError: it could not be written down
        """
        uuid = request.consumer_uuid
        former = {uuid}
        if is_move:
            former.update(self.list_consumers(request.server_uuid))
            former -= {request.server_uuid} - {uuid}
        with self._servers.hold_all(former):
            self.gone.discard(uuid)
            kept = self._find_entry(uuid) if is_running else None
            if kept is not None:
                entry = self._claim_again(request, kept)
            else:
                self._settle(uuid)
                self._transitions.release(sorted(former))
                entry = self._transitions.claim(
                    request,
                    self._published,
                    Event.CLAIM_MOVE if is_move else Event.CLAIM,
                )
            self._unused[uuid] = _Unused(entry, kept)
            return entry

    def _claim_again(
        self, request: assignment.ClaimRequest, kept: assignment.Entry
    ) -> assignment.Entry:
        """Claim and apply for a guest that may run with what it has.

        What cannot be applied is refused while the former can come back.
        """
        uuid = request.consumer_uuid
        # Most that are refused are refused before anything changes.
        self._transitions.check_fits(request, self._published, former={uuid})
        if uuid in self.state.former:
            # What the ledger has of a claim that was given up.
            self._ledger.put(kept)
        self._settle(uuid)
        try:
            self._transitions.clear(uuid)
            return self._transitions.claim(
                request,
                self._published,
                Event.RECLAIM,
                applies=kept.state is State.APPLIED,
            )
        # A third party's plugin may raise anything.
        except Exception:
            self._transitions.reinstate(kept)
            raise

    def apply(
        self,
        consumer_uuid: str,
        *,
        must_hold: bool = False,
        before: Mapping[str, assignment.Entry] | None = None,
    ) -> bool:
        """Apply a server's claim; applying it again changes nothing.

        What fails stays in the ledger, and repair tries again: a guest may
        wait for it, and have its devices. Whoever has claimed releases, once
        there is no guest. What a move brings is the server's own once it is
        applied.

        :param must_hold: whether it is an error to hold nothing
        :param before: see :meth:`unpark`
        :return: whether nothing had changed since
        :raises EnforcementFailed, ClaimError, LedgerError: it is not applied
        """
        with self._using(consumer_uuid, before=before) as is_as_compared:
            if not is_as_compared:
                return False
            entry = self.find_entry(consumer_uuid)
            if entry is not None and self.holds(consumer_uuid):
                self._transitions.apply(entry, Event.APPLY)
            elif must_hold:
                raise self._make_released(consumer_uuid, 'start')
            return True

    def _make_released(
        self, consumer_uuid: str, action: str
    ) -> exception.EnforcementFailed:
        return exception.EnforcementFailed(
            host=self.host,
            enforcer='(any)',
            consumer_uuid=consumer_uuid,
            reason='the resources of the server were released in the '
            f'meantime; {action} the server again',
        )

    def prepare(self, server_uuid: str) -> None:
        """Apply what a server has claimed here; its guest runs elsewhere yet.

        :raises EnforcementFailed, ClaimError, LedgerError: it is not applied
        """
        with self._using(server_uuid):
            entry = self._find_entry(server_uuid)
            if entry is None:
                raise self._make_released(server_uuid, 'migrate')
            self._transitions.apply(entry)

    # -- what a move keeps, see the page "Moves" -----------------------

    def park(
        self, server_uuid: str, migration_uuid: str, *, is_retry: bool = False
    ) -> None:
        """Keep what a server holds for its way back: its guest is off.

        From now on the migration holds it. Nothing of it stays applied,
        unless an enforcer chooses the units itself, which would choose them
        for others. What a server that moves to its own host has claimed
        under the migration's uuid is under its own from now on. To try it
        again changes nothing.

        :param is_retry: whether it may have been done already, so that what
            the server has may be what it has claimed for this move
        :raises LedgerError: nothing was changed but what is applied
        :raises EnforcementFailed, ClaimError: the units are counted, but
            an enforcer that chooses them may choose others
        """
        with self._using(server_uuid, migration_uuid):
            if self._find_entry(migration_uuid, Purpose.MIGRATION_SOURCE):
                return
            coming = self._find_entry(migration_uuid, Purpose.MIGRATION_DEST)
            # A former move whose guest never came has left it incoming.
            is_all = coming is not None or not is_retry
            leaving = self._find_entry(
                server_uuid, *(() if is_all else (Purpose.OWN,))
            )
            if leaving or coming:
                self._transitions.park(
                    leaving,
                    coming,
                    server_uuid=server_uuid,
                    migration_uuid=migration_uuid,
                )

    def unpark(
        self,
        server_uuid: str,
        migration_uuid: str,
        *,
        before: Mapping[str, assignment.Entry] | None = None,
    ) -> bool:
        """Give a server back what its move has kept, and apply it.

        Without anything of the kind, what the server holds itself is applied.

        :param before: the entries as they were compared with Nova; of a
            server that has been started since, nothing is changed
        :return: whether nothing had changed since
        :raises LedgerError: nothing was changed but what is applied
        :raises EnforcementFailed, ClaimError: it is not applied; repair
            tries again
        """
        with self._using(
            server_uuid, migration_uuid, before=before
        ) as is_as_compared:
            if not is_as_compared:
                return False
            kept = self._find_entry(migration_uuid, Purpose.MIGRATION_SOURCE)
            entry = self._find_entry(server_uuid)
            if kept is not None:
                if server_uuid in self.entries:
                    self._transitions.release([server_uuid])
                entry = entry_table.advance(
                    kept, Event.UNPARK, consumer_uuid=server_uuid
                )
                self._transitions.rename([kept], [entry])
                self.gone.discard(server_uuid)
            if entry is not None:
                self._transitions.apply(entry)
            return True

    def _find_entry(
        self, consumer_uuid: str, *purposes: assignment.Purpose
    ) -> assignment.Entry | None:
        entry = self.find_entry(consumer_uuid)
        if entry is None or not self.holds(consumer_uuid):
            return None
        return entry if entry.purpose in (purposes or Purpose) else None

    @contextlib.contextmanager
    def _using(
        self,
        *consumer_uuids: str,
        before: Mapping[str, assignment.Entry] | None = None,
    ) -> Iterator[bool]:
        """Hold the locks of consumers; their claims can no longer be undone.

        Nova goes on with what they have claimed: a guest may run on it.

        :param before: the entries as they were compared with Nova
        :return: whether nothing has changed since, and no server is being
            started; otherwise, claims can still be undone
        """
        with self._servers.hold_all(consumer_uuids):
            is_as_compared = before is None or all(
                self.find_entry(one) == before.get(one)
                and not self.is_starting(one)
                for one in consumer_uuids
            )
            if is_as_compared:
                for uuid in consumer_uuids:
                    self._settle(uuid)
            yield is_as_compared

    def settle(self, entry: assignment.Entry) -> None:
        """Give others what a guest had before a claim that is final now.

        :param entry: as for :meth:`undo`
        """
        uuid = entry.consumer_uuid
        with self._servers.hold(uuid):
            unused = self._unused.get(uuid)
            if unused is not None and unused.entry is entry:
                self._settle(uuid)

    def _settle(self, consumer_uuid: str) -> None:
        self._unused.pop(consumer_uuid, None)
        # After a crash, a consumer has again what the ledger has.
        if consumer_uuid in self.state.former and (
            consumer_uuid not in self.list_unwritten()
        ):
            self.state.settle(consumer_uuid)

    def undo(self, entry: assignment.Entry) -> None:
        """Release a claim that could not be completed; log what fails.

        A guest that may run has again what it had before, see :meth:`claim`.
        Placement may answer late. Where the consumer has claimed anew since,
        or Nova has used the claim, as for a server that was started, its
        consumer keeps what it has.

        :param entry: the very one that :meth:`claim` or :meth:`restore` has
            returned
        """
        uuid = entry.consumer_uuid
        with self._servers.hold(uuid):
            unused = self._unused.get(uuid)
            if unused is not None and unused.entry is entry:
                del self._unused[uuid]
                if unused.former is None:
                    self._transitions.undo(uuid)
                else:
                    self._transitions.reinstate(unused.former)

    def release(self, consumer_uuid: str) -> None:
        """Release all that a server holds that leaves this host.

        To hold nothing is a success. What may be applied for the server
        without an entry, where the ledger was lost, is left over from now on.

        :raises EnforcementFailed, LedgerError: it counts as held until
            repair has released it
        """
        with self._using(consumer_uuid):
            self.gone.add(consumer_uuid)
            self.enforcement.released.add(consumer_uuid)
            self._transitions.release([consumer_uuid])

    # -- what repair does ----------------------------------------------

    def release_gone(
        self, entries: Sequence[assignment.Entry]
    ) -> frozenset[str]:
        """Release servers together that are gone; all are tried.

        :param entries: as they were compared with Nova; a server that has
            claimed anew since, or that is being started, keeps what it has
        :return: the consumers that were released
        :raises EnforcementFailed, LedgerError: the first failure
        """
        with self._servers.hold_all(one.consumer_uuid for one in entries):
            gone = frozenset(
                one.consumer_uuid
                for one in entries
                if self.find_entry(one.consumer_uuid) == one
                and not self.is_starting(one.consumer_uuid)
            )
            for uuid in gone:
                self._settle(uuid)
            self._transitions.release(sorted(gone))
            return gone

    def release_orphan(self, consumer_uuid: str, names: Iterable[str]) -> None:
        """Release what is applied and not in the ledger.

        :param names: the enforcers to ask
        :raises EnforcementFailed: it may still be applied
        """
        with self._servers.hold(consumer_uuid):
            # The server may have come back in the meantime.
            if self.find_entry(consumer_uuid) is None:
                self.enforcement.release_orphan(consumer_uuid, names)

    def restore(
        self, request: assignment.ClaimRequest, *, is_applied: bool
    ) -> assignment.Entry | None:
        """Make the entry of a server that the ledger has lost.

        :param request: what placement has allocated to a server that is here
        :param is_applied: whether it has settings: they stay as they are.
            Otherwise it claims, and repair applies that
        :return: None where a claim or a release came first, or where it
            cannot be told for certain which units are applied
        :raises ClaimError: the host no longer has what it needs, or does not
            offer all of it now
        :raises EnforcementFailed, LedgerError: it has no entry
        """
        uuid = request.consumer_uuid
        entry: assignment.Entry | None
        with self._servers.hold(uuid):
            if self.find_entry(uuid) or uuid in self.gone:
                return None
            if not is_applied:
                entry = self._transitions.claim(request, self._published)
                self._unused[uuid] = _Unused(entry)
                return entry
            entry = self._transitions.recover_units(request)
            if entry is not None:
                self._transitions.record(entry)
            return entry

    def finish(self, consumer_uuid: str) -> None:
        """Finish a release, or apply what should be applied.

        :raises EnforcementFailed, LedgerError: it did not work this time
        """
        with self._servers.hold(consumer_uuid):
            entry = self.find_entry(consumer_uuid)
            if entry is not None and self.holds(consumer_uuid):
                self._transitions.apply(entry)
            elif entry is not None:
                self._transitions.release([consumer_uuid])

    def list_unwritten(self) -> frozenset[str]:
        """Return the consumers of which the ledger has something else."""
        try:
            return self._ledger.list_different(self.entries)
        except exception.LedgerError:
            # It has an alarm of its own.
            return frozenset()

    def rewrite(self, consumer_uuid: str) -> None:
        """Have the ledger follow what this process knows of a consumer.

        :raises LedgerError: it was not changed
        """
        with self._servers.hold(consumer_uuid):
            entry = self.find_entry(consumer_uuid)
            self._ledger.replace([consumer_uuid], [entry] if entry else [])
            if consumer_uuid not in self._unused:
                self._settle(consumer_uuid)

    def keep(self, consumer_uuid: str) -> None:
        """Keep what was being released before this process began."""
        with self._servers.hold(consumer_uuid):
            entry = self.find_entry(consumer_uuid)
            if (
                entry is not None
                and not self.holds(consumer_uuid)
                and consumer_uuid not in self.gone
            ):
                # The audit has the ledger follow.
                self.state.put(entry_table.advance(entry, Event.KEEP))

    def describe(self, servers: Mapping[str, server.NovaServer]) -> None:
        """Complete entries of a ledger that was upgraded.

        :param servers: from Nova, by uuid
        :raises LedgerError: an entry could not be written
        """
        for uuid, entry in self.entries.items():
            info = servers.get(entry.server_uuid)
            if info is None or entry.flavor is not None:
                continue
            with self._servers.hold(uuid):
                described = dataclasses.replace(
                    entry, flavor=info.flavor, project_id=info.project_id
                )
                if self.find_entry(uuid) == entry:
                    self._transitions.record(described)

    def close(self) -> None:
        self._ledger.close()
