# SPDX-License-Identifier: Apache-2.0

"""Write every configuration file of the cloud into its folder."""

import dataclasses
import pathlib

from dev.cloud import endpoints
from dev.cloud import folder as folders
from dev.cloud.full import bus as buses
from dev.cloud.full import database as databases
from dev.cloud import options
from dev.cloud import settings as cloud_settings

#: Of every user; all that it opens listens on loopback and ends soon.
PASSWORD = 'loopback-only'


#: What nova-compute does not read: as operators have it, it has no database.
DATABASE = 'nova-database.conf'

#: Users with a role of their own, beside the administrator.
USERS = ('glance', 'neutron', 'nova', 'placement')


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the files must name."""

    folder: folders.Folder
    urls: endpoints.Urls
    database: databases.Database
    bus: buses.Bus


def write(parts: Parts, settings: cloud_settings.Settings) -> None:
    """Write the files.

    :raises IncompleteInstallation: nova or glance is not installed with its
        ``etc`` files
    """
    etc = parts.folder.etc
    files = {
        etc / 'keystone.conf': options.render(_keystone(parts)),
        etc / 'placement.conf': options.render(_placement(parts)),
        etc / 'glance-api.conf': options.render(_glance(parts)),
        etc / 'nova.conf': options.render(
            options.merge(
                options.nova(parts.folder), _nova(parts), settings.nova
            )
        ),
        etc / DATABASE: options.render(_nova_database(parts)),
        etc / 'api-paste.ini': options.read_paste('nova', 'api-paste.ini'),
        etc / 'glance-api-paste.ini': options.read_paste(
            'glance', 'glance-api-paste.ini'
        ),
        parts.folder.clouds_yaml: options.render_clouds(
            options.credentials(parts.urls, 'admin', PASSWORD, 'admin')
        ),
    }
    for path, text in files.items():
        path.write_text(text)
    for host in settings.hosts:
        write_service(
            parts.folder,
            host,
            options.merge(_host(parts, host), settings.per_host.get(host, {})),
        )


def write_service(
    folder: folders.Folder, name: str, own: cloud_settings.Options
) -> pathlib.Path:
    """Write what one service of Nova reads after ``nova.conf``.

    :param name: of the service, or of the host of a nova-compute
    """
    path = folder.hosts / f'{name}.conf'
    log = {'DEFAULT': {'log_file': str(folder.log / f'{name}.log')}}
    path.write_text(options.render(options.merge(log, own)))
    return path


def auth(parts: Parts, user: str) -> dict[str, cloud_settings.Value]:
    return {
        **options.credentials(parts.urls, user, PASSWORD, 'service'),
        'auth_type': 'password',
        'region_name': options.REGION,
    }


def middleware(parts: Parts, user: str) -> dict[str, cloud_settings.Value]:
    return {
        **auth(parts, user),
        'www_authenticate_uri': f'{parts.urls.identity}/v3',
        'service_token_roles_required': 'true',
    }


def _keystone(parts: Parts) -> cloud_settings.Options:
    lib = parts.folder.lib
    return {
        'DEFAULT': {'log_file': str(parts.folder.log / 'keystone.log')},
        'database': {'connection': parts.database.url('keystone')},
        'token': {'provider': 'fernet', 'expiration': '86400'},
        'fernet_tokens': {'key_repository': str(lib / 'fernet')},
        # Without, root would write below /etc, and others could not.
        'fernet_receipts': {'key_repository': str(lib / 'fernet')},
        'credential': {'key_repository': str(lib / 'credential')},
        # The fewest: every token costs them.
        'identity': {'password_hash_rounds': '4'},
    }


def _placement(parts: Parts) -> cloud_settings.Options:
    return {
        'DEFAULT': {'log_file': str(parts.folder.log / 'placement.log')},
        'api': {'auth_strategy': 'keystone'},
        'placement_database': {
            'connection': parts.database.url('placement'),
            'sync_on_startup': 'true',
        },
        'keystone_authtoken': middleware(parts, 'placement'),
    }


def _glance(parts: Parts) -> cloud_settings.Options:
    return options.merge(
        options.glance(parts.folder),
        {
            'database': {'connection': parts.database.url('glance')},
            'keystone_authtoken': middleware(parts, 'glance'),
        },
    )


def _nova(parts: Parts) -> cloud_settings.Options:
    own = auth(parts, 'nova')
    return {
        'DEFAULT': {
            'transport_url': parts.bus.url,
            # Seconds. A host is down soon after its last report, and yet not
            # because this machine is busy.
            'report_interval': '5',
            'service_down_time': '120',
            'graceful_shutdown_timeout': '10',
        },
        'keystone_authtoken': middleware(parts, 'nova'),
        'service_user': {**own, 'send_service_user_token': 'true'},
        'placement': own,
        'neutron': own,
        'glance': {'endpoint_override': parts.urls.image},
        'conductor': {'workers': '1'},
        'scheduler': {'workers': '1'},
    }


def _nova_database(parts: Parts) -> cloud_settings.Options:
    return {
        'api_database': {'connection': parts.database.url('nova_api')},
        'database': {'connection': parts.database.url('nova')},
    }


def _host(parts: Parts, host: str) -> cloud_settings.Options:
    home = parts.folder.lib / f'nova-{host}'
    home.mkdir(exist_ok=True)
    return {'DEFAULT': {'host': host, 'state_path': str(home)}}
