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

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import jsonschema

from nova_ext_resources.objects import inventory
from nova_ext_resources.objects import provider as provider_obj
from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import capacity_plan
from nova_ext_resources.reservation import errors
from nova_ext_resources.reservation import fleet as fleet_mod
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import order as order_mod
from nova_ext_resources.reservation import times

Document: TypeAlias = Mapping[str, Any]

_TEXT = {'type': 'string', 'minLength': 1, 'maxLength': 255}

_SCHEMA = {
    'type': 'object',
    'additionalProperties': False,
    'required': ['name'],
    'properties': {
        'name': order_mod.NAME,
        'host': _TEXT,
        'provider': _TEXT,
        'maintenance': {'const': True},
        'amounts': {
            'type': 'object',
            'minProperties': 1,
            'additionalProperties': {
                'type': 'integer',
                'minimum': -inventory.MAX_INT,
                'maximum': inventory.MAX_INT,
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
            'say that it is a maintenance, or else how much there is more or '
            'less of which resource class',
        )
    if fault := order_mod.find_fault(reason):
        raise _refuse(key, 'reason', fault)


def _explain(err: jsonschema.ValidationError) -> str:
    if err.validator == 'not':
        return 'zero changes nothing; leave it out'
    return order_mod.explain(err)


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


def make_change(
    document: Document,
    during: interval.Interval,
    fleet: fleet_mod.Fleet,
    others: capacity_plan.Changes,
    now: int,
    **fields: Any,
) -> capacity_change.CapacityChange:
    """Make the change of a plan that was checked.

    :param others: the changes that are planned already
    :param fields: who planned it, when and why
    :raises InvalidCapacityChange: the host, the provider or a class is not
        known, or there is not so much to take away
    """
    key, host = document['name'], document.get('host', '')
    if host and host not in fleet.hosts:
        raise _refuse(
            key,
            'host',
            f'there is no host {host} that is enabled; "openstack compute '
            'service list" has them',
        )
    provider = _find_provider(document, fleet)
    if provider is None:
        return capacity_change.CapacityChange(
            key=key, during=during, host=host, **fields
        )
    amounts = document.get('amounts', {})
    return capacity_change.CapacityChange(
        key=key,
        during=during,
        # What a sharing provider has less, it has less for all hosts.
        host=_find_host(fleet, provider),
        rp_uuid=provider.rp_uuid,
        provider=provider.name,
        amounts=amounts,
        before={
            name: _check_amount(
                key, fleet, others, provider, (name, amount), during, now
            )
            for name, amount in sorted(amounts.items())
        },
        **fields,
    )


def _find_provider(
    document: Document, fleet: fleet_mod.Fleet
) -> provider_obj.Provider | None:
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
            'resource provider list" has them, with their uuids',
        )
    if 'amounts' in document:
        _choose_provider(key, document['amounts'], found, fleet)
    return found[0]


def _choose_provider(
    key: str,
    amounts: Mapping[str, int],
    providers: Iterable[provider_obj.Provider],
    fleet: fleet_mod.Fleet,
) -> provider_obj.Provider:
    """Return the one that has all classes.

    :raises InvalidCapacityChange: there is none, or there are several
    """
    places = fleet.calendar.places
    named = [*providers]
    for name in amounts:
        if not any((one.rp_uuid, name) in places for one in named):
            classes = {
                place[1]
                for place in places
                if any(one.rp_uuid == place[0] for one in named)
            }
            raise _refuse(
                key,
                'resource class',
                f'there is no {name} there; known: '
                f'{", ".join(sorted(classes)) or "none"}',
            )
    found = [
        one
        for one in named
        if all((one.rp_uuid, name) in places for name in amounts)
    ]
    if len(found) != 1:
        names = ', '.join(sorted(one.name for one in found or named))
        raise _refuse(
            key,
            'provider',
            f'several have {" and ".join(sorted(amounts))}: {names}; plan a '
            'change for each, and name its provider',
        )
    return found[0]


def _find_host(fleet: fleet_mod.Fleet, provider: provider_obj.Provider) -> str:
    """Return the host of a provider, '' if several share it."""
    if provider.rp_uuid in fleet.shared:
        return ''
    return next(
        name
        for name, one in fleet.hosts.items()
        if any(each.rp_uuid == provider.rp_uuid for each in one.providers)
    )


def _check_amount(
    key: str,
    fleet: fleet_mod.Fleet,
    others: capacity_plan.Changes,
    provider: provider_obj.Provider,
    wanted: tuple[str, int],
    during: interval.Interval,
    now: int,
) -> int:
    """Return the capacity that is known for the start of a change.

    :raises InvalidCapacityChange: it takes away more than there is, or units
        that are not alike
    """
    name, amount = wanted
    place = provider.rp_uuid, name
    tracked = next(
        one.view.tracked[place]
        for one in fleet.hosts.values()
        if place in one.view.tracked
    )
    if not capacity_plan.can_count(tracked):
        raise _refuse(
            key,
            'amounts',
            f'which units of {name} there will be the host chooses; plan a '
            'maintenance of the provider',
        )
    capacity = capacity_plan.get_capacity(tracked)
    deltas = [
        (part, delta)
        for one in others
        if one.amounts and one.has(place)
        for part, delta in one.list_deltas(name, capacity, now)
    ]
    left = capacity + sum(
        delta for part, delta in deltas if delta < 0 and part.overlaps(during)
    )
    if left + amount < 0:
        raise _refuse(
            key,
            f'amounts.{name}',
            f'{-amount} less are more than the {max(left, 0)} that provider '
            f'{provider.name} has then; take away less, or plan a '
            'maintenance',
        )
    more = sum(
        delta
        for part, delta in deltas
        if delta > 0 and part.start <= during.start < part.end
    )
    if capacity + more + max(amount, 0) > inventory.MAX_INT:
        raise _refuse(
            key,
            f'amounts.{name}',
            f'placement stores no more than {inventory.MAX_INT}',
        )
    return capacity + more


def _refuse(key: str, field: str, reason: str) -> errors.InvalidCapacityChange:
    return errors.InvalidCapacityChange(key=key, field=field, reason=reason)
