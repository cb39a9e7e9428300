# SPDX-License-Identifier: Apache-2.0

"""Blazar beside the cloud: its API and its manager, a process each.

They have an environment of their own, and import the package from a folder.
"""

import os
import pathlib
import urllib.parse

from openstack import connection

from dev.cloud import base
from dev.cloud import child
from dev.cloud import endpoints
from dev.cloud.full import catalog
from dev.cloud.full import cloud as clouds
from dev.cloud.full import config
from dev.cloud.full import rest
from dev.cloud.full import services
from dev.cloud import options
from dev.cloud import programs
from dev.cloud import settings as cloud_settings

#: Its user in keystone, its database, and its environment of tox.
NAME = 'blazar'

_READY_SECONDS = 900.0

#: Of which the manager takes requests.
_QUEUE = 'blazar.manager'


class Blazar(base.Processes):
    """Blazar on a cloud that is up.

    :ivar url: where its API answers
    :ivar manager: its process
    """

    def __init__(
        self,
        cloud: clouds.Cloud,
        own: cloud_settings.Options,
        *,
        packages: pathlib.Path,
    ) -> None:
        """Describe it; nothing is started or written yet.

        :param own: options for its file, over those that it needs itself
        :param packages: a folder in which the package is
        """
        super().__init__()
        self.stop_seconds = cloud.stop_seconds
        self._cloud = cloud
        self._own = own
        self._bound = endpoints.bind()
        self.url = endpoints.make_url(self._bound)
        folder = cloud.folder
        environ = {'PYTHONPATH': os.fspath(packages)}
        self._files = [
            f'--config-file={one}'
            for one in (
                _get_path(cloud),
                folder.hosts / f'{NAME}-manager.conf',
            )
        ]
        self.manager = child.Child(
            f'{NAME}-manager',
            programs.get_beside(NAME, 'blazar-manager'),
            self._files,
            folder=folder,
            environ=environ,
            log=folder.log / f'{NAME}-manager.log',
        )
        self._api = services.make_api(
            f'{NAME}-api',
            self._bound,
            folder,
            python=programs.get_beside(NAME, 'python'),
            environ=environ,
        )

        self._children = [self._api, self.manager]

    def _start(self) -> None:
        """Make user, endpoints and tables; start, and wait until it answers.

        :raises CloudError: something fails
        """
        parts = self._cloud.parts
        parts.database.create([NAME])
        _get_path(self._cloud).write_text(
            options.render(options.merge(_blazar(parts), self._own))
        )
        config.write_service(parts.folder, f'{NAME}-manager', {})
        catalog.make_service(
            self._cloud.sdk, NAME, 'reservation', f'{self.url}/v1'
        )
        programs.run(
            programs.get_beside(NAME, 'blazar-db-manage'),
            self._files[0],
            *('upgrade', 'head'),
        )
        self.manager.start()
        self._api.start()
        self.manager.wait_until(
            lambda: parts.bus.has_queue(_QUEUE), seconds=_READY_SECONDS
        )
        api = self.connect(self._cloud.sdk)
        self._api.wait_until(
            lambda: api.answers('/leases'), seconds=_READY_SECONDS
        )

    def connect(self, sdk: connection.Connection) -> rest.Rest:
        """Return its API for the user of a connection."""
        return rest.Rest(sdk, f'{self.url}/v1')

    def stop(self) -> None:
        """End both processes; twice is once."""
        self._bound.close()
        super().stop()


def _get_path(cloud: clouds.Cloud) -> pathlib.Path:
    return cloud.folder.etc / f'{NAME}.conf'


def _blazar(parts: config.Parts) -> cloud_settings.Options:
    identity = urllib.parse.urlsplit(parts.urls.identity)
    return {
        'DEFAULT': {
            'log_file': str(parts.folder.log / f'{NAME}-api.log'),
            'transport_url': parts.bus.url,
            'host': 'controller',
            # It makes the trusts of leases.
            'os_auth_protocol': identity.scheme,
            'os_auth_host': str(identity.hostname),
            'os_auth_port': str(identity.port),
            'os_auth_version': 'v3',
            'os_admin_username': NAME,
            'os_admin_password': config.PASSWORD,
            'os_admin_project_name': 'service',
            'os_region_name': options.REGION,
            'identity_service': 'identity',
        },
        'database': {'connection': parts.database.url(NAME)},
        'keystone_authtoken': config.middleware(parts, NAME),
        'manager': {'plugins': 'extended.instance.plugin'},
        'ext_resources_placement': config.auth(parts, 'nova'),
    }
