# SPDX-License-Identifier: Apache-2.0

"""Files of resource definitions: from text to values. Pure.

::

    resources:
      - name: CUSTOM_LICENCE_SEAT
        type: count
        units: seats
        description: Seats of the simulation licence of this host.
        inventory:
          total: 20
          reserved: 2

With ``nodes: [<uuid>, ...]``, bare-metal nodes of ironic have it, each by
itself, and this host does not.

An error of the file as a whole is raised. An error of one entry is returned
as a :class:`BadDefinition`, and the other entries are used.
"""

from collections.abc import Container, Iterable, Iterator
import dataclasses
import re
from typing import Any, TypeAlias
import uuid

import jsonschema
import os_resource_classes
import os_traits

from nova_ext_resources import exception
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects.documents import foreign_data
from nova_ext_resources.objects import resource

#: Key of the provider of entries that name none.
DEFAULT_KEY = 'STATIC'

#: Uuid of a bare-metal node, '' for this host; key of the provider; name.
Place: TypeAlias = tuple[str, str, str]

#: Standard classes that Nova and Neutron do not write themselves.
STANDARD_CLASSES = frozenset({'FPGA', 'PGPU'})

#: Between the file and the number of an entry.
_ENTRY = ', entry '

_CUSTOM_TRAIT = re.compile(r'CUSTOM_[A-Z0-9_]{1,248}')


def _make_schema(*required: str, **properties: Any) -> dict[str, Any]:
    return {
        'type': 'object',
        'additionalProperties': False,
        'required': required,
        'properties': properties,
    }


_WHOLE = {'type': 'integer', 'maximum': class_inventory.MAX_INT}
_POSITIVE = {**_WHOLE, 'minimum': 1}
_STRING = {'type': 'string'}

#: One entry. Inventories are as in the Placement API.
SCHEMA = _make_schema(
    *('name', 'units', 'description', 'inventory'),
    name=_STRING,
    type=_STRING,
    units={**_STRING, 'minLength': 1, 'maxLength': 64},
    description={**_STRING, 'minLength': 1, 'maxLength': 1024},
    inventory=_make_schema(
        'total',
        **dict.fromkeys(
            ('total', 'min_unit', 'max_unit', 'step_size'), _POSITIVE
        ),
        reserved={**_WHOLE, 'minimum': 0},
        allocation_ratio={'type': 'number'},
    ),
    traits={'type': 'array', 'items': _STRING, 'uniqueItems': True},
    provider={
        **_STRING,
        'pattern': r'\A[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}\Z',
    },
    nodes={'type': 'array', 'items': _STRING, 'minItems': 1},
)

_VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StaticResource:
    """One resource of one provider.

    :ivar origin: file and number of the entry, for messages
    :ivar rp_key: key of the provider, see ``HostProvider``
    :ivar nodes: uuids of the bare-metal nodes that have it; without any, this
        host does
    """

    origin: str
    rp_key: str
    definition: resource.ResourceDefinition
    inventory: class_inventory.Inventory
    traits: frozenset[str]
    nodes: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        return self.origin.rsplit(_ENTRY, 1)[0]

    @property
    def places(self) -> tuple[Place, ...]:
        return _list_places(self.nodes, self.rp_key, self.definition.name)

    def refuse(self, places: Iterable[Place], reason: str) -> 'BadDefinition':
        return BadDefinition(
            origin=self.origin, places=tuple(places), reason=reason
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BadDefinition:
    """Why one entry is not used.

    :ivar origin: file and number of the entry; of a file that cannot be read
        as a whole, the file
    :ivar places: where it would be used; '' where that cannot be read
    :ivar reason: a line for each
    :ivar type: its tracker, as far as that can be read
    """

    origin: str
    places: tuple[Place, ...]
    reason: str
    type: str = 'count'

    @property
    def path(self) -> str:
        return self.origin.rsplit(_ENTRY, 1)[0]

    @property
    def name(self) -> str:
        return self.places[0][-1]

    @property
    def subject(self) -> str:
        """What is not known: the resource, or else the entry.

        A class of others, such as VGPU, is known from them.
        """
        is_of_others = resource.is_resource_class(self.name) and (
            not _may_define(self.name)
        )
        return self.origin if is_of_others else self.name or self.origin

    def list_lines(self) -> list[str]:
        """Return each reason, with where it was found."""
        where = f'{self.origin} ({self.name or "without a name"})'
        return [f'{where}: {one}' for one in self.reason.splitlines()]

    def make_closed(self, amount: int) -> StaticResource | None:
        """Make the resource as servers of this host hold all of it.

        :param amount: how much they hold, 1 or more
        :return: None if it has no provider or name that could be meant
        """
        _node, rp_key, name = self.places[0]
        is_ours = resource.is_resource_class(name) and _may_define(name)
        if not rp_key or not is_ours:
            return None
        return StaticResource(
            origin=self.origin,
            rp_key=rp_key,
            definition=resource.ResourceDefinition(
                name=name,
                type=self.type,
                units='units',
                description='The definition of this resource cannot be read.',
            ),
            inventory=class_inventory.Inventory(total=amount, reserved=amount),
            traits=frozenset(),
        )


Parsed: TypeAlias = tuple[list[StaticResource], list[BadDefinition]]


def find_number(one: StaticResource | BadDefinition) -> int:
    """Return which entry of its file one is, from 1."""
    return int(one.origin.rpartition(_ENTRY)[2])


def parse(text: str, path: str, types: Container[str]) -> Parsed:
    """Read one file.

    :param path: for messages
    :param types: trackers that an entry may name
    :raises ValueError: the file as a whole cannot be read; contains the
        line, and what is expected
    """
    good: list[StaticResource] = []
    bad: list[BadDefinition] = []
    for number, data in enumerate(_load(text), start=1):
        origin = f'{path}{_ENTRY}{number}'
        try:
            good.append(_make_resource(data, origin, types))
        except (ValueError, exception.InvalidResource) as err:
            reason = str(err)
            bad.append(
                BadDefinition(
                    origin=origin,
                    places=_find_places(data),
                    reason=reason,
                    type=_find_type(data, types),
                )
            )
    return good, bad


def _load(text: str) -> list[Any]:
    data = foreign_data.load_yaml(text)
    if not isinstance(data, dict) or set(data) != {'resources'}:
        raise ValueError(
            'the file must have the key "resources" and no other key'
        )
    found = [] if data['resources'] is None else data['resources']
    if not isinstance(found, list):
        raise ValueError('resources must be a list ("- name: ...")')
    return found


def _may_define(name: str) -> bool:
    """Return whether no other software has resource classes of that name."""
    return name.startswith('CUSTOM_') or name in STANDARD_CLASSES


def _find_places(data: Any) -> tuple[Place, ...]:
    if not isinstance(data, dict):
        return (('', '', ''),)
    key, name = data.get('provider', DEFAULT_KEY), data.get('name')
    return _list_places(
        _find_nodes(data.get('nodes')),
        key if isinstance(key, str) else '',
        name if isinstance(name, str) else '',
    )


def _find_nodes(nodes: Any) -> tuple[str, ...]:
    """Return the uuids of a list, and what is none as it is."""
    if not isinstance(nodes, list):
        return ()
    return tuple(dict.fromkeys(_find_uuid(one) or str(one) for one in nodes))


def _find_uuid(text: Any) -> str:
    """Return a uuid as placement writes it; '' if it is none."""
    try:
        return str(uuid.UUID(str(text)))
    except ValueError:
        return ''


def _list_places(
    nodes: Iterable[str], rp_key: str, name: str
) -> tuple[Place, ...]:
    return tuple((one, rp_key, name) for one in nodes or [''])


def _find_type(data: Any, types: Container[str]) -> str:
    kind = data.get('type') if isinstance(data, dict) else None
    return kind if isinstance(kind, str) and kind in types else 'count'


def _make_resource(
    data: Any, origin: str, types: Container[str]
) -> StaticResource:
    if reasons := '\n'.join(_list_reasons(data, types)):
        raise ValueError(reasons)
    return StaticResource(
        origin=origin,
        rp_key=data.get('provider', DEFAULT_KEY),
        definition=resource.ResourceDefinition(
            name=data['name'],
            type=data.get('type', 'count'),
            units=data['units'],
            description=data['description'],
        ),
        inventory=class_inventory.Inventory(**data['inventory']),
        traits=frozenset(data.get('traits', ())),
        nodes=_find_nodes(data.get('nodes')),
    )


def _list_reasons(data: Any, types: Container[str]) -> Iterator[str]:
    errors = sorted(_VALIDATOR.iter_errors(data), key=lambda e: e.json_path)
    for error in errors:
        where = '.'.join(map(str, error.absolute_path))
        yield f'{where}: {error.message}' if where else error.message
    if errors:
        return
    name, kind = data['name'], data.get('type', 'count')
    if not _may_define(name):
        is_standard = name in os_resource_classes.STANDARDS
        reason = (
            'reported by other services' if is_standard else 'not standard'
        )
        yield f'{name} is {reason}; use a name that begins with CUSTOM_'
    if kind not in types:
        yield (
            f'type {kind} is not installed, or needs facts about the host; '
            'use count, or the inventory provider that discovers this resource'
        )
    elif 'nodes' in data:
        yield from _list_node_reasons(data, kind)
    for trait in data.get('traits', ()):
        is_custom = _CUSTOM_TRAIT.fullmatch(trait)
        if not is_custom and trait not in os_traits.get_traits():
            yield (
                f'{trait} is not a trait: use a standard trait, or CUSTOM_ '
                'and upper case letters, digits and _'
            )


def _list_node_reasons(data: Any, kind: str) -> Iterator[str]:
    if kind != 'count':
        yield (
            f'type {kind} is not for bare-metal nodes, whose resources only '
            'placement counts; use count'
        )
    if data['inventory'].get('allocation_ratio', 1) > 1:
        yield (
            'a bare-metal node belongs to one server, which cannot have more '
            'than the total of the node; remove allocation_ratio'
        )
    for node in data['nodes']:
        if not _find_uuid(node):
            yield (
                f'{node} is not the uuid of a bare-metal node; "openstack '
                'baremetal node list" shows the uuids'
            )
