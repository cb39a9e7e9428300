# SPDX-License-Identifier: Apache-2.0

"""Write every configuration file of the cloud into its folder."""

import pathlib
import sysconfig

import yaml

from cloud import endpoints
from cloud import errors
from cloud import folder as folders
from cloud import settings as cloud_settings

#: The one token that all services and clients use; see fakeauth.
TOKEN = 'admin'

_KEYSTONE = 'keystonemiddleware.auth_token:filter_factory'
_FAKE = 'cloud.lite.fakeauth:filter_factory'


def write(
    folder: folders.Folder,
    settings: cloud_settings.Settings,
    urls: endpoints.Urls,
) -> None:
    """Write the files.

    :raises IncompleteInstallation: nova or glance is not installed with its
        ``etc`` files
    """
    files = {
        folder.etc / 'placement.conf': render(_placement(folder)),
        folder.etc / 'nova.conf': render(
            _merge(_nova(folder, urls), settings.nova)
        ),
        folder.etc / 'glance-api.conf': render(_glance(folder)),
        folder.etc / 'api-paste.ini': _paste('nova', 'api-paste.ini'),
        folder.etc / 'glance-api-paste.ini': _paste(
            'glance', 'glance-api-paste.ini'
        ),
        folder.clouds_yaml: yaml.safe_dump(_clouds(urls), sort_keys=False),
    }
    for host in settings.hosts:
        options = settings.per_host.get(host, {})
        files[folder.hosts / f'{host}.conf'] = render(options)
    for path, text in files.items():
        path.write_text(text)


def render(options: cloud_settings.Options) -> str:
    """Return the text of an oslo.config file."""
    lines: list[str] = []
    for section, values in options.items():
        lines.append(f'[{section}]')
        for name, value in values.items():
            many = (value,) if isinstance(value, str) else value
            lines.extend(f'{name} = {one}' for one in many)
    return '\n'.join(lines) + '\n'


def _merge(
    base: cloud_settings.Options, over: cloud_settings.Options
) -> cloud_settings.Options:
    sections = [*base, *(name for name in over if name not in base)]
    return {
        name: {**base.get(name, {}), **over.get(name, {})} for name in sections
    }


def _sqlite(folder: folders.Folder, name: str) -> str:
    # The plugin is in cloud.lite.sqlite.
    return f'sqlite:///{folder.lib}/{name}.db?plugin=demo_sqlite&timeout=30'


def _placement(folder: folders.Folder) -> cloud_settings.Options:
    return {
        'DEFAULT': {'log_file': str(folder.nova_log)},
        'api': {'auth_strategy': 'noauth2'},
        'placement_database': {
            'connection': _sqlite(folder, 'placement'),
            'sync_on_startup': 'true',
        },
    }


def _service(url: str) -> dict[str, cloud_settings.Value]:
    # admin_token, because placement's noauth2 gives 'none' no role at all.
    return {
        'auth_type': 'admin_token',
        'endpoint': url,
        'token': TOKEN,
        'endpoint_override': url,
    }


def _nova(
    folder: folders.Folder, urls: endpoints.Urls
) -> cloud_settings.Options:
    return {
        'DEFAULT': {
            'log_file': str(folder.nova_log),
            'state_path': str(folder.lib / 'nova'),
            'transport_url': 'fake://',
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
        'api_database': {'connection': _sqlite(folder, 'nova_api')},
        'database': {'connection': _sqlite(folder, 'nova')},
        'compute': {'provider_config_location': str(folder.lib / 'providers')},
        'ext_resources': {'host_config_dir': str(folder.hosts)},
        'placement': _service(urls.placement),
        'neutron': _service(urls.network),
        'glance': {'endpoint_override': urls.image},
        # The default quota would stop the story at ten servers.
        'quota': {'driver': 'nova.quota.NoopQuotaDriver'},
        'vnc': {'enabled': 'false'},
        'oslo_concurrency': {'lock_path': str(folder.lib / 'locks')},
    }


def _glance(folder: folders.Folder) -> cloud_settings.Options:
    return {
        'DEFAULT': {
            'log_file': str(folder.glance_log),
            'enabled_backends': 'files:file',
            'enabled_import_methods': '[glance-direct]',
        },
        'database': {'connection': _sqlite(folder, 'glance')},
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


def _clouds(urls: endpoints.Urls) -> dict[str, object]:
    return {
        'clouds': {
            folders.CLOUD: {
                'auth_type': 'admin_token',
                'auth': {'endpoint': urls.placement, 'token': TOKEN},
                'compute_endpoint_override': f'{urls.compute}/v2.1',
                'image_endpoint_override': urls.image,
                'network_endpoint_override': urls.network,
                'placement_endpoint_override': urls.placement,
                # There is no keystone: the clients insist on a version and
                # on an address that answers, and ask it nothing.
                'identity_api_version': '3',
                'identity_endpoint_override': urls.placement,
            }
        }
    }


def _paste(package: str, name: str) -> str:
    """Return a service's paste file with our filter in keystone's place."""
    path = pathlib.Path(sysconfig.get_path('data'), 'etc', package, name)
    if not path.is_file():
        raise errors.IncompleteInstallation(path, package)
    text = path.read_text()
    if _KEYSTONE not in text:
        raise errors.CloudError(
            f'{path} does not name {_KEYSTONE}, so this version of '
            f'{package} cannot be run without keystone. Install one that '
            f'the constraints of this project name.'
        )
    return text.replace(_KEYSTONE, _FAKE)
