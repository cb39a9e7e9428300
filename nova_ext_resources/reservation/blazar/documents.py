# SPDX-License-Identifier: Apache-2.0

"""Answers as JSON, with the names that the commands have."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from nova_ext_resources.reservation import amounts
from nova_ext_resources.reservation.blazar import orders
from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import limits as limits_mod
from nova_ext_resources.reservation import quota as quota_mod
from nova_ext_resources.reservation.store import capacity
from nova_ext_resources.reservation.store import followers
from nova_ext_resources.reservation.store import records
from nova_ext_resources.reservation.store import states
from nova_ext_resources.reservation import times
from nova_ext_resources.reservation.webhook import rules

Document: TypeAlias = dict[str, Any]

#: How long a window is that has no end.
_DEFAULT = '24h'


def describe(record: records.Record, *, has_hosts: bool = True) -> Document:
    """Return a reservation: what was asked for, and what it has.

    :param has_hosts: whether hosts may be seen, and servers of others
    """
    request = record.request
    taken = {
        one.key: one.consumer
        for one in record.servers
        if one.consumer is not None
    }
    found = {
        'id': request.key,
        'state': str(record.state),
        'reason': _explain(record.last, has_hosts=has_hosts),
        **_describe_during(record.during),
        'project': request.project,
        'flavor': request.flavor,
        'resources': dict(request.demand.requirement.resources),
        'servers': len(record.servers),
        'servers_at_least': request.least,
        'servers_at_most': request.most,
        'servers_taken': len(taken),
        'taken_by': taken,
        'zone': request.zone,
        'affinity': orders.WORDS[request.affinity],
        'priority': request.priority,
        'expires_at': _find_expiry(record),
        'at_end': str(request.at_end),
    }
    if has_hosts:
        found['hosts'] = {
            name: sum(one.host == name for one in record.servers)
            for name in record.hosts
        }
    return found


def describe_changes(
    changes: Sequence[states.Change], *, has_hosts: bool = True
) -> list[Document]:
    """Return what happened to a reservation.

    :param has_hosts: as of :func:`describe`
    """
    return [
        {
            'changed_at': interval.format_time(one.changed_at),
            'state': str(one.state),
            'reason': _explain(one, has_hosts=has_hosts),
        }
        for one in changes
    ]


def _explain(change: states.Change, *, has_hosts: bool) -> str:
    """Return the reason; without hosts and servers of others if so asked."""
    return change.reason if has_hosts else change.words


def describe_amounts(
    found: Iterable[amounts.Amounts],
) -> list[Document]:
    """Return how much there is of each class in each zone, over time."""
    return [
        {
            'zone': one.zone,
            'resource_class': one.resource_class,
            **_describe_during(one.during),
            'total': one.total,
            'used': one.used,
            'reserved': one.reserved,
            'available': one.available,
        }
        for one in found
    ]


def describe_fits(
    found: Iterable[tuple[interval.Interval, int]],
) -> list[Document]:
    """Return how many servers fit, over time."""
    return [
        {**_describe_during(during), 'servers': servers}
        for during, servers in found
    ]


def describe_change(one: capacity_change.CapacityChange) -> Document:
    """Return a planned change of capacity."""
    return {
        'name': one.key,
        'host': one.host,
        'provider': one.provider,
        'provider_uuid': one.rp_uuid,
        'maintenance': one.is_maintenance,
        'amounts': dict(one.amounts),
        **_describe_during(one.during),
        'reason': one.reason,
        'created_by': one.created_by,
        'created_at': interval.format_time(one.created_at),
    }


def describe_outcome(outcome: capacity.Outcome) -> Document:
    """Return a change, with the reservations that it moved or degraded."""
    return {
        **describe_change(outcome.change),
        'moved': sorted(outcome.way.moved),
        'degraded': [*outcome.way.degraded],
    }


def describe_subscription(follower: followers.Follower) -> Document:
    """Return a subscription, without what proves who sends or may send."""
    one, watched = follower.subscription, follower.subscription.watched
    suspended_at = follower.suspended_at
    return {
        'id': one.uuid,
        'project': one.project or None,
        'state': follower.state,
        'url': rules.hide_path(one.url),
        'events': sorted(map(str, one.kinds)),
        'reservation': one.reservation,
        'remaining': [*map(times.format_seconds, one.remaining)],
        'zone': watched and watched.zone,
        'resource_class': watched and watched.resource_class,
        'threshold': watched and watched.threshold,
        'created_at': interval.format_time(one.created_at),
        'sent': follower.sent,
        'failures': follower.failures,
        'failure': follower.failure,
        'suspended_at': (
            None
            if suspended_at is None
            else interval.format_time(suspended_at)
        ),
    }


def describe_quota(use: quota_mod.Use) -> Document:
    """Return a quota, and how much of it is taken, in unit-hours."""
    quota = use.quota
    return {
        'project': quota.project,
        'resource_class': quota.resource_class,
        'unit_hours': quota.unit_hours,
        'days': quota.days,
        'used': quota_mod.count_hours(use.used, is_up=True),
        'left': quota_mod.count_hours(use.left),
    }


def describe_limits(project: str, limits: limits_mod.Limits) -> Document:
    """Return what holds for a project."""
    return {
        'project': project,
        'max_ahead': limits_mod.format_seconds(limits.ahead),
        'max_duration': limits_mod.format_seconds(limits.duration),
    }


def _find_expiry(record: records.Record) -> str | None:
    seconds = record.request.expires_after
    if seconds is None:
        return None
    start = record.during.start
    return interval.format_time(interval.add_seconds(start, seconds))


def _describe_during(during: interval.Interval) -> Document:
    end = None if during.is_open else interval.format_time(during.end)
    return {
        'starts_at': interval.format_time(during.start),
        'ends_at': end,
    }


def read_window(
    query: Mapping[str, str], now: int, *, is_needed: bool = False
) -> interval.Interval | None:
    """Return the window that a query names by ``from`` and ``until``.

    :param is_needed: whether there is one without them, too: a day from now
    :raises ValueError: they make no sense
    """
    if not is_needed and not {'from', 'until'} & query.keys():
        return None
    start = times.parse_time(query.get('from', 'now'), now)
    if 'until' in query:
        return interval.Interval(start, times.parse_time(query['until'], now))
    if not is_needed:
        return interval.Interval(start)
    return interval.Interval(start, start + times.parse_seconds(_DEFAULT))


def read_parts(query: Mapping[str, str], now: int) -> Document:
    """Return the arguments of a question for capacity over time.

    :raises ValueError: they make no sense
    """
    step = query.get('step')
    return {
        'during': read_window(query, now, is_needed=True),
        'zone': query.get('zone'),
        'step': None if step is None else times.parse_seconds(step),
    }


def read_resources(text: str) -> dict[str, int]:
    """Return amounts such as ``VCPU:4,MEMORY_MB:8192``, as placement has them.

    :raises ValueError: it is none
    """
    found = {}
    for part in text.split(','):
        name, _colon, amount = part.partition(':')
        if not name or not amount.isdecimal():
            raise ValueError(
                f'{part!r} is not an amount; write CLASS:AMOUNT, such as '
                'VCPU:4'
            )
        found[name] = int(amount)
    return found
