# SPDX-License-Identifier: Apache-2.0

"""How a host is: when each part last worked, and what is wrong now.

The parts report their state; this keeps it as one value for metrics and the
health endpoint. It does no I/O.
"""

from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
import datetime
import threading

from nova_ext_resources import clocks
from nova_ext_resources.host.ledger import ledger
from nova_ext_resources.host import manager
from nova_ext_resources.monitoring import sample
from nova_ext_resources.objects import alarm as alarm_mod
from nova_ext_resources.objects import host_health
from nova_ext_resources.placement.publish import publisher
from nova_ext_resources import worker

Part = host_health.Part
PartHealth = host_health.PartHealth

#: The alarm that is raised while a part fails, unless it names another.
ALARMS: Mapping[Part, str] = {
    Part.INVENTORY_PROVIDER: alarm_mod.DISCOVERY_FAILED,
    Part.ENFORCER: alarm_mod.ENFORCER_FAILED,
    Part.HEALING: alarm_mod.AUDIT_FAILED,
    Part.LEDGER: alarm_mod.LEDGER_FAILED,
    Part.PUBLISHER: alarm_mod.PUBLISH_FAILED,
    Part.MONITORING: alarm_mod.MONITORING_FAILED,
    Part.TUNING: alarm_mod.TUNING_FAILED,
}

#: Of problems that the audit reports, those that are about an enforcer.
_OF_ENFORCERS = frozenset(
    {alarm_mod.ENFORCER_FAILED, alarm_mod.RESCTRL_MISSING}
)


#: What is known of a host is no longer believed after so many intervals
#: of refreshing, and so many seconds.
_STALE_ROUNDS = 3
_STALE = 300.0


def find_stale_after(interval: float) -> float:
    """Return the seconds after which nothing of a host counts as known.

    :param interval: seconds from one round of a host to the next
    """
    return _STALE_ROUNDS * interval + _STALE


class Health:
    """What is known of the parts of one host. Safe to share by threads.

    :param inventory_providers: names of those that are enabled
    :param enforcers: the same
    :param stale_after: seconds without :meth:`observe_host` after which
        nothing of what is known counts as known
    """

    def __init__(
        self,
        host: str,
        *,
        inventory_providers: Iterable[str] = (),
        enforcers: Iterable[str] = (),
        stale_after: float = 600.0,
        clock: clocks.Clock = clocks.MACHINE,
    ) -> None:
        self._host = host
        self._inventory_providers = tuple(inventory_providers)
        self._enforcers = tuple(enforcers)
        self._stale_after = stale_after
        self._clock = clock
        self._lock = threading.Lock()
        self._holds_something = False
        self._observed_at = self._clock.read()
        self._observed_after = clock.monotonic()
        self._parts: dict[tuple[Part, str], PartHealth] = {
            (part, name): PartHealth(part=part, name=name)
            for part, names in (
                (Part.INVENTORY_PROVIDER, self._inventory_providers),
                (Part.ENFORCER, self._enforcers),
                (Part.HEALING, ('',)),
                (Part.LEDGER, ('',)),
                (Part.PUBLISHER, ('',)),
            )
            for name in names
        }
        self._reported: dict[str, tuple[alarm_mod.Alarm, ...]] = {}
        self._workers: tuple[worker.Worker, ...] = ()

    def watch(self, *workers: worker.Worker) -> None:
        """Show from now on which of these threads have rounds that fail."""
        self._workers += workers

    # -- what parts report ----------------------------------

    def note(
        self,
        part: Part,
        name: str = '',
        *,
        failure: str = '',
        alarm: str = '',
        at: datetime.datetime | None = None,
    ) -> None:
        """Note whether a part works; an alarm is raised while it does not.

        :param failure: why it does not work, and what to do; '' when it works
        :param alarm: instead of the part's usual one
        :param at: when it last worked; by default now if it works, otherwise
            as noted before
        """
        with self._lock:
            now = self._clock.read()
            unknown = PartHealth(part=part, name=name)
            before = self._parts.get((part, name), unknown)
            self._parts[part, name] = PartHealth(
                part=part,
                name=name,
                last_success_at=at
                or (before.last_success_at if failure else now),
                failing_since=before.failing_since or now if failure else None,
                failure=failure,
                alarm=alarm or ALARMS[part],
            )

    def report(
        self, source: str, problems: Iterable[alarm_mod.Problem]
    ) -> None:
        """Take all that is wrong now as one source sees it.

        Its former report is forgotten; alarms that stay keep their time.
        """
        with self._lock:
            now = self._clock.read()
            since = {
                (one.name, one.subject): one.since
                for one in self._reported.get(source, ())
            }
            self._reported[source] = tuple(
                alarm_mod.Alarm(
                    name=one.alarm,
                    subject=one.subject,
                    text=one.text,
                    since=since.get((one.alarm, one.subject), now),
                )
                for one in problems
            )

    # -- what is seen of the host --------------------------------------

    def observe_host(
        self,
        host: manager.HostManager,
        *,
        waiting: Collection[str] | None = frozenset(),
        failure: str = '',
    ) -> None:
        """Note the state of a host after discovery, audit and repair.

        :param waiting: servers that hold something and have no entry, as
            :attr:`.rebuild_entries.RebuildEntries.waiting` lists them
        :param failure: why one of them failed, '' when none did
        """
        self._observe_discovery(host)
        self.observe_ledger(host.ledger_status)
        self.note(Part.HEALING, failure=failure)
        if not failure:
            self._observe_problems(host.problems)
            self.report('recoveries', host.recoveries)
        with self._lock:
            self._holds_something = bool(host.entries or waiting)
            self._observed_at = self._clock.read()
            self._observed_after = self._clock.monotonic()

    def _observe_discovery(self, host: manager.HostManager) -> None:
        found = host.found
        for name in self._inventory_providers:
            failure = found.failures.get(name, '')
            if failure or name not in found.missing:
                self.note(Part.INVENTORY_PROVIDER, name, failure=failure)
        problems = [_explain_left_out(one) for one in sorted(found.left_out)]
        problems += found.problems
        if host.has_cut_stats:
            problems.append(_STATS_CUT)
        self.report('discovery', problems)

    def _observe_problems(self, problems: Sequence[alarm_mod.Problem]) -> None:
        failing = {
            one.subject: one for one in problems if one.alarm in _OF_ENFORCERS
        }
        for name in self._enforcers:
            if one := failing.get(name):
                self.note(
                    Part.ENFORCER, name, failure=one.text, alarm=one.alarm
                )
            else:
                self.note(Part.ENFORCER, name)
        self.report(
            'healing',
            (one for one in problems if one.alarm not in _OF_ENFORCERS),
        )

    def observe_ledger(self, status: ledger.LedgerStatus) -> None:
        """Note whether the ledger can be written."""
        self.note(
            Part.LEDGER, failure=status.failure, at=status.last_success_at
        )

    def observe_publisher(
        self,
        status: publisher.PublisherStatus,
        describe: Callable[[str], str] = str,
    ) -> None:
        """Note whether the host is published, as far as that is known.

        :param describe: returns what a consumer is, by its uuid
        """
        if status.failure or status.last_success_at:
            self.note(
                Part.PUBLISHER,
                failure=status.failure,
                at=status.last_success_at,
            )
        else:
            with self._lock:
                unknown = PartHealth(part=Part.PUBLISHER)
                self._parts[Part.PUBLISHER, ''] = unknown
        held = (
            alarm_mod.Problem(
                alarm=alarm_mod.PROVIDER_IN_USE,
                subject=f'{one.name} {one.resource_class}'.strip(),
                text=one.explain(describe),
            )
            for one in status.undeleted
        )
        self.report('publisher', (*held, *status.problems))

    def observe_sweep(self, sweep: sample.Sweep) -> None:
        """Note whether servers are measured."""
        self.note(Part.MONITORING, failure=sweep.problem)
        self.report(
            'monitoring',
            (
                alarm_mod.Problem(
                    alarm=alarm_mod.NOT_MONITORED,
                    subject=uuid,
                    text=f'server {uuid} is not measured, or only in part: '
                    f'{reason}',
                )
                for uuid, reason in sorted(sweep.problems.items())
            ),
        )

    def observe_tuning(self, problems: Iterable[str]) -> None:
        """Note the problems of a round of fine tuning."""
        self.note(Part.TUNING, failure='; '.join(problems))

    # -- what others ask -----------------------------------------------

    def snapshot(self) -> host_health.HostHealth:
        """Return all that is known, as one value."""
        with self._lock:
            now = self._clock.read()
            raised = self._list_alarms(now)
            return host_health.HostHealth(
                host=self._host,
                at=now,
                status=self._find_status(raised),
                parts=tuple(self._parts.values()),
                alarms=raised,
            )

    def _list_alarms(
        self, now: datetime.datetime
    ) -> tuple[alarm_mod.Alarm, ...]:
        """Return each alarm once, the most severe first."""
        raised: dict[tuple[int, str], alarm_mod.Alarm] = {}
        order = list(alarm_mod.KINDS)
        for one in self._list_raised(now):
            raised.setdefault((order.index(one.name), one.subject), one)
        return tuple(raised[key] for key in sorted(raised))

    def _list_raised(
        self, now: datetime.datetime
    ) -> Iterator[alarm_mod.Alarm]:
        late = (
            self._clock.monotonic() - self._observed_after - self._stale_after
        )
        if late > 0:
            yield alarm_mod.Alarm(
                name=alarm_mod.STALLED,
                subject='',
                text=f'host {self._host} has not been audited since '
                f'{self._observed_at:%Y-%m-%d %H:%M:%S} UTC; the log has the '
                'reason of the delay; restart the service',
                since=now - datetime.timedelta(seconds=late),
            )
        for part in self._parts.values():
            if part.failing_since is not None:
                yield alarm_mod.Alarm(
                    name=part.alarm,
                    subject=part.name,
                    text=part.failure,
                    since=part.failing_since,
                )
        for one in self._workers:
            if failed := one.failed:
                yield alarm_mod.Alarm(
                    name=alarm_mod.THREAD_FAILED,
                    subject=one.THREAD,
                    text=f'the last {failed.rounds} rounds of thread '
                    f'{one.THREAD} have failed: {failed.reason}. The log of '
                    'the service has the reason; the next round starts '
                    'automatically',
                    since=failed.since,
                )
        for reported in self._reported.values():
            yield from reported

    def _find_status(
        self, raised: Iterable[alarm_mod.Alarm]
    ) -> host_health.HealthStatus:
        severities = {one.severity for one in raised}
        if alarm_mod.Severity.CRITICAL in severities and self._holds_something:
            return host_health.HealthStatus.FAILING
        return (
            host_health.HealthStatus.DEGRADED
            if severities
            else host_health.HealthStatus.OK
        )


_STATS_CUT = alarm_mod.Problem(
    alarm=alarm_mod.STATS_CUT,
    text='the state of the providers and resource classes is too large for '
    'Nova to send to the scheduler; the scheduler gets only totals',
)


def _explain_left_out(resource: str) -> alarm_mod.Problem:
    return alarm_mod.Problem(
        alarm=alarm_mod.RESOURCES_LEFT_OUT,
        subject=resource,
        text=f'the current state of {resource} could not be read. The last '
        'known state is still used, and nothing is deleted from placement. '
        'Correct the cause, which is in the log of nova-compute',
    )
