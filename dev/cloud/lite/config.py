# SPDX-License-Identifier: Apache-2.0

"""Write every configuration file of the cloud into its folder."""

import json

from dev.cloud import endpoints
from dev.cloud import errors
from dev.cloud import folder as folders
from dev.cloud import options as options_mod
from dev.cloud import settings as cloud_settings

#: The one token that all services and clients use, and its user; see fakeauth.
TOKEN = 'admin'

#: What the identity service reads, below ``etc``.
CATALOG = 'catalog.json'

_KEYSTONE = 'keystonemiddleware.auth_token:filter_factory'
_FAKE = 'dev.cloud.lite.fakeauth:filter_factory'


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
        folder.etc / 'placement.conf': options_mod.render(_placement(folder)),
        folder.etc / 'nova.conf': options_mod.render(
            options_mod.merge(
                options_mod.nova(folder), _nova(folder, urls), settings.nova
            )
        ),
        folder.etc / 'glance-api.conf': options_mod.render(_glance(folder)),
        folder.etc / 'api-paste.ini': _paste('nova', 'api-paste.ini'),
        folder.etc / 'glance-api-paste.ini': _paste(
            'glance', 'glance-api-paste.ini'
        ),
        folder.etc / CATALOG: json.dumps(urls.catalog, indent=2),
        folder.clouds_yaml: options_mod.render_clouds(_credentials(urls)),
    }
    for host in settings.hosts:
        options = settings.per_host.get(host, {})
        files[folder.hosts / f'{host}.conf'] = options_mod.render(options)
    for path, text in files.items():
        path.write_text(text)


def _sqlite(folder: folders.Folder, name: str) -> str:
    # The plugin is in dev.cloud.lite.sqlite.
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
            'transport_url': 'fake://',
            # Seconds. Nova 33 always waits that long when it stops.
            'manager_shutdown_timeout': '10',
        },
        'api_database': {'connection': _sqlite(folder, 'nova_api')},
        'database': {'connection': _sqlite(folder, 'nova')},
        'ext_resources': {'host_config_dir': str(folder.hosts)},
        'placement': _service(urls.placement),
        # For programs that need the Compute API beside placement.
        'ext_resources_placement': {
            'auth_type': 'password',
            **_credentials(urls),
        },
        'neutron': _service(urls.network),
        'glance': {'endpoint_override': urls.image},
    }


def _glance(folder: folders.Folder) -> cloud_settings.Options:
    return options_mod.merge(
        options_mod.glance(folder),
        {'database': {'connection': _sqlite(folder, 'glance')}},
    )


def _credentials(urls: endpoints.Urls) -> dict[str, str]:
    # The identity service believes any password.
    return options_mod.credentials(urls, TOKEN, TOKEN, TOKEN)


def _paste(package: str, name: str) -> str:
    """Return a service's paste file with our filter in keystone's place."""
    text = options_mod.read_paste(package, name)
    if _KEYSTONE not in text:
        raise errors.CloudError(
            f'{name} of {package} does not name {_KEYSTONE}, so this version '
            f'of {package} cannot be run without keystone. Install one that '
            f'the constraints of this project name.'
        )
    return text.replace(_KEYSTONE, _FAKE)
