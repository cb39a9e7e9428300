# SPDX-License-Identifier: Apache-2.0

"""The grammar of ``resources:*`` and ``resource:*``, read in one place.

::

    resources:CLASS=AMOUNT              an amount (Nova's and placement's own)
    resources<SUFFIX>:CLASS=AMOUNT      an amount in a request group
    resource:CLASS:ATTRIBUTE=VALUE      an attribute of one resource
    resource:ENFORCER:KEY=VALUE         a wish for one enforcer
    resource:lease:KEY=VALUE            how long it is used; see ``lease``

Nova drops an amount that it cannot read and boots the server without the
resource (``nova.objects.request_spec``). Here everything that begins with
one of the prefixes is either understood or refused.
"""

from collections.abc import Mapping
import dataclasses
import re

from nova_ext_resources.claims import lease
from nova_ext_resources import exception
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import requirements
from nova_ext_resources.objects import resource

#: Suffixes as in the Placement API since 1.33.
_AMOUNT_KEY = re.compile(r'resources([a-zA-Z0-9_-]{1,64})?:([^:]+)')
_AMOUNT = re.compile(r'[0-9]{1,10}')
_PREFIX = re.compile(r'resources?[^:]*:')


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """What may follow ``resource:``; plugins add to it.

    :ivar attributes: attribute -> regular expression of its values
    :ivar no_attributes: attribute that there is not -> why
    :ivar enforcers: enforcer -> key -> regular expression of its values
    """

    attributes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    no_attributes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    enforcers: Mapping[str, Mapping[str, str]] = dataclasses.field(
        default_factory=dict
    )


def is_ours(key: str) -> bool:
    """Return whether an extra spec has one of the two prefixes."""
    return bool(_PREFIX.match(key))


def parse(
    extra_specs: Mapping[str, str], grammar: Grammar
) -> requirements.Requirement:
    """Make the requirement of a flavor.

    :param extra_specs: all of the flavor's; keys of others are passed over
    :raises InvalidExtraSpec: one of ours is malformed; none is dropped
    """
    groups: dict[str, dict[str, int]] = {}
    attributes: dict[str, dict[str, str]] = {}
    enforcers: dict[str, dict[str, str]] = {}
    for key, value in sorted(extra_specs.items()):
        if key.startswith('resource:'):
            subject, name = check_attribute(key, value, grammar)
            if subject == lease.SUBJECT:
                continue
            chosen = enforcers if subject in grammar.enforcers else attributes
            chosen.setdefault(subject, {})[name] = value
        elif is_ours(key):
            suffix, resource_class, amount = check_amount(key, value)
            if amount:
                groups.setdefault(suffix, {})[resource_class] = amount
    made = requirements.Requirement(
        groups=tuple(
            requirements.RequestGroup(suffix=suffix, resources=resources)
            for suffix, resources in sorted(groups.items())
        ),
        attributes=attributes,
        enforcers=enforcers,
        thread_policy=extra_specs.get('hw:cpu_thread_policy', ''),
    )
    _check_subjects(made)
    lease.parse(extra_specs)
    return made


def check(key: str, value: str, grammar: Grammar) -> None:
    """Check one extra spec by itself.

    :raises InvalidExtraSpec: it is one of ours and malformed
    """
    if key.startswith('resource:'):
        check_attribute(key, value, grammar)
    elif is_ours(key):
        check_amount(key, value)


def check_amount(key: str, value: str) -> tuple[str, str, int]:
    """Give suffix, resource class and amount of a ``resources`` key.

    :raises InvalidExtraSpec: the key or the value is malformed
    """
    match = _AMOUNT_KEY.fullmatch(key)
    if not match:
        raise _refuse(
            key, value, 'the key must be resources:CLASS or resources_X:CLASS'
        )
    suffix, resource_class = match[1] or '', match[2]
    _check_class(key, value, resource_class)
    return suffix, resource_class, _check_number(key, value, resource_class)


def check_attribute(key: str, value: str, grammar: Grammar) -> tuple[str, str]:
    """Give subject and name of a ``resource`` key.

    :raises InvalidExtraSpec: the key or the value is malformed
    """
    _prefix, *parts = key.split(':')
    if len(parts) != 2:
        raise _refuse(
            key,
            value,
            'the key must be resource:CLASS:ATTRIBUTE, '
            'resource:ENFORCER:KEY or resource:lease:KEY',
        )
    subject, name = parts
    if subject == lease.SUBJECT:
        _check_wish(key, value, lease.PATTERNS)
    elif subject in grammar.enforcers:
        _check_wish(key, value, grammar.enforcers[subject])
    else:
        others = sorted([lease.SUBJECT, *grammar.enforcers])
        _check_class(key, value, subject, others)
        if name in grammar.no_attributes:
            raise _refuse(key, value, grammar.no_attributes[name])
        _check_wish(key, value, grammar.attributes)
    return subject, name


def _check_class(
    key: str, value: str, name: str, others: list[str] | None = None
) -> None:
    if resource.is_resource_class(name):
        return
    choice = f', or one of {", ".join(others)}' if others else ''
    raise _refuse(
        key,
        value,
        f'{name} is not a resource class: use a standard class, or CUSTOM_ '
        f'and upper case letters, digits and _{choice}',
    )


def _check_number(key: str, value: str, resource_class: str) -> int:
    # Zero takes a standard class out of the request (Nova's rule). Of a
    # custom one it would ask for nothing, which nobody means.
    low = 1 if resource_class.startswith('CUSTOM_') else 0
    high = class_inventory.MAX_INT
    if _AMOUNT.fullmatch(value) and low <= int(value) <= high:
        return int(value)
    raise _refuse(
        key, value, f'the amount must be a whole number from {low} to {high}'
    )


def _check_wish(key: str, value: str, keys: Mapping[str, str]) -> None:
    name = key.rsplit(':', 1)[1]
    if name not in keys:
        raise _refuse(key, value, f'{name} is unknown; known: {_list(keys)}')
    if not re.fullmatch(keys[name], value):
        raise _refuse(key, value, f'the value must match {keys[name]}')


def _check_subjects(made: requirements.Requirement) -> None:
    """Refuse attributes and wishes with no amount that they belong to."""
    asked = made.resources
    for resource_class, attributes in made.attributes.items():
        if resource_class not in asked:
            name, value = next(iter(attributes.items()))
            raise _refuse(
                f'resource:{resource_class}:{name}',
                value,
                'the flavor does not request the resource of the attribute; '
                f'add resources:{resource_class}=AMOUNT',
            )
    for enforcer, wishes in made.enforcers.items():
        if not any(name.startswith('CUSTOM_') for name in asked):
            name, value = next(iter(wishes.items()))
            raise _refuse(
                f'resource:{enforcer}:{name}',
                value,
                'the flavor requests no custom resource class; '
                'add resources:CUSTOM_...',
            )


def _list(names: Mapping[str, object] | tuple[str, ...]) -> str:
    return ', '.join(sorted(names)) or 'none'


def _refuse(key: str, value: str, reason: str) -> exception.InvalidExtraSpec:
    return exception.InvalidExtraSpec(key=key, value=value, reason=reason)
