# SPDX-License-Identifier: Apache-2.0

"""A reservation, from the command line to running servers."""

from collections.abc import Iterator
import contextlib
import pathlib
from typing import Any

from openstack.compute.v2 import server as sdk_server

from cloud import options
from cloud import reservations
from cloud import servers
from cloud import settings as cloud_settings
from cloud import told
from cloud import waiting
from tools.gate import audit
from tools.gate import client
from tools.gate import site as sites

_DATABASE = 'reservations'
_FLAVOR = 'three'
_NAME = 'lease'
_HINT = f'{reservations.HINT}={_NAME}'


def play(site: sites.Site) -> None:
    """Servers get what is reserved for them, and others what is left."""
    with _reserving(site):
        count = _count_fits(site) - 1
        told.expect(count > 1, f'several servers of {_FLAVOR} fit', count)
        _order(
            site,
            *('create', _NAME, '--flavor', _FLAVOR, '--duration', '1h'),
            *('--servers', f'{count}'),
        )
        left = site.boot('left', _FLAVOR).id
        _boot_in_vain(site, 'too-many')
        leased = _boot_leased(site, count)
        _check_shown(site, leased)
        _boot_in_vain(site, 'one-more', '--hint', _HINT)
        audit.check(site)
        client.run(site, 'server', 'delete', '--wait', leased[0])
        _boot_in_vain(site, 'not-leased')
        _order(site, 'cancel', _NAME)
        free = site.boot('free', _FLAVOR).id
        audit.check(site)
        client.run(site, 'server', 'delete', '--wait', left, free, *leased[1:])


@contextlib.contextmanager
def _reserving(site: sites.Site) -> Iterator[None]:
    """Have nova-scheduler keep what is reserved in a database of MariaDB."""
    own: cloud_settings.Options = {
        'ext_resources_reservation': {
            'connection': site.cloud.create_database(_DATABASE)
        }
    }
    _get_path(site).write_text(options.render(own))
    # The first command makes the tables.
    _order(site, 'list')
    site.cloud.reconfigure(
        'nova-scheduler', options.merge(own, reservations.SCHEDULER)
    )
    yield
    site.cloud.reconfigure('nova-scheduler', {})


def _get_path(site: sites.Site) -> pathlib.Path:
    return site.cloud.folder.etc / 'reservations.conf'


def _order(site: sites.Site, *words: str) -> Any:
    """Run a command of the reservations; return what it shows."""
    folder = site.cloud.folder
    files = folder.etc / 'nova.conf', _get_path(site)
    return reservations.Reservations(folder, files).order(*words)


def _count_fits(site: sites.Site) -> int:
    """Return how many servers of the flavor fit for the next hour."""
    rows = _order(site, 'capacity', '--flavor', _FLAVOR, '--duration', '1h')
    return min(int(one['Servers']) for one in rows)


def _create(site: sites.Site, name: str, *words: str) -> list[str]:
    """Ask for servers; return their uuids."""
    client.run(
        site,
        *('server', 'create', '--flavor', _FLAVOR, '--nic', 'none'),
        *('--image', sites.IMAGES[0], *words, name),
    )
    # Of several, Nova adds a number to the name.
    compute = site.cloud.sdk.compute
    return [one.id for one in compute.servers(name=name)]


def _boot_leased(site: sites.Site, count: int) -> list[str]:
    made = _create(
        site,
        'leased',
        *('--hint', _HINT, '--min', f'{count}', '--max', f'{count}'),
    )
    client.wait_for(site, 'ACTIVE', *made)
    return made


def _boot_in_vain(site: sites.Site, name: str, *words: str) -> None:
    """Ask for a server for which no host must be found.

    :raises NotAsTold: it is built
    """
    (made,) = _create(site, name, *words)
    server = waiting.until(
        lambda: _find_decided(site, made),
        f'Nova has decided about {name}',
        seconds=sites.PATIENCE,
    )
    fault = servers.fault(server)
    told.expect('No valid host' in fault, f'{name} finds no host', fault)
    client.run(site, 'server', 'delete', '--wait', made)


def _find_decided(site: sites.Site, uuid: str) -> sdk_server.Server | None:
    found = site.cloud.sdk.compute.get_server(uuid)
    return found if found.status in ('ACTIVE', 'ERROR') else None


def _check_shown(site: sites.Site, leased: list[str]) -> None:
    shown = str(_order(site, 'show', _NAME))
    missing = [one for one in leased if one not in shown]
    told.expect(not missing, f'{_NAME} shows its servers', missing)
