# SPDX-License-Identifier: Apache-2.0

"""Reservations as rows and fields; the names are an interface of programs."""

import collections
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cliff import columns
from osc_lib.cli import format_columns

from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import order

if TYPE_CHECKING:
    from nova_ext_resources.reservation.store import records
    from nova_ext_resources.reservation.store import states

LIST = ('Name', 'State', 'Flavor', 'Servers', 'Starts At', 'Ends At')
LONG = (*LIST, 'Hosts', 'Project', 'Priority', 'Reason')

_AFFINITIES = {value: name for name, value in order.AFFINITIES.items()}


class ChangesColumn(columns.FormattableColumn[Any]):
    """What happened to a reservation: a line for each change."""

    def human_readable(self) -> str:
        return '\n'.join(
            f'{one["changed_at"]} {one["state"]}: {one["reason"]}'
            for one in self._value
        )


def make_row(record: 'records.Record', *, is_long: bool = False) -> list[Any]:
    """Return the columns of a list."""
    request = record.request
    row = [
        request.key,
        str(record.state),
        request.flavor,
        len(record.servers),
        format_time(record.during.start),
        format_time(record.during.end),
    ]
    if is_long:
        row += [
            format_columns.ListColumn(record.hosts),
            request.project,
            request.priority,
            record.last.reason,
        ]
    return row


def make_fields(
    record: 'records.Record', changes: 'Sequence[states.Change]'
) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Return the names and the values of all fields of one."""
    request = record.request
    hosts = collections.Counter(one.host for one in record.servers)
    fields = {
        'name': request.key,
        'state': str(record.state),
        'flavor': request.flavor,
        'resources': format_columns.DictColumn(
            dict(request.demand.requirement.resources)
        ),
        'starts_at': format_time(record.during.start),
        'ends_at': format_time(record.during.end),
        'servers': len(record.servers),
        'servers_at_least': request.least,
        'servers_at_most': request.most,
        'hosts': format_columns.DictColumn(dict(sorted(hosts.items()))),
        'taken_by': format_columns.DictColumn(
            {
                one.key: one.consumer
                for one in record.servers
                if one.consumer is not None
            }
        ),
        'zone': request.zone or '',
        'affinity': _AFFINITIES[request.affinity],
        'priority': request.priority,
        'project': request.project,
        'expires_at': _format_expiry(record),
        'at_end': str(request.at_end),
        'changes': ChangesColumn(
            [
                {
                    'changed_at': format_time(one.changed_at),
                    'state': str(one.state),
                    'reason': one.reason,
                }
                for one in changes
            ]
        ),
    }
    return tuple(fields), tuple(fields.values())


def _format_expiry(record: 'records.Record') -> str:
    seconds = record.request.expires_after
    if seconds is None:
        return ''
    return format_time(interval.add_seconds(record.during.start, seconds))


def format_time(seconds: int) -> str:
    """Return a time; '' where there is no end."""
    return '' if seconds >= interval.FOREVER else interval.format_time(seconds)
