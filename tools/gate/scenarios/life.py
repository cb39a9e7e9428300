# SPDX-License-Identifier: Apache-2.0

"""Each operation on a server that stays where it is, and shelving."""

from tools.gate import audit
from tools.gate import client
from tools.gate import site as sites

#: Operation -> the status that it leads to. In this order, each of them is
#: allowed.
TOGETHER = {
    'stop': 'SHUTOFF',
    'start': 'ACTIVE',
    'pause': 'PAUSED',
    'unpause': 'ACTIVE',
    'suspend': 'SUSPENDED',
    'resume': 'ACTIVE',
    'shelve': 'SHELVED_OFFLOADED',
    'unshelve': 'ACTIVE',
}

#: The same, of one server after another: the command line takes one each.
ONE_BY_ONE = {
    ('rescue',): 'RESCUE',
    ('unrescue',): 'ACTIVE',
    ('reboot', '--soft'): 'ACTIVE',
    ('reboot', '--hard'): 'ACTIVE',
    ('rebuild', '--image', sites.IMAGES[1]): 'ACTIVE',
}


def play(site: sites.Site) -> None:
    """A server on each host: every operation that a user has."""
    made = [
        site.boot(f'life-{host}', 'two', host=host).id for host in site.hosts
    ]
    audit.check(site)
    for name, status in TOGETHER.items():
        client.run(site, 'server', name, *made)
        _settle(site, status, made)
    for words, status in ONE_BY_ONE.items():
        for server_id in made:
            client.run(site, 'server', *words, server_id)
        _settle(site, status, made)
    client.run(site, 'server', 'delete', '--wait', *made)


def play_shortly(site: sites.Site) -> None:
    """A server on each host: stop, start, shelve and unshelve."""
    made = [
        site.boot(f'life-{host}', 'two', host=host).id for host in site.hosts
    ]
    for name in ('stop', 'start', 'shelve', 'unshelve'):
        client.run(site, 'server', name, *made)
        client.wait_for(site, TOGETHER[name], *made)
    audit.check(site)
    client.run(site, 'server', 'delete', '--wait', *made)


def _settle(site: sites.Site, status: str, server_ids: list[str]) -> None:
    client.wait_for(site, status, *server_ids)
    audit.check(site)
