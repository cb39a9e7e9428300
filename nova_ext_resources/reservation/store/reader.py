# SPDX-License-Identifier: Apache-2.0

"""Follows the store: only what has changed is read, by the revisions.

A reservation whose servers have changed is dropped and taken anew. That is
the same however often it is done, so that rows may be newer than the revision
up to which they were asked for.
"""

import heapq
from typing import Protocol

import sqlalchemy as sa

from nova_ext_resources.reservation import capacity_plan
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import request as request_mod
from nova_ext_resources.reservation.store import capacity_changes
from nova_ext_resources.reservation.store import reservations
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import shards


class Target(Protocol):
    """What is kept as the store is."""

    def take(
        self, request: request_mod.Request, found: servers.PlannedServers
    ) -> None:
        """Take a reservation that is not there, with all its servers."""

    def drop(self, key: str, found: servers.PlannedServers) -> None:
        """Drop a reservation, with the servers that were taken."""

    def follow(self, changes: capacity_plan.Changes) -> None:
        """Take planned changes of capacity in place of those before."""


class Reader:
    """Keeps a target as the store is.

    :ivar revisions: of all shards, up to which it was read
    :ivar held: reservation -> its servers that have not been dropped
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self.revisions: shards.Revisions = {}
        self.held: dict[str, servers.PlannedServers] = {}
        #: What ended until then has been dropped.
        self._oldest = interval.ALWAYS
        #: (end, reservation), the first end at the front.
        self._ends: list[tuple[int, str]] = []

    def refresh(self, connection: sa.Connection, oldest: int) -> None:
        """Read what has changed, and drop what ended before a time.

        If that fails, all is as it was before.

        :param oldest: seconds since the epoch. If less than before, all is
            read anew
        """
        revisions, purged = shards.read_revisions(connection)
        is_anew = oldest < self._oldest or self._has_missed(purged)
        seen = {} if is_anew else self.revisions
        changed = _list_changed(connection, seen, revisions, oldest)
        changes = None
        if seen != revisions:
            changes = capacity_changes.read_changes(connection, oldest)
        requests, found = {}, {}
        if changed:
            requests = reservations.read_requests(connection, changed)
            found = servers.read_servers(connection, changed, oldest)
        if is_anew:
            self._clear()
        self._oldest = oldest
        if changes is not None:
            self._target.follow(changes)
        for key in changed:
            self._drop(key)
            if key in found:
                self._target.take(requests[key], found[key])
                self.keep(key, found[key])
        self.revisions = revisions
        self._forget(oldest)

    def keep(self, key: str, found: servers.PlannedServers) -> None:
        """Note what the target has taken."""
        self.held[key] = found
        heapq.heappush(self._ends, (max(one.during.end for one in found), key))

    def raise_revisions(self, raised: shards.Revisions) -> None:
        """Note revisions that were raised for what the target has taken."""
        self.revisions = {
            **self.revisions,
            **{number: one + 1 for number, one in raised.items()},
        }

    def _has_missed(self, purged: shards.Revisions) -> bool:
        """Return whether rows are gone that were not read in time."""
        return any(
            self.revisions.get(number, one) < one
            for number, one in purged.items()
        )

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
