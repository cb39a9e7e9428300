# SPDX-License-Identifier: Apache-2.0

"""Servers that are deleted early, and some that are restored."""

import time

from dev.cloud import servers
from dev.gate import audit
from dev.gate import site as sites

#: How many servers are deleted while they are built, and for how many
#: seconds at most they are let alone before.
_COUNT = 6
_SECONDS = 4.0

#: With it, nova-api keeps servers that are deleted for a time.
_KEEPING = {'DEFAULT': {'reclaim_instance_interval': '86400'}}


def play(site: sites.Site) -> None:
    """Servers are deleted while they are built; one is deleted softly."""
    _delete_while_building(site)
    audit.check(site)
    _delete_softly(site)
    audit.check(site)


def _delete_while_building(site: sites.Site) -> None:
    for number in range(_COUNT):
        made = site.create(f'early-{number}', 'two')
        time.sleep(site.random.uniform(0, _SECONDS))
        site.delete(made)


def _delete_softly(site: sites.Site) -> None:
    made = site.boot('soft', 'two').id
    site.cloud.reconfigure('nova-api', _KEEPING)
    site.run('server', 'delete', made)
    site.wait_for('SOFT_DELETED', made)
    audit.check(site)
    site.run('server', 'restore', made)
    site.wait_for('ACTIVE', made)
    audit.check(site)
    site.run('server', 'delete', '--force', made)
    servers.wait_until_gone(site.sdk, made, seconds=site.patience)
    site.cloud.reconfigure('nova-api', {})
