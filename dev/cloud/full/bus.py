# SPDX-License-Identifier: Apache-2.0

"""RabbitMQ, on loopback, with a port mapper of its own.

Erlang starts ``epmd`` as a daemon where none runs, and leaves it there. So one
is started before, on another port than that of the machine's own.
"""

import os
import secrets
import socket

import kombu

from dev.cloud import child
from dev.cloud import endpoints
from dev.cloud import folder as folders
from dev.cloud import programs

_LOOPBACK = '127.0.0.1'
_READY_SECONDS = 600.0
_USER = 'openstack'

#: No busy waiting, and not as many threads as the machine has CPUs.
_ERLANG = (
    '-kernel inet_dist_use_interface {127,0,0,1} '
    '+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none'
)


class Bus:
    """One broker.

    :ivar children: its processes, in the order in which they start
    """

    def __init__(self, folder: folders.Folder) -> None:
        self._home = folder.lib / 'rabbitmq'
        self._port = endpoints.find_free_port()
        self._distribution = endpoints.find_free_port()
        self._mapper = endpoints.find_free_port()
        self._password = secrets.token_hex()
        environ = self._make_environ(folder)
        self.children = (
            child.Child(
                'epmd',
                programs.get_packaged('epmd'),
                ['-address', _LOOPBACK, '-port', str(self._mapper)],
                folder=folder,
                environ=environ,
            ),
            child.Child(
                'rabbitmq',
                programs.get_packaged('rabbitmq-server'),
                folder=folder,
                environ=environ,
            ),
        )

    @property
    def url(self) -> str:
        """The ``transport_url`` of oslo.messaging."""
        return f'rabbit://{_USER}:{self._password}@{_LOOPBACK}:{self._port}/'

    def start(self) -> None:
        """Write its configuration and start; waits for the mapper only.

        :raises ChildFailed: the mapper ended
        """
        self._write()
        mapper, broker = self.children
        mapper.start()
        mapper.wait_until(
            lambda: _listens(self._mapper), seconds=_READY_SECONDS
        )
        broker.start()

    def wait(self) -> None:
        """Wait until it takes connections.

        :raises ChildFailed: it ended, or takes none
        """
        self.children[-1].wait_until(
            lambda: _listens(self._port), seconds=_READY_SECONDS
        )

    def has_queue(self, name: str) -> bool:
        """Return whether a service has begun to take its messages.

        What is sent before is lost, and its sender waits for a minute.
        """
        with kombu.Connection(
            hostname=_LOOPBACK,
            port=self._port,
            userid=_USER,
            password=self._password,
        ) as connection:
            try:
                connection.channel().queue_declare(name, passive=True)
            except connection.channel_errors:
                return False
        return True

    def _write(self) -> None:
        self._home.mkdir()
        cookie = self._home / '.erlang.cookie'
        cookie.write_text(secrets.token_hex(16))
        cookie.chmod(0o400)
        (self._home / 'plugins').write_text('[].\n')
        (self._home / 'rabbitmq.conf').write_text(
            f'listeners.tcp.1 = {_LOOPBACK}:{self._port}\n'
            f'loopback_users = none\n'
            f'default_user = {_USER}\n'
            f'default_pass = {self._password}\n'
            f'total_memory_available_override_value = 2GB\n'
        )

    def _make_environ(self, folder: folders.Folder) -> dict[str, str]:
        return {
            'HOME': str(self._home),
            'ERL_EPMD_ADDRESS': _LOOPBACK,
            'ERL_EPMD_PORT': str(self._mapper),
            'RABBITMQ_BASE': str(self._home),
            'RABBITMQ_CONFIG_FILE': str(self._home / 'rabbitmq'),
            'RABBITMQ_DIST_PORT': str(self._distribution),
            'RABBITMQ_ENABLED_PLUGINS_FILE': str(self._home / 'plugins'),
            'RABBITMQ_LOG_BASE': str(folder.log),
            'RABBITMQ_MNESIA_BASE': str(self._home / 'mnesia'),
            'RABBITMQ_NODENAME': f'cloud{os.getpid()}@localhost',
            'RABBITMQ_PID_FILE': str(self._home / 'pid'),
            'RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS': _ERLANG,
            'RABBITMQ_USE_LONGNAME': 'false',
            # Erlang in the place of the shell, not below it.
            'RUNNING_UNDER_SYSTEMD': '1',
        }


def _listens(port: int) -> bool:
    try:
        with socket.create_connection((_LOOPBACK, port), timeout=2):
            return True
    except OSError:
        return False
