# SPDX-License-Identifier: Apache-2.0

"""Configuration that all clouds have in common."""

from collections.abc import Mapping
import pathlib
import sysconfig

import yaml

from dev.cloud import endpoints
from dev.cloud import errors
from dev.cloud import folder as folders
from dev.cloud import settings as cloud_settings

Options = cloud_settings.Options

#: Of all services.
REGION = 'RegionOne'


def render(options: Options) -> str:
    """Return the text of an oslo.config file."""
    lines: list[str] = []
    for section, values in options.items():
        lines.append(f'[{section}]')
        for name, value in values.items():
            many = (value,) if isinstance(value, str) else value
            lines.extend(f'{name} = {one}' for one in many)
    return '\n'.join(lines) + '\n'


def merge(*parts: Options) -> Options:
    """Return all options; where two parts have one, the later part wins."""
    sections = dict.fromkeys(name for part in parts for name in part)
    return {
        name: {
            option: value
            for part in parts
            for option, value in part.get(name, {}).items()
        }
        for name in sections
    }


def nova(folder: folders.Folder) -> Options:
    """Return what every Nova here needs, whatever is around it."""
    return {
        'DEFAULT': {
            'state_path': str(folder.lib / 'nova'),
            'host': 'controller',
            'my_ip': '127.0.0.1',
            'compute_driver': 'fake.FakeDriver',
            'reserved_host_memory_mb': '0',
            'update_resources_interval': '5',
            'periodic_fuzzy_delay': '0',
            # These only poll the network service and the guests' power.
            'heal_instance_info_cache_interval': '-1',
            'sync_power_state_interval': '-1',
        },
        'compute': {'provider_config_location': str(folder.lib / 'providers')},
        # The default quota would stop a story at ten servers.
        'quota': {'driver': 'nova.quota.NoopQuotaDriver'},
        'vnc': {'enabled': 'false'},
        'oslo_concurrency': {'lock_path': str(folder.lib / 'locks')},
    }


def glance(folder: folders.Folder) -> Options:
    """Return what every glance here needs: images are files."""
    return {
        'DEFAULT': {
            'log_file': str(folder.glance_log),
            'enabled_backends': 'files:file',
            'enabled_import_methods': '[glance-direct]',
        },
        'glance_store': {'default_backend': 'files'},
        'files': {'filesystem_store_datadir': str(folder.lib / 'images')},
        'os_glance_staging_store': {
            'filesystem_store_datadir': str(folder.lib / 'staging')
        },
        'os_glance_tasks_store': {
            'filesystem_store_datadir': str(folder.lib / 'tasks')
        },
        'paste_deploy': {
            'flavor': 'keystone',
            'config_file': str(folder.etc / 'glance-api-paste.ini'),
        },
        'oslo_concurrency': {'lock_path': str(folder.lib / 'locks')},
    }


def credentials(
    urls: endpoints.Urls, user: str, password: str, project: str
) -> dict[str, str]:
    """Return what keystone asks a user for."""
    return {
        'auth_url': f'{urls.identity}/v3',
        'username': user,
        'password': password,
        'project_name': project,
        'user_domain_id': 'default',
        'project_domain_id': 'default',
    }


def render_clouds(auth: Mapping[str, str]) -> str:
    """Return the text of a ``clouds.yaml`` for one user."""
    cloud = {
        'auth': dict(auth),
        'region_name': REGION,
        'identity_api_version': '3',
    }
    return yaml.safe_dump({'clouds': {folders.CLOUD: cloud}}, sort_keys=False)


def read_paste(package: str, name: str) -> str:
    """Return the text of a service's paste file, as its wheel brings it.

    :raises IncompleteInstallation: it does not
    """
    path = pathlib.Path(sysconfig.get_path('data'), 'etc', package, name)
    if not path.is_file():
        raise errors.IncompleteInstallation(path, package)
    return path.read_text()
