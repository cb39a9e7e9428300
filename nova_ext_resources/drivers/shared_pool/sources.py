# SPDX-License-Identifier: Apache-2.0

"""Reads what a pool has, now. Any of it may hang: see ``readers``."""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import datetime
import email.utils
import os
import subprocess
import time
from typing import TypeAlias

import requests

from nova_ext_resources import clocks
from nova_ext_resources.drivers.shared_pool import reading
from nova_ext_resources.objects import pool

#: More than any document of two numbers needs.
MAX_BYTES = 64 * 1024

#: How much the clock of whoever writes a document may be ahead.
MAX_SKEW = datetime.timedelta(seconds=60)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a pool's numbers come from.

    :ivar kind: one of :data:`KINDS`
    :ivar location: path, name of a Ceph pool, or URL
    :ivar unit_size: how much one unit is, of what the source counts
    :ivar timeout: seconds that a command or a server gets
    """

    kind: str
    location: str
    unit_size: int
    timeout: float = 10.0
    ceph_command: Sequence[str] = ('ceph',)
    ca_file: str = ''


Read: TypeAlias = Callable[[Source], pool.Reading]


def read(source: Source) -> pool.Reading:
    """Read a source, once.

    :raises OSError: it cannot be read
    :raises ValueError: what it says makes no sense
    """
    return KINDS[source.kind](source)


def _read_statvfs(source: Source) -> pool.Reading:
    # Where nothing is mounted, it would be the size of the host's own disk.
    if not os.path.ismount(source.location):
        raise ValueError(
            f'nothing is mounted at {source.location}; give the path of the '
            'mount point itself'
        )
    found = os.statvfs(source.location)
    return reading.make_from_blocks(
        blocks=found.f_blocks,
        free=found.f_bfree,
        available=found.f_bavail,
        block_size=found.f_frsize,
        unit_size=source.unit_size,
        read_at=clocks.MACHINE.read(),
    )


def _read_ceph(source: Source) -> pool.Reading:
    command = [*source.ceph_command, 'df', '--format', 'json']
    try:
        done = subprocess.run(  # noqa: S603
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=source.timeout,
            check=True,
        )
    except subprocess.TimeoutExpired as err:
        raise ValueError(
            f'"{" ".join(command)}" has not ended within {source.timeout:g} '
            'seconds'
        ) from err
    except subprocess.CalledProcessError as err:
        text = err.stderr.decode(errors='replace').strip()
        raise ValueError(
            f'"{" ".join(command)}" failed with exit status {err.returncode}: '
            f'{text[-500:]}'
        ) from err
    return reading.parse_ceph(
        done.stdout, source.location, source.unit_size, clocks.MACHINE.read()
    )


def _read_file(source: Source) -> pool.Reading:
    with open(source.location, 'rb') as file:
        text = file.read(MAX_BYTES + 1)
        written_at = os.fstat(file.fileno()).st_mtime
    _check_size(len(text))
    return _parse_document(
        source,
        text,
        datetime.datetime.fromtimestamp(written_at, datetime.UTC),
        clocks.MACHINE.read(),
    )


def _read_http(source: Source) -> pool.Reading:
    asked_at, deadline = (
        clocks.MACHINE.read(),
        time.monotonic() + source.timeout,
    )
    # requests raises OSError and ValueError only, while the body is read also.
    with requests.get(
        source.location,
        timeout=source.timeout,
        stream=True,
        # The whole body of a redirection would be read.
        allow_redirects=False,
        verify=source.ca_file or True,
        headers={'Accept': 'application/json'},
    ) as response:
        response.raise_for_status()
        if response.status_code >= 300:
            raise ValueError(
                f'the server answers {response.status_code}, a redirect, '
                'which is not followed: give the target URL of the redirect'
            )
        text = b''
        # Byte by byte: a larger piece is waited for until it is full, however
        # slowly the server sends it.
        for byte in response.iter_content(1):
            text += byte
            _check_size(len(text))
            if time.monotonic() > deadline:
                raise ValueError(
                    f'the answer is not complete after {source.timeout:g} '
                    'seconds'
                )
    written_at = _find_last_modified(response)
    return _parse_document(source, text, written_at, asked_at)


def _find_last_modified(
    response: requests.Response,
) -> datetime.datetime | None:
    """Return when an answer was last modified, as far as it says so.

    A cache passes that on. Its own header, ``Age``, says when the server was
    asked, and not when the server measured (RFC 9110, 8.8.2; RFC 9111, 5.1).
    """
    try:
        found = email.utils.parsedate_to_datetime(
            response.headers.get('Last-Modified', '')
        )
        # One without a zone is of UTC.
        return found.replace(tzinfo=found.tzinfo or datetime.UTC).astimezone(
            datetime.UTC
        )
    except (OverflowError, TypeError, ValueError):
        return None


def _parse_document(
    source: Source,
    text: bytes,
    written_at: datetime.datetime | None,
    asked_at: datetime.datetime,
) -> pool.Reading:
    undated = ''
    if written_at is None:
        undated = 'the answer has no Last-Modified header with a time'
    elif written_at > asked_at + MAX_SKEW:
        future = written_at.isoformat(timespec='seconds')
        undated = f'the document was last modified in the future ({future})'
    read_at = asked_at
    if written_at is not None and not undated:
        read_at = min(written_at, asked_at)
    found = reading.parse_document(text, source.unit_size, read_at)
    return dataclasses.replace(found, undated=undated)


def _check_size(size: int) -> None:
    if size > MAX_BYTES:
        raise ValueError(f'the document is longer than {MAX_BYTES} bytes')


#: Name in a definition -> how it is read.
KINDS: Mapping[str, Read] = {
    'statvfs': _read_statvfs,
    'ceph': _read_ceph,
    'file': _read_file,
    'http': _read_http,
}
