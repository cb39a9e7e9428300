# SPDX-License-Identifier: Apache-2.0

"""Free ports on loopback, taken before anything starts.

A port that was found free and closed again may be gone when the service
wants it. So the sockets are bound here and inherited by the processes that
serve on them: nothing can take a port in between, and the addresses are
known while the configuration is written.
"""

import contextlib
import dataclasses
import socket
from typing import Self

_LOOPBACK = '127.0.0.1'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """Bound sockets of the five services, not listening yet."""

    identity: socket.socket
    placement: socket.socket
    compute: socket.socket
    network: socket.socket
    image: socket.socket

    @classmethod
    def bind(cls) -> Self:
        """Bind one free port for each service.

        :raises OSError: when the machine has no free port or no loopback
        """
        with contextlib.ExitStack() as undo:
            sockets = {}
            for field in dataclasses.fields(cls):
                sockets[field.name] = undo.enter_context(bind())
            undo.pop_all()
        return cls(**sockets)

    def close(self) -> None:
        """Close this process's copies; the children keep theirs."""
        for field in dataclasses.fields(self):
            getattr(self, field.name).close()

    def urls(self) -> 'Urls':
        """Where the services will answer."""
        return Urls(
            **{
                field.name: make_url(getattr(self, field.name))
                for field in dataclasses.fields(self)
            }
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Urls:
    """Base URLs of the five services, without a slash at the end."""

    identity: str
    placement: str
    compute: str
    network: str
    image: str

    @property
    def catalog(self) -> dict[str, str]:
        """Service type -> URL, as a catalog of keystone has them."""
        return {
            'identity': f'{self.identity}/v3',
            'placement': self.placement,
            'image': self.image,
            'compute': f'{self.compute}/v2.1',
            'network': self.network,
        }


def bind() -> socket.socket:
    """Bind a free port for one service.

    :raises OSError: when the machine has no free port or no loopback
    """
    with contextlib.ExitStack() as undo:
        bound = undo.enter_context(socket.socket())
        bound.bind((_LOOPBACK, 0))
        undo.pop_all()
    return bound


def make_url(bound: socket.socket) -> str:
    """Return where the service of a bound socket answers."""
    host, port = bound.getsockname()
    return f'http://{host}:{port}'


def find_free_port() -> int:
    """Return a port of loopback that is free at the moment.

    For programs that cannot inherit a socket.
    """
    with socket.socket() as bound:
        bound.bind((_LOOPBACK, 0))
        port: int = bound.getsockname()[1]
    return port
