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

What is wrong with the file as a whole is raised. What is wrong with one
entry is reported as a :class:`Problem`, and the others count.
"""

from collections.abc import Container, Iterator, Mapping
import dataclasses
import re
from typing import Any

import jsonschema
import os_traits
import yaml

from nova_ext_resources import exception
from nova_ext_resources.objects import inventory as inventory_obj
from nova_ext_resources.objects import resource

#: Key of the provider of entries that name none.
DEFAULT_KEY = 'STATIC'

#: Standard classes that Nova and Neutron do not write themselves.
STANDARD_CLASSES = frozenset({'FPGA', 'PGPU'})

_CUSTOM_TRAIT = re.compile(r'CUSTOM_[A-Z0-9_]{1,248}')

_WHOLE = {'type': 'integer', 'maximum': inventory_obj.MAX_INT}
_POSITIVE = {**_WHOLE, 'minimum': 1}

#: One entry. Inventories are as in the Placement API.
SCHEMA: Mapping[str, Any] = {
    '$schema': 'https://json-schema.org/draft/2020-12/schema',
    'type': 'object',
    'additionalProperties': False,
    'required': ['name', 'units', 'description', 'inventory'],
    'properties': {
        'name': {'type': 'string'},
        'type': {'type': 'string'},
        'units': {'type': 'string', 'minLength': 1, 'maxLength': 64},
        'description': {'type': 'string', 'minLength': 1, 'maxLength': 1024},
        'inventory': {
            'type': 'object',
            'additionalProperties': False,
            'required': ['total'],
            'properties': {
                'total': _POSITIVE,
                'reserved': {**_WHOLE, 'minimum': 0},
                'min_unit': _POSITIVE,
                'max_unit': _POSITIVE,
                'step_size': _POSITIVE,
                'allocation_ratio': {'type': 'number'},
            },
        },
        'traits': {
            'type': 'array',
            'items': {'type': 'string'},
            'uniqueItems': True,
        },
        'provider': {
            'type': 'string',
            'pattern': r'\A[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}\Z',
        },
    },
}

_VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One resource of one provider.

    :ivar origin: file and number of the entry, for messages
    :ivar rp_key: key of the provider, see ``HostProvider``
    """

    origin: str
    rp_key: str
    definition: resource.ResourceDefinition
    inventory: inventory_obj.Inventory
    traits: frozenset[str]

    @property
    def place(self) -> tuple[str, str]:
        return self.rp_key, self.definition.name


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why one entry is left out.

    :ivar origin: file and number of the entry
    :ivar place: provider key and name, '' where it has none
    """

    origin: str
    place: tuple[str, str]
    reason: str

    def __str__(self) -> str:
        name = self.place[1] or 'without a name'
        return f'{self.origin} ({name}): {self.reason}'


class _Loader(yaml.SafeLoader):
    """Refuses a key that is there twice; YAML's own loader drops one."""

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f'{key.value} is there twice',
                    problem_mark=key.start_mark,
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


def parse(
    text: str, path: str, types: Container[str]
) -> tuple[list[Entry], list[Problem]]:
    """Read one file.

    :param path: for messages
    :param types: trackers that an entry may name
    :raises ValueError: the file as a whole cannot be read; says in which
        line, and what is expected
    """
    entries: list[Entry] = []
    problems: list[Problem] = []
    for number, data in enumerate(_load(text), start=1):
        origin = f'{path}, entry {number}'
        try:
            entries.append(_make_entry(data, origin, types))
        except ValueError as err:
            place = _find_place(data)
            problems.append(
                Problem(origin=origin, place=place, reason=str(err))
            )
    return entries, problems


def _load(text: str) -> list[Any]:
    try:
        # A subclass of SafeLoader.
        data = yaml.load(text, Loader=_Loader)  # noqa: S506
    except yaml.MarkedYAMLError as err:
        mark = err.problem_mark or err.context_mark
        line = f'line {mark.line + 1}: ' if mark else ''
        raise ValueError(f'{line}{err.problem or err.context}') from err
    # ValueError: PyYAML on a date or number that does not exist.
    except (yaml.YAMLError, ValueError, RecursionError) as err:
        raise ValueError(f'it is no YAML: {err}') from err
    if not isinstance(data, dict) or set(data) != {'resources'}:
        raise ValueError('it must hold one key, resources, and nothing else')
    found = data['resources']
    if found is None:
        return []
    if not isinstance(found, list):
        raise ValueError('resources must be a list ("- name: ...")')
    return found


def _find_place(data: Any) -> tuple[str, str]:
    if not isinstance(data, dict):
        return '', ''
    key, name = data.get('provider', DEFAULT_KEY), data.get('name')
    return (
        key if isinstance(key, str) else '',
        name if isinstance(name, str) else '',
    )


def _make_entry(data: Any, origin: str, types: Container[str]) -> Entry:
    reasons = list(_list_reasons(data, types))
    if reasons:
        raise ValueError('; '.join(reasons))
    try:
        return Entry(
            origin=origin,
            rp_key=data.get('provider', DEFAULT_KEY),
            definition=resource.ResourceDefinition(
                name=data['name'],
                type=data.get('type', 'count'),
                units=data['units'],
                description=data['description'],
            ),
            inventory=inventory_obj.Inventory(**data['inventory']),
            traits=frozenset(data.get('traits', ())),
        )
    except exception.InvalidResource as err:
        raise ValueError(str(err)) from err


def _list_reasons(data: Any, types: Container[str]) -> Iterator[str]:
    errors = sorted(_VALIDATOR.iter_errors(data), key=lambda e: e.json_path)
    for error in errors:
        where = '.'.join(map(str, error.absolute_path))
        yield f'{where}: {error.message}' if where else error.message
    if errors:
        return
    name, kind = data['name'], data.get('type', 'count')
    if not name.startswith('CUSTOM_') and name not in STANDARD_CLASSES:
        yield (
            f'{name} is for others to report; give it a name that begins '
            'with CUSTOM_'
        )
    if kind not in types:
        yield (
            f'type {kind} is not installed, or needs facts that only a look '
            'at the host can give; use count, or the inventory provider '
            'that finds this resource'
        )
    for trait in data.get('traits', ()):
        if not _is_trait(trait):
            yield (
                f'{trait} is no trait: a standard one, or CUSTOM_ and upper '
                'case letters, digits and _ is expected'
            )


def _is_trait(name: str) -> bool:
    return bool(_CUSTOM_TRAIT.fullmatch(name)) or (
        name in os_traits.get_traits()
    )
