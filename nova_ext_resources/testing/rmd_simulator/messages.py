# SPDX-License-Identifier: Apache-2.0

"""Requests and answers, apart from sockets."""

from collections.abc import Mapping
import dataclasses
from typing import Any

from nova_ext_resources.testing.rmd_simulator import gojson

JSON = 'application/json'

#: What RMD's handlers set themselves, and what Go makes of a text.
PLAIN = 'text/plain'
SNIFFED = 'text/plain; charset=utf-8'

NO_SNIFF = ('X-Content-Type-Options', 'nosniff')


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What came in; header names in lower case, the path decoded."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What goes out.

    :ivar content_type: None for no such header
    """

    status: int
    body: str = ''
    content_type: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


def entity(data: Any, status: int = 200) -> Response:
    """Answer with JSON."""
    return Response(status=status, body=gojson.encode(data), content_type=JSON)


def text(status: int, body: str, content_type: str = SNIFFED) -> Response:
    """Answer with text; Go names no type for an empty one."""
    return Response(
        status=status,
        body=body,
        content_type=content_type if body else None,
    )
