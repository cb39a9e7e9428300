# SPDX-License-Identifier: Apache-2.0

"""Resize, cold and live migration."""

from dev.cloud import told
from dev.gate import audit
from dev.gate import site as sites

#: The commands, one after another, and the status after each.
_STEPS = (
    (('resize', '--flavor', 'three'), 'VERIFY_RESIZE'),
    (('resize', 'confirm'), 'ACTIVE'),
    (('resize', '--flavor', 'one'), 'VERIFY_RESIZE'),
    (('resize', 'revert'), 'ACTIVE'),
    (('resize', '--flavor', 'plain'), 'VERIFY_RESIZE'),
    (('resize', 'confirm'), 'ACTIVE'),
    (('resize', '--flavor', 'two'), 'VERIFY_RESIZE'),
    (('resize', 'confirm'), 'ACTIVE'),
    (('migrate',), 'VERIFY_RESIZE'),
    (('migration', 'confirm'), 'ACTIVE'),
    (('migrate',), 'VERIFY_RESIZE'),
    (('migration', 'revert'), 'ACTIVE'),
)


def play(site: sites.Site) -> None:
    """A server is resized and migrated, with confirmation and without."""
    made = site.boot('moved', 'two').id
    for words, status in _STEPS:
        site.run('server', *words, made)
        site.wait_for(status, made)
        if status == 'ACTIVE':
            audit.check(site)
    for _there_and_back in range(2):
        _migrate_live(site, made)
    site.delete(made)


def _migrate_live(site: sites.Site, server_id: str) -> None:
    """Migrate to the other host; after a failure it is ACTIVE, too."""
    former = _find_host(site, server_id)
    site.run('server', 'migrate', '--live-migration', server_id)
    site.wait_for('ACTIVE', server_id)
    now = _find_host(site, server_id)
    told.expect(now != former, 'a live migration leads to another host', now)
    audit.check(site)


def _find_host(site: sites.Site, server_id: str) -> str | None:
    host: str | None = site.sdk.compute.get_server(server_id).compute_host
    return host
