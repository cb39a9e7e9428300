# SPDX-License-Identifier: Apache-2.0

"""A TCP port for a server that is configured with a number."""

import socket

import fixtures


class Port(fixtures.Fixture):
    """Keeps a port of 127.0.0.1 for the test; a server can listen on it.

    ``self.number`` has it. Linux gives a port that is bound to no other
    program, but lets a second socket with ``SO_REUSEADDR`` bind it as long as
    the first one does not listen.
    """

    def _setUp(self) -> None:
        held = socket.socket()
        self.addCleanup(held.close)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(('127.0.0.1', 0))
        self.number: int = held.getsockname()[1]
