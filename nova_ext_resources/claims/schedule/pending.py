# SPDX-License-Identifier: Apache-2.0

"""What hosts were given, and have not published yet.

A host publishes what its servers hold when it has claimed for them, which is
up to a second after the scheduler has chosen it. Of requests at the same time,
placement refuses what is more than a host has, but counts only amounts: not
whether ways lie side by side, nor the class of service that comes with them.
Without a memory of what other requests were given, they all get the same
host, which refuses most of them.
"""

import collections
from collections.abc import Container, Mapping
import dataclasses
import datetime
from typing import Any

from nova_ext_resources.claims.schedule import candidates
from nova_ext_resources.objects.documents import foreign_data
from nova_ext_resources.objects.documents import stats

#: After so many seconds, a server that a host has not published was not built
#: there.
MAX_SECONDS = 30.0

#: After so many, placement shows that a server was given something, unless it
#: is gone.
SHOWN_SECONDS = 3.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PublishedDocument:
    """What a host has published, as a request has read it.

    :ivar text: the stats document
    :ivar updated: when; None where Nova does not say
    :ivar summaries: of placement, as the same request has read them; None
        where Nova does not show them
    :ivar read_at: when, in seconds of a clock that is never set back
    """

    text: str | None
    updated: datetime.datetime | None
    summaries: Mapping[str, Any] | None = None
    read_at: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Note:
    """A server gets a candidate of a host.

    :ivar at: since when, in seconds
    :ivar judge: of the request of the server
    """

    at: float
    candidate: candidates.Candidate
    judge: candidates.Judge


@dataclasses.dataclass(slots=True, kw_only=True)
class _Host:
    """What is known of a host.

    :ivar published: the newest of what requests have read
    :ivar document: that, read
    :ivar given: the oldest first; what the host has published of its servers
        by now is not among them
    """

    published: PublishedDocument
    document: stats.Document
    notes: list[Note]

    def follow(
        self,
        published: PublishedDocument,
        document: stats.Document,
        oldest: float,
    ) -> None:
        """Go on with a newer document, and without what is too old.

        :param oldest: from this time on, in seconds, things are not too old
        """
        self.notes = [one for one in self.notes if one.at >= oldest]
        if published.text == self.published.text or self._is_newer(published):
            return
        before = _read_used(self.published.text)
        after = _read_used(published.text)
        while self.notes and _has_come(self.notes[0].candidate, before, after):
            del self.notes[0]
        self.published, self.document = published, document

    def leave_out(
        self, summaries: Mapping[str, Any] | None, oldest: float
    ) -> None:
        """Forget what no server of placement holds beside those published.

        Its server was deleted, or not built.

        :param oldest: from this time on, in seconds, a server may have been
            given something that placement did not show yet
        """
        if summaries is None:
            return
        unseen = self._count_unseen(summaries)
        kept = []
        for one in reversed(self.notes):
            amounts = _count_amounts(one.candidate, unseen)
            if one.at >= oldest or all(
                amounts[name] <= unseen[name] for name in amounts
            ):
                unseen.subtract(amounts)
                kept.append(one)
        self.notes = kept[::-1]

    def can_give(self, note: Note) -> bool:
        """Return whether there is room beside what was given."""
        if not self.notes:
            return True
        left = self.document
        for one in self.notes:
            left = one.judge.take(left, one.candidate)
        return note.judge.can_give(left, note.candidate)

    def _count_unseen(
        self, summaries: Mapping[str, Any]
    ) -> collections.Counter[str]:
        """Return how much more placement has allocated than is published.

        :returns: class -> amount, of all providers of the host
        """
        unseen: collections.Counter[str] = collections.Counter()
        published = _read_used(self.published.text)
        for rp_uuid in self.document.providers:
            resources = summaries.get(rp_uuid, {}).get('resources', {})
            for name in published.keys() & resources.keys():
                unseen[name] += int(resources[name]['used'])
        unseen.subtract(published)
        return unseen

    def _is_newer(self, published: PublishedDocument) -> bool:
        """Return whether what is known is newer than something."""
        ours, other = self.published.updated, published.updated
        return ours is not None and other is not None and ours > other


class Pending:
    """Of all requests of one scheduler. One thread at a time may use it."""

    def __init__(self) -> None:
        # Those that were given something last are at the end.
        self._hosts: dict[str, _Host] = {}

    def give(
        self,
        host: str,
        published: PublishedDocument,
        judge: candidates.Judge,
        candidate: candidates.Candidate,
        now: float,
        *,
        is_sure: bool = False,
    ) -> Note | None:
        """Note that a server gets a candidate, if the host can still give it.

        A host of which nothing is known can.

        :param now: seconds of a clock that is never set back
        :param is_sure: whether the server gets it in any case
        :returns: what :meth:`take_back` needs; None if the host cannot
        """
        note = Note(at=now, candidate=candidate, judge=judge)
        document = stats.decode(published.text)
        if document is None:
            return note
        self._forget(now - MAX_SECONDS)
        known = self._hosts.get(host)
        if known is None:
            known = _Host(published=published, document=document, notes=[])
        else:
            known.follow(published, document, now - MAX_SECONDS)
            known.leave_out(
                published.summaries, published.read_at - SHOWN_SECONDS
            )
        if not (is_sure or known.can_give(note)):
            return None
        known.notes.append(note)
        self._hosts.pop(host, None)
        self._hosts[host] = known
        return note

    def take_back(self, host: str, note: Note) -> None:
        """Forget that a server got a candidate: it did not."""
        if (known := self._hosts.get(host)) is not None:
            known.notes = [one for one in known.notes if one is not note]

    def _forget(self, oldest: float) -> None:
        """Forget hosts that were given nothing for long."""
        for host, known in [*self._hosts.items()]:
            if known.notes and known.notes[-1].at >= oldest:
                break
            del self._hosts[host]


def _read_used(text: str | None) -> dict[str, int]:
    """Return how much of each class servers of a host hold.

    Nothing of what is none of our documents.
    """
    try:
        totals = stats.decode_totals(text) or {}
        return {
            name: foreign_data.read_capacity(used)
            for name, (_free, used) in totals.items()
        }
    except foreign_data.UNREADABLE:
        return {}


def _has_come(
    candidate: candidates.Candidate,
    before: dict[str, int],
    after: dict[str, int],
) -> bool:
    """Return whether a host holds what a server was given of it.

    :param before: class -> amount that it held; with the server, if it does
    """
    amounts = _count_amounts(candidate, before)
    if any(
        before[name] + n > after.get(name, 0) for name, n in amounts.items()
    ):
        return False
    for name, amount in amounts.items():
        before[name] += amount
    return True


def _count_amounts(
    candidate: candidates.Candidate, names: Container[str]
) -> collections.Counter[str]:
    """Return how much of these classes a candidate takes."""
    amounts: collections.Counter[str] = collections.Counter()
    for allocation in candidate['allocations'].values():
        resources = allocation['resources']
        amounts.update({n: resources[n] for n in resources if n in names})
    return amounts
