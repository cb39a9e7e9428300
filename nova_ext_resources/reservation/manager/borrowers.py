# SPDX-License-Identifier: Apache-2.0

"""Who holds what is short, and can be told to go."""

import bisect
from collections.abc import Callable, Collection, Iterable, Mapping

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.reservation import lending
from nova_ext_resources.reservation.manager import cloud_services
from nova_ext_resources.reservation.manager import pauses
from nova_ext_resources.reservation.manager import time_budget
from nova_ext_resources.reservation import nova_server

LOG = logging.getLogger(__name__)

#: How many servers Nova is asked about for one host in one pass.
MOST = 500

#: Seconds until a server that cannot go is named again: first, and at most.
FIRST_PAUSE = 60
LONGEST_PAUSE = 3600

#: So long it is known, in seconds, what Nova showed of servers that are more.
KEEP_SECONDS = 1800


class Borrowers:
    """Asks Nova, about each server once in a pass.

    :param find_until: returns up to when a server has a reservation, or had
        one; None if it has none
    """

    def __init__(
        self,
        cloud: cloud_services.Cloud,
        find_until: Callable[[nova_server.NovaServer], int | None],
    ) -> None:
        self._cloud = cloud
        self._find_until = find_until
        #: Servers that cannot go, by their status.
        self._named = pauses.Pauses(FIRST_PAUSE, LONGEST_PAUSE)
        #: Host -> the server that is asked about first, of those that were
        #: too many for the passes before.
        self._next: dict[str, str] = {}
        #: Hosts with servers that are not known yet.
        self._unknown: set[str] = set()
        #: Server -> when Nova was asked, in this pass or before, and what it
        #: showed.
        self._seen: dict[str, tuple[int, nova_server.NovaServer | None]] = {}
        self.begin(time_budget.Effort(), 0)

    def begin(self, effort: time_budget.Effort, now: int) -> None:
        """Begin a pass.

        What Nova showed before is kept while some host has more servers than
        are asked about at once.

        :param effort: of the part of the pass that asks
        :param now: seconds since the epoch
        """
        self._effort = effort
        self._seen = {
            uuid: one
            for uuid, one in self._seen.items()
            if self._next and abs(now - one[0]) < KEEP_SECONDS
        }
        #: Servers that Nova was asked about in this pass.
        self._asked: set[str] = set()
        self._named.forget(now)
        self._unknown = set()
        self._failures: list[str] = []

    def take_failures(self) -> list[str]:
        """Return why servers could not be looked at since this was called."""
        found, self._failures = self._failures, []
        return found

    def has_more(self, host: str) -> bool:
        """Return whether there are servers of which nothing is known yet."""
        return host in self._unknown

    def list(
        self,
        host: str,
        holders: Collection[str],
        told: Mapping[tuple[str, str], int],
        now: int,
    ) -> list[lending.Borrower]:
        """Return which holders can be told to go.

        Of many others those that were told to leave are asked about first:
        their time may be over.

        :param host: for which they are to go
        :param told: (server, host) -> when it was told last to leave that
            host
        :param now: seconds since the epoch
        """
        first = {uuid for uuid, _host in told}
        others = sorted(set(holders) - first)
        begin = bisect.bisect_left(others, self._next.pop(host, ''))
        for uuid in self._limit(
            host,
            [*sorted(first), *others[begin:], *others[:begin]],
        ):
            self._ask(uuid, now)
        return [
            one
            for uuid in sorted(holders)
            if (one := self._make(host, uuid, told, now)) is not None
        ]

    def _make(
        self,
        host: str,
        uuid: str,
        told: Mapping[tuple[str, str], int],
        now: int,
    ) -> lending.Borrower | None:
        if uuid not in self._seen:
            self._unknown.add(host)
            return None
        server = self._seen[uuid][1]
        if server is None:
            return None
        one = lending.make_borrower(
            server,
            told.get((uuid, server.host)),
            now,
            self._find_until(server),
        )
        if one is None or self._can_go(server, one, now):
            return one
        return None

    def _can_go(
        self, server: nova_server.NovaServer, one: lending.Borrower, now: int
    ) -> bool:
        """Return whether there is a way to remove a server, or log it."""
        if nova_server.can_leave(server, is_deleted=one.lease.is_deleted):
            return True
        if self._named.find(server.uuid, server.status, now) is None:
            self._named.begin(server.uuid, server.status, now)
            LOG.warning(
                'Server %(uuid)s cannot be shelved while its status is '
                '%(status)s. Other servers are told to leave in its place; '
                'delete the server, or repair it.',
                {'uuid': server.uuid, 'status': server.status},
            )
        return False

    def _limit(self, host: str, uuids: Iterable[str]) -> Iterable[str]:
        """Return servers until Nova was asked often enough."""
        left = MOST
        for uuid in uuids:
            is_known = uuid in self._asked
            if not is_known and (not left or self._effort.is_over):
                self._next[host] = uuid
                return
            left -= not is_known
            yield uuid

    def get_server(self, one: lending.Borrower) -> nova_server.NovaServer:
        """Return the server of a borrower that was listed in this pass."""
        server = self._seen[one.uuid][1]
        assert server is not None
        return server

    def _ask(self, uuid: str, now: int) -> None:
        if uuid in self._asked:
            return
        self._asked.add(uuid)
        self._seen.pop(uuid, None)
        try:
            self._seen[uuid] = now, self._cloud.find_server(uuid)
        except exception.ComputeUnavailable as err:
            self._asked.discard(uuid)
            self._effort.note(err)
            self._failures.append(f'server {uuid}: {err}')
