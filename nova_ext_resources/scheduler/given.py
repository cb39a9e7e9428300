# SPDX-License-Identifier: Apache-2.0

"""Has requests at the same time get different hosts, where one has no room.

Asked just before Nova claims: it tries the next host then, which takes much
less than a build that its host refuses.
"""

from collections.abc import Mapping, Sequence
import threading
import time
from typing import Any

from oslo_log import log as logging

from nova_ext_resources.claims.schedule import candidates
from nova_ext_resources.claims.schedule import pending as pending_mod
from nova_ext_resources.scheduler import request

LOG = logging.getLogger(__name__)


class Given:
    """What one scheduler has given. Safe to share by threads."""

    def __init__(self) -> None:
        self._pending = pending_mod.Pending()
        self._lock = threading.Lock()

    def give(
        self,
        host_state: Any,
        summaries: Mapping[str, Any] | None,
        judge: candidates.Judge,
        candidate: candidates.Candidate,
    ) -> bool:
        """Note that a server gets a candidate, if the host can give it."""
        published = pending_mod.Published(
            text=request.find_text(host_state),
            updated=host_state.updated,
            summaries=summaries,
        )
        with self._lock:
            return self._pending.give(
                host_state.host,
                published,
                judge,
                candidate,
                time.monotonic(),
            )

    def take_back(
        self, host_state: Any, candidate: candidates.Candidate
    ) -> None:
        """Forget that a server got a candidate: it did not."""
        with self._lock:
            self._pending.take_back(host_state.host, candidate)


class Offer:
    """What the hosts of one request offer beside what others were given.

    It must not hold Nova's request: it is kept as long as that lives.

    :param summaries: of placement; None where this Nova does not show them
    :param judge: of the same request
    """

    def __init__(
        self,
        given: Given,
        summaries: Mapping[str, Any] | None,
        judge: candidates.Judge,
    ) -> None:
        self._given = given
        self._summaries = summaries
        self._judge = judge

    def take(
        self,
        hosts: Sequence[Any],
        server: str,
        candidate: candidates.Candidate,
    ) -> bool:
        """Return whether Nova may claim a candidate; note that it does.

        It may of the last host, whatever others were given there: that is a
        guess, and the host itself decides.

        :param hosts: those that Nova tries, in its order; the candidate is
            the first one of one of them
        """
        host_state = _find_host(hosts, candidate)
        if host_state is None:
            return True
        if self._given.give(
            host_state, self._summaries, self._judge, candidate
        ):
            return True
        if host_state is hosts[-1]:
            return True
        LOG.debug(
            'Server %(server)s is not put on host %(host)s, of which other '
            'servers were given so much that too little is left. They are '
            'being built there; the next host is tried.',
            {'server': server, 'host': host_state.host},
        )
        return False

    def give_back(
        self, hosts: Sequence[Any], candidate: candidates.Candidate
    ) -> None:
        """Note that Nova could not claim a candidate."""
        if (host_state := _find_host(hosts, candidate)) is not None:
            self._given.take_back(host_state, candidate)


def _find_host(
    hosts: Sequence[Any], candidate: candidates.Candidate
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
