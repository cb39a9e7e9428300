# SPDX-License-Identifier: Apache-2.0

"""What operators plan, checked as a whole before anything is changed.

A plan is a document (JSON types only) with these keys::

    name         unique among the changes, of up to 250 characters
    host         name of a host
    provider     uuid or name of a resource provider, where the host has
                 several with the class, or where several hosts share it
    maintenance  true: nothing is there, of the host or the provider; or
    amounts      {CLASS: NUMBER}: so many units of capacity more, or less where
                 the number is below zero, the allocation ratio counted in
    starts_at    now (the default), +2h, or 2030-01-31T08:00Z
    ends_at      the same; or instead of it
    duration     2h30m; with neither of them there is no end
"""

from collections.abc import Container, Mapping, Sequence
import dataclasses
from typing import Any, TypeAlias

import jsonschema

from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import capacity_plan
from nova_ext_resources.reservation import errors
from nova_ext_resources.reservation import fleets
from nova_ext_resources.reservation import forecast
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import order
from nova_ext_resources.reservation import times

Document: TypeAlias = Mapping[str, Any]

_TEXT = {'type': 'string', 'minLength': 1, 'maxLength': 255}

_SCHEMA = {
    'type': 'object',
    'additionalProperties': False,
    'required': ['name'],
    'properties': {
        'name': order.NAME,
        'host': _TEXT,
        'provider': _TEXT,
        'maintenance': {'const': True},
        'amounts': {
            'type': 'object',
            'minProperties': 1,
            'additionalProperties': {
                'type': 'integer',
                'minimum': -class_inventory.MAX_INT,
                'maximum': class_inventory.MAX_INT,
                'not': {'const': 0},
            },
        },
        'starts_at': _TEXT,
        'ends_at': _TEXT,
        'duration': _TEXT,
    },
}


def check(document: Document, reason: str) -> None:
    """Check a plan as far as that is possible without a cloud.

    :raises InvalidCapacityChange: it is not as this module says, or there is
        no reason
    """
    if not isinstance(document, Mapping):
        raise _refuse(
            '(without a name)', 'the plan', 'it is not a JSON object'
        )
    key = str(document.get('name', '(without a name)'))
    validator = jsonschema.Draft202012Validator(_SCHEMA)
    err = jsonschema.exceptions.best_match(validator.iter_errors(document))
    if err is not None:
        field = '.'.join(map(str, err.absolute_path)) or 'the plan'
        raise _refuse(key, field, _explain(err))
    if not {'host', 'provider'} & document.keys():
        raise _refuse(key, 'host', 'name a host, or a resource provider')
    if ('maintenance' in document) == ('amounts' in document):
        raise _refuse(
            key,
            'amounts',
            'write either maintenance, or the amounts by which resource '
            'classes grow or shrink',
        )
    for name, amount in document.get('amounts', {}).items():
        # To JSON's schemas 4.0 is a whole number, too.
        if type(amount) is not int:
            raise _refuse(
                key, f'amounts.{name}', f'{amount!r} is not a whole number'
            )
    if fault := order.find_fault(reason):
        raise _refuse(key, 'reason', fault)


def _explain(err: jsonschema.ValidationError) -> str:
    if err.validator == 'not':
        return 'zero changes nothing; leave it out'
    return order.explain(err)


def read_during(document: Document, now: int) -> interval.Interval:
    """Return when it is to be.

    :param now: seconds since the epoch
    :raises InvalidCapacityChange: the times make no sense, or have passed
    """
    key = document['name']
    if 'ends_at' in document and 'duration' in document:
        raise _refuse(key, 'duration', 'name an end or a duration, not both')
    field, end = 'starts_at', interval.FOREVER
    try:
        start = times.parse_time(document.get('starts_at', 'now'), now)
        field = 'duration' if 'duration' in document else 'ends_at'
        if 'duration' in document:
            seconds = times.parse_seconds(document['duration'])
            end = interval.add_seconds(start, seconds)
        elif 'ends_at' in document:
            end = times.parse_time(document['ends_at'], now)
        during = interval.Interval(start, end)
    except ValueError as err:
        raise _refuse(key, field, str(err)) from err
    if start < now:
        raise _refuse(
            key,
            'starts_at',
            f'{interval.format_time(start)} is before now '
            f'({interval.format_time(now)}); write now, or a later time',
        )
    return during


def is_same(
    document: Document, known: capacity_change.CapacityChange, reason: str
) -> bool:
    """Return whether a plan that was checked is of a change that there is.

    Its times are those that it had when that was planned, so that it is the
    same also where it says ``now`` or ``+2h``.
    """
    try:
        during = read_during(document, known.created_at)
    except errors.InvalidCapacityChange:
        return False
    hosts = {document.get('host', known.host), known.host}
    is_whole = 'maintenance' in document and 'provider' not in document
    return (
        during == known.during
        and is_whole == (known.is_maintenance and known.is_of_host)
        and reason == known.reason
        and dict(document.get('amounts', {})) == dict(known.amounts)
        # What several hosts share may be named by any of them.
        and (len(hosts) == 1 or not known.host)
        and document.get('provider', known.provider)
        in (known.provider, known.rp_uuid)
    )


def make_change(
    document: Document,
    during: interval.Interval,
    fleet: fleets.Fleet,
    others: capacity_plan.Changes,
    now: int,
    *,
    names: Container[str] = (),
) -> capacity_change.CapacityChange:
    """Make the change of a plan that was checked.

    :param others: the changes that are planned already
    :param names: hosts that are there and disabled
    :raises InvalidCapacityChange: the host, the provider or a class is not
        known, or there is not so much to take away
    """
    key, host = document['name'], document.get('host', '')
    provider = None
    if not _is_away(document, fleet, names):
        provider = _find_provider(document, fleet)
    if provider is None:
        return capacity_change.CapacityChange(
            key=key, during=during, host=host, created_at=now
        )
    change = capacity_change.CapacityChange(
        key=key,
        during=during,
        # What a sharing provider has less, it has less for all hosts.
        host=_find_host(fleet, provider),
        rp_uuid=provider.rp_uuid,
        provider=provider.name,
        amounts=document.get('amounts', {}),
        created_at=now,
    )
    return _set_base(change, fleet, others, now)


def _is_away(
    document: Document, fleet: fleets.Fleet, names: Container[str]
) -> bool:
    """Return whether it is about a host that is disabled as a whole.

    :raises InvalidCapacityChange: there is no such host; or it is disabled,
        so that it is not known what it has
    """
    key, host = document['name'], document.get('host', '')
    if not host or host in fleet.hosts:
        return False
    if host not in names:
        raise _refuse(
            key,
            'host',
            f'placement has no host {host}; "openstack resource provider '
            'list" shows the hosts by the names of their hypervisors',
        )
    if 'maintenance' in document and 'provider' not in document:
        return True
    raise _refuse(
        key,
        'host',
        f'host {host} is disabled, so only a maintenance of the whole host '
        'can be planned; enable the host, and then plan the change',
    )


def _find_provider(
    document: Document, fleet: fleets.Fleet
) -> host_provider.Provider | None:
    """Return the provider that is meant; None for all that a host has."""
    key, host = document['name'], document.get('host')
    known = {
        one.rp_uuid: one
        for name, each in fleet.hosts.items()
        if host in (None, name)
        for one in each.providers
    }
    named = document.get('provider')
    if named is None:
        if 'maintenance' in document:
            return None
        own = [
            one for one in known.values() if one.rp_uuid not in fleet.shared
        ]
        return _choose_provider(key, document['amounts'], own, fleet)
    found = [one for one in known.values() if named in (one.rp_uuid, one.name)]
    if len(found) != 1:
        where = f'host {host} uses' if host else 'the hosts use'
        raise _refuse(
            key,
            'provider',
            f'{where} {len(found)} resource providers {named}; "openstack '
            'resource provider list" shows names and uuids of providers',
        )
    if 'amounts' in document:
        _choose_provider(key, document['amounts'], found, fleet)
    return found[0]


def _choose_provider(
    key: str,
    amounts: Mapping[str, int],
    providers: Sequence[host_provider.Provider],
    fleet: fleets.Fleet,
) -> host_provider.Provider:
    """Return the one that has all classes.

    :raises InvalidCapacityChange: there is none, or there are several
    """
    places = fleet.calendar.places
    uuids = {one.rp_uuid for one in providers}
    known = {place[1] for place in places if place[0] in uuids}
    if unknown := sorted(amounts.keys() - known):
        raise _refuse(
            key,
            'resource class',
            f'the host or provider has no {unknown[0]}; known: '
            f'{", ".join(sorted(known)) or "none"}',
        )
    found = [
        one
        for one in providers
        if all((one.rp_uuid, name) in places for name in amounts)
    ]
    if len(found) == 1:
        return found[0]
    names = ', '.join(sorted(one.name for one in found or providers))
    raise _refuse(
        key,
        'provider',
        f'several providers have {" and ".join(sorted(amounts))}: {names}; '
        'plan a change for each provider, and name the provider',
    )


def _find_host(fleet: fleets.Fleet, provider: host_provider.Provider) -> str:
    """Return the host of a provider, '' if several share it."""
    if provider.rp_uuid in fleet.shared:
        return ''
    return next(
        name
        for name, one in fleet.hosts.items()
        if any(each.rp_uuid == provider.rp_uuid for each in one.providers)
    )


def _set_base(
    change: capacity_change.CapacityChange,
    fleet: fleets.Fleet,
    others: capacity_plan.Changes,
    now: int,
) -> capacity_change.CapacityChange:
    """Return a change with what there would be without any.

    :raises InvalidCapacityChange: it takes away more than there is, or units
        that are not alike
    """
    before = {}
    for name in sorted(change.amounts):
        tracked = capacity_plan.find_tracked(fleet, (change.rp_uuid, name))
        if not capacity_plan.can_count(tracked):
            raise _refuse(
                change.key,
                'amounts',
                f'the host itself chooses the units of {name} that it will '
                'have; plan a maintenance of the provider',
            )
        own = [one for one in others if one.rp_uuid == change.rp_uuid]
        shown = capacity_plan.get_capacity(tracked)
        known = forecast.make(own, name, shown, now)
        _check_amount(change, name, known)
        before[name] = known.find_base()
    return dataclasses.replace(change, before=before)


def _check_amount(
    change: capacity_change.CapacityChange,
    name: str,
    known: forecast.Forecast,
) -> None:
    """Check that a provider has at no time less than nothing, or too much.

    :param known: without the change
    :raises InvalidCapacityChange: it has
    """
    amount, expected = change.amounts[name], known.count()
    least = expected.lowest(change.during)
    if least + amount < 0:
        raise _refuse(
            change.key,
            f'amounts.{name}',
            f'provider {change.provider} has only {least} at that time, '
            f'fewer than the {-amount} to take away; take away less, or plan '
            'a maintenance',
        )
    if expected.highest(change.during) + amount > class_inventory.MAX_INT:
        raise _refuse(
            change.key,
            f'amounts.{name}',
            f'placement stores no more than {class_inventory.MAX_INT}',
        )


def _refuse(key: str, field: str, reason: str) -> errors.InvalidCapacityChange:
    return errors.InvalidCapacityChange(key=key, field=field, reason=reason)
