# SPDX-License-Identifier: Apache-2.0

"""Several servers in one request."""

from dev.gate import audit
from dev.gate import site as sites

_COUNT = 4


def play(site: sites.Site) -> None:
    """Four servers in one request, each with half of a cache."""
    site.run(
        *('server', 'create', '--flavor', 'three', '--image', sites.IMAGES[0]),
        *('--nic', 'none', '--min', f'{_COUNT}', '--max', f'{_COUNT}'),
        'many',
    )
    compute = site.sdk.compute
    made = [one.id for one in compute.servers(name='many')]
    site.wait_for('ACTIVE', *made)
    audit.check(site)
    site.run('server', 'delete', '--wait', *made)
