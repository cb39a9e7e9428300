# SPDX-License-Identifier: Apache-2.0

"""Servers of databases, which the tests of one process share.

To make and start one takes longer than most tests, and stestr spreads the
tests of a class over all its processes.
"""

import atexit
import functools
from typing import Any
import unittest

from dev.cloud import errors
from dev.cloud import folder as folders


@functools.cache
def share(kind: Any) -> Any:
    """Return the server of a kind; it is started once, and ends at the exit.

    :raises SkipTest: it is not installed
    """
    server, folder = start(kind)
    atexit.register(stop, server, folder)
    return server


def start(kind: Any) -> tuple[Any, folders.Folder]:
    """Start a server of one's own in a folder of its own.

    :raises SkipTest: it is not installed
    """
    folder = folders.Folder.create()
    try:
        server = kind(folder)
    except errors.CloudError as err:
        folder.remove()
        raise unittest.SkipTest(str(err)) from err
    server.start()
    server.wait()
    return server, folder


def stop(server: Any, folder: folders.Folder) -> None:
    """End it, and remove its files.

    PostgreSQL waits for all who are connected: drop the databases before.
    """
    server.child.stop()
    folder.remove()
