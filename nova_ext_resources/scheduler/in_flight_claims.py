# SPDX-License-Identifier: Apache-2.0

"""Has requests at the same time get different hosts, where one has no room.

Asked just before Nova claims: it tries the next host then, which takes much
less than a build that its host refuses.
"""

from collections.abc import Iterable, Mapping
import threading
import time
from typing import Any

from oslo_log import log as logging

from nova_ext_resources.claims.schedule import candidates
from nova_ext_resources.claims.schedule import pending
from nova_ext_resources.scheduler import request

LOG = logging.getLogger(__name__)


class InFlightClaims:
    """What one scheduler has given. Safe to share by threads."""

    def __init__(self) -> None:
        self._pending = pending.Pending()
        self._lock = threading.Lock()

    def give(
        self,
        host: str,
        published: pending.PublishedDocument,
        judge: candidates.Judge,
        candidate: candidates.Candidate,
        *,
        is_sure: bool,
    ) -> pending.Note | None:
        """Note that a server gets a candidate, if the host can give it.

        For the parameters see :meth:`.pending.Pending.give`.
        """
        with self._lock:
            return self._pending.give(
                host,
                published,
                judge,
                candidate,
                time.monotonic(),
                is_sure=is_sure,
            )

    def take_back(self, host: str, note: pending.Note) -> None:
        """Forget that a server got a candidate: it did not."""
        with self._lock:
            self._pending.take_back(host, note)


class Offer:
    """What the hosts of one request offer beside what others were given.

    It must not hold Nova's request: it is kept as long as that lives.

    :param summaries: of placement; None where this Nova does not show them
    :param judge: of the same request
    """

    def __init__(
        self,
        in_flight: InFlightClaims,
        summaries: Mapping[str, Any] | None,
        judge: candidates.Judge,
    ) -> None:
        self._in_flight = in_flight
        self._summaries = summaries
        self._judge = judge
        self._began = time.monotonic()
        self._updated: dict[str, Any] = {}
        self._notes: dict[str, tuple[str, pending.Note]] = {}

    def take(
        self,
        hosts: list[Any],
        server: str,
        candidate: candidates.Candidate,
    ) -> bool:
        """Return whether Nova may claim a candidate; note that it does.

        A host of which too little seems to be left is tried again when all
        others were tried: that is a guess, and the host itself decides.

        :param hosts: those that Nova tries, in its order; the candidate is
            the first one of one of them. Such a host is added at the end
        """
        host_state = _find_host(hosts, candidate)
        if host_state is None:
            return True
        note = self._in_flight.give(
            host_state.host,
            self._read(host_state),
            self._judge,
            candidate,
            is_sure=hosts.count(host_state) > 1,
        )
        if note is not None:
            self._notes[server] = host_state.host, note
            return True
        hosts.append(host_state)
        LOG.debug(
            'Server %(server)s is put on host %(host)s only if no other host '
            'can take it: other servers that are being built there were given '
            'so much that too little is left for this server.',
            {'server': server, 'host': host_state.host},
        )
        return False

    def give_back(self, server: str) -> None:
        """Note that Nova could not claim for a server."""
        if (found := self._notes.pop(server, None)) is not None:
            self._in_flight.take_back(*found)

    def _read(self, host_state: Any) -> pending.PublishedDocument:
        """Return what the host has published, as the request has read it.

        When Nova chooses a host, it notes the present time as that of the
        host's report.
        """
        return pending.PublishedDocument(
            text=request.find_text(host_state),
            updated=self._updated.setdefault(
                host_state.host, host_state.updated
            ),
            summaries=self._summaries,
            read_at=self._began,
        )


def _find_host(
    hosts: Iterable[Any], candidate: candidates.Candidate
) -> Any | None:
    """Return the host whose first candidate it is; None where none is."""
    return next(
        (
            one
            for one in hosts
            if one.allocation_candidates
            and one.allocation_candidates[0] is candidate
        ),
        None,
    )
