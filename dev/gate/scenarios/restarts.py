# SPDX-License-Identifier: Apache-2.0

"""nova-compute is killed at random moments."""

from concurrent import futures
import random
import threading

from openstack import connection
from openstack import exceptions

from dev.cloud import sdk
from dev.cloud import servers
from dev.cloud import told
from dev.gate import audit
from dev.gate import pool
from dev.gate import site as sites

_CLIENTS = 3
_KILLS = 4

#: Seconds that a nova-compute runs before it is killed.
_LIFE = (1.0, 15.0)

#: What can be done with a server that is up, and its status afterwards.
_OPERATIONS = (
    ('stop_server', 'SHUTOFF'),
    ('start_server', 'ACTIVE'),
    ('shelve_server', 'SHELVED_OFFLOADED'),
    ('unshelve_server', 'ACTIVE'),
)

#: An operation that a crash has cut off ends within this, or not at all.
_SECONDS = 60.0


def play(site: sites.Site) -> None:
    """nova-compute is killed four times while servers come and go."""
    play_with(site, _KILLS)


def play_shortly(site: sites.Site) -> None:
    """nova-compute is killed once while servers come and go."""
    play_with(site, 1)


def play_with(site: sites.Site, kills: int) -> None:
    """Kill it so often, and expect that all is right afterwards.

    An operation may fail when its host dies; then its server is deleted.
    """
    ended = threading.Event()
    with pool.opened(_CLIENTS) as threads:
        running = [
            threads.submit(
                _play_client, site, ended, number, site.random.getrandbits(32)
            )
            for number in range(_CLIENTS)
        ]
        try:
            for _number in range(kills):
                _kill(site, ended)
        finally:
            ended.set()
        for one in futures.as_completed(running):
            one.result()
    left = [one.id for one in site.sdk.compute.servers()]
    _check(site)
    if left:
        site.run('server', 'delete', '--wait', *left)


def _kill(site: sites.Site, ended: threading.Event) -> None:
    ended.wait(site.random.uniform(*_LIFE))
    host = site.random.choice(site.hosts)
    site.cloud.kill(host)
    site.cloud.resume(host)


def _check(site: sites.Site) -> None:
    """Expect that servers that are up have what they should have."""
    for one in site.sdk.compute.servers():
        if one.status == 'ERROR' or one.task_state:
            site.delete(one.id)
    audit.check(site)


def _play_client(
    site: sites.Site, ended: threading.Event, number: int, seed: int
) -> None:
    """Make servers and use them, until the last kill is over."""
    own = sdk.connect(site.cloud.folder)
    chance = random.Random(seed)
    turn = 0
    while not ended.is_set():
        turn += 1
        made = site.create(f'restarts-{number}-{turn}', 'one', sdk=own)
        if not _use(own, made, chance) or chance.random() < 0.5:
            servers.delete(own, made, seconds=site.patience)
        elif turn > 1:
            return


def _use(
    own: connection.Connection, server_id: str, chance: random.Random
) -> bool:
    """Return whether the server is as it should be after all of it."""
    length = chance.choice((0, 2, 4))
    try:
        servers.wait_for(own, server_id, 'ACTIVE', seconds=_SECONDS)
        for method, status in _OPERATIONS[:length]:
            getattr(own.compute, method)(server_id)
            servers.wait_for(own, server_id, status, seconds=_SECONDS)
    except (told.NotAsTold, exceptions.SDKException):
        return False
    return True
