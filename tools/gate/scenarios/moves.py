# SPDX-License-Identifier: Apache-2.0

"""Resize and cold migration."""

from tools.gate import audit
from tools.gate import client
from tools.gate import site as sites

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
        client.run(site, 'server', *words, made)
        client.wait_for(site, status, made)
        if status == 'ACTIVE':
            audit.check(site)
    site.delete(made)
