# SPDX-License-Identifier: Apache-2.0

"""Files of pools: from text to values. Pure.

::

    pools:
      - name: rack1
        resource_class: CUSTOM_RACK1_GB
        source: statvfs
        location: /var/lib/nova/mnt/rack1

With ``source: none``, this host reaches the pool, and others read it.

An error of the file as a whole is raised. An error of one entry is returned
as a :class:`BadPool`, and the other entries are used.
"""

from collections.abc import Iterator
import dataclasses
import re
from typing import Any
import urllib.parse

import jsonschema
import os_traits

from nova_ext_resources import exception
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects.documents import foreign_data
from nova_ext_resources.objects import pool

#: Bytes, unless ``unit_size`` says otherwise: of sources that count bytes.
GIB = 1024**3

#: The pool is read by other hosts only.
NONE = 'none'

#: Sources of documents, which may be old; the others measure the pool.
_DOCUMENTS = frozenset({'file', 'http'})

#: Source -> default of ``unit_size``.
UNIT_SIZES = {'statvfs': GIB, 'ceph': GIB, 'file': 1, 'http': 1}

_CUSTOM_TRAIT = re.compile(r'CUSTOM_[A-Z0-9_]{1,248}')

_POSITIVE = {
    'type': 'integer',
    'minimum': 1,
    'maximum': class_inventory.MAX_INT,
}

SCHEMA = {
    'type': 'object',
    'additionalProperties': False,
    'required': ['name', 'resource_class', 'source'],
    'properties': {
        'name': {
            'type': 'string',
            'pattern': r'\A[A-Za-z0-9][A-Za-z0-9_.:-]{0,57}\Z',
        },
        'resource_class': {
            'type': 'string',
            'pattern': r'\ACUSTOM_[A-Z0-9_]{1,248}\Z',
        },
        'source': {'enum': sorted([*UNIT_SIZES, NONE])},
        'location': {'type': 'string', 'minLength': 1, 'maxLength': 2048},
        'unit_size': {
            'type': 'integer',
            'minimum': 1,
            'maximum': 1 << 62,
        },
        'max_age': _POSITIVE,
        'others_use': {'enum': [*pool.OTHERS_USE]},
        'min_free_percent': {'type': 'integer', 'minimum': 0, 'maximum': 100},
        'traits': {
            'type': 'array',
            'items': {'type': 'string'},
            'uniqueItems': True,
        },
        'inventory': {
            'type': 'object',
            'additionalProperties': False,
            'properties': {
                'reserved': {**_POSITIVE, 'minimum': 0},
                'min_unit': _POSITIVE,
                'max_unit': _POSITIVE,
                'step_size': _POSITIVE,
                'allocation_ratio': {
                    'type': 'number',
                    'exclusiveMinimum': 0,
                    'maximum': 10000,
                },
            },
        },
    },
}

_VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One pool, and where its numbers come from.

    :ivar source: :data:`NONE`, or one of :data:`UNIT_SIZES`
    :ivar max_age: seconds after which a reading counts as old
    """

    pool: pool.SharedPool
    source: str
    location: str
    unit_size: int
    max_age: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BadPool:
    """Why one entry is not used.

    :ivar name: as far as it can be read
    """

    name: str
    reason: str


def find_undated(one: Definition, reading: pool.Reading) -> str:
    """Explain why a reading is of no use without its time; '' if it is."""
    counts = reading.free is not None and (
        one.pool.others_use == pool.NOT_ALLOCATED
    )
    if not reading.undated or not (one.max_age or counts):
        return ''
    key = 'max_age' if one.max_age else f'others_use {pool.NOT_ALLOCATED}'
    return (
        f'{reading.undated}, and {key} needs the time of the document: let '
        f'the source report the time, or remove {key} from the entry'
    )


def parse(text: str) -> tuple[list[Definition], list[BadPool]]:
    """Read a file.

    :raises ValueError: it is not such a file at all
    """
    content = foreign_data.load_yaml(text)
    if not isinstance(content, dict) or content.keys() != {'pools'}:
        raise ValueError('the file must have the key "pools" and no other key')
    entries = content['pools']
    if not isinstance(entries, list):
        raise ValueError('"pools" is not a list; for no pools, write []')
    found: list[Definition] = []
    bad: list[BadPool] = []
    for number, entry in enumerate(entries, 1):
        name = entry.get('name') if isinstance(entry, dict) else None
        name = name if isinstance(name, str) else f'number {number}'
        reasons = [*_list_errors(entry)] or [*_list_clashes(entry, found)]
        if reasons:
            bad.append(BadPool(name=name, reason='; '.join(reasons)))
        else:
            found.append(_make(entry))
    return found, bad


def _list_errors(entry: Any) -> Iterator[str]:
    """Return what is wrong with an entry by itself."""
    errors = [*_VALIDATOR.iter_errors(entry)]
    for error in errors:
        where = '.'.join(map(str, error.path))
        yield f'{where}: {error.message}' if where else error.message
    if errors:
        if isinstance(entry, dict) and (
            entry.get('resource_class') == 'DISK_GB'
        ):
            yield (
                'every host also reports its own DISK_GB beside the pool (bug '
                '1784020 of Nova); use a class of your own, and '
                'resources:DISK_GB=0 in flavors'
            )
        return
    known = os_traits.get_traits()
    for trait in entry.get('traits', ()):
        if trait not in known and not _CUSTOM_TRAIT.fullmatch(trait):
            yield (
                f'traits: {trait} is neither a trait of os-traits nor CUSTOM_*'
            )
    if entry['source'] == NONE:
        yield from _list_without_effect(entry)
    elif 'location' not in entry:
        yield "'location' is a required property"
    else:
        yield from _list_wrong_locations(entry['source'], entry['location'])
    if entry['source'] not in {NONE, *_DOCUMENTS} and 'max_age' in entry:
        yield (
            f'max_age: source {entry["source"]} measures the pool at each '
            'reading; remove max_age'
        )
    try:
        rules = {'reserved': 0, **entry.get('inventory', {})}
        class_inventory.Inventory(total=class_inventory.MAX_INT, **rules)
    except exception.InvalidResource as err:
        yield str(err)


def _list_without_effect(entry: dict[str, Any]) -> Iterator[str]:
    for key in entry.keys() - {'name', 'resource_class', 'source'}:
        yield (
            f'{key}: with source none, this host does not read the pool; only '
            'hosts that read the pool set this key; remove the key'
        )


def _list_wrong_locations(source: str, location: str) -> Iterator[str]:
    if source in ('statvfs', 'file') and not location.startswith('/'):
        yield f'location: {location} is not an absolute path'
    if source == 'http':
        try:
            url = urllib.parse.urlsplit(location)
            is_url = url.scheme in ('http', 'https') and bool(url.hostname)
            has_password = bool(url.username or url.password)
        except ValueError:
            is_url, has_password = False, '@' in location
        if has_password:
            yield 'location: a URL with a password would appear in logs'
        elif not is_url:
            yield f'location: {location!r} is not an http or https URL'


def _list_clashes(
    entry: dict[str, Any], found: list[Definition]
) -> Iterator[str]:
    for one in found:
        if one.pool.name == entry['name']:
            yield 'name: another pool has this name'
        if one.pool.resource_class == entry['resource_class']:
            yield (
                f'resource_class: pool {one.pool.name} has this class too, so '
                'a moving server could get units of the other pool'
            )


def _make(entry: dict[str, Any]) -> Definition:
    return Definition(
        pool=pool.SharedPool(
            name=entry['name'],
            resource_class=entry['resource_class'],
            rules=dict(entry.get('inventory', {})),
            others_use=entry.get('others_use', pool.NOT_FREE),
            min_free_percent=entry.get('min_free_percent', 10),
            traits=frozenset(entry.get('traits', ())),
            is_read=entry['source'] != NONE,
        ),
        source=entry['source'],
        location=entry.get('location', ''),
        unit_size=entry.get('unit_size', UNIT_SIZES.get(entry['source'], 1)),
        max_age=entry.get('max_age'),
    )
