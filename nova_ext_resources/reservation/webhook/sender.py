# SPDX-License-Identifier: Apache-2.0

"""Sends one notification, in bounded time.

Not by requests: it would resolve the name once more after its addresses were
checked, use a proxy that the environment names, and wait as long as a peer
sends a byte now and then. urllib3 is what it is made of.
"""

from collections.abc import Callable, Iterator, Mapping
import contextlib
import ipaddress
import logging as std_logging
import socket
import ssl
import threading
import time
from typing import Any

import urllib3
from urllib3 import exceptions as urllib3_exceptions

from nova_ext_resources.reservation.webhook import rules as rules_mod

#: Addresses of one name that are tried.
_MOST_ADDRESSES = 4

#: A receiver that answers this wants no more.
_GONE = 410

_HEADERS = {
    'Content-Type': 'application/json',
    'User-Agent': 'nova-ext-resources',
}


TOO_LATE = 'the receiver did not answer in time'

#: The same for all of these: whoever subscribes would find out by it which
#: names are known where the manager runs.
_NO_ADDRESS = 'its host is not found, or has an address that is not allowed'

#: Loggers that write whole URLs, and certificates.
_TALKERS = (
    'urllib3.connection',
    'urllib3.connectionpool',
    'urllib3.response',
    'urllib3.util.retry',
)

_sending = threading.local()


class NotDelivered(Exception):
    """A receiver has not said that it has a notification. It may have it.

    :ivar is_refused: whether it wants no more
    :ivar details: more of the reason, for operators
    """

    def __init__(
        self, reason: str, *, is_refused: bool = False, details: str = ''
    ) -> None:
        super().__init__(reason)
        self.is_refused = is_refused
        self.details = details


class Sender:
    """Sends to what the rules allow. Any number of threads may use it.

    :param timeout: seconds that one notification may take in all. The search
        for its host cannot be broken off; if that takes longer, nothing is
        sent
    :param cafile: certificates of authorities; None for those of the system
    :param resolve: as of :func:`socket.getaddrinfo`
    :raises OSError: the file cannot be read
    """

    def __init__(
        self,
        rules: rules_mod.Rules,
        *,
        timeout: float,
        cafile: str | None = None,
        resolve: Callable[..., Any] = socket.getaddrinfo,
    ) -> None:
        self._rules = rules
        self.timeout = timeout
        self._context = ssl.create_default_context(cafile=cafile)
        self._resolve = resolve
        for name in _TALKERS:
            std_logging.getLogger(name).addFilter(_is_not_ours)

    def send(
        self,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        until: float | None = None,
    ) -> None:
        """Send a notification, once.

        :param until: when it is too late, as :func:`time.monotonic` counts;
            None for the time-out from now on
        :raises NotDelivered: no answer of success has come
        """
        if until is None:
            until = time.monotonic() + self.timeout
        try:
            target = self._rules.check_url(url)
        except ValueError as err:
            raise NotDelivered(f'the URL is not allowed: {err}') from err
        addresses = self._find_addresses(target)
        # Whoever waited has given up, and may have sent what comes after it.
        if time.monotonic() >= until:
            raise NotDelivered(
                TOO_LATE, details='the address of its host was found too late'
            )
        with _silence(), _Deadline(until) as deadline:
            status = self._post_any(target, addresses, headers, body, deadline)
            # What was cut in its headers looks as if these were over.
            if deadline.is_over:
                raise NotDelivered(TOO_LATE)
        if not 200 <= status <= 299:
            raise NotDelivered(
                f'the receiver answered {status}', is_refused=status == _GONE
            )

    def _find_addresses(
        self, target: rules_mod.Target
    ) -> list[rules_mod.Address]:
        """Return addresses that may be connected to.

        :raises NotDelivered: there are none, or one of them may not
        """
        try:
            found = self._resolve(
                target.host, target.port, type=socket.SOCK_STREAM
            )
        except (OSError, UnicodeError) as err:
            raise NotDelivered(_NO_ADDRESS, details=str(err)) from err
        texts = dict.fromkeys(one[4][0] for one in found)
        # A zone, as in fe80::1%eth0, is for addresses that are refused.
        addresses = [
            ipaddress.ip_address(str(one).partition('%')[0]) for one in texts
        ]
        try:
            for one in addresses:
                self._rules.check_address(one)
        except ValueError as err:
            raise NotDelivered(_NO_ADDRESS, details=str(err)) from err
        return addresses[:_MOST_ADDRESSES]

    def _post_any(
        self,
        target: rules_mod.Target,
        addresses: list[rules_mod.Address],
        headers: Mapping[str, str],
        body: bytes,
        deadline: '_Deadline',
    ) -> int:
        """Post to the first address that can be connected to.

        :raises NotDelivered: to none, or no answer came
        """
        failure: Exception | None = None
        for one in addresses:
            try:
                return self._post(target, one, headers, body, deadline)
            except (
                urllib3_exceptions.NewConnectionError,
                urllib3_exceptions.ConnectTimeoutError,
            ) as err:
                failure = err
            except (urllib3_exceptions.HTTPError, OSError) as err:
                raise NotDelivered(deadline.explain(err)) from err
        raise NotDelivered('no connection can be made') from failure

    def _post(
        self,
        target: rules_mod.Target,
        address: rules_mod.Address,
        headers: Mapping[str, str],
        body: bytes,
        deadline: '_Deadline',
    ) -> int:
        """Return the status that a receiver at an address answers."""
        with contextlib.closing(
            self._make_pool(target, address, deadline)
        ) as pool:
            response = pool.urlopen(
                'POST',
                target.path,
                body=body,
                headers={**_HEADERS, **headers, 'Host': _name_host(target)},
                retries=False,
                redirect=False,
                assert_same_host=False,
                preload_content=False,
            )
            # The body is of no interest, and may never end.
            response.close()
            return int(response.status)

    def _make_pool(
        self,
        target: rules_mod.Target,
        address: rules_mod.Address,
        deadline: '_Deadline',
    ) -> urllib3.HTTPConnectionPool:
        host = f'[{address}]' if address.version == 6 else str(address)
        left = urllib3.Timeout(total=deadline.left)
        pool: urllib3.HTTPConnectionPool
        if target.scheme == 'http':
            pool = urllib3.HTTPConnectionPool(host, target.port, timeout=left)
        else:
            pool = urllib3.HTTPSConnectionPool(
                host,
                target.port,
                timeout=left,
                ssl_context=self._context,
                # OpenSSL checks it. With "assert_hostname" urllib3 would, and
                # would have the context, which all share, check no names.
                server_hostname=target.host,
            )
        pool.ConnectionCls = deadline.watch(pool.ConnectionCls)
        return pool


class _Deadline:
    """Cuts a connection when the time is up, whatever its peer sends.

    :param until: as of :meth:`Sender.send`
    :ivar is_over: whether it is
    """

    def __init__(self, until: float) -> None:
        self._until = until
        self._lock = threading.Lock()
        self._line: socket.socket | None = None
        self.is_over = False
        self._timer = threading.Timer(self.left, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> '_Deadline':
        self._timer.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._timer.cancel()
        self._take(None)

    @property
    def left(self) -> float:
        """Seconds; urllib3 takes none that are not above 0."""
        return max(self._until - time.monotonic(), 0.001)

    def watch(self, base: Any) -> Any:
        """Return a class of connections of which this one knows the last."""
        take = self._take

        class Watched(base):  # type: ignore[misc]
            def _new_conn(self) -> socket.socket:
                line: socket.socket = super()._new_conn()
                # Another handle of it. TLS takes this one away, and to shut
                # down what TLS has would have it write in the clear.
                take(line.dup())
                return line

        return Watched

    def explain(self, err: Exception) -> str:
        """Return in words why there is no answer; no details of a network."""
        if self.is_over or isinstance(err, urllib3_exceptions.TimeoutError):
            return TOO_LATE
        if isinstance(err, urllib3_exceptions.SSLError):
            return f'TLS: {err}'
        return (
            'the receiver closed the connection, or did not answer with HTTP'
        )

    def _take(self, line: socket.socket | None) -> None:
        with self._lock:
            before, self._line = self._line, line
        if before is not None:
            before.close()
        if self.is_over:
            self._cut()

    def _cut(self) -> None:
        self.is_over = True
        with self._lock:
            if self._line is not None:
                with contextlib.suppress(OSError):
                    self._line.shutdown(socket.SHUT_RDWR)


def _name_host(target: rules_mod.Target) -> str:
    return target.origin.partition('://')[2]


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Have urllib3 log nothing of what this thread sends."""
    _sending.is_on = True
    try:
        yield
    finally:
        _sending.is_on = False


def _is_not_ours(_record: std_logging.LogRecord) -> bool:
    return not getattr(_sending, 'is_on', False)
