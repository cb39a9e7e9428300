# SPDX-License-Identifier: Apache-2.0

"""What can be wrong with a host, by name. Pure.

Every name has a section in the documentation (``admin/alarms.rst``), a rule
in ``etc/nova_ext_resources/alerts.yaml`` and a series in the metrics, whether
or not it is raised now.
"""

import dataclasses
import datetime
import enum


class Severity(enum.StrEnum):
    """How much an alarm matters.

    ``CRITICAL``: allocated resources are not applied, or that is unknown.
    ``WARNING``: all of them are applied, but something needs attention.
    """

    CRITICAL = 'critical'
    WARNING = 'warning'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AlarmKind:
    """One alarm that can be raised.

    :ivar summary: what it means, one sentence
    :ivar subject: what its subjects are, such as ``server``; '' when it is
        about the host as a whole
    """

    name: str
    severity: Severity
    summary: str
    subject: str = ''


NOT_APPLIED = 'not_applied'
NOT_RECORDED = 'not_recorded'
APPLIED_AGAIN = 'applied_again'
UNITS_HELD_TWICE = 'units_held_twice'
ENFORCER_FAILED = 'enforcer_failed'
RESCTRL_MISSING = 'resctrl_missing'
AUDIT_FAILED = 'audit_failed'
STALLED = 'stalled'
RELEASE_PENDING = 'release_pending'
STALE_SETTINGS = 'stale_settings'
UNKNOWN_SETTINGS = 'unknown_settings'
NOT_IN_NOVA = 'not_in_nova'
ORPHANED_ENTRY = 'orphaned_entry'
MIGRATION_UNCLEAR = 'migration_unclear'
GUEST_HERE_SERVER_ELSEWHERE = 'guest_here_server_elsewhere'
NOT_IN_PLACEMENT = 'not_in_placement'
STALE_ALLOCATION = 'stale_allocation'
OVERALLOCATED = 'overallocated'
UNIT_LOST = 'unit_lost'
UNIT_WITHHELD = 'unit_withheld'
UNREADABLE_UNITS = 'unreadable_units'
DISCOVERY_FAILED = 'discovery_failed'
RESOURCES_LEFT_OUT = 'resources_left_out'
PUBLISH_FAILED = 'publish_failed'
PROVIDER_IN_USE = 'provider_in_use'
POOL_NOT_READ = 'pool_not_read'
POOL_OVERALLOCATED = 'pool_overallocated'
POOL_DIFFERS = 'pool_differs'
NODE_NOT_PUBLISHED = 'node_not_published'
LEDGER_FAILED = 'ledger_failed'
THREAD_FAILED = 'thread_failed'
OLD_INVENTORY = 'old_inventory'
PROVIDER_CONFIG = 'provider_config'
STATS_CUT = 'stats_cut'
MONITORING_FAILED = 'monitoring_failed'
NOT_MONITORED = 'not_monitored'
RESTART_NEEDED = 'restart_needed'
TUNING_FAILED = 'tuning_failed'

#: Name of an alarm -> its former name, for one release. Health and metrics
#: have both, and plugins may report either: the rules and plugins of a site
#: are not updated together with its hosts.
FORMER_NAMES = {
    NOT_APPLIED: 'not_in_force',
    AUDIT_FAILED: 'healing_failed',
    STALE_SETTINGS: 'leftover_in_force',
    UNKNOWN_SETTINGS: 'stranger_in_force',
    MIGRATION_UNCLEAR: 'move_in_doubt',
    GUEST_HERE_SERVER_ELSEWHERE: 'server_elsewhere',
    STALE_ALLOCATION: 'not_held',
    UNREADABLE_UNITS: 'unbookable_units',
}
_NAMES = {former: name for name, former in FORMER_NAMES.items()}


#: Name, what it is about, and what it means.
_CRITICAL = (
    (
        NOT_APPLIED,
        'server',
        'Resources that are allocated to a server are not applied.',
    ),
    (
        NOT_RECORDED,
        'server',
        'A server is on this host, but not, or not fully, in the ledger.',
    ),
    (
        UNITS_HELD_TWICE,
        'server',
        'Two servers hold the same units, which only one server should have.',
    ),
    (
        ENFORCER_FAILED,
        'enforcer',
        'An enforcer cannot report the applied settings.',
    ),
    (
        RESCTRL_MISSING,
        'enforcer',
        (
            'The resctrl file system is not mounted, or is mounted with other '
            'options.'
        ),
    ),
    (
        OVERALLOCATED,
        'provider and resource class',
        'Servers hold more units than the host has.',
    ),
    (
        UNIT_LOST,
        'server',
        'A server holds a device that the host no longer has.',
    ),
    (
        OLD_INVENTORY,
        'resource class',
        'Servers hold resources of the compute node itself, which are not '
        'applied.',
    ),
    (AUDIT_FAILED, '', 'The audit failed with an unexpected error.'),
    (STALLED, '', 'The host has not been read for a long time.'),
)

_WARNING = (
    (
        APPLIED_AGAIN,
        'server',
        'Resources of a server were missing or changed for a while.',
    ),
    (
        RELEASE_PENDING,
        'server',
        'Settings of a server that is gone could not be removed yet.',
    ),
    (
        STALE_SETTINGS,
        'server',
        'Orphaned settings of a server could not be removed yet.',
    ),
    (
        UNKNOWN_SETTINGS,
        'server',
        'Settings are applied for a server that is not in the ledger.',
    ),
    (
        NOT_IN_NOVA,
        'server',
        'A server that holds resources is not on this host.',
    ),
    (
        ORPHANED_ENTRY,
        'consumer',
        'A server that holds resources has been missing from this host for a '
        'long time.',
    ),
    (
        MIGRATION_UNCLEAR,
        'server',
        'A move of a server has not ended, and Nova does not continue it.',
    ),
    (
        GUEST_HERE_SERVER_ELSEWHERE,
        'server',
        'A guest is on this host, but Nova has its server on another host, or '
        'on none.',
    ),
    (
        NOT_IN_PLACEMENT,
        'server',
        'A server holds resources that placement has not allocated to it.',
    ),
    (
        STALE_ALLOCATION,
        'consumer',
        'Placement has allocated resources to a consumer that holds none.',
    ),
    (UNREADABLE_UNITS, 'server', 'A server holds units that are not counted.'),
    (
        UNIT_WITHHELD,
        'unit',
        'A device vanished while a server held it, and no server gets it.',
    ),
    (
        DISCOVERY_FAILED,
        'inventory provider',
        'An inventory provider cannot read the host.',
    ),
    (
        RESOURCES_LEFT_OUT,
        'resource',
        'An inventory provider could not report all of its resources.',
    ),
    (PUBLISH_FAILED, '', 'The inventory could not be written to placement.'),
    (
        PROVIDER_IN_USE,
        'provider',
        'Servers hold inventory that should be removed from placement.',
    ),
    (
        PROVIDER_CONFIG,
        'provider and resource class',
        'A provider configuration file of Nova names inventory that a '
        'provider already has.',
    ),
    (
        POOL_NOT_READ,
        'pool',
        'A pool of several hosts cannot be read; its last values stay valid.',
    ),
    (
        POOL_OVERALLOCATED,
        'pool',
        'Servers hold more units of a pool of several hosts than it has.',
    ),
    (
        POOL_DIFFERS,
        'pool',
        'Hosts have different entries for a pool that they share.',
    ),
    (
        NODE_NOT_PUBLISHED,
        'bare-metal node',
        (
            'A bare-metal node is not in placement, or lacks defined '
            'resources or traits.'
        ),
    ),
    (LEDGER_FAILED, '', 'The ledger cannot be read or written.'),
    (THREAD_FAILED, 'thread', 'A thread of the service fails in each round.'),
    (
        STATS_CUT,
        '',
        'The scheduler gets only totals, as the host has too many resources.',
    ),
    (
        RESTART_NEEDED,
        'part of a daemon',
        'A daemon does not work as it should until it is restarted.',
    ),
    (MONITORING_FAILED, '', 'Servers are not measured.'),
    (NOT_MONITORED, 'server', 'A server is not measured, or only in part.'),
    (
        TUNING_FAILED,
        '',
        'Fine tuning does not work; servers keep their present resources.',
    ),
)

#: Name -> kind, of every alarm that there is.
KINDS: dict[str, AlarmKind] = {
    name: AlarmKind(
        name=name, severity=severity, subject=subject, summary=summary
    )
    for severity, rows in (
        (Severity.CRITICAL, _CRITICAL),
        (Severity.WARNING, _WARNING),
    )
    for name, subject, summary in rows
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that is wrong now, as found.

    :ivar alarm: one of the names above
    :ivar subject: what it is about, such as a server's uuid
    :ivar text: what happened and what to do, one sentence
    """

    alarm: str
    subject: str = ''
    text: str

    def __post_init__(self) -> None:
        name = _NAMES.get(self.alarm, self.alarm)
        object.__setattr__(self, 'alarm', name)
        if self.alarm not in KINDS:
            raise ValueError(f'there is no alarm {self.alarm}')

    def __str__(self) -> str:
        return self.text


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """A problem, with the time since when its name and subject have had one.

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
    """Return the alarm that an error stands for.

    An error names it by its attribute ``alarm``, or the error that it was
    raised from does: plugins translate errors of daemons and kernels.
    """
    cause: BaseException | None = err
    while cause is not None:
        name = str(getattr(cause, 'alarm', ''))
        name = _NAMES.get(name, name)
        if name in KINDS:
            return name
        cause = cause.__cause__
    return default


def from_error(err: BaseException, *, subject: str) -> Problem:
    """Make a problem of an error of an enforcer."""
    name = find_name(err, ENFORCER_FAILED)
    return Problem(alarm=name, subject=subject, text=str(err))
