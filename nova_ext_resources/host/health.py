# SPDX-License-Identifier: Apache-2.0

"""How a host is: when each part last worked, and what is wrong now.

The parts report their state; this keeps it as one value for metrics and the
health endpoint. It does no I/O.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import dataclasses
import datetime
import threading
import time
from typing import TypeAlias

from oslo_utils import timeutils

from nova_ext_resources.host import ledger as ledger_mod
from nova_ext_resources.host import resources as host_mod
from nova_ext_resources.monitoring import sample
from nova_ext_resources.objects import alarm as alarm_mod
from nova_ext_resources.objects import health as health_obj
from nova_ext_resources.placement import publisher as publisher_mod


#: The alarm that is raised while a part fails, unless it names another.
ALARMS: Mapping[health_obj.Part, str] = {
    health_obj.Part.INVENTORY_PROVIDER: alarm_mod.DISCOVERY_FAILED,
    health_obj.Part.ENFORCER: alarm_mod.ENFORCER_FAILED,
    health_obj.Part.HEALING: alarm_mod.HEALING_FAILED,
    health_obj.Part.LEDGER: alarm_mod.LEDGER_FAILED,
    health_obj.Part.PUBLISHER: alarm_mod.PUBLISH_FAILED,
    health_obj.Part.MONITORING: alarm_mod.MONITORING_FAILED,
    health_obj.Part.TUNING: alarm_mod.TUNING_FAILED,
}

#: Of problems that the audit reports, those that are about an enforcer.
_OF_ENFORCERS = frozenset(
    {alarm_mod.ENFORCER_FAILED, alarm_mod.RESCTRL_MISSING}
)


_PartKey: TypeAlias = tuple[health_obj.Part, str]
_AlarmKey: TypeAlias = tuple[str, str]


class Health:
    """What is known of the parts of one host. Safe to share by threads.

    :param inventory_providers: names of those that are enabled
    :param enforcers: the same
    :param stale_after: seconds without :meth:`observe_host` after which
        nothing of what is known counts as known
    :param clock: returns the time, aware and in UTC
    :param monotonic: returns seconds that no step of the clock changes
    """

    def __init__(
        self,
        host: str,
        *,
        inventory_providers: Iterable[str] = (),
        enforcers: Iterable[str] = (),
        stale_after: float = 600.0,
        clock: Callable[[], datetime.datetime] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._stale_after = stale_after
        self._clock = clock or _read_clock
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._holds_something = False
        self._observed_at = self._clock()
        self._observed_after = monotonic()
        self._parts: dict[_PartKey, health_obj.PartHealth] = {
            (part, name): health_obj.PartHealth(part=part, name=name)
            for part, names in (
                (
                    health_obj.Part.INVENTORY_PROVIDER,
                    tuple(inventory_providers),
                ),
                (health_obj.Part.ENFORCER, tuple(enforcers)),
                (health_obj.Part.HEALING, ('',)),
                (health_obj.Part.LEDGER, ('',)),
                (health_obj.Part.PUBLISHER, ('',)),
            )
            for name in names
        }
        self._reported: dict[str, tuple[alarm_mod.Alarm, ...]] = {}

    # -- what parts report ----------------------------------

    def note_success(
        self,
        part: health_obj.Part,
        name: str = '',
        *,
        at: datetime.datetime | None = None,
    ) -> None:
        """Note that a part has worked.

        :param at: when; now, if not given
        """
        with self._lock:
            self._parts[part, name] = health_obj.PartHealth(
                part=part, name=name, last_success_at=at or self._clock()
            )

    def note_failure(
        self,
        part: health_obj.Part,
        name: str = '',
        *,
        failure: str,
        alarm: str = '',
        worked_at: datetime.datetime | None = None,
    ) -> None:
        """Note that a part does not work, and raise an alarm until it does.

        :param failure: why, and what to do
        :param alarm: instead of the part's usual one
        :param worked_at: when it last worked, if it was not noted then
        """
        with self._lock:
            before = self._parts.get(
                (part, name), health_obj.PartHealth(part=part, name=name)
            )
            self._parts[part, name] = dataclasses.replace(
                before,
                last_success_at=worked_at or before.last_success_at,
                failing_since=before.failing_since or self._clock(),
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
            now = self._clock()
            since = {
                (one.name, one.subject): one.since
                for one in self._reported.get(source, ())
            }
            self._reported[source] = tuple(
                _make_alarm(one, since.get((one.alarm, one.subject), now))
                for one in problems
            )

    # -- what is seen of the host --------------------------------------

    def observe_host(
        self, host: host_mod.HostResources, *, failure: str = ''
    ) -> None:
        """Note the state of a host after discovery, audit and repair.

        :param failure: why one of them failed, '' when none did
        """
        self._observe_discovery(host)
        self.observe_ledger(host.ledger_status)
        if failure:
            self.note_failure(health_obj.Part.HEALING, failure=failure)
        else:
            self.note_success(health_obj.Part.HEALING)
            self._observe_healing(host.problems)
        with self._lock:
            self._holds_something = bool(host.entries)
            self._observed_at = self._clock()
            self._observed_after = self._monotonic()

    def _observe_discovery(self, host: host_mod.HostResources) -> None:
        found = host.found
        for name in self._list_names(health_obj.Part.INVENTORY_PROVIDER):
            if name in found.failures:
                self.note_failure(
                    health_obj.Part.INVENTORY_PROVIDER,
                    name,
                    failure=found.failures[name],
                )
            elif name not in found.missing:
                self.note_success(health_obj.Part.INVENTORY_PROVIDER, name)
        self.report(
            'discovery',
            [
                *(_tell_left_out(one) for one in sorted(found.left_out)),
                *([_STATS_CUT] if host.has_cut_stats else []),
            ],
        )

    def _observe_healing(self, problems: Iterable[alarm_mod.Problem]) -> None:
        problems = tuple(problems)
        failing = {
            one.subject: one for one in problems if one.alarm in _OF_ENFORCERS
        }
        for name in self._list_names(health_obj.Part.ENFORCER):
            if name in failing:
                self.note_failure(
                    health_obj.Part.ENFORCER,
                    name,
                    failure=failing[name].text,
                    alarm=failing[name].alarm,
                )
            else:
                self.note_success(health_obj.Part.ENFORCER, name)
        self.report(
            'healing',
            (one for one in problems if one.alarm not in _OF_ENFORCERS),
        )

    def observe_ledger(self, status: ledger_mod.Status) -> None:
        """Note how writing the ledger goes."""
        self._observe(
            health_obj.Part.LEDGER, status.last_success_at, status.failure
        )

    def observe_publisher(self, status: publisher_mod.Status) -> None:
        """Note how publishing goes."""
        self._observe(
            health_obj.Part.PUBLISHER, status.last_success_at, status.failure
        )
        self.report(
            'publisher',
            (
                alarm_mod.Problem(
                    alarm=alarm_mod.PROVIDER_IN_USE,
                    subject=f'{one.name} {one.resource_class}'.strip(),
                    text=str(one),
                )
                for one in status.held
            ),
        )

    def observe_sweep(self, sweep: sample.Sweep) -> None:
        """Note how measuring goes."""
        self._observe(
            health_obj.Part.MONITORING,
            None if sweep.problem else self._clock(),
            sweep.problem,
        )
        self.report(
            'monitoring',
            (
                alarm_mod.Problem(
                    alarm=alarm_mod.NOT_MONITORED,
                    subject=uuid,
                    text=f'server {uuid} is not measured, or not fully: '
                    f'{reason}',
                )
                for uuid, reason in sorted(sweep.problems.items())
            ),
        )

    def observe_tuning(self, problems: Sequence[str]) -> None:
        """Note how fine tuning goes that has just done a round."""
        self._observe(
            health_obj.Part.TUNING,
            None if problems else self._clock(),
            '; '.join(problems),
        )

    def _observe(
        self,
        part: health_obj.Part,
        worked_at: datetime.datetime | None,
        failure: str,
    ) -> None:
        if failure:
            self.note_failure(part, failure=failure, worked_at=worked_at)
        elif worked_at is not None:
            self.note_success(part, at=worked_at)

    def _list_names(self, part: health_obj.Part) -> list[str]:
        with self._lock:
            return [name for other, name in self._parts if other is part]

    # -- what others ask -----------------------------------------------

    def snapshot(self) -> health_obj.HostHealth:
        """Return all that is known, as one value."""
        with self._lock:
            now = self._clock()
            raised = self._list_alarms(now)
            return health_obj.HostHealth(
                host=self._host,
                at=now,
                status=self._find_status(raised),
                parts=tuple(self._parts.values()),
                alarms=raised,
            )

    def _list_alarms(
        self, now: datetime.datetime
    ) -> tuple[alarm_mod.Alarm, ...]:
        raised: dict[_AlarmKey, alarm_mod.Alarm] = {}
        for one in self._list_raised(now):
            raised.setdefault((one.name, one.subject), one)
        order = list(alarm_mod.KINDS)
        return tuple(
            sorted(
                raised.values(),
                key=lambda one: (order.index(one.name), one.subject),
            )
        )

    def _list_raised(
        self, now: datetime.datetime
    ) -> Iterator[alarm_mod.Alarm]:
        late = self._monotonic() - self._observed_after - self._stale_after
        if late > 0:
            yield alarm_mod.Alarm(
                name=alarm_mod.STALLED,
                subject='',
                text=f'host {self._host} has not been audited since '
                f'{self._observed_at:%Y-%m-%d %H:%M:%S} UTC; the log '
                'has what it waits for; restart the service',
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
        for reported in self._reported.values():
            yield from reported

    def _find_status(
        self, raised: Iterable[alarm_mod.Alarm]
    ) -> health_obj.HealthStatus:
        severities = {one.severity for one in raised}
        if alarm_mod.Severity.CRITICAL in severities and self._holds_something:
            return health_obj.HealthStatus.FAILING
        return (
            health_obj.HealthStatus.DEGRADED
            if severities
            else health_obj.HealthStatus.OK
        )


def _make_alarm(
    problem: alarm_mod.Problem, since: datetime.datetime
) -> alarm_mod.Alarm:
    return alarm_mod.Alarm(
        name=problem.alarm,
        subject=problem.subject,
        text=problem.text,
        since=since,
    )


_STATS_CUT = alarm_mod.Problem(
    alarm=alarm_mod.STATS_CUT,
    text='there are too many providers or resource classes for Nova to carry '
    'their state to the scheduler; only totals are published there',
)


def _tell_left_out(resource: str) -> alarm_mod.Problem:
    return alarm_mod.Problem(
        alarm=alarm_mod.RESOURCES_LEFT_OUT,
        subject=resource,
        text=f'{resource} could not be reported; nothing is taken out of '
        'placement until it can, and the log of discovery has the reason',
    )


def _read_clock() -> datetime.datetime:
    now: datetime.datetime = timeutils.utcnow(with_timezone=True)
    return now
