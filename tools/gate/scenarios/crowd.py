# SPDX-License-Identifier: Apache-2.0

"""Many servers at once, from several clients."""

from collections.abc import Sequence
from concurrent import futures
import random

from openstack import connection

from cloud import sdk
from cloud import servers
from tools.gate import audit
from tools.gate import client
from tools.gate import pool
from tools.gate import site as sites

_THREADS = 8
_EACH = 5

#: Half of them hold ways: the two hosts have some twenty in all.
_FLAVORS = ('one', 'plain')

#: How many of its servers each client keeps until the end.
_KEPT = 2

#: What a client does with its server: methods of openstacksdk, and the status
#: after each.
_OPERATIONS: tuple[tuple[tuple[str, str], ...], ...] = (
    (),
    (('stop_server', 'SHUTOFF'), ('start_server', 'ACTIVE')),
    (('shelve_server', 'SHELVED_OFFLOADED'), ('unshelve_server', 'ACTIVE')),
)


def play(site: sites.Site) -> None:
    """40 servers from 8 clients, some shelved and most deleted meanwhile."""
    play_with(site, _EACH)


def play_shortly(site: sites.Site) -> None:
    """16 servers from 8 clients, some shelved meanwhile."""
    play_with(site, _KEPT)


def play_with(site: sites.Site, each: int) -> None:
    """Have each client make and use so many servers.

    :raises NotAsTold: one did not become what it should
    """
    with pool.opened(_THREADS) as threads:
        running = [
            threads.submit(
                _play_client, site, number, each, site.random.getrandbits(32)
            )
            for number in range(_THREADS)
        ]
        kept = [
            server_id
            for one in futures.as_completed(running)
            for server_id in one.result()
        ]
    audit.check(site)
    client.run(site, 'server', 'delete', '--wait', *kept)


def _play_client(
    site: sites.Site, number: int, each: int, seed: int
) -> Sequence[str]:
    """Return the servers that are left."""
    own = sdk.connect(site.cloud.folder)
    chance = random.Random(seed)
    kept: list[str] = []
    for turn in range(each):
        made = servers.boot(
            own,
            f'crowd-{number}-{turn}',
            flavor_id=site.flavors[_FLAVORS[(number + turn) % 2]],
            image_id=site.images[sites.IMAGES[0]],
            seconds=sites.PATIENCE,
        )
        servers.check_active(made)
        _operate(own, made.id, chance)
        kept.append(made.id)
        if len(kept) > _KEPT:
            servers.delete(own, kept.pop(0), seconds=sites.PATIENCE)
    return kept


def _operate(
    own: connection.Connection, server_id: str, chance: random.Random
) -> None:
    for method, status in chance.choice(_OPERATIONS):
        getattr(own.compute, method)(server_id)
        servers.wait_for(own, server_id, status, seconds=sites.PATIENCE)
