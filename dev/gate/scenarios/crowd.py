# SPDX-License-Identifier: Apache-2.0

"""Many servers at once, from several clients."""

from collections.abc import Sequence
from concurrent import futures
import random

from dev.cloud import sdk
from dev.cloud import servers
from dev.gate import audit
from dev.gate import pool
from dev.gate import site as sites

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
    site.run('server', 'delete', '--wait', *kept)


def _play_client(
    site: sites.Site, number: int, each: int, seed: int
) -> Sequence[str]:
    """Return the servers that are left."""
    own = sdk.connect(site.cloud.folder)
    chance = random.Random(seed)
    kept: list[str] = []
    for turn in range(each):
        made = site.boot(
            f'crowd-{number}-{turn}', _FLAVORS[(number + turn) % 2], sdk=own
        )
        for method, status in chance.choice(_OPERATIONS):
            getattr(own.compute, method)(made.id)
            servers.wait_for(own, made.id, status, seconds=site.patience)
        kept.append(made.id)
        if len(kept) > _KEPT:
            servers.delete(own, kept.pop(0), seconds=site.patience)
    return kept
