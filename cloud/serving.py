# SPDX-License-Identifier: Apache-2.0

"""Serve a WSGI application on an inherited socket."""

import socket
import threading
from typing import Any

from waitress import server


def serve(application: Any, fd: int, *, threads: int = 4) -> None:
    """Answer requests from background threads until the process ends.

    :param application: a WSGI application
    :param fd: number of a bound socket that the parent passed on
    """
    made = server.create_server(
        application, sockets=[socket.socket(fileno=fd)], threads=threads
    )
    threading.Thread(target=made.run, daemon=True, name=f'wsgi-{fd}').start()
