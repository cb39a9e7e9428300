# SPDX-License-Identifier: Apache-2.0

"""What the sources of pools say -> numbers of units. Pure.

Whatever makes no sense raises ``ValueError``, with the reason.
"""

from collections.abc import Mapping
import datetime
import math
from typing import Any

from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects.documents import foreign_data
from nova_ext_resources.objects import pool

#: Of whatever a source counts; more makes no sense.
_MAX_NUMBER = 1e300


def parse_document(
    text: bytes, unit_size: int, read_at: datetime.datetime
) -> pool.Reading:
    """Read ``{"total": 100, "free": 40}``; other keys are ignored.

    :raises ValueError: it is no such document
    """
    document = _parse_json(text)
    if 'free' in document and 'reserved' in document:
        raise ValueError(
            'the document has both "free" and "reserved"; write only one of '
            'them'
        )
    return _make_reading(document, unit_size, read_at)


def parse_ceph(
    text: bytes, name: str, unit_size: int, read_at: datetime.datetime
) -> pool.Reading:
    """Read the output of ``ceph df --format json``.

    ``stored`` and ``max_avail`` are of data, without its copies. The latter
    is what all pools on the same devices have left.

    :raises ValueError: it is none, or has no such pool
    """
    pools = _parse_json(text).get('pools')
    found = [
        one.get('stats')
        for one in (pools if isinstance(pools, list) else ())
        if isinstance(one, dict) and one.get('name') == name
    ]
    if len(found) != 1 or not isinstance(found[0], dict):
        raise ValueError(f'"ceph df" shows no pool {name}')
    free = _read_number(found[0], 'max_avail')
    total = _read_number(found[0], 'stored') + free
    return _make_reading({'total': total, 'free': free}, unit_size, read_at)


def make_from_blocks(
    *,
    blocks: int,
    free: int,
    available: int,
    block_size: int,
    unit_size: int,
    read_at: datetime.datetime,
) -> pool.Reading:
    """Read what ``statvfs`` says.

    Blocks for root alone count as nothing, as in ``df``.

    :raises ValueError: it makes no sense
    """
    return _make_reading(
        {
            'total': (blocks - free + available) * block_size,
            'free': available * block_size,
        },
        unit_size,
        read_at,
    )


def _make_reading(
    document: Mapping[str, Any], unit_size: int, read_at: datetime.datetime
) -> pool.Reading:
    whole = _read_number(document, 'total')
    total = math.floor(whole / unit_size)
    if total > class_inventory.MAX_INT:
        raise ValueError(
            f'the total is {total} units, more than placement can store; set '
            'a larger unit_size'
        )
    numbers = {}
    for name, to_units in (('free', math.floor), ('reserved', math.ceil)):
        if name in document:
            number = _read_number(document, name)
            units = to_units(number / unit_size)
            # A part of a unit is none of the total.
            numbers[name] = min(units, total) if number <= whole else units
    return pool.Reading(
        total=total,
        free=numbers.get('free'),
        reserved=numbers.get('reserved'),
        read_at=read_at,
    )


def _parse_json(text: bytes) -> dict[str, Any]:
    document = foreign_data.load_json(text)
    if not isinstance(document, dict):
        raise ValueError('the content is not a JSON object')
    return document


def _read_number(document: Mapping[str, Any], name: str) -> int | float:
    try:
        return foreign_data.read_number(document.get(name), 0, _MAX_NUMBER)
    except ValueError as err:
        raise ValueError(f'"{name}": {err}') from err
