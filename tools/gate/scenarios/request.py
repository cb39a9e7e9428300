# SPDX-License-Identifier: Apache-2.0

"""Several servers in one request."""

from tools.gate import audit
from tools.gate import client
from tools.gate import site as sites

_COUNT = 4


def play(site: sites.Site) -> None:
    """Four servers in one request, each with half of a cache."""
    client.run(
        site,
        *('server', 'create', '--flavor', 'three', '--image', sites.IMAGES[0]),
        *('--nic', 'none', '--min', f'{_COUNT}', '--max', f'{_COUNT}'),
        'many',
    )
    compute = site.cloud.sdk.compute
    made = [one.id for one in compute.servers(name='many')]
    client.wait_for(site, 'ACTIVE', *made)
    audit.check(site)
    client.run(site, 'server', 'delete', '--wait', *made)
