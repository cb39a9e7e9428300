# SPDX-License-Identifier: Apache-2.0

"""Makes the tables of all services, and the first user of keystone."""

from concurrent import futures

from dev.cloud.full import config
from dev.cloud import options
from dev.cloud import programs

#: Placement makes its own tables when it starts.
DATABASES = (
    'keystone',
    'placement',
    'glance',
    'nova_api',
    'nova',
    'nova_cell0',
)


def make(parts: config.Parts) -> None:
    """Make the databases; keystone's and Nova's side by side.

    :raises CloudError: a program fails
    """
    parts.database.create(DATABASES)
    with futures.ThreadPoolExecutor() as pool:
        for one in [
            pool.submit(_make_keystone, parts),
            pool.submit(_make_nova, parts),
            pool.submit(_make_glance, parts),
        ]:
            one.result()


def map_hosts(parts: config.Parts) -> None:
    """Map the hosts into the cell.

    A server that is asked for earlier goes to ERROR and keeps its
    allocation.

    :raises CloudError: nova-manage fails
    """
    _manage_nova(parts, 'cell_v2', 'discover_hosts')


def _make_keystone(parts: config.Parts) -> None:
    manage = programs.get('keystone-manage')
    where = f'--config-file={parts.folder.etc / "keystone.conf"}'
    owner = programs.list_key_owner()
    programs.run(manage, where, 'fernet_setup', *owner)
    programs.run(manage, where, 'credential_setup', *owner)
    programs.run(manage, where, 'db_sync')
    # All three, or every service says that there is no endpoint.
    urls = (
        f'--bootstrap-{interface}-url={parts.urls.identity}/v3'
        for interface in ('public', 'internal', 'admin')
    )
    programs.run(
        manage,
        where,
        'bootstrap',
        f'--bootstrap-password={config.PASSWORD}',
        f'--bootstrap-region-id={options.REGION}',
        *urls,
    )


def _make_glance(parts: config.Parts) -> None:
    programs.run(
        programs.get('glance-manage'),
        f'--config-file={parts.folder.etc / "glance-api.conf"}',
        'db_sync',
    )


def _make_nova(parts: config.Parts) -> None:
    _manage_nova(parts, 'api_db', 'sync')
    _manage_nova(parts, 'cell_v2', 'map_cell0')
    _manage_nova(parts, 'db', 'sync')
    _manage_nova(parts, 'cell_v2', 'create_cell', '--name=cell1')


def _manage_nova(parts: config.Parts, *words: str) -> None:
    programs.run(
        programs.get('nova-manage'),
        f'--config-file={parts.folder.etc / "nova.conf"}',
        f'--config-file={parts.folder.etc / config.DATABASE}',
        *words,
    )
