# SPDX-License-Identifier: Apache-2.0

"""Acts on what an audit finds: after a crash, a restart, a loss.

Nothing here decides what a server may hold; it finishes what was begun and
restores what the ledger says.

Also remembers which servers had lost resources that are applied again. An
audit repairs a loss at once, so that it would be no problem of any round. The
server has run without its resources all the same, and the cause of the loss
may come again: the operator has to hear of it.
"""

from collections.abc import Collection, Container, Iterable, Mapping

from oslo_log import log as logging

from nova_ext_resources.claims import base
from nova_ext_resources import clocks
from nova_ext_resources.drivers import base as drivers_base
from nova_ext_resources import exception
from nova_ext_resources.host.claims import manager
from nova_ext_resources.host.reconcile.rules import drift
from nova_ext_resources.host.reconcile.rules import units
from nova_ext_resources import log_on_change
from nova_ext_resources.objects import alarm as alarm_mod
from nova_ext_resources.objects import assignment

LOG = logging.getLogger(__name__)

#: Seconds for which a repaired loss is reported: several rounds of the host,
#: and long enough for Prometheus to read it and to see that it lasts.
SHOWN = 600.0


class Recoveries:
    """The latest losses that were repaired, by consumer."""

    def __init__(self, clock: clocks.Clock = clocks.MACHINE) -> None:
        self._clock = clock
        self._problems: dict[str, tuple[float, alarm_mod.Problem]] = {}

    def note(self, consumer_uuid: str, what: str) -> None:
        """Note that what a server had lost is applied again.

        :param what: the resources, with their units
        """
        problem = alarm_mod.Problem(
            alarm=alarm_mod.APPLIED_AGAIN,
            subject=consumer_uuid,
            text=f'resources of server {consumer_uuid} were missing or '
            f'changed for a while, and are applied again: {what}. Find out '
            'which program has removed or changed these resources',
        )
        self._problems[consumer_uuid] = (self._clock.monotonic(), problem)

    def list_recent(
        self, holders: Container[str]
    ) -> tuple[alarm_mod.Problem, ...]:
        """Return what is reported now, and forget all else.

        :param holders: consumers that hold something; no others matter
        """
        oldest = self._clock.monotonic() - SHOWN
        self._problems = {
            uuid: (at, problem)
            for uuid, (at, problem) in self._problems.items()
            if at > oldest and uuid in holders
        }
        return tuple(problem for _at, problem in self._problems.values())


State = assignment.State
Kind = drift.DriftKind

#: How many servers one line of the log names.
_MAX_LISTED = 20

#: The alarm that is raised for what is found and not repaired.
_ALARMS: Mapping[Kind, str] = {
    Kind.GONE: alarm_mod.RELEASE_PENDING,
    Kind.ORPHAN: alarm_mod.STALE_SETTINGS,
    Kind.RELEASING: alarm_mod.RELEASE_PENDING,
    Kind.UNWRITTEN: alarm_mod.LEDGER_FAILED,
    Kind.UNAPPLIED: alarm_mod.NOT_APPLIED,
    Kind.UNKNOWN: alarm_mod.UNKNOWN_SETTINGS,
}


class HostRepair:
    """Audits a host again and again. Used by one thread at a time.

    :ivar problems: what the last audit found and could not be repaired
    :ivar recoveries: what former audits found and repaired
    :ivar applied: enforcer -> consumer uuids, as the last audit read them,
        without enforcers that keep nothing; None where that failed
    :ivar unrecorded: consumers that something is applied for and that have no
        entry, as far as the last audit could read
    :param list_guests: reads which servers run
    """

    def __init__(
        self,
        host: manager.ClaimManager,
        trackers: Mapping[str, base.Tracker],
        list_guests: drivers_base.GuestsReader = dict,
    ) -> None:
        self._host = host
        self._list_guests = list_guests
        self._trackers = trackers
        self._logged = log_on_change.LogOnChange(f'Host {host.host}: ')
        self.problems: tuple[alarm_mod.Problem, ...] = ()
        self.recoveries = Recoveries()
        self.applied: Mapping[str, frozenset[str]] | None = None
        self.unrecorded: frozenset[str] = frozenset()
        self._is_compared = False
        self._lost: frozenset[str] = frozenset()
        self._ran: Collection[str] | None = None
        self._has_audited = False
        # What a former process has not released to the end.
        self._unfinished = {
            uuid
            for uuid, one in host.entries.items()
            if one.state is State.RELEASING
        }
        self._hosts: Mapping[str, str] | None = None

    def run(
        self,
        live: frozenset[str] | None = None,
        before: drift.Entries | None = None,
        waiting: frozenset[str] | None = frozenset(),
        hosts: Mapping[str, str] | None = None,
    ) -> None:
        """Audit, and repair.

        :param live: uuids of all consumers that Nova or the hypervisor has
            on this host; None: that is not known, and nothing is gone
        :param before: the entries before anyone was asked for these
        :param waiting: see :class:`.rules.drift.Observation`
        :param hosts: likewise; they are remembered
        """
        host = self._host
        self._hosts = self._hosts if hosts is None else hosts
        self._keep_running()
        before = host.entries if before is None else before
        self.applied = None
        applied, problems = host.enforcement.list_applied()
        self.applied = None if problems else applied
        entries = host.entries
        self.unrecorded = frozenset[str]().union(*applied.values()) - (
            before.keys() | entries.keys()
        )
        self._is_compared |= live is not None
        self._lost = host.enforcement.list_lost(entries.values(), applied)
        self._ran = self._find_running(applied)
        findings = drift.compare(
            drift.Observation(
                before={
                    uuid: one
                    for uuid, one in before.items()
                    if uuid not in self._unfinished
                },
                entries=entries,
                applied=applied,
                unwritten=host.list_unwritten(),
                lost=self._lost,
                released=host.enforcement.released,
                live=live,
                hosts=self._hosts,
                interrupted=self._list_interrupted(entries),
                waiting=waiting,
            )
        )
        problems += self._repair_all(findings, entries, applied)
        self._has_audited |= self.applied is not None
        problems += host.enforcement.list_problems()
        problems += self._list_odd_units()
        self._report(tuple(problems))

    def _keep_running(self) -> None:
        """Keep what a former process was releasing of a guest that runs.

        A release follows the end of a guest; here, something has failed.
        While the hypervisor does not answer, nothing is released either.
        """
        guests = self._list_guests() if self._unfinished else {}
        if guests is not None:
            for uuid in self._unfinished & guests.keys():
                self._host.keep(uuid)
            self._unfinished.clear()

    def _list_interrupted(self, entries: drift.Entries) -> frozenset[str]:
        """Return the claims that nothing under way will apply.

        A former process was killed, or a start failed after its claim. None
        before Nova was asked for its servers: of one that is gone, nothing
        is to be applied.
        """
        if not self._is_compared:
            return frozenset()
        chooses = self._host.enforcement.chooses_units
        return frozenset(
            uuid
            for uuid, one in entries.items()
            if (
                one.state is State.CLAIMED
                or (one.state is State.PARKED and chooses(one))
            )
            and not self._host.is_starting(uuid)
        )

    def _list_odd_units(self) -> list[alarm_mod.Problem]:
        """Report units of the ledger that cannot be as they are."""
        host, state = self._host, self._host.state
        entries, is_complete = host.entries.values(), state.found.is_complete
        # Of the others, the enforcer is about to choose the units.
        chosen = [
            one
            for one in entries
            if one.state is not State.CLAIMED
            or not host.enforcement.chooses_units(one)
        ]
        # What the host shows of the others, it may show as used by others.
        settled = [
            one
            for one in state.settled
            if host.find_entry(one.consumer_uuid) == one
        ]
        return [
            *units.list_uncounted(state.view, entries, self._trackers),
            *units.list_lost(state.view, entries, self._trackers, is_complete),
            *units.list_overlaps(state.empty, chosen, self._trackers),
            *self._list_overallocated(settled),
        ]

    def _list_overallocated(
        self, settled: list[assignment.Entry]
    ) -> list[alarm_mod.Problem]:
        """Report of what more is held than there is.

        What servers hold that have changed meanwhile is not counted. So an
        alarm about it is not cleared before they count again. A new claim has
        never counted.
        """
        host = self._host
        found = units.list_overallocated(host.state.view, settled)
        known = {one.subject for one in found}
        counted = {one.consumer_uuid for one in settled}
        changing = {
            units.name_place(one.rp_key, one.resource_class)
            for uuid, entry in host.entries.items()
            if uuid not in counted and entry.state is not State.CLAIMED
            for one in entry.assignments
        }
        return found + [
            one
            for one in self.problems
            if one.alarm == alarm_mod.OVERALLOCATED
            and one.subject in changing - known
        ]

    def _repair_all(
        self,
        findings: Iterable[drift.Drift],
        entries: drift.Entries,
        applied: Mapping[str, frozenset[str]],
    ) -> list[alarm_mod.Problem]:
        findings = tuple(findings)
        self._release_gone(
            [
                entries[one.consumer_uuid]
                for one in findings
                if one.kind is Kind.GONE
            ]
        )
        problems = []
        for one in findings:
            text = one.text
            try:
                self._repair(one, applied)
            except exception.LedgerError as err:
                problems.append(
                    _make_problem(one, str(err), alarm_mod.LEDGER_FAILED)
                )
                continue
            except exception.ExtResourcesError as err:
                text = str(err)
            if text:
                problems.append(_make_problem(one, text))
        return problems

    def _repair(
        self, one: drift.Drift, applied: Mapping[str, frozenset[str]]
    ) -> None:
        """Repair; what has a text of its own is only reported.

        :raises ExtResourcesError: it did not work this time, or not all of
            it
        """
        uuid = one.consumer_uuid
        if one.kind is Kind.ORPHAN:
            self._host.release_orphan(
                uuid,
                [name for name, uuids in applied.items() if uuid in uuids],
            )
        elif one.kind in (Kind.RELEASING, Kind.UNAPPLIED):
            self._host.finish(uuid)
        elif one.kind is Kind.UNWRITTEN:
            self._host.rewrite(uuid)
        elif one.kind is Kind.GONE:
            entry = self._host.find_entry(uuid)
            if entry is not None and entry.state is State.RELEASING:
                self._host.finish(uuid)
        entry = self._host.find_entry(uuid)
        if entry is not None and entry.state is State.APPLIED:
            self._host.enforcement.check_applied(entry)
        if one.kind is Kind.UNAPPLIED and entry is not None:
            self._note_applied(entry, is_lost=self._is_lost(entry))
        elif one.kind is Kind.RELEASING and entry is None:
            LOG.info(
                'Host %(host)s: server %(uuid)s: the release of its resources '
                'is finished',
                {'host': self._host.host, 'uuid': uuid},
            )

    def _is_lost(self, entry: assignment.Entry) -> bool:
        """Return whether a server may have run without what it had.

        Not before its start has ended; nor where nothing at all was applied
        when this process began, and no guest of it ran: the host was booted.
        """
        return (
            entry.consumer_uuid in self._lost
            and (self._ran is None or entry.server_uuid in self._ran)
            and not self._host.is_starting(entry.consumer_uuid)
        )

    def _find_running(
        self, applied: Mapping[str, frozenset[str]]
    ) -> Collection[str] | None:
        """Return the servers that run, where the host may have been booted.

        :return: None where something has been applied since its boot
        """
        if self._has_audited or any(applied.values()):
            return None
        return (self._list_guests() or {}) if self._lost else ()

    def _note_applied(self, entry: assignment.Entry, *, is_lost: bool) -> None:
        """Log what was applied again, and have a loss reported."""
        what = _describe(entry)
        if is_lost:
            self.recoveries.note(entry.consumer_uuid, what)
        LOG.log(
            logging.WARNING if is_lost else logging.INFO,
            'Host %(host)s: resources of server %(uuid)s were missing or '
            'changed, and are applied again: %(what)s',
            {
                'host': self._host.host,
                'uuid': entry.consumer_uuid,
                'what': what,
            },
        )

    def _release_gone(self, entries: list[assignment.Entry]) -> None:
        """Release all at once; one that fails is tried once more."""
        if not entries:
            return
        host = self._host
        LOG.warning(
            'Host %(host)s: releasing the resources of %(count)d servers '
            'that are gone, such as %(uuids)s',
            {
                'host': host.host,
                'count': len(entries),
                'uuids': ', '.join(
                    one.consumer_uuid for one in entries[:_MAX_LISTED]
                ),
            },
        )
        try:
            released = host.release_gone(entries)
        except exception.ExtResourcesError as err:
            LOG.error(
                'Host %(host)s: could not release the resources of at least '
                'one of these servers: %(err)s',
                {'host': host.host, 'err': err},
            )
        else:
            self._log_unreleased(
                [one for one in entries if one.consumer_uuid not in released]
            )

    def _log_unreleased(self, entries: list[assignment.Entry]) -> None:
        """Log which servers have come back in the meantime."""
        if entries:
            LOG.warning(
                'Host %(host)s: %(count)d of these servers keep their '
                'resources, because they are being started, or have claimed '
                'again: %(uuids)s',
                {
                    'host': self._host.host,
                    'count': len(entries),
                    'uuids': ', '.join(
                        one.consumer_uuid for one in entries[:_MAX_LISTED]
                    ),
                },
            )

    def _report(self, problems: tuple[alarm_mod.Problem, ...]) -> None:
        self._logged.log_new(LOG.error, problems)
        left = {(one.alarm, one.subject) for one in problems}
        for one in self.problems:
            if (one.alarm, one.subject) not in left:
                LOG.info(
                    'Host %(host)s: alarm cleared: %(alarm)s %(subject)s',
                    {
                        'host': self._host.host,
                        'alarm': one.alarm,
                        'subject': one.subject,
                    },
                )
        self.problems = problems


def _describe(entry: assignment.Entry) -> str:
    """Return what a server has, with its units as the ledger has them."""
    return ', '.join(
        ' '.join(
            [
                f'{one.amount} {one.resource_class} of {one.rp_key}',
                *(f'({key} {unit})' for key, unit in one.units.items()),
            ]
        )
        for one in entry.assignments
    )


def _make_problem(
    one: drift.Drift, text: str, alarm: str = ''
) -> alarm_mod.Problem:
    return alarm_mod.Problem(
        alarm=alarm or _ALARMS[one.kind], subject=one.consumer_uuid, text=text
    )
