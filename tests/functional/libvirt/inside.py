# SPDX-License-Identifier: Apache-2.0

"""What the test does inside the process of the cloud's services.

``prepare`` is called before Nova is imported. It lets Nova act as root
itself, and opens a socket on which ``stop`` and ``start`` do that to
nova-compute, and ``patch`` and ``mend`` make it a Nova that has libvirt
control the caches of its guests, and Nova again. ``refresh`` has the host
looked at and reported to the scheduler now.
"""

from collections.abc import Callable
import os
import pathlib
import socket
import threading
from typing import Any

_SOCKET = 'inside.sock'
_OK = b'ok'

#: What a patched Nova writes.
_TUNE = (
    '<cachetune vcpus="0"><cache id="0" level="3" type="both" size="1" '
    'unit="MiB"/></cachetune>'
)


def call(etc: pathlib.Path, command: str) -> None:
    """Have a command carried out.

    :param etc: folder of the cloud's configuration
    :raises RuntimeError: it failed; the reason is in the log of Nova
    """
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(60)
        client.connect(str(etc / _SOCKET))
        client.sendall(command.encode())
        answer = client.recv(4096)
    if answer != _OK:
        raise RuntimeError(f'{command}: {answer.decode() or "no answer"}')


def prepare() -> None:
    from nova import privsep
    from nova import service

    privsep.sys_admin_pctxt.set_client_mode(False)
    computes = _Computes(service.Service)
    server = socket.socket(socket.AF_UNIX)
    server.bind(os.path.join(os.environ['OS_NOVA_CONFIG_DIR'], _SOCKET))
    server.listen()
    threading.Thread(
        target=computes.serve, args=(server,), daemon=True
    ).start()


class _Computes:
    """Catches the compute service when it is made, to end and renew it."""

    def __init__(self, service_class: Any) -> None:
        self._create = service_class.create
        self._made: Any = None
        self._arguments: dict[str, Any] = {}
        self._commands: dict[str, Callable[[], None]] = {
            'start': self._start,
            'stop': self._stop,
            'patch': self._patch,
            'mend': self._mend,
            'refresh': self._refresh,
        }
        service_class.create = self._catch

    def _catch(self, **arguments: Any) -> Any:
        made = self._create(**arguments)
        if arguments['binary'] == 'nova-compute':
            self._made, self._arguments = made, arguments
        return made

    def serve(self, server: socket.socket) -> None:
        while True:
            client, _ = server.accept()
            with client:
                client.sendall(self._carry_out(client.recv(64).decode()))

    def _carry_out(self, command: str) -> bytes:
        try:
            self._commands[command]()
        # Nova leaves with SystemExit, too.
        except BaseException as err:
            return repr(err).encode()[:4096]
        return _OK

    def _start(self) -> None:
        from nova.virt import node

        # As in a process of its own.
        node.LOCAL_NODE_UUID = None
        self._catch(**self._arguments).start()

    def _patch(self) -> None:
        driver = self._made.manager.driver
        write = driver._get_guest_xml

        def write_more(*args: Any, **kwargs: Any) -> str:
            xml = str(write(*args, **kwargs))
            return xml.replace('</cputune>', f'{_TUNE}</cputune>')

        driver._get_guest_xml = write_more

    def _mend(self) -> None:
        del self._made.manager.driver._get_guest_xml

    def _refresh(self) -> None:
        from nova import context

        manager = self._made.manager
        manager.driver._ext.periodic.run_round()
        manager.update_available_resource(context.get_admin_context())

    def _stop(self) -> None:
        """End all that the service does.

        Its own way to stop ends what it shares with Nova's API, which here
        is in the same process.
        """
        from oslo_service import service as oslo_service

        made = self._made
        for server in (made.rpcserver, made.rpcserver_alt):
            server.stop()
            server.wait()
        oslo_service.Service.stop(made)
        made.manager.driver.cleanup_host(made.host)
