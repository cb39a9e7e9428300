# SPDX-License-Identifier: Apache-2.0

"""Nova's servers of a host, read in a thread of its own.

Nova answers over its conductor, which may be slow, or gone for a minute.
Nothing that applies servers or publishes a host waits for it.
"""

from collections.abc import Callable, Iterable, Mapping
import threading

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.objects import server as server_obj
from nova_ext_resources import plugins

LOG = logging.getLogger(__name__)

#: Seconds between two questions at least.
MIN_PAUSE = 10.0

#: Seconds that a caller may wait for the first answer.
PATIENCE = 5.0

Servers = Mapping[str, server_obj.NovaServer]


class ServersUnknown(exception.ExtResourcesError):
    """Nova has not yet answered which servers a host has.

    :ivar host: the compute host
    """

    message = (
        'Nova has not yet answered which servers host %(host)s has; the '
        'reason is in the log, and it will be asked again'
    )


class ServerList:
    """Keeps the latest answer.

    :param ask: returns Nova's servers of this host, by uuid
    :param interval: seconds between two questions when nothing happens
    :param pause: seconds between two questions at least
    """

    def __init__(
        self,
        ask: Callable[[], Servers],
        *,
        host: str,
        interval: float,
        pause: float = MIN_PAUSE,
    ) -> None:
        self._ask = ask
        self._host = host
        self._interval = interval
        self._pause = pause
        self._latest: Servers | None = None
        self._failure = ''
        self._is_known = threading.Event()
        self._is_wanted = threading.Event()
        self._is_stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def latest(self) -> Servers:
        """Return what is known; nothing before the first answer."""
        return self._latest or {}

    def list_uuids(self, patience: float = PATIENCE) -> tuple[str, ...]:
        """Return the uuids of all servers of this host.

        :param patience: seconds to wait for the first answer
        :raises ServersUnknown: there was none yet
        """
        self._is_known.wait(patience)
        if self._latest is None:
            raise ServersUnknown(host=self._host)
        return tuple(self._latest)

    def expect(self, uuids: Iterable[str]) -> None:
        """Ask soon, when one of these is not known."""
        if not frozenset(uuids) <= self.latest.keys():
            self._is_wanted.set()

    def start(self) -> None:
        """Start the thread; it asks at once."""
        self._thread = threading.Thread(
            target=self._run, name='ext-resources-servers', daemon=True
        )
        self._thread.start()

    def stop(self, timeout: float = 1.0) -> None:
        """End the thread; one that waits for Nova ends with the process.

        :param timeout: seconds to wait for it
        """
        self._is_stopping.set()
        self._is_wanted.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def run_once(self) -> None:
        """Ask; raises nothing."""
        try:
            self._latest = self._ask()
        # Only labels depend on it: whatever Nova raises, the rest goes on.
        except Exception as err:
            failure = plugins.describe(err)
            if failure != self._failure:
                LOG.warning(
                    'Host %(host)s: flavors and projects of servers are not '
                    'known for metrics: %(err)s',
                    {'host': self._host, 'err': failure},
                )
            self._failure = failure
        else:
            self._failure = ''
            self._is_known.set()

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            self._is_wanted.clear()
            self.run_once()
            self._is_stopping.wait(self._pause)
            self._is_wanted.wait(max(self._interval - self._pause, 0.0))
