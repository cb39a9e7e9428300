# SPDX-License-Identifier: Apache-2.0

"""Each operation on a server that stays where it is, and shelving."""

from dev.gate import audit
from dev.gate import site as sites

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
        site.run('server', name, *made)
        _settle(site, status, made)
    for words, status in ONE_BY_ONE.items():
        for server_id in made:
            site.run('server', *words, server_id)
        _settle(site, status, made)
    site.run('server', 'delete', '--wait', *made)


def play_shortly(site: sites.Site) -> None:
    """A server on each host: stop, start, shelve and unshelve."""
    made = [
        site.boot(f'life-{host}', 'two', host=host).id for host in site.hosts
    ]
    for name in ('stop', 'start', 'shelve', 'unshelve'):
        site.run('server', name, *made)
        site.wait_for(TOGETHER[name], *made)
    audit.check(site)
    site.run('server', 'delete', '--wait', *made)


def _settle(site: sites.Site, status: str, server_ids: list[str]) -> None:
    site.wait_for(status, *server_ids)
    audit.check(site)
