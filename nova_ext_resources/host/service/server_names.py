# SPDX-License-Identifier: Apache-2.0

"""Nova's servers of a host, read in a thread of its own.

Nova answers over its conductor, which may be slow, or gone for a minute.
Nothing that applies servers or publishes a host waits for it.
"""

from collections.abc import Callable, Iterable, Mapping
import threading

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.facts import server
from nova_ext_resources import log_on_change
from nova_ext_resources.objects import assignment
from nova_ext_resources import plugins
from nova_ext_resources import worker

LOG = logging.getLogger(__name__)

#: Seconds between two questions at least.
MIN_PAUSE = 10.0

#: Seconds that a caller may wait for the first answer.
PATIENCE = 5.0

Servers = Mapping[str, server.NovaServer]


class ServersUnknown(exception.ExtResourcesError):
    """Nova has not yet answered which servers a host has.

    :ivar host: the compute host
    """

    message = (
        'Nova has not yet answered which servers host %(host)s has; the log '
        'has the reason, and this will be retried'
    )


class ServerList(worker.Worker):
    """Keeps the latest answer.

    :param ask: returns Nova's servers of this host, by uuid
    :param interval: seconds between two questions when nothing happens
    :param pause: seconds between two questions at least
    """

    THREAD = 'ext-resources-servers'

    #: A thread that waits for Nova ends with the process.
    STOP_TIMEOUT = 1.0

    def __init__(
        self,
        ask: Callable[[], Servers],
        *,
        host: str,
        interval: float,
        pause: float = MIN_PAUSE,
    ) -> None:
        super().__init__()
        self._ask = ask
        self._host = host
        self._interval = interval
        self._pause = pause
        self._latest: Servers | None = None
        self._logged = log_on_change.LogOnChange()
        self._is_known = threading.Event()

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

    def look_up(self, uuid: str) -> server.NovaServer | None:
        """Return what is known of a server; None: nothing.

        From now on, Nova is asked also where nothing else needs that.
        """
        if self._thread is None and not self._is_stopping.is_set():
            self.start()
        return self.latest.get(uuid)

    def describe_consumer(
        self, uuid: str, entry: assignment.Entry | None
    ) -> str:
        """Return what a consumer of placement is, without I/O.

        With the name of its server, if Nova has that on this host and has
        answered.

        :param entry: what the host has of the consumer
        """
        server_uuid = entry.server_uuid if entry else uuid
        found = self.look_up(server_uuid)
        name = found.name if found else ''
        named = f'{name} ({server_uuid})' if name else server_uuid
        if server_uuid == uuid:
            return named
        return f'migration {uuid} of {named}'

    def expect(self, uuids: Iterable[str]) -> None:
        """Ask soon, when one of these is not known."""
        if not frozenset(uuids) <= self.latest.keys():
            self.wake()

    def run_once(self) -> None:
        """Ask; raises nothing."""
        try:
            self._latest = self._ask()
        # Only labels depend on it: whatever Nova raises, the rest goes on.
        except Exception as err:
            failure = plugins.describe(err)
            if self._logged.note(failure):
                LOG.warning(
                    'Host %(host)s: alarms and metrics lack names, flavors '
                    'and projects of servers: %(err)s',
                    {'host': self._host, 'err': failure},
                )
        else:
            self._logged.clear()
            self._is_known.set()

    def do_round(self) -> float:
        self.run_once()
        # Whoever wakes the thread by now waits for the pause, too.
        self._is_stopping.wait(self._pause)
        return max(self._interval - self._pause, 0.0)
