# SPDX-License-Identifier: Apache-2.0

"""Reports to systemd, as ``sd_notify(3)`` describes it.

Does nothing where systemd did not start this program.
"""

import os
import socket

READY = 'READY=1'
STOPPING = 'STOPPING=1'
ALIVE = 'WATCHDOG=1'

#: Seconds for which a message waits for whoever does not read those before.
PATIENCE = 10.0


def notify(*lines: str) -> None:
    """Send lines such as ``READY=1``; a failure does not matter."""
    path = os.environ.get('NOTIFY_SOCKET', '')
    if not path.startswith(('/', '@')):
        return
    if path.startswith('@'):
        path = '\0' + path[1:]  # An abstract name.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.settimeout(PATIENCE)
        try:
            sender.connect(path)
            sender.sendall('\n'.join(lines).encode())
        except OSError:
            return
