# SPDX-License-Identifier: Apache-2.0

"""Blazar beside the cloud: its API and its manager, a process each.

They have an environment of their own, and import the package from a folder.
"""

import contextlib
import os
import pathlib
import types
from typing import Self
import urllib.parse

from openstack import connection

from cloud import child
from cloud import endpoints
from cloud.full import catalog
from cloud.full import cloud as clouds
from cloud.full import config
from cloud.full import rest
from cloud.full import services
from cloud import options
from cloud import programs
from cloud import settings as cloud_settings

#: Its user in keystone, its database, and its environment of tox.
NAME = 'blazar'

_READY_SECONDS = 900.0

#: Of which the manager takes requests.
_QUEUE = 'blazar.manager'


class Blazar:
    """Blazar on a cloud that is up; a context manager.

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
        self._log = folder.log / f'{NAME}-manager.log'
        self.manager = child.Child(
            f'{NAME}-manager',
            programs.get_beside(NAME, 'blazar-manager'),
            self._files,
            folder=folder,
            environ=environ,
            log=self._log,
        )
        self._api = services.make_api(
            f'{NAME}-api',
            self._bound,
            folder,
            python=programs.get_beside(NAME, 'python'),
            environ=environ,
        )

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as undo:
            undo.callback(self.stop)
            self.start()
            undo.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
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
        for one in (self._api, self.manager):
            one.terminate()
        for one in (self._api, self.manager):
            one.wait(seconds=self._cloud.stop_seconds)

    def check(self) -> None:
        """Do nothing while both processes run.

        :raises ChildFailed: one has ended
        """
        for one in (self._api, self.manager):
            one.check()


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
            'os_region_name': config.REGION,
            'identity_service': 'identity',
        },
        'database': {'connection': parts.database.url(NAME)},
        'keystone_authtoken': config.middleware(parts, NAME),
        'manager': {'plugins': 'extended.instance.plugin'},
        'ext_resources_placement': config.auth(parts, 'nova'),
    }
