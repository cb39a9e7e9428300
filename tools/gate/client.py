# SPDX-License-Identifier: Apache-2.0

"""The ``openstack`` command line, as an operator types it."""

from cloud import errors
from cloud import folder as folders
from cloud.full import programs
from cloud import sdk
from cloud import servers
from cloud import told
from tools.gate import site as sites


def run(site: sites.Site, *words: str) -> str:
    """Run one command; return what it printed.

    :raises NotAsTold: it fails
    """
    try:
        return programs.run(
            programs.get('openstack'),
            *words,
            environ={
                'OS_CLIENT_CONFIG_FILE': str(site.cloud.folder.clouds_yaml),
                'OS_CLOUD': folders.CLOUD,
                'OS_COMPUTE_API_VERSION': sdk.COMPUTE_MICROVERSION,
            },
        ).strip()
    except errors.CloudError as err:
        raise told.NotAsTold(
            f'openstack {" ".join(words)} succeeds', str(err)
        ) from err


def wait_for(site: sites.Site, status: str, *server_ids: str) -> None:
    """Wait until servers have a status and no task.

    :raises NotAsTold: one has not
    """
    for server_id in server_ids:
        servers.wait_for(
            site.cloud.sdk, server_id, status, seconds=sites.PATIENCE
        )
