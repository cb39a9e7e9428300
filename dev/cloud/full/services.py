# SPDX-License-Identifier: Apache-2.0

"""One process for each service."""

from collections.abc import Mapping, Sequence
import pathlib
import socket
import sys

from dev.cloud import child
from dev.cloud import folder as folders
from dev.cloud.full import config
from dev.cloud import programs

#: Name -> the module of its WSGI application.
_APPLICATIONS = {
    'keystone': 'keystone.wsgi.api',
    'placement': 'placement.wsgi.api',
    'glance': 'glance.wsgi.api',
    'nova-api': 'nova.wsgi.osapi_compute',
    'blazar-api': 'blazar.wsgi.api',
}

#: Whose applications read the folder of the files from the environment.
_PROJECTS = ('KEYSTONE', 'PLACEMENT', 'GLANCE', 'NOVA', 'BLAZAR')

_SERVING = pathlib.Path(__file__).parents[1] / 'serving.py'


def make_api(
    name: str,
    bound: socket.socket,
    folder: folders.Folder,
    *,
    python: str = sys.executable,
    environ: Mapping[str, str] | None = None,
) -> child.Child:
    """Return a service that answers HTTP on a bound socket.

    :param name: one of keystone, placement, glance, nova-api and blazar-api
    :param python: of the environment that has the service
    """
    fd = bound.fileno()
    return child.Child(
        name,
        python,
        # -P: what is installed, and not what lies beside that file.
        ['-P', str(_SERVING), _APPLICATIONS[name], str(fd)],
        folder=folder,
        fds=[fd],
        environ={
            **{
                f'OS_{project}_CONFIG_DIR': str(folder.etc)
                for project in _PROJECTS
            },
            'OS_NOVA_CONFIG_FILES': 'api-paste.ini;nova.conf;'
            f'{config.DATABASE};hosts/nova-api.conf',
            **(environ or {}),
        },
        log=folder.log / f'{name}.log',
    )


def make_network(bound: socket.socket, folder: folders.Folder) -> child.Child:
    """Return the empty network service."""
    fd = bound.fileno()
    return child.Child(
        'network',
        'dev.cloud.serving',
        ['dev.cloud.network', str(fd)],
        folder=folder,
        fds=[fd],
    )


def make_daemon(program: str, folder: folders.Folder) -> child.Child:
    """Return nova-conductor or nova-scheduler."""
    own = config.write_service(folder, program, {})
    return _make_nova(
        program, program, [folder.etc / config.DATABASE, own], folder
    )


def make_compute(host: str, folder: folders.Folder) -> child.Child:
    """Return the nova-compute of a host."""
    own = folder.hosts / f'{host}.conf'
    return _make_nova(host, 'nova-compute', [own], folder)


def _make_nova(
    name: str,
    program: str,
    own: Sequence[pathlib.Path],
    folder: folders.Folder,
) -> child.Child:
    files = [folder.etc / 'nova.conf', *own]
    return child.Child(
        name,
        programs.get(program),
        [f'--config-file={path}' for path in files],
        folder=folder,
        log=folder.log / f'{name}.log',
    )
