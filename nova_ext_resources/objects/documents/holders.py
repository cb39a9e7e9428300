# SPDX-License-Identifier: Apache-2.0

"""Who holds which units of a host, as one string in Nova's host state.

Beside the stats document, and apart from it: a scheduler reads that one for
each host and each request, and has no use for names. Whoever plans for a later
time needs them, because what a server holds of a promise to it must not count
twice. The document is JSON::

    {
        "p": [[RP_UUID, CLASS], ...],
        "r": [[PLACE, HOST, OTHER, POOLS], ...],
        "s": {CONSUMER: {"c": CPUS, "h": [[PLACE, AMOUNT, UNITS, 1], ...]}},
        "v": 1,
    }

``PLACE`` is a position in ``p``; the number behind the units is there when
placement has no allocation for them; ``c`` are the CPUs that are the server's
own. ``r`` is what has the reserved units of a place
(``objects/reserved_units``), where the host reports it; hosts before ``r``
publish none, and it is left out if there is no room for it. Readers take a
document of another version as absent, and pass over keys that they do not
know.
"""

from collections.abc import Collection, Iterable, Mapping
import dataclasses
import json
from typing import Any

from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects.documents import foreign_data
from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import reserved_units

#: Key in ``stats``. Nova sums keys that begin with ``num_task``: not ours.
KEY = 'ext_resources_holders'

VERSION = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """What one consumer of placement holds on a host.

    :ivar assignments: without keys of providers
    :ivar cpus: host CPUs that are its own; None when it floats
    """

    assignments: tuple[assignment.Assignment, ...] = ()
    cpus: frozenset[int] | None = None

    def find_allocated(self, place: host_view.Place) -> int:
        """Return how much of a place placement has allocated to it."""
        return sum(
            one.amount
            for one in self.assignments
            if (one.rp_uuid, one.resource_class) == place and one.is_allocated
        )


def encode(
    entries: Collection[assignment.Entry],
    room: int,
    reserved: Mapping[host_view.Place, reserved_units.Reserved] | None = None,
) -> str:
    """Write the document; '' when there is no room for it.

    :param room: how many bytes of what Nova carries it may take
    :param reserved: what has the reserved units of a place; left out if there
        is no room for it
    """
    numbers: dict[host_view.Place, int] = {}
    servers = {
        one.consumer_uuid: _write(one, numbers)
        for one in sorted(entries, key=lambda one: one.consumer_uuid)
    }
    short = _dump({'p': [*numbers], 's': servers, 'v': VERSION})
    rows = [
        [numbers.setdefault(place, len(numbers)), *dataclasses.astuple(one)]
        for place, one in (reserved or {}).items()
    ]
    whole = {'p': [*numbers], 'r': rows, 's': servers, 'v': VERSION}
    for text in (_dump(whole), short) if rows else (short,):
        # Nova writes all stats as JSON, in which each quote takes two bytes.
        if len(json.dumps(text)) <= room:
            return text
    return ''


def _dump(data: Mapping[str, Any]) -> str:
    return json.dumps(data, separators=(',', ':'))


def _write(
    entry: assignment.Entry, numbers: dict[host_view.Place, int]
) -> dict[str, Any]:
    held = []
    for one in entry.assignments:
        place = one.rp_uuid, one.resource_class
        number = numbers.setdefault(place, len(numbers))
        row = [number, one.amount, dict(one.units)]
        held.append(row if one.is_allocated else [*row, 1])
    cpus = entry.cpus
    return {
        **({} if cpus is None else {'c': bitmask.format_list(cpus)}),
        'h': held,
    }


def decode(text: str | None) -> dict[str, Holder] | None:
    """Return consumer -> what it holds; None where that is not said.

    Or is said in words that are not understood here.
    """
    if not text:
        return None
    try:
        data = foreign_data.load_json(text)
        if data['v'] != VERSION:
            return None
        places = [(str(rp_uuid), str(name)) for rp_uuid, name in data['p']]
        return {
            str(consumer): _read(one, places)
            for consumer, one in data['s'].items()
        }
    except foreign_data.UNREADABLE:
        return None


def decode_reserved(
    text: str | None,
) -> dict[host_view.Place, reserved_units.Reserved]:
    """Return what has the reserved units, of the places where that is said."""
    if not text:
        return {}
    try:
        data = foreign_data.load_json(text)
        if data['v'] != VERSION:
            return {}
        places = [(str(rp_uuid), str(name)) for rp_uuid, name in data['p']]
        return {
            places[foreign_data.read_whole(number)]: _read_reserved(*values)
            for number, *values in data.get('r', ())
        }
    except foreign_data.UNREADABLE:
        return {}


def _read_reserved(
    host: Any, other: Any, pools: Any
) -> reserved_units.Reserved:
    read = foreign_data.read_whole
    return reserved_units.Reserved(
        host=read(host), other=read(other), pools=read(pools)
    )


def _read(one: Mapping[str, Any], places: list[host_view.Place]) -> Holder:
    cpus = one.get('c')
    return Holder(
        assignments=tuple(_read_rows(one['h'], places)),
        cpus=None if cpus is None else bitmask.parse_list(cpus),
    )


def _read_rows(
    rows: Iterable[list[Any]], places: list[host_view.Place]
) -> Iterable[assignment.Assignment]:
    for number, amount, units, *others in rows:
        rp_uuid, name = places[foreign_data.read_whole(number)]
        yield assignment.Assignment(
            rp_uuid=rp_uuid,
            rp_key='',
            resource_class=name,
            amount=foreign_data.read_whole(amount),
            units=dict(units),
            is_allocated=not others,
        )
