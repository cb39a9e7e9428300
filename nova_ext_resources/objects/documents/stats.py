# SPDX-License-Identifier: Apache-2.0

"""The stats document: a host's view as one string in Nova's host state.

Nova carries ``get_available_resource()['stats']`` to the scheduler as JSON
in a TEXT column (64 KiB on MySQL), at most one periodic old. A document that
would fill it comes without ``n``, or with ``f`` only: MySQL would refuse the
whole row of the host. The document is JSON, too::

    {
        "f": {CLASS: [FREE, USED]},
        "k": CONSTRAINTS,
        "n": [KEY, ...],
        "p": {
            RP_UUID: {
                CLASS: {
                    "t": TRACKER,
                    "s": STATE,
                    "i": [RP_UUID, CLASS],
                    "c": CPUS,
                    "f": 1,
                    "n": CPUS,
                }
            }
        },
        "v": 1,
    }

in this order. ``f`` sums up the host, so that who compares hosts need not
read on; of a class that the host takes none of now, nothing is free there.
``k`` is what the host can never do, or not now, itself JSON in a string: most
hosts have the same one, which is then read once. ``n`` has the key of each
provider in ``p``, in their order, for messages. ``i`` is there when a server
that holds the class also holds one unit of that other class, ``c`` when the
units serve these CPUs only, ``f`` when they follow the threads of a server
whose CPUs float, ``n`` when they serve these CPUs best. Readers take a
document of another version as absent, and pass over keys that they do not
know; hosts before ``k`` publish none.
"""

from collections.abc import Iterable, Mapping, Sequence
import functools
import json
from typing import Any, NamedTuple, TypeAlias

from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects.documents import foreign_data
from nova_ext_resources.objects import host_constraints
from nova_ext_resources.objects import host_view

#: Key in ``stats``. Nova sums keys that begin with ``num_task``: not ours.
KEY = 'ext_resources'

VERSION = 1

#: Another key, of hosts that take part in live migrations: those with an
#: older release have ``KEY`` only, and those on which Nova's own driver runs
#: have neither.
LIVE_KEY = 'ext_resources_live'

#: What a document may take of the column; Nova has a few stats of its own.
MAX_BYTES = 60 * 1024

#: Between these two is what :func:`decode_totals` need not look at.
_HEAD = '{"f":'
_TAIL = f',"v":{VERSION}}}'

#: rp_uuid -> resource class -> what ``encode`` wrote of it.
Providers: TypeAlias = Mapping[str, Mapping[str, Mapping[str, Any]]]


class Document(NamedTuple):
    """A document as it was published, not checked any further.

    :ivar constraints: ``k``
    :ivar keys: ``n``
    """

    providers: Providers
    constraints: str = ''
    keys: Sequence[Any] = ()


def encode(view: host_view.HostView) -> str:
    """Write the document; as much of it as there is room for."""
    providers: dict[str, dict[str, Any]] = {}
    totals: dict[str, list[int]] = {}
    for (rp_uuid, resource_class), tracked in sorted(view.tracked.items()):
        record: dict[str, Any] = {
            't': tracked.tracker,
            's': tracked.state.to_dict(),
        }
        if tracked.implied:
            record['i'] = list(tracked.implied)
        if tracked.cpus is not None:
            record['c'] = tracked.cpus
        if tracked.follows_tasks:
            record['f'] = 1
        if tracked.near is not None:
            record['n'] = tracked.near
        providers.setdefault(rp_uuid, {})[resource_class] = record
        total = totals.setdefault(resource_class, [0, 0])
        if resource_class not in view.constraints.refused:
            total[0] += tracked.state.free
        total[1] += tracked.state.used
    short = {'f': totals, 'v': VERSION}
    rules = view.constraints
    limits = {'k': _dump(rules.to_dict())} if rules else {}
    unnamed = {**short, **limits, 'p': providers}
    keys = [view.keys.get(one, '') for one in sorted(providers)]
    whole = {**unnamed, 'n': keys} if view.keys else unnamed
    for document in (whole, unnamed, short):
        text = _dump(document)
        if _fits(text):
            return text
    return _dump({'f': {}, 'v': VERSION})


def is_cut(text: str) -> bool:
    """Return whether ``encode`` had no room for all of it."""
    return '"p":{' not in text


def _dump(data: Mapping[str, Any]) -> str:
    return json.dumps(data, separators=(',', ':'), sort_keys=True)


def _fits(text: str) -> bool:
    return count_room(text) >= 0


def count_room(text: str) -> int:
    """Return how many bytes a document leaves of what it may take."""
    # Nova writes all stats as JSON, in which each quote takes two bytes.
    return MAX_BYTES - len(json.dumps(text))


def decode(text: str | None) -> Document | None:
    """Read a document; None when there is none that we understand."""
    if not text:
        return None
    try:
        data, end = foreign_data.load_first(text)
    except foreign_data.UNREADABLE:
        return None
    if end != len(text) or not isinstance(data, dict):
        return None
    if data.get('v') != VERSION:
        return None
    providers, constraints = data.get('p'), data.get('k', '')
    keys = data.get('n')
    if not isinstance(providers, dict):
        return None
    return Document(
        providers,
        constraints if isinstance(constraints, str) else '',
        keys if isinstance(keys, list) else (),
    )


def decode_totals(text: str | None) -> Mapping[str, Any] | None:
    """Read ``f`` alone, which is 20 times faster with 32 cache domains.

    :returns: resource class -> [free, used], not checked any further; None
        when there is nothing that we understand
    """
    if not text or not text.startswith(_HEAD) or not text.endswith(_TAIL):
        return None
    try:
        totals, _end = foreign_data.DECODER.raw_decode(text, len(_HEAD))
    except foreign_data.UNREADABLE:
        return None
    return totals if isinstance(totals, dict) else None


def update(
    document: Document,
    view: host_view.HostView,
    taken: Iterable[assignment.Assignment],
) -> Document:
    """Return the document with the states of what was taken."""
    providers = dict(document.providers)
    for one in taken:
        records = dict(providers[one.rp_uuid])
        state = view.tracked[one.rp_uuid, one.resource_class].state
        records[one.resource_class] = {
            **records[one.resource_class],
            's': state.to_dict(),
        }
        providers[one.rp_uuid] = records
    return document._replace(providers=providers)


def make_view(
    document: Document,
    trackers: Mapping[str, host_view.StateReader],
    unread: dict[tuple[str, str], str] | None = None,
) -> host_view.HostView:
    """Make the view of a document.

    What a tracker does not understand, or is not installed here, is left
    out: the host alone decides on it.

    :param unread: takes (resource class, tracker) -> why it was left out
    """
    tracked = {}
    for rp_uuid, records in document.providers.items():
        if not isinstance(records, dict):
            continue
        for resource_class, record in records.items():
            try:
                tracked[rp_uuid, resource_class] = _read(record, trackers)
            except foreign_data.UNREADABLE as err:
                if unread is not None:
                    kind = record.get('t') if isinstance(record, dict) else ''
                    unread[resource_class, str(kind)] = repr(err)
    return host_view.HostView(
        tracked=tracked,
        keys={
            rp_uuid: key
            for rp_uuid, key in zip(
                document.providers, document.keys, strict=False
            )
            if key and isinstance(key, str)
        },
        constraints=read_constraints(document.constraints),
    )


@functools.lru_cache(maxsize=64)
def read_constraints(text: str) -> host_constraints.Constraints:
    """Read ``k``; what is none does not constrain."""
    try:
        return host_constraints.Constraints.from_dict(
            foreign_data.load_json(text)
        )
    except foreign_data.UNREADABLE:
        return host_constraints.Constraints()


def _read(
    record: Mapping[str, Any], trackers: Mapping[str, host_view.StateReader]
) -> host_view.Tracked:
    name = record['t']
    state = trackers[name].from_dict(record['s'])
    implied = record.get('i')
    cpus, near = record.get('c'), record.get('n')
    for one in (cpus, near):
        if one is not None:
            bitmask.parse_list(one)
    return host_view.Tracked(
        tracker=name,
        state=state,
        implied=(str(implied[0]), str(implied[1])) if implied else None,
        cpus=cpus,
        follows_tasks=bool(record.get('f')),
        near=near,
    )
