# SPDX-License-Identifier: Apache-2.0

"""The ports of the services, with that of keystone."""

import dataclasses
import socket

from cloud import endpoints


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints(endpoints.Endpoints):
    """Bound sockets of the five services, not listening yet."""

    identity: socket.socket

    def urls(self) -> 'Urls':
        """Where the services will answer."""
        return Urls(**self._list_urls())


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Urls(endpoints.Urls):
    """Base URLs of the five services, without a slash at the end."""

    identity: str
