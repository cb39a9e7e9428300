# SPDX-License-Identifier: Apache-2.0

"""A reservation, from the command line to running servers."""

import time
from typing import Any

from dev.cloud import reservations
from dev.cloud import told
from dev.cloud import waiting
from dev.gate import audit
from dev.gate import refused
from dev.gate import reserving
from dev.gate import site as sites

_FLAVOR = 'three'
_NAME = 'lease'

#: Seconds from the order to the start, at least, and so many times what a
#: command takes.
_LEAD_SECONDS = 20.0
_LEAD_COMMANDS = 4


def play(site: sites.Site) -> None:
    """Servers get what is reserved for later, and others what is left."""
    store = reserving.open_store(site)
    with store.commands.managed(seconds=site.cloud.stop_seconds):
        fits, took = store.commands.survey(_FLAVOR, '1h')
        count, lead = fits - 1, max(_LEAD_SECONDS, _LEAD_COMMANDS * took)
        made = store.commands.order(
            *('create', _NAME, '--flavor', _FLAVOR, '--duration', '1h'),
            *('--servers', f'{count}'),
            *('--start', f'+{lead:.0f}s'),
        )
        left = _keep_others_out(site)
        leased = _begin(store, made['starts_at'], count)
        refused.boot(site, 'one-more', _FLAVOR, reservation=_NAME)
        audit.check(site)
        free = _release(store, leased.pop())
        audit.check(site)
        for server_id in (left, free, *leased):
            site.delete(server_id)


def _keep_others_out(site: sites.Site) -> str:
    """Ask for what is not reserved, and for more; return the server."""
    refused.boot(
        site,
        'too-early',
        _FLAVOR,
        reservation=_NAME,
        reason='has not started yet',
    )
    left = site.boot('left', _FLAVOR).id
    refused.boot(site, 'too-many', _FLAVOR)
    return str(left)


def _begin(store: reserving.Store, starts_at: str, count: int) -> list[str]:
    """Wait for the start, and boot what is reserved; return the servers."""
    time.sleep(max(reservations.count_seconds(starts_at), 0))
    leased = _boot_leased(store.site, count)
    shown = waiting.until(
        lambda: _find_started(store),
        f'the history of {_NAME} has its start',
        poll_seconds=1.0,
    )
    told.expect(
        {*shown['taken_by'].values()} == {*leased},
        f'{_NAME} shows its servers',
        shown['taken_by'],
    )
    return leased


def _boot_leased(site: sites.Site, count: int) -> list[str]:
    """Boot servers in one request; return their uuids."""
    site.run(
        *('server', 'create', '--flavor', _FLAVOR, '--nic', 'none'),
        *(
            '--image',
            sites.IMAGES[0],
            '--hint',
            f'{reservations.HINT}={_NAME}',
        ),
        *('--min', f'{count}', '--max', f'{count}', 'leased'),
    )
    # Nova adds a number to the name.
    compute = site.sdk.compute
    made = [one.id for one in compute.servers(name='leased')]
    site.wait_for('ACTIVE', *made)
    return made


def _find_started(store: reserving.Store) -> Any:
    """Return the reservation once the manager has written its start."""
    shown = store.commands.order('show', _NAME)
    has_started = any(one['state'] == 'active' for one in shown['changes'])
    return shown if has_started else None


def _release(store: reserving.Store, leased: str) -> str:
    """Give a place back, and then the reservation; return who gets it."""
    store.site.delete(leased)
    refused.boot(store.site, 'not-leased', _FLAVOR)
    store.commands.order('cancel', _NAME)
    return str(store.site.boot('free', _FLAVOR).id)
