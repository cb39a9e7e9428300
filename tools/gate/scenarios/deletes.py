# SPDX-License-Identifier: Apache-2.0

"""Servers that are deleted early, and some that are restored."""

import time

from cloud import servers
from tools.gate import audit
from tools.gate import client
from tools.gate import site as sites

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
    compute = site.cloud.sdk.compute
    for number in range(_COUNT):
        made = compute.create_server(
            name=f'early-{number}',
            flavor_id=site.flavors['two'],
            image_id=site.images[sites.IMAGES[0]],
            networks='none',
        )
        time.sleep(site.random.uniform(0, _SECONDS))
        site.delete(made.id)


def _delete_softly(site: sites.Site) -> None:
    made = site.boot('soft', 'two').id
    site.cloud.reconfigure('nova-api', _KEEPING)
    client.run(site, 'server', 'delete', made)
    client.wait_for(site, 'SOFT_DELETED', made)
    audit.check(site)
    client.run(site, 'server', 'restore', made)
    client.wait_for(site, 'ACTIVE', made)
    audit.check(site)
    client.run(site, 'server', 'delete', '--force', made)
    servers.wait_until_gone(site.cloud.sdk, made, seconds=sites.PATIENCE)
    site.cloud.reconfigure('nova-api', {})
