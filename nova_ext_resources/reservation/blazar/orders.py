# SPDX-License-Identifier: Apache-2.0

"""What a reservation of a lease asks for, as an order of ours.

Of a lease are its dates and its project. All else is of the reservation: the
keys of :mod:`~nova_ext_resources.reservation.order`, but for the number of
servers, which is called as Blazar calls it: ``amount``, or ``min`` and
``max``. ``flavor_id`` and Blazar's values of ``affinity`` are understood too.
"""

from collections.abc import Mapping
import datetime
from typing import Any

from nova_ext_resources import exception
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import order as order_mod
from nova_ext_resources.reservation.store import records
from nova_ext_resources.reservation import times

#: What Blazar says of a reservation; not asked for by anybody.
_OF_BLAZAR = frozenset(
    {
        'created_at',
        'end_date',
        'id',
        'lease_id',
        'missing_resources',
        'project_id',
        'resource_id',
        'resource_type',
        'resources_changed',
        'start_date',
        'status',
        'updated_at',
    }
)

_OF_LEASE = 'the value comes from the lease'
_NUMBERS = 'write amount, or min and max'

#: Key of an order -> why a lease cannot have it.
_REFUSED = {
    'name': 'the name is the id that Blazar gives to the reservation',
    'project': _OF_LEASE,
    'starts_at': _OF_LEASE,
    'ends_at': _OF_LEASE,
    'duration': _OF_LEASE,
    'delay': 'the dates of a lease are fixed; use the dates of the '
    'counter-offer',
    'servers': _NUMBERS,
    'at_most': _NUMBERS,
}

#: Keys of an order that no update of a lease changes.
_KEPT = {'flavor', 'resources', 'extra_specs', 'zone', 'affinity'}

#: Blazar's affinity -> ours.
_AFFINITIES = {
    'true': 'same-host',
    'false': 'different-hosts',
    'none': 'any',
}

#: Our words for the affinity of a request.
WORDS = {value: name for name, value in order_mod.AFFINITIES.items()}


def make_order(
    key: str,
    values: Mapping[str, Any],
    *,
    project: str,
    now: int,
    max_priority: int,
) -> dict[str, Any]:
    """Return the order of a reservation that is new.

    :param values: what the lease says of it, with the dates of the lease
    :param now: seconds since the epoch. What starts before starts now: Blazar
        cuts dates to the minute
    :raises InvalidReservation: a key cannot be used in a lease
    """
    order = {'name': key, **_read(key, values, max_priority)}
    start = count_seconds(values['start_date'])
    if start > now:
        order['starts_at'] = interval.format_time(start)
    order['ends_at'] = interval.format_time(count_seconds(values['end_date']))
    if project:
        order['project'] = project
    return order


def make_changes(
    record: records.Record,
    values: Mapping[str, Any],
    *,
    now: int,
    max_priority: int,
) -> dict[str, Any]:
    """Return what an update of a lease changes of a reservation.

    :param values: what the update says of it, with the dates of the lease
    :param now: as of :func:`make_order`
    :returns: empty if nothing changes
    :raises InvalidReservation: a key cannot be used in a lease
    """
    request = record.request
    changes = _read(request.key, values, max_priority)
    changes.update(make_dates(record, values, now))
    if 'servers' in changes:
        changes.setdefault('at_most', max(changes['servers'], request.most))
    known = {
        'flavor': request.flavor,
        'zone': request.zone,
        'affinity': WORDS[request.affinity],
        'priority': request.priority,
        'at_end': str(request.at_end),
    }
    for name, value in known.items():
        # Clients send all that they have read before.
        if name in changes and changes[name] == value:
            del changes[name]
    for name in _KEPT & changes.keys():
        # If another one of the lease is refused, it could not be undone.
        raise _refuse(
            request.key,
            name,
            'a lease cannot change this value; make another lease',
        )
    return changes


def make_dates(
    record: records.Record, values: Mapping[str, Any], now: int
) -> dict[str, str]:
    """Return the dates of a reservation that its lease has otherwise."""
    changes = {}
    start = count_seconds(values['start_date'])
    end = count_seconds(values['end_date'])
    during = record.during
    if start > now:
        if start != during.start:
            changes['starts_at'] = interval.format_time(start)
    elif during.start > now:
        changes['starts_at'] = 'now'
    if end != during.end:
        changes['ends_at'] = interval.format_time(end)
    return changes


def make_undo(record: records.Record) -> dict[str, Any]:
    """Return the changes that make a reservation what it was before.

    No change takes an expiry away.
    """
    request = record.request
    changes = {
        'starts_at': interval.format_time(record.during.start),
        'ends_at': interval.format_time(record.during.end),
        'servers': request.least,
        'at_most': request.most,
        'priority': request.priority,
        'at_end': str(request.at_end),
    }
    if request.expires_after is not None:
        changes['expires_after'] = times.format_seconds(request.expires_after)
    return changes


def count_seconds(date: datetime.datetime) -> int:
    """Return a date of Blazar's, which has no time zone, since the epoch."""
    return int(date.replace(tzinfo=datetime.UTC).timestamp())


def _read(
    key: str, values: Mapping[str, Any], max_priority: int
) -> dict[str, Any]:
    """Return what is asked for, with our names."""
    found = {
        name: value
        for name, value in values.items()
        if name not in _OF_BLAZAR and value is not None
    }
    for name, reason in _REFUSED.items():
        if name in found:
            raise _refuse(key, name, reason)
    if 'flavor_id' in found:
        found.setdefault('flavor', found.pop('flavor_id'))
    if 'affinity' in found:
        word = str(found['affinity']).lower()
        found['affinity'] = _AFFINITIES.get(word, word)
    if 'priority' in found:
        found['priority'] = _read_number(key, 'priority', found['priority'])
        if found['priority'] > max_priority:
            raise _refuse(
                key,
                'priority',
                f'a lease may ask for a priority of {max_priority} at most; '
                'an operator can raise the priority with "openstack extended '
                'reservation update"',
            )
    return found | _read_numbers(key, found)


def _read_numbers(key: str, found: dict[str, Any]) -> dict[str, int]:
    """Take the numbers of servers out of what is asked for."""
    read = {
        name: _read_number(key, name, found.pop(name))
        for name in ('amount', 'min', 'max')
        if name in found
    }
    if 'amount' in read:
        if len(read) > 1:
            raise _refuse(key, 'amount', 'write amount, or else min and max')
        return {'servers': read['amount'], 'at_most': read['amount']}
    names = {'min': 'servers', 'max': 'at_most'}
    return {names[name]: number for name, number in read.items()}


def _read_number(key: str, name: str, value: Any) -> int:
    """Return a number, which clients may have written as a text."""
    try:
        number = int(str(value))
    except ValueError:
        raise _refuse(key, name, f'{value!r} is not a whole number') from None
    return number


def _refuse(key: str, field: str, reason: str) -> exception.InvalidReservation:
    return exception.InvalidReservation(key=key, field=field, reason=reason)
