# SPDX-License-Identifier: Apache-2.0

"""Follows the store: only what has changed is read, by the revisions.

A reservation whose servers have changed is dropped and taken anew. That is
the same however often it is done, so that rows may be newer than the revision
up to which they were asked for.

Reading and taking are apart, so that several threads can read at once and
none keeps the others waiting: what was read late, and is older than what
another one has taken meanwhile, changes nothing.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import heapq
from typing import Protocol

from oslo_log import log as logging
import sqlalchemy as sa

from nova_ext_resources.reservation import capacity_plan
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation.store import capacity_changes
from nova_ext_resources.reservation.store import history
from nova_ext_resources.reservation.store import reservations
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import shards

LOG = logging.getLogger(__name__)


class Target(Protocol):
    """What is kept as the store is."""

    def take(
        self, request: plan_request.Request, found: servers.PlannedServers
    ) -> None:
        """Take a reservation that is not there, with all its servers."""

    def drop(self, key: str, found: servers.PlannedServers) -> None:
        """Drop a reservation, with the servers that were taken."""

    def follow(self, changes: capacity_plan.Changes) -> None:
        """Take planned changes of capacity in place of those before."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What has changed in the store from some revisions to others.

    :ivar before: since when they were read
    :ivar revisions: until when
    :ivar is_whole: whether it is all that there is, and not what has changed
    :ivar oldest: what ended until then is left out
    :ivar capacity: all planned changes of capacity; None if they may be as
        before
    :ivar changed: the reservations
    :ivar requests: reservation -> what was asked for, of those that exist
    :ivar found: reservation -> its servers, of those that are not over
    """

    before: shards.Revisions
    revisions: shards.Revisions
    is_whole: bool
    oldest: int
    capacity: capacity_plan.Changes | None
    changed: Sequence[str]
    requests: Mapping[str, plan_request.Request]
    found: Mapping[str, servers.PlannedServers]


class Reader:
    """Keeps a target as the store is.

    :ivar revisions: of all shards, up to which it was read
    :ivar held: reservation -> its servers that have not been dropped
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self.revisions = shards.Revisions()
        self.held: dict[str, servers.PlannedServers] = {}
        #: What ended until then has been dropped.
        self._oldest = interval.ALWAYS
        #: (end, reservation), the first end at the front.
        self._ends: list[tuple[int, str]] = []

    def refresh(self, connection: sa.Connection, oldest: int) -> None:
        """Read what has changed, and drop what ended before a time.

        If that fails, all is as it was before. One thread at a time only.

        :param oldest: seconds since the epoch. If less than before, all is
            read anew
        """
        self.apply(self.fetch(connection, oldest))

    def fetch(
        self, connection: sa.Connection, oldest: int, slack: int = 0
    ) -> Changes:
        """Read what has changed, and leave all here as it is.

        Any number of threads may do so at once.

        :param oldest: as of :meth:`refresh`
        :param slack: by how many seconds it may be less than before without
            all being read anew: another thread may have chosen it a little
            later, and taken what it has read since
        """
        before, former = self.revisions, self._oldest
        if former - slack <= oldest:
            oldest = max(former, oldest)
        revisions, purged = shards.read_revisions(connection)
        is_whole = (
            not before
            or oldest < former
            or _has_missed(before, purged)
            or _is_another(connection, before, revisions)
        )
        seen = shards.Revisions() if is_whole else before
        changed = _list_changed(connection, seen, revisions, oldest)
        capacity: capacity_plan.Changes | None = None
        requests: Mapping[str, plan_request.Request] = {}
        found: Mapping[str, servers.PlannedServers] = {}
        if seen != revisions:
            capacity = capacity_changes.read_changes(connection, oldest)
        if changed:
            requests = reservations.read_requests(connection, changed)
            found = servers.read_servers(connection, changed, oldest)
        return Changes(
            before=before,
            revisions=revisions,
            is_whole=is_whole,
            oldest=oldest,
            capacity=capacity,
            changed=changed,
            requests=requests,
            found=found,
        )

    def apply(self, changes: Changes) -> bool:
        """Take what was read. One thread at a time only.

        :returns: False where it does not fit what is here, because others
            have taken something meanwhile: read again
        """
        if self.revisions is not changes.before:
            if changes.is_whole:
                return False
            if _is_until(changes.revisions, self.revisions):
                return True
            if not _is_until(self.revisions, changes.revisions):
                return False
        if changes.is_whole:
            self._clear()
            self._oldest = changes.oldest
        self._oldest = max(self._oldest, changes.oldest)
        if changes.capacity is not None:
            self._target.follow(changes.capacity)
        for key in changes.changed:
            self._drop(key)
            if key in changes.found:
                self._target.take(changes.requests[key], changes.found[key])
                self.keep(key, changes.found[key])
        self.revisions = changes.revisions
        self._forget(self._oldest)
        return True

    def keep(self, key: str, found: servers.PlannedServers) -> None:
        """Note what the target has taken."""
        self.held[key] = found
        heapq.heappush(self._ends, (max(one.during.end for one in found), key))

    def raise_revisions(self, raised: shards.Revisions) -> None:
        """Note revisions that were raised for what the target has taken."""
        self.revisions = self.revisions.follow(raised)

    def _clear(self) -> None:
        for key in [*self.held]:
            self._drop(key)
        self._ends.clear()

    def _drop(self, key: str) -> None:
        if key in self.held:
            self._target.drop(key, self.held.pop(key))

    def _forget(self, oldest: int) -> None:
        while self._ends and self._ends[0][0] <= oldest:
            _end, key = heapq.heappop(self._ends)
            if all(one.during.end <= oldest for one in self.held.get(key, ())):
                self._drop(key)


def _has_missed(seen: shards.Revisions, purged: Mapping[int, int]) -> bool:
    """Return whether rows are gone that were not read in time."""
    return any(seen.get(number, one) < one for number, one in purged.items())


def _is_another(
    connection: sa.Connection,
    seen: shards.Revisions,
    revisions: shards.Revisions,
) -> bool:
    """Return whether what was seen is not of this database."""
    former = {
        number: revision
        for number, revision in seen.items()
        if revision != revisions.get(number)
    }
    # A row that was written while tables were restored may be in the history.
    is_ahead = not _is_until(seen, revisions)
    if not is_ahead and history.has_had(connection, former):
        return False
    LOG.warning(
        'The database of the reservations never had the state that was read '
        'from it before: all data is read anew. If the database was not '
        'restored from a copy, its URL leads to several servers, one of '
        'which lags behind; change the URL to the server that accepts writes.'
    )
    return True


def _is_until(one: shards.Revisions, other: shards.Revisions) -> bool:
    """Return whether no shard has a higher revision in the first one."""
    return all(
        revision <= other.get(number, revision)
        for number, revision in one.items()
    )


def _list_changed(
    connection: sa.Connection,
    seen: shards.Revisions,
    revisions: shards.Revisions,
    oldest: int,
) -> list[str]:
    """Return the reservations to read; of all where nothing was seen."""
    if not seen:
        return servers.list_unfinished(connection, oldest)
    later = {
        number: seen[number]
        for number, revision in revisions.items()
        if revision != seen[number]
    }
    return servers.list_changed(connection, later) if later else []


def choose_oldest(before: int, now: int, kept: int) -> int:
    """Return what :meth:`Reader.refresh` need not know any more.

    Clocks may go back a little: what has ended is kept for a while, for all
    is read anew if the clock was set back by more than that.

    :param before: what was chosen before
    :param now: seconds since the epoch
    :param kept: for how many seconds
    """
    oldest = now - kept
    return max(before, oldest) if now >= before else oldest
