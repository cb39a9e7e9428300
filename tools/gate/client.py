# SPDX-License-Identifier: Apache-2.0

"""The ``openstack`` command line, as an operator types it."""

from cloud import commands
from cloud import servers
from tools.gate import site as sites


def run(site: sites.Site, *words: str) -> str:
    """Run one command; return what it printed.

    :raises NotAsTold: it fails
    """
    return commands.run(site.cloud.folder, *words)


def wait_for(site: sites.Site, status: str, *server_ids: str) -> None:
    """Wait until servers have a status and no task.

    :raises NotAsTold: one has not
    """
    for server_id in server_ids:
        servers.wait_for(
            site.cloud.sdk, server_id, status, seconds=sites.PATIENCE
        )
