# SPDX-License-Identifier: Apache-2.0

"""Serve a WSGI application on an inherited socket.

As a program, ``python -P dev/cloud/serving.py MODULE FD`` serves what is named
``application`` in an installed module.
"""

import importlib
import socket
import sys
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


def main() -> None:
    """Serve until a signal comes."""
    module, fd = sys.argv[1:]
    # Services read the command line too.
    del sys.argv[1:]
    serve(importlib.import_module(module).application, int(fd), threads=8)
    threading.Event().wait()


if __name__ == '__main__':
    main()
