# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

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
