# SPDX-License-Identifier: Apache-2.0

"""Finds orphaned entries, and releases them where an option says so.

An entry is orphaned when its server has been missing for long: Nova has it
neither on this host nor in a move from or to it, and the hypervisor does not
know it. Each answer in that time has said so. Any doubt begins anew.

The thread that asks Nova does all of it. No lock is held while it asks.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from oslo_log import log as logging

from nova_ext_resources import clocks
from nova_ext_resources import exception
from nova_ext_resources.facts import consumer_role
from nova_ext_resources.facts import deletion_evidence
from nova_ext_resources.host.claims import allocation_writer
from nova_ext_resources.host import manager
from nova_ext_resources.host import nova_compute
from nova_ext_resources.host.reconcile.rules import absence
from nova_ext_resources.host.reconcile.rules import drift
from nova_ext_resources import log_on_change
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources import plugins
from nova_ext_resources import worker

Role = consumer_role.Role

LOG = logging.getLogger(__name__)

#: How many are released after one answer at most. A mistake is noticed before
#: it has cost much, and Nova is asked a few questions for each.
MAX_REPAIRED = 5

#: About how many Nova is asked after one answer at most, whatever it says. The
#: thread has other questions for it.
MAX_EXAMINED = 20

_STARTING = deletion_evidence.Evidence(
    words='the server is being started', is_proof=False
)


class _UnaskedError(Exception):
    """Nova or the hypervisor could not be asked; says so to an operator."""


def find_age(
    host: str, age: float, *, pause: float, long_call_timeout: float
) -> float:
    """Return the seconds after which an entry is orphaned; warn of less.

    :param age: as the option says
    :param pause: seconds from one answer of Nova to the next, about
    :param long_call_timeout: see :class:`.nova_compute.NovaCompute`
    """
    least = absence.find_least_age(pause, long_call_timeout)
    if age < least:
        LOG.warning(
            'Host %(host)s: [ext_resources] orphaned_entry_age = %(age)d is '
            'too short; %(least)d is used. The value must be at least '
            '[DEFAULT] long_rpc_timeout = %(timeout)d, and at least twice the '
            '%(pause)d seconds between two comparisons with Nova. Raise the '
            'option to end this warning',
            {
                'host': host,
                'age': age,
                'least': least,
                'timeout': long_call_timeout,
                'pause': pause,
            },
        )
    return max(age, least)


class OrphanedEntries:
    """Follows what is missing. Used by one thread at a time.

    What it has found may be read by any thread.

    :param writer: forgets servers after a release
    :param loops: woken after a release
    :param age: seconds after which an entry is orphaned
    :param max_gap: seconds between two answers of Nova, after which nothing
        is known of the time between them
    :param is_repairing: whether orphaned entries are released
    """

    def __init__(
        self,
        host: manager.HostManager,
        compute: nova_compute.NovaCompute,
        client: placement_client.Client,
        writer: allocation_writer.AllocationWriter,
        *,
        loops: worker.WorkerGroup,
        age: float,
        max_gap: float,
        is_repairing: bool,
        clock: clocks.Clock = clocks.MACHINE,
    ) -> None:
        self._host = host
        self._compute = compute
        self._client = client
        self._writer = writer
        self._loops = loops
        self._age = age
        self._max_gap = max_gap
        self._is_repairing = is_repairing
        self._clock = clock
        self._logged = log_on_change.LogOnChange()
        self._began = 0.0
        self.end()
        self._missing: Mapping[str, absence.AbsentServer] = {}
        self._found: Mapping[str, tuple[absence.AbsentServer, str]] = {}
        # When each orphan was last asked about.
        self._examined: dict[str, float] = {}

    @property
    def problems(self) -> tuple[alarm.Problem, ...]:
        """Return those that still have the same entry."""
        return tuple(
            self._make_problem(one, remedy)
            for one, remedy in self._found.values()
            if self._is_same(one.entry)
        )

    def _is_same(self, entry: assignment.Entry) -> bool:
        return self._host.find_entry(entry.consumer_uuid) == entry

    def begin(self) -> None:
        """Note that Nova and the hypervisor are about to be asked."""
        self._began = self._clock.monotonic()

    def end(self) -> None:
        """Note that both have answered."""
        self._asked = absence.Asked(
            began=self._began,
            ended=self._clock.monotonic(),
            answered_at=self._clock.read(),
        )

    def forget(self) -> None:
        """Begin anew: one of them could not be asked."""
        self._missing = {}
        self._found = {}
        self._logged.problems.clear()

    def compare(
        self,
        before: drift.Entries,
        roles: Mapping[str, Role],
        is_stopping: Callable[[], bool],
    ) -> None:
        """Take an answer, and release what is orphaned, if that is on.

        Raises nothing.

        :param before: the entries before Nova and the hypervisor were asked
        :param roles: of all consumers that one of them knows
        :param is_stopping: returns whether nothing more is to be released
        """
        try:
            self._compare(before, roles, is_stopping)
        # A bug here; the alarm not_in_nova stays.
        except Exception:
            self.forget()
            LOG.exception(
                'Host %(host)s: entries whose servers are missing could not '
                'be compared with Nova, and this will be retried. Please '
                'report this bug',
                {'host': self._host.host},
            )

    def _compare(
        self,
        before: drift.Entries,
        roles: Mapping[str, Role],
        is_stopping: Callable[[], bool],
    ) -> None:
        entries = [
            one
            for one in before.values()
            if one.state is not assignment.State.RELEASING
        ]
        missing = [one for one in entries if self._is_missing(one, roles)]
        self._missing = absence.follow(
            self._missing, missing, self._asked, self._max_gap
        )
        orphans = absence.list_orphans(self._missing, self._age)
        doubt = self._find_doubt(missing, entries) if orphans else ''
        self._report(orphans, self._repair(orphans, doubt, is_stopping))

    def _find_doubt(
        self,
        missing: Collection[assignment.Entry],
        entries: Collection[assignment.Entry],
    ) -> str:
        """Return why Nova's answer may be wrong as a whole; '' if it is not.

        A server is missing from Nova even if it has a guest here, and no
        guest is proof of what Nova has.

        :param missing: those that neither Nova nor the hypervisor has
        :param entries: all
        """
        try:
            known = self._compute.list_known()
        # Of Nova, which may be away.
        except Exception as err:
            return self._note_unasked(err)
        lost = {one.consumer_uuid for one in missing} | {
            one.consumer_uuid
            for one in entries
            if one.server_uuid not in known
        }
        if not absence.is_suspicious(len(lost), len(entries)):
            return ''
        # Without the counts, which change: each text is logged when it is new.
        return (
            'Nova has no server for most of the entries of this host. Nova '
            'may have answered from an empty or a restored database, or for '
            'another cell. Check the database first. If the servers are '
            'really gone, restart nova-compute, which then releases their '
            'resources'
        )

    def _is_missing(
        self, entry: assignment.Entry, roles: Mapping[str, Role]
    ) -> bool:
        uuid = entry.consumer_uuid
        return roles.get(uuid, Role.LEFT) is Role.LEFT and not any(
            self._host.is_starting(one) for one in (uuid, entry.server_uuid)
        )

    def _report(
        self,
        orphans: Sequence[absence.AbsentServer],
        remedies: Mapping[str, str],
    ) -> None:
        """Keep what is left as it was found, and log what is new of it."""
        self._found = {
            one.entry.consumer_uuid: (one, remedies[one.entry.consumer_uuid])
            for one in orphans
            if one.entry.consumer_uuid in remedies
            # Nova may have released it in the meantime.
            and self._is_same(one.entry)
        }
        self._logged.log_new(LOG.error, self.problems)

    def _repair(
        self,
        orphans: Sequence[absence.AbsentServer],
        doubt: str,
        is_stopping: Callable[[], bool],
    ) -> dict[str, str]:
        """Release what may be; return by consumer what to say of the others.

        :param doubt: why nothing is released now; '' for none
        """
        remedies: dict[str, str] = {}
        examined = count = 0
        for one in self._sort(orphans):
            entry = one.entry
            if is_stopping():
                break
            if not self._is_same(entry):
                continue
            words = self._find_remedy(entry, doubt, count)
            if not words and examined == MAX_EXAMINED:
                words = self._find_former(entry)
            if not words:
                examined += 1
                self._examined[entry.consumer_uuid] = self._clock.monotonic()
                try:
                    words = self._repair_one(one)
                except _UnaskedError as err:
                    # Each further question might take as long.
                    words = _stop(str(err))
                    doubt = str(err)
            if words:
                remedies[entry.consumer_uuid] = words
            else:
                count += 1
        return remedies

    def _sort(
        self, orphans: Sequence[absence.AbsentServer]
    ) -> list[absence.AbsentServer]:
        """Put first what was not asked about for longest."""
        self._examined = {
            one.entry.consumer_uuid: self._examined.get(
                one.entry.consumer_uuid, 0.0
            )
            for one in orphans
        }
        return sorted(
            orphans, key=lambda one: self._examined[one.entry.consumer_uuid]
        )

    def _find_former(self, entry: assignment.Entry) -> str:
        """Return what was said of it before, of which nothing is asked now."""
        one, words = self._found.get(entry.consumer_uuid, (None, ''))
        if one is not None and one.entry == entry:
            return words
        return (
            'One of the next comparisons with Nova examines the entry; each '
            f'comparison examines at most {MAX_EXAMINED} entries'
        )

    def _find_remedy(
        self, entry: assignment.Entry, doubt: str, count: int
    ) -> str:
        """Return what to do instead of a release; '' where that is tried.

        :param count: of how many the release has begun after this answer
        """
        if doubt:
            return _stop(doubt)
        if not self._is_repairing:
            return (
                f'{_advise(entry)}. With [ext_resources] '
                'release_orphaned_entries = True, no restart is needed'
            )
        if count == MAX_REPAIRED:
            return (
                'One of the next comparisons with Nova releases the entry; '
                f'each comparison releases at most {MAX_REPAIRED} entries'
            )
        return ''

    def _repair_one(self, one: absence.AbsentServer) -> str:
        """Ask again, then begin its release; return why not, or ''.

        :raises _UnaskedError: it could not be asked about
        """
        try:
            found = self._compute.examine(one.entry)
        # Of Nova or the hypervisor; each may be away.
        except Exception as err:
            raise _UnaskedError(self._note_unasked(err)) from err
        if not found.is_proof:
            return _refuse(one.entry, found)
        return self._release(one, found.words)

    def _note_unasked(self, err: Exception) -> str:
        """Log that something was not answered, where that is new."""
        # The texts of Nova's time-outs are never the same.
        words = (
            'Nova or the hypervisor did not answer the second request about '
            f'the server ({type(err).__name__}; the log has more)'
        )
        if all(words not in said for _one, said in self._found.values()):
            LOG.warning(
                'Host %(host)s: Nova or the hypervisor does not answer '
                'questions about orphaned entries. No entry is released now; '
                'this will be retried: %(err)s',
                {'host': self._host.host, 'err': plugins.describe(err)},
            )
        return words

    def _release(self, one: absence.AbsentServer, words: str) -> str:
        """Begin its release, unless anything has changed; return why not."""
        entry = one.entry
        try:
            released = self._host.release_gone([entry])
        except exception.ExtResourcesError as err:
            # It is no orphan any more: repair goes on with its release.
            LOG.error(
                'Host %(host)s: the release of the orphaned entry of server '
                '%(server)s (consumer %(consumer)s) has failed, and will be '
                'retried: %(err)s',
                {
                    'host': self._host.host,
                    'server': entry.server_uuid,
                    'consumer': entry.consumer_uuid,
                    'err': err,
                },
            )
            return ''
        if not released:
            return _refuse(entry, _STARTING)
        LOG.warning(
            'Host %(host)s: released the orphaned entry of server %(server)s, '
            'which held %(held)s (consumer %(consumer)s, missing since '
            '%(since)s): %(words)s',
            {
                'host': self._host.host,
                'server': entry.server_uuid,
                'held': _describe(entry),
                'consumer': entry.consumer_uuid,
                'since': _format(one),
                'words': words,
            },
        )
        self._writer.forget(entry.server_uuid)
        self._loops.wake_soon()
        self._log_allocated(entry)
        return ''

    def _log_allocated(self, entry: assignment.Entry) -> None:
        """Log what placement still has of this host; change nothing of it.

        It may be Nova's for a move or an evacuation, of which Nova disposes.
        """
        own = {one.rp_uuid for one in entry.assignments}
        own.update(self._host.view.keys)
        try:
            found = self._client.get_allocations(entry.consumer_uuid).resources
        except exception.PlacementError as err:
            left = f'not known, because placement does not answer: {err}'
        # A bug; the release is done, and what is found of others stays.
        except Exception:
            left = 'not known. Please report this bug'
            LOG.exception(
                'Host %(host)s: could not read the allocations of '
                '%(consumer)s in placement',
                {'host': self._host.host, 'consumer': entry.consumer_uuid},
            )
        else:
            left = ' and '.join(
                f'{amount} {name} of resource provider {rp_uuid}'
                for rp_uuid, amounts in sorted(found.items())
                if rp_uuid in own
                for name, amount in sorted(amounts.items())
            )
        if left:
            LOG.warning(
                'Host %(host)s: the orphaned entry of %(consumer)s was '
                'released; its allocations of this host that are left in '
                'placement: %(left)s. Allocations are not changed '
                'automatically. If they stay, the alarm stale_allocation says '
                'what to do',
                {
                    'host': self._host.host,
                    'consumer': entry.consumer_uuid,
                    'left': left,
                },
            )

    def _make_problem(
        self, one: absence.AbsentServer, remedy: str
    ) -> alarm.Problem:
        entry = one.entry
        is_own = entry.consumer_uuid == entry.server_uuid
        who = 'the server' if is_own else 'this consumer'
        return alarm.Problem(
            alarm=alarm.ORPHANED_ENTRY,
            subject=entry.consumer_uuid,
            text=f'server {entry.server_uuid} holds {_describe(entry)} of '
            f'host {self._host.host} (consumer {entry.consumer_uuid}). Since '
            f'{_format(one)}, neither Nova nor the hypervisor has had {who} '
            f'on this host, and no move has been in progress. {remedy}',
        )


def _stop(doubt: str) -> str:
    return f'Nothing is released now: {doubt}'


def _refuse(entry: assignment.Entry, found: deletion_evidence.Evidence) -> str:
    advice = f'. {_advise(entry)}' if found.is_restart_safe else ''
    return f'The entry is not released now: {found.words}{advice}'


def _advise(entry: assignment.Entry) -> str:
    if entry.consumer_uuid == entry.server_uuid:
        when = 'If the server belongs on another host, or on no host'
    else:
        when = 'If its migration has ended'
    return f'{when}, restart nova-compute, which then releases the entry'


def _describe(entry: assignment.Entry) -> str:
    return ' and '.join(
        f'{one.amount} {one.resource_class} of {one.rp_key}'
        for one in entry.assignments
    )


def _format(one: absence.AbsentServer) -> str:
    return one.first.answered_at.strftime('%Y-%m-%d %H:%M:%S UTC')
