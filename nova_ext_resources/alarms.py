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

"""What can be wrong with a host, by name. Pure.

Every name has a section in the documentation (``admin/alarms.rst``), a rule
in ``etc/nova_ext_resources/alerts.yaml`` and a series in the metrics, whether
or not it is raised just now.
"""

from collections.abc import Iterator
import dataclasses
import datetime
import enum


class Severity(enum.StrEnum):
    """How much an alarm matters.

    ``CRITICAL``: what was sold is not in force, or nobody can tell.
    ``WARNING``: what was sold is in force, and something needs attention.
    """

    CRITICAL = 'critical'
    WARNING = 'warning'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One alarm that can be raised.

    :ivar summary: what it means, one sentence
    :ivar subject: what its subjects are, such as ``server``; '' when it is
        about the host as a whole
    """

    name: str
    severity: Severity
    summary: str
    subject: str = ''


NOT_IN_FORCE = 'not_in_force'
ENFORCER_FAILED = 'enforcer_failed'
RESCTRL_MISSING = 'resctrl_missing'
HEALING_FAILED = 'healing_failed'
STALLED = 'stalled'
RELEASE_PENDING = 'release_pending'
LEFTOVER_IN_FORCE = 'leftover_in_force'
STRANGER_IN_FORCE = 'stranger_in_force'
UNBOOKABLE_UNITS = 'unbookable_units'
DISCOVERY_FAILED = 'discovery_failed'
RESOURCES_LEFT_OUT = 'resources_left_out'
PUBLISH_FAILED = 'publish_failed'
PROVIDER_IN_USE = 'provider_in_use'
LEDGER_FAILED = 'ledger_failed'
STATS_CUT = 'stats_cut'
MONITORING_FAILED = 'monitoring_failed'
NOT_MONITORED = 'not_monitored'
TUNING_FAILED = 'tuning_failed'


#: Name, what it is about, and what it means.
_CRITICAL = (
    (
        NOT_IN_FORCE,
        'server',
        'A server runs without something that was sold to it.',
    ),
    (
        ENFORCER_FAILED,
        'enforcer',
        'An enforcer cannot tell what is in force.',
    ),
    (
        RESCTRL_MISSING,
        'enforcer',
        'The resctrl file system is not mounted, or not as needed.',
    ),
    (
        HEALING_FAILED,
        '',
        'The comparison of what was sold with what is in force broke off.',
    ),
    (
        STALLED,
        '',
        'Nobody has looked at the host for a long time.',
    ),
)

_WARNING = (
    (
        RELEASE_PENDING,
        'server',
        'What a server gave back could not be taken out of force yet.',
    ),
    (
        LEFTOVER_IN_FORCE,
        'server',
        'Something of a server that is gone could not be removed yet.',
    ),
    (
        STRANGER_IN_FORCE,
        'server',
        'Something is in force that the ledger does not know.',
    ),
    (
        UNBOOKABLE_UNITS,
        'server',
        'A server holds units that are not counted.',
    ),
    (
        DISCOVERY_FAILED,
        'inventory provider',
        'An inventory provider cannot read the host.',
    ),
    (
        RESOURCES_LEFT_OUT,
        'resource',
        'An inventory provider could not report all that it should.',
    ),
    (
        PUBLISH_FAILED,
        '',
        'Placement does not have what this host has.',
    ),
    (
        PROVIDER_IN_USE,
        'provider',
        'What should leave placement is held by servers.',
    ),
    (
        LEDGER_FAILED,
        '',
        'The record of what servers hold cannot be read or written.',
    ),
    (
        STATS_CUT,
        '',
        'The scheduler sees totals only, for the host has too much.',
    ),
    (
        MONITORING_FAILED,
        '',
        'Servers are not measured.',
    ),
    (
        NOT_MONITORED,
        'server',
        'A server is not measured, or not fully.',
    ),
    (
        TUNING_FAILED,
        '',
        'Fine tuning does not work; servers keep what they have.',
    ),
)


def _list_kinds() -> Iterator[Kind]:
    for severity, rows in (
        (Severity.CRITICAL, _CRITICAL),
        (Severity.WARNING, _WARNING),
    ):
        for name, subject, summary in rows:
            yield Kind(
                name=name, severity=severity, subject=subject, summary=summary
            )


#: Name -> kind, of every alarm that there is.
KINDS: dict[str, Kind] = {one.name: one for one in _list_kinds()}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is wrong now, as whoever has found it tells it.

    :ivar alarm: one of the names above
    :ivar subject: what it is about, such as a server's uuid
    :ivar text: what happened and what to do, one sentence
    """

    alarm: str
    subject: str = ''
    text: str

    def __post_init__(self) -> None:
        if self.alarm not in KINDS:
            raise ValueError(f'there is no alarm {self.alarm}')

    def __str__(self) -> str:
        return self.text


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """A problem, and since when there has been one of its name and subject.

    :ivar name: one of the names above
    :ivar since: aware, UTC
    """

    name: str
    subject: str
    text: str
    since: datetime.datetime

    @property
    def severity(self) -> Severity:
        return KINDS[self.name].severity


def find_name(err: BaseException, default: str) -> str:
    """Give the alarm that an error stands for.

    An error names it by its attribute ``alarm``; so does what it was raised
    from, for plugins translate what their daemons and kernels say.
    """
    cause: BaseException | None = err
    while cause is not None:
        name = getattr(cause, 'alarm', '')
        if name in KINDS:
            return str(name)
        cause = cause.__cause__
    return default


def from_error(
    err: BaseException, *, default: str, subject: str = ''
) -> Problem:
    """Make a problem of an error."""
    return Problem(
        alarm=find_name(err, default), subject=subject, text=str(err)
    )
