# SPDX-License-Identifier: Apache-2.0

"""A host dies, and its server moves."""

from dev.cloud import told
from dev.gate import audit
from dev.gate import site as sites


def play(site: sites.Site) -> None:
    """A host dies; its server is evacuated; the host comes back."""
    failed, other = site.hosts[:2]
    made = site.boot('evacuated', 'two', host=failed).id
    site.cloud.kill(failed)
    _set(site, failed, '--down')
    site.run('server', 'evacuate', made)
    # Since microversion 2.95 a user starts what was evacuated.
    site.wait_for('SHUTOFF', made)
    site.run('server', 'start', made)
    site.wait_for('ACTIVE', made)
    # Nova refuses the other order while the host knows of no evacuation.
    site.cloud.resume(failed)
    _set(site, failed, '--up')
    host = site.sdk.compute.get_server(made).compute_host
    told.expect(host == other, f'the server is on {other}', host)
    audit.check(site)
    site.delete(made)


def _set(site: sites.Site, host: str, state: str) -> None:
    words = ('compute', 'service', 'set', state, host, 'nova-compute')
    site.run(*words)
