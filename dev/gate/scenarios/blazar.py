# SPDX-License-Identifier: Apache-2.0

"""A lease of Blazar, from an ordinary user to running servers."""

import collections
import math
import time
from typing import Any

from dev.cloud import reservations
from dev.cloud import told
from dev.cloud import tree
from dev.cloud import waiting
from dev.gate import audit
from dev.gate import leasing
from dev.gate import refused
from dev.gate import site as sites

_FLAVOR = 'three'
_WAYS = sites.WAYS[_FLAVOR]

_BORROWED = 'borrowed'

#: From which on Nova shows the hints of a server.
_HINTS_MICROVERSION = '2.100'

#: Seconds between the notice and the end of a borrower.
_DRAIN_SECONDS = 10

_DATE = '%Y-%m-%d %H:%M'
_MINUTE = 60

#: Seconds from the request to the start, at least, and so many times what a
#: command takes.
_LEAD_SECONDS = 60.0
_LEAD_COMMANDS = 12

#: Minutes of the lease.
_DURATION = 60


def play(site: sites.Site) -> None:
    """A lease of all that fits is lent, drained, taken and deleted."""
    with leasing.opened(site, 'blazar') as blazar:
        count, took = blazar.store.commands.survey(_FLAVOR, '1h')
        lease = _make_lease(
            blazar, count, max(_LEAD_SECONDS, _LEAD_COMMANDS * took)
        )
        borrower = _lend(blazar, lease)
        _offer(blazar, lease, count)
        _hide(blazar, lease)
        _wait_for_start(blazar, lease, borrower)
        leased = _boot_leased(blazar, lease, count)
        audit.check(site)
        blazar.expect_amounts(
            tree.WAYS, reserved=count * _WAYS, taken=count * _WAYS
        )
        free = _release(blazar, lease, leased.pop())
        audit.check(site)
        for server_id in (borrower, free, *leased):
            site.delete(server_id)


def _get_key(lease: Any) -> str:
    """Return the id of the reservation of a lease."""
    (reservation,) = lease['reservations']
    return str(reservation['id'])


def _make_lease(blazar: leasing.Leasing, count: int, lead: float) -> Any:
    """Reserve all servers for the next minute for which there is time."""
    start = math.ceil((time.time() + lead) / _MINUTE) * _MINUTE
    lease = blazar.user.api.order(
        'POST', '/leases', _describe(start, count), status=201
    )['lease']
    told.expect(lease['status'] == 'PENDING', 'the lease is PENDING', lease)
    blazar.expect_amounts(tree.WAYS, reserved=0)
    shown = blazar.show(_get_key(lease))
    blazar.expect_amounts(
        tree.WAYS, reserved=count * _WAYS, start=shown['starts_at']
    )
    return lease


def _describe(start: float, count: int) -> dict[str, Any]:
    end = start + _DURATION * _MINUTE
    return {
        'name': 'night',
        'start_date': time.strftime(_DATE, time.gmtime(start)),
        'end_date': time.strftime(_DATE, time.gmtime(end)),
        'before_end_date': '',
        'events': [],
        'reservations': [
            {
                'resource_type': 'extended:instance',
                'flavor': _FLAVOR,
                'amount': count,
            }
        ],
    }


def _lend(blazar: leasing.Leasing, lease: Any) -> str:
    """Boot a server that goes in time, and none of those that do not."""
    site = blazar.site
    shown = blazar.show(_get_key(lease))
    _make_borrowed(site, reservations.count_seconds(shown['starts_at']))
    borrower = site.boot(_BORROWED, _BORROWED).id
    refused.boot(
        site,
        'too-early',
        _FLAVOR,
        reservation=_get_key(lease),
        reason='has not started yet',
        sdk=blazar.user.tenant.sdk,
    )
    refused.boot(site, 'walk-in', _FLAVOR)
    return str(borrower)


def _make_borrowed(site: sites.Site, seconds: float) -> None:
    """Make a flavor whose servers go within half of some seconds."""
    site.add_flavor(
        _BORROWED,
        {
            'hw:cpu_policy': 'dedicated',
            f'resources:{tree.WAYS}': str(_WAYS),
            'resource:lease:max_seconds': f'{seconds / 2:.0f}',
            'resource:lease:drain_seconds': str(_DRAIN_SECONDS),
        },
    )


def _offer(blazar: leasing.Leasing, lease: Any, count: int) -> None:
    """Ask for what is promised, and take what is offered instead."""
    shown = blazar.show(_get_key(lease))
    asked = {
        'flavor': _FLAVOR,
        # The borrower is taken to stay.
        'servers': count // 2,
        'starts_at': shown['starts_at'],
        'duration': '1h',
    }
    path = '/extended/reservations'
    said = blazar.user.api.order_in_vain('POST', path, asked, status=409)
    for words in ('None can be had in that time', f'from {shown["ends_at"]}'):
        told.expect(words in said, f'the refusal says: {words}', said)
    offered = {**asked, 'starts_at': shown['ends_at']}
    made = blazar.user.api.order('POST', path, offered, status=201)
    told.expect(
        made['reservation']['state'] == 'pending',
        'what was offered is given',
        made,
    )
    blazar.user.api.order(
        'DELETE', f'{path}/{made["reservation"]["id"]}', status=204
    )


def _hide(blazar: leasing.Leasing, lease: Any) -> None:
    """Look at it as a user who has nothing to do with it."""
    api = blazar.other.api
    key = _get_key(lease)
    for path in ('/leases', '/extended/reservations'):
        (listed,) = api.get(path).values()
        told.expect(not listed, f'others see nothing at {path}', listed)
    for method in ('GET', 'DELETE'):
        path = f'/extended/reservations/{key}'
        api.order_in_vain(method, path, status=404)
    api.order_in_vain('GET', '/extended/capacity/amounts', status=403)


def _wait_for_start(
    blazar: leasing.Leasing, lease: Any, borrower: str
) -> None:
    """Wait until the borrower has gone, in time, and the lease has begun."""
    starts_at = blazar.show(_get_key(lease))['starts_at']
    waiting.until(
        lambda: _has_gone(blazar.site, borrower),
        f'the borrower goes before {starts_at}',
        seconds=max(reservations.count_seconds(starts_at), 0),
    )
    time.sleep(max(reservations.count_seconds(starts_at), 0))


def _has_gone(site: sites.Site, server_id: str) -> bool:
    found = site.sdk.compute.get_server(server_id)
    held = tree.list_allocations(site.cloud.placement, server_id)
    return found.status == 'SHELVED_OFFLOADED' and not held


def _boot_leased(blazar: leasing.Leasing, lease: Any, count: int) -> list[str]:
    """Boot all servers of the lease; return their uuids."""
    site, key = blazar.site, _get_key(lease)
    refused.boot(
        site,
        'thief',
        _FLAVOR,
        reservation=key,
        reason=f'here is no reservation {key} for this project',
        sdk=blazar.other.tenant.sdk,
    )
    made = [blazar.boot(f'leased-{one}', _FLAVOR, key) for one in range(count)]
    refused.boot(
        site, 'one-more', _FLAVOR, reservation=key, sdk=blazar.user.tenant.sdk
    )
    _check_taken(blazar, key, made)
    site.wait_until(
        lambda: _find_status(blazar, lease) == 'ACTIVE',
        'Blazar calls the lease ACTIVE',
    )
    return made


def _check_taken(
    blazar: leasing.Leasing, key: str, server_ids: list[str]
) -> None:
    """Expect servers in the reservation, and on its hosts."""
    taken = blazar.show(key)['taken_by']
    told.expect(
        {*taken.values()} == {*server_ids},
        'the reservation shows its servers',
        taken,
    )
    path = f'/extended/reservations/{key}'
    hosts = blazar.admin.get(path)['reservation']['hosts']
    compute = blazar.site.sdk.compute
    found = collections.Counter(
        compute.get_server(one).compute_host for one in server_ids
    )
    told.expect(hosts == found, f'its servers are on {hosts}', found)
    shown = compute.get(
        f'/servers/{server_ids[0]}', microversion=_HINTS_MICROVERSION
    ).json()['server']
    told.expect(
        shown['scheduler_hints'] == {reservations.HINT: [key]},
        'Nova shows the reservation of a server',
        shown,
    )


def _find_status(blazar: leasing.Leasing, lease: Any) -> str:
    found = blazar.user.api.get(f'/leases/{lease["id"]}')
    return str(found['lease']['status'])


def _release(blazar: leasing.Leasing, lease: Any, leased: str) -> str:
    """Give a place back, and then the lease; return who gets it."""
    site, key = blazar.site, _get_key(lease)
    site.delete(leased)
    refused.boot(site, 'not-leased', _FLAVOR)
    blazar.user.api.order('DELETE', f'/leases/{lease["id"]}', status=204)
    state = blazar.show(key)['state']
    told.expect(
        state == 'cancelled', 'the reservation of the lease is over', state
    )
    blazar.expect_amounts(tree.WAYS, reserved=0)
    return str(site.boot('free', _FLAVOR).id)
