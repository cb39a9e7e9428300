# SPDX-License-Identifier: Apache-2.0

"""The acceptance tests of OPNFV Promise, with real servers.

Those of danube.3.0, ``source/test/promise-intents.coffee``, by their numbers.
01 adds a provider, which is decided against.
"""

import dataclasses
import time
from typing import Any

from dev.cloud import told
from dev.cloud import tree
from dev.gate import leasing
from dev.gate import site as sites

_FLAVOR = 'three'
_WAYS = sites.WAYS[_FLAVOR]

#: How many servers are reserved for immediate use.
_RESERVED = 2

#: What changes of capacity are about, and by how much.
_CLASS = 'VCPU'
_CHANGED = 4

_RESERVATIONS = '/extended/reservations'
_CHANGES = '/extended/capacity/changes'
_HOUR = 3600


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Allocations:
    """What the tests create before they destroy it.

    :ivar walk_in: a server without a reservation
    :ivar key: a reservation for immediate use
    :ivar reserved: a server in it
    """

    walk_in: str
    key: str
    reserved: str


def play(site: sites.Site) -> None:
    """The acceptance tests of Promise: capacity, reservations, servers."""
    with leasing.opened(site, 'promise') as blazar:
        blazar.expect_amounts(tree.WAYS, reserved=0)  # 03
        made = _allocate(blazar)
        later = _reserve_later(blazar)
        _change(blazar, later)
        for number, amount in (('11', -_CHANGED), ('02-12', _CHANGED)):
            _plan(blazar, number, amount)
        _conflict(blazar)
        _destroy(blazar, made)


def _allocate(blazar: leasing.Leasing) -> _Allocations:
    """04 to 06, and 13: a server without a reservation and one in it."""
    walk_in = blazar.boot('walk-in', _FLAVOR)
    blazar.expect_amounts(tree.WAYS, reserved=0)
    made = _reserve(blazar, servers=_RESERVED, duration='2h')
    told.expect(made['state'] == 'active', 'it can be used at once', made)
    reserved = blazar.boot('reserved', _FLAVOR, made['id'])
    shown = blazar.show(made['id'])
    told.expect(
        [*shown['taken_by'].values()] == [reserved],
        'the reservation has its server, and no other one',
        shown,
    )
    blazar.expect_amounts(tree.WAYS, reserved=_RESERVED * _WAYS, taken=_WAYS)
    return _Allocations(walk_in=walk_in, key=made['id'], reserved=reserved)


def _reserve(blazar: leasing.Leasing, **order: Any) -> Any:
    body = {'flavor': _FLAVOR, **order}
    made = blazar.user.api.order('POST', _RESERVATIONS, body, status=201)
    return made['reservation']


def _reserve_later(blazar: leasing.Leasing) -> str:
    """07 and 08: one for later is found by a window."""
    made = _reserve(blazar, starts_at=_time(2), ends_at=_time(3))
    told.expect(made['state'] == 'pending', 'it has not started', made)
    for start, end, wanted in ((2, 3, [made['id']]), (3, 4, [])):
        found = _list(blazar, f'from={_time(start)}&until={_time(end)}')
        later = [one['id'] for one in found if one['state'] == 'pending']
        told.expect(later == wanted, 'it is found by its window', found)
    return str(made['id'])


def _list(blazar: leasing.Leasing, query: str) -> list[Any]:
    found = blazar.user.api.get(f'{_RESERVATIONS}?{query}')
    return [*found['reservations']]


def _change(blazar: leasing.Leasing, key: str) -> None:
    """09 and 10: it is updated, and cancelled."""
    path = f'{_RESERVATIONS}/{key}'
    api = blazar.user.api
    changed = api.order('PUT', path, {'servers': 2}, status=200)
    told.expect(
        changed['reservation']['servers'] == 2, 'it is changed', changed
    )
    api.order('DELETE', path, status=204)
    pending = _list(blazar, 'state=pending')
    told.expect(not pending, 'what is cancelled is gone', pending)


def _plan(blazar: leasing.Leasing, name: str, amount: int) -> None:
    """11, 02 and 12: the capacity of a later window is another one."""
    before = blazar.read_amounts(_CLASS, _time(5)).total
    plan = {
        'name': name,
        'host': blazar.site.hosts[0],
        'reason': 'a test',
        'amounts': {_CLASS: amount},
        'starts_at': _time(4),
        'ends_at': _time(6),
    }
    blazar.admin.order('POST', _CHANGES, plan, status=201)
    totals = [
        blazar.read_amounts(_CLASS, _time(hours)).total for hours in (3, 5, 6)
    ]
    wanted = [before, before + amount, before]
    told.expect(totals == wanted, f'the capacity is {wanted}', totals)
    blazar.admin.order('DELETE', f'{_CHANGES}/{name}', status=200)


def _conflict(blazar: leasing.Leasing) -> None:
    """14: what is too much conflicts, now and later."""
    for start, end in (('now', _time(1)), (_time(2), _time(3))):
        window = f'from={start}&until={end}'
        found = blazar.user.api.get(
            f'/extended/capacity/servers?flavor={_FLAVOR}&{window}'
        )
        fits = min(one['servers'] for one in found['capacity'])
        said = blazar.user.api.order_in_vain(
            'POST',
            _RESERVATIONS,
            {
                'flavor': _FLAVOR,
                'servers': fits + 1,
                'starts_at': start,
                'ends_at': end,
            },
            status=409,
        )
        words = f'{fits} can be had in that time'
        told.expect(words in said, f'the refusal says: {words}', said)


def _destroy(blazar: leasing.Leasing, made: _Allocations) -> None:
    """What is left of 14: all servers are destroyed, and hold nothing."""
    for server_id in (made.walk_in, made.reserved):
        blazar.site.delete(server_id)
    blazar.expect_amounts(tree.WAYS, reserved=_RESERVED * _WAYS)
    blazar.user.api.order('DELETE', f'{_RESERVATIONS}/{made.key}', status=204)
    blazar.expect_amounts(tree.WAYS, reserved=0)


def _time(hours: float) -> str:
    """Return the time some hours from now, as the API reads it."""
    return time.strftime(
        '%Y-%m-%dT%H:%M:00Z', time.gmtime(time.time() + hours * _HOUR)
    )
