# SPDX-License-Identifier: Apache-2.0

"""What people ask for, checked as a whole before anything is planned.

An order is a document (JSON types only) with these keys, all of which may be
left out but ``name``::

    name         unique among the reservations of the project that are not
                 over, of up to 240 characters; it does not end with ~2 or
                 another number
    flavor       name or id of a flavor; or instead of it
    resources    {CLASS: AMOUNT}, with extra_specs {KEY: VALUE}; up to 64 of
                 each, and 8 request groups, for planning takes time for each
    starts_at    now (the default), +2h, or 2030-01-31T08:00Z
    ends_at      the same; or instead of it
    duration     2h30m; with neither of them there is no end
    delay        2h: by how much the start may be later
    servers      how many at least, 1 by default
    at_most      how many if there is room
    zone         availability zone
    affinity     any, same-host or different-hosts
    priority     those of a higher one are not moved for this one
    expires_after  30m: how long after its start what no server of Nova has
                 taken is released; without it, not before the end
    at_end       what becomes of its servers: keep (the default), shelve or
                 delete
    project      id of the project that it is for
"""

from collections.abc import Mapping, Set
import re
from typing import Any, TypeAlias

import jsonschema

from nova_ext_resources import exception
from nova_ext_resources.reservation import flavor as flavor_mod
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import server_demand
from nova_ext_resources.reservation import times

Document: TypeAlias = Mapping[str, Any]

MAX_SERVERS = 10_000

#: Amounts, and extra specs, of an order without a flavor. Nova's own ones are
#: made by operators.
MAX_SPECS = 64

#: Request groups of the same: each multiplies the ways to serve it.
MAX_GROUPS = 8

#: What placement can count to.
_MAX_AMOUNT = 0x7FFFFFFF

AFFINITIES = {
    'any': plan_request.Affinity.ANY,
    'same-host': plan_request.Affinity.SAME_HOST,
    'different-hosts': plan_request.Affinity.DIFFERENT_HOSTS,
}

_TEXT = {'type': 'string', 'minLength': 1, 'maxLength': 255}
#: No control characters, no bytes that are no characters, and no spaces at its
#: ends: people must type it.
_ID = {
    **_TEXT,
    'description': 'write it without control characters, and without spaces '
    'at its ends',
    'pattern': r'^[^\s\x00-\x1f\x7f\ud800-\udfff]'
    r'([^\x00-\x1f\x7f\ud800-\udfff]*[^\s\x00-\x1f\x7f\ud800-\udfff])?\Z',
}
#: The key of a server is as long as the database allows: NAME/9999.
NAME = {**_ID, 'maxLength': 250}
#: Some databases store no zero byte, and none a half of a character.
_REASON = {
    'type': 'string',
    'description': 'say why, in a sentence',
    'maxLength': 1000,
    'pattern': r'^[^\x00\ud800-\udfff]*[^\s\x00\ud800-\udfff]'
    r'[^\x00\ud800-\udfff]*\Z',
}
_COUNT = {'type': 'integer', 'minimum': 1, 'maximum': MAX_SERVERS}

#: What is asked for that a change may ask for, too.
_CHANGEABLE = {
    'flavor': _TEXT,
    'resources': {
        'type': 'object',
        'maxProperties': MAX_SPECS,
        'propertyNames': {'maxLength': 255},
        'additionalProperties': {
            'type': 'integer',
            'minimum': 1,
            'maximum': _MAX_AMOUNT,
        },
    },
    'extra_specs': {
        'type': 'object',
        'maxProperties': MAX_SPECS,
        'propertyNames': {'maxLength': 255},
        # As long as in Nova.
        'additionalProperties': {'type': 'string', 'maxLength': 255},
    },
    'affinity': {'enum': sorted(AFFINITIES)},
    'starts_at': _TEXT,
    'ends_at': _TEXT,
    'duration': _TEXT,
    'delay': _TEXT,
    'servers': _COUNT,
    'at_most': _COUNT,
    'priority': {'type': 'integer', 'minimum': -1000, 'maximum': 1000},
    'expires_after': _TEXT,
    'at_end': {'enum': [str(one) for one in plan_request.AtEnd]},
}

_SCHEMA = {
    'type': 'object',
    'additionalProperties': False,
    'required': ['name'],
    'properties': {
        **_CHANGEABLE,
        'name': {**NAME, 'maxLength': 240, 'not': {'pattern': r'~\d+\Z'}},
        'zone': _TEXT,
        'project': _ID,
    },
}

_CHANGE_SCHEMA = {
    'type': 'object',
    'additionalProperties': False,
    'minProperties': 1,
    # Null is any zone again.
    'properties': {
        **_CHANGEABLE,
        'zone': {**_TEXT, 'type': ['string', 'null']},
    },
}

#: Keys of an order that say what one server needs.
_NEEDS = ('flavor', 'resources', 'extra_specs')

#: Extra specs of an order. A flavor may have others, for other programs.
_MEANINGFUL = re.compile(
    r'resource:|(resources|trait)([A-Za-z0-9_-]{1,64})?:|hw:|group_policy$'
)


def check(document: Document) -> None:
    """Check an order as far as that is possible without a cloud.

    :raises InvalidReservation: it is not as this module says
    """
    key = str(document.get('name', '(without a name)'))
    _validate(key, document, _SCHEMA)
    _check_needs(key, document)


def check_changes(key: str, changes: Document) -> bool:
    """Check a change of an order, as :func:`check` does.

    :returns: whether servers are to need something else
    :raises InvalidReservation: it is not as this module says
    """
    _validate(key, changes, _CHANGE_SCHEMA)
    has_needs = not changes.keys().isdisjoint(_NEEDS)
    if has_needs:
        _check_needs(key, changes)
    return has_needs


def _check_needs(key: str, document: Document) -> None:
    is_named, is_listed = 'flavor' in document, 'resources' in document
    if is_named == is_listed:
        raise _refuse(
            key, 'flavor', 'name a flavor, or else amounts of resources'
        )
    if is_named and 'extra_specs' in document:
        raise _refuse(
            key,
            'extra_specs',
            'extra specs belong to resources; a flavor has its own extra '
            'specs',
        )
    specs = {f'resources:{name}' for name in document.get('resources', ())}
    if twice := specs & document.get('extra_specs', {}).keys():
        raise _refuse(
            key,
            'extra_specs',
            f'{", ".join(sorted(twice))}: the amount is in resources, too; '
            'write each amount once',
        )
    for name in document.get('extra_specs', {}):
        if not _MEANINGFUL.match(name):
            raise _refuse(
                key,
                'extra_specs',
                f'{name} has no meaning here; write keys that begin with '
                'resource:, resources, trait or hw:, or group_policy',
            )


def check_reason(key: str, reason: str) -> None:
    """Check the sentence that is kept with a change.

    :param key: the reservation that is changed
    :raises InvalidReservation: it is blank, too long, or no text
    """
    if fault := find_fault(reason):
        raise _refuse(key, 'reason', fault)


def find_fault(reason: str) -> str | None:
    """Return what is wrong with a sentence that is to be kept; or None."""
    validator = jsonschema.Draft202012Validator(_REASON)
    err = jsonschema.exceptions.best_match(validator.iter_errors(reason))
    return None if err is None else explain(err)


def check_demand(
    key: str,
    demand: server_demand.Demand,
    classes: Set[str],
    traits: Set[str],
) -> None:
    """Check that some host has each class and each trait.

    :param classes: those that hosts have, and so ``traits``
    :raises InvalidReservation: none has
    """
    wanted = {t for one in demand.traits.values() for t in one.required}
    for field, missing in (
        ('resource class', set(demand.requirement.resources) - classes),
        ('trait', wanted - traits),
    ):
        if missing:
            names = ', '.join(sorted(missing))
            raise _refuse(
                key,
                field,
                f'no host that is enabled has {names}; correct the name, or '
                'see "openstack resource provider list"',
            )


def check_groups(key: str, demand: server_demand.Demand) -> None:
    """Check that an order without a flavor has not too many request groups.

    :raises InvalidReservation: it has
    """
    number = len(demand.requirement.groups)
    if number > MAX_GROUPS:
        raise _refuse(
            key,
            'extra_specs',
            f'{number} request groups are too many (the limit is '
            f'{MAX_GROUPS}); ask for more of a class in one group, or have '
            'an operator make a flavor',
        )


#: Extra spec that has a server get CPUs of its own.
_POLICY = 'hw:cpu_policy'


def make_flavor(document: Document) -> flavor_mod.Flavor:
    """Return the amounts of an order without a flavor, as one.

    PCPU are dedicated CPUs, and so are VCPU if the order says so.
    """
    specs = dict(document.get('extra_specs', {}))
    amounts = dict(document['resources'])
    vcpus = amounts.get('PCPU', 0)
    if vcpus:
        specs.setdefault(_POLICY, 'dedicated')
    elif specs.get(_POLICY) == 'dedicated':
        vcpus = amounts.pop('VCPU', 0)
    own = {f'resources:{name}': str(one) for name, one in amounts.items()}
    return flavor_mod.Flavor(vcpus=vcpus, extra_specs={**specs, **own})


def make_request(
    document: Document,
    demand: server_demand.Demand,
    now: int,
    flavor: str = '',
) -> plan_request.Request:
    """Make the request of an order that was checked.

    :param now: seconds since the epoch
    :param flavor: name of the flavor that the demand is of
    :raises InvalidReservation: a time or a number makes no sense
    """
    key = document['name']
    start = _read_time(key, document, 'starts_at', now, now)
    return _make(
        key,
        demand=demand,
        during=_read_during(key, document, start, now, interval.FOREVER),
        delay=_read_seconds(key, document, 'delay'),
        least=document.get('servers', 1),
        most=document.get('at_most', 0),
        zone=document.get('zone'),
        affinity=AFFINITIES[document.get('affinity', 'any')],
        priority=document.get('priority', 0),
        flavor=flavor,
        project=document.get('project', ''),
        expires_after=_read_expiry(key, document, None),
        at_end=plan_request.AtEnd(document.get('at_end', 'keep')),
    )


def change_request(
    request: plan_request.Request,
    during: interval.Interval,
    changes: Document,
    now: int,
    needs: tuple[server_demand.Demand, str] | None = None,
) -> plan_request.Request:
    """Make the request that a change of a reservation asks for.

    What is not named stays as it is: if only the start is another one, the
    end stays.

    :param during: when the reservation is served now
    :param changes: some of the keys of an order, checked
    :param needs: what one server shall need, and the name of its flavor;
        None if that stays
    :raises InvalidReservation: they make no sense
    """
    key = request.key
    demand, flavor = needs or (request.demand, request.flavor)
    start = _read_time(key, changes, 'starts_at', during.start, now)
    least = changes.get('servers', request.least)
    default = least if 'servers' in changes else request.most
    return _make(
        key,
        demand=demand,
        during=_read_during(key, changes, start, now, during.end),
        delay=_read_seconds(key, changes, 'delay'),
        least=least,
        most=changes.get('at_most', default),
        zone=changes.get('zone', request.zone),
        affinity=AFFINITIES[changes['affinity']]
        if 'affinity' in changes
        else request.affinity,
        priority=changes.get('priority', request.priority),
        flavor=flavor,
        project=request.project,
        expires_after=_read_expiry(key, changes, request.expires_after),
        at_end=plan_request.AtEnd(changes.get('at_end', request.at_end)),
    )


def _make(
    key: str, *, least: int, most: int, **fields: Any
) -> plan_request.Request:
    if 0 < most < least:
        raise _refuse(
            key,
            'at_most',
            f'{most} is less than {least}, the least number of servers; '
            'correct one of the numbers',
        )
    during, delay = fields['during'], fields['delay']
    last = during.start if during.is_open else during.end
    if last + delay >= times.YEAR_10000:
        raise _refuse(
            key,
            'delay' if delay else 'duration',
            'the reservation would start or end after the year 9999; write a '
            'shorter time',
        )
    fields |= {'least': least, 'most': most}
    try:
        return plan_request.Request(key=key, **fields)
    except ValueError as err:
        raise _refuse(key, 'servers', str(err)) from err


def _read_during(
    key: str, document: Document, start: int, now: int, end: int
) -> interval.Interval:
    """Return when it shall be.

    :param end: where the document says nothing of it
    """
    if 'ends_at' in document and 'duration' in document:
        raise _refuse(key, 'duration', 'name an end or a duration, not both')
    end = _read_time(key, document, 'ends_at', end, now)
    if 'duration' in document:
        seconds = _read_seconds(key, document, 'duration')
        end = interval.add_seconds(start, seconds)
    try:
        return interval.Interval(start, end)
    except ValueError as err:
        raise _refuse(key, 'ends_at', str(err)) from err


def _read_time(
    key: str, document: Document, field: str, default: int, now: int
) -> int:
    if field not in document:
        return default
    try:
        return times.parse_time(document[field], now)
    except ValueError as err:
        raise _refuse(key, field, str(err)) from err


def _read_seconds(key: str, document: Document, field: str) -> int:
    if field not in document:
        return 0
    try:
        return times.parse_seconds(document[field])
    except ValueError as err:
        raise _refuse(key, field, str(err)) from err


def _read_expiry(
    key: str, document: Document, default: int | None
) -> int | None:
    if 'expires_after' not in document:
        return default
    return _read_seconds(key, document, 'expires_after')


def _validate(key: str, document: Document, schema: Document) -> None:
    """Check a document by a schema.

    :raises InvalidReservation: names the first thing that is wrong
    """
    validator = jsonschema.Draft202012Validator(schema)
    err = jsonschema.exceptions.best_match(validator.iter_errors(document))
    if err is not None:
        field = '.'.join(map(str, err.absolute_path)) or 'the order'
        raise _refuse(key, field, explain(err))


def explain(err: jsonschema.ValidationError) -> str:
    """Return what is wrong, without the words of schemas."""
    match err.validator:
        case 'minLength':
            return 'it is empty; leave it out, or write something'
        case 'maxLength':
            length = len(str(err.instance))
            return f'{length} characters; {err.validator_value} are allowed'
        case 'maxProperties':
            found: Any = err.instance
            return f'{len(found)} entries; {err.validator_value} are allowed'
        case 'minProperties':
            return 'no change is named'
        case 'not':
            return (
                f'{err.instance!r} ends with ~ and a number; leave this '
                'ending out'
            )
        case 'pattern':
            schema: Any = err.schema
            advice = schema['description']
            return (
                f'{err.instance!r} is blank, or has characters that are '
                f'not allowed; {advice}'
            )
    return str(err.message)


def _refuse(key: str, field: str, reason: str) -> exception.InvalidReservation:
    return exception.InvalidReservation(key=key, field=field, reason=reason)


def refuse_time(
    request: plan_request.Request, field: str, now: int
) -> exception.InvalidReservation:
    """Return the error for a start or an end that is over.

    :param field: ``starts_at`` or ``ends_at``
    """
    seconds, fault, advice = {
        'starts_at': (
            request.during.start,
            'is before now',
            'write now, or a later time',
        ),
        'ends_at': (
            request.during.end,
            'is not after now',
            'write a later time, or cancel the reservation',
        ),
    }[field]
    when, clock = interval.format_time(seconds), interval.format_time(now)
    return _refuse(request.key, field, f'{when} {fault} ({clock}); {advice}')
