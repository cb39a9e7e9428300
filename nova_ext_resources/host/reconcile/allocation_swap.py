# SPDX-License-Identifier: Apache-2.0

"""Finds a server with which another one can exchange its allocation.

Servers of one request start in any order, and Nova pins them to CPUs in that
order: the domain that placement has chosen for one is often that of the CPUs
of another. A partner is a server that does not use what it has in placement:
one that is being built and has not claimed yet, or one that starts and has
claimed in another domain. Of a server that has started, Nova may begin a move,
which fails where a generation changes; only the comparison with placement
exchanges two of these, when it has found both elsewhere for long enough.

The partner may claim at the same time, with what it had in placement before.
No lock is held while placement answers; its generations decide instead:

* Who looks for a partner reads its allocations and notes it, then looks
  whether it can leave, then writes.
* Who claims writes its entry, then looks for a note. If there is one, it
  reads its allocations and writes them as they are.

If the claim came after the look, it finds the note; its write then makes the
other one fail with a conflict, and be tried again, unless that was written
before and the claim reads it. If the claim came first, the look sees its
entry.

Generations do not protect against Nova's deletion after a failed build: it
names none, and they begin anew. A partner whose build has failed here is none
any more, and one with an entry comes first. What is left is a build that fails
just before the write. If Nova deletes in the moment of the write, the partner
has allocations of this host until the server is deleted. If Nova has even
allocated on the next host by then, they take the place of those.
"""

from collections.abc import Mapping, Set
import threading

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.host.claims import recent_consumers
from nova_ext_resources.host import manager
from nova_ext_resources.host import nova_compute
from nova_ext_resources.objects import assignment
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.api import responses
from nova_ext_resources import plugins

LOG = logging.getLogger(__name__)

#: States of entries that stay as they are.
_CERTAIN = (assignment.State.CLAIMED, assignment.State.APPLIED)


class AllocationSwap:
    """Of one host. Safe to be used by several threads.

    :param client: of placement
    """

    def __init__(
        self,
        host: manager.HostManager,
        compute: nova_compute.NovaCompute,
        client: placement_client.Client,
    ) -> None:
        self._host = host
        self._client = client
        self._compute = compute
        self._lock = threading.Lock()
        # Not forgotten where an exchange fails: another one may be under way.
        self._notes = recent_consumers.Recent()

    def has_note(self, server_uuid: str) -> bool:
        """Return whether its allocations may have been exchanged."""
        return server_uuid in self._notes

    def take_note(self, server_uuid: str) -> bool:
        """Return the same of a server that has an entry now, and forget it."""
        with self._lock:
            has_note = server_uuid in self._notes
            self._notes.discard(server_uuid)
        return has_note

    def note(self, server_uuid: str) -> None:
        with self._lock:
            self._notes.add(server_uuid)

    def find(
        self,
        from_rp_uuid: str,
        to_rp_uuid: str,
        settled: Set[str],
        amounts: Mapping[str, int],
    ) -> responses.Allocations | None:
        """Return what a partner holds: the same amounts where it is full.

        Placement may have refused these for another reason: then the exchange
        is refused as well.

        :param from_rp_uuid: where it has none of these and gets them
        :param to_rp_uuid: the provider that is full
        :param settled: see :meth:`.AllocationWriter.move`
        :param amounts: by resource class
        :raises ConcurrentUpdate: there is none, and what was one has changed
            since: others may have come there
        :raises PlacementError: placement does not answer
        """
        # Of one whose start ends from now on, the provider shows what it had.
        starting = filter(self._host.is_starting, self._host.entries)
        seen = settled | frozenset(starting)
        alike = self._list_alike(to_rp_uuid, amounts)
        building = self._ask_nova(alike)
        changed: list[str] = []
        for uuid in sorted(alike, key=self._rank):
            if not self._can_leave(uuid, to_rp_uuid, building, seen):
                continue
            held = self._client.get_allocations(uuid)
            here = held.resources.get(from_rp_uuid, {})
            if held.resources.get(to_rp_uuid) != amounts:
                changed.append(uuid)
            elif not here.keys() & amounts.keys():
                self.note(uuid)
                if self._can_leave(uuid, to_rp_uuid, building, settled):
                    return held
                changed.append(uuid)
        if changed:
            raise exception.ConcurrentUpdate(
                action=f'exchange units of provider {to_rp_uuid}',
                detail=f'the allocations of {" and ".join(changed)} have '
                'changed meanwhile',
            )
        return None

    def _rank(self, uuid: str) -> tuple[bool, bool, str]:
        """Return less for a better partner."""
        # The build of one without an entry may fail at any time. Others that
        # look at the same time have noted theirs.
        has_none = self._host.find_entry(uuid) is None
        return has_none, self.has_note(uuid), uuid

    def _list_alike(
        self, rp_uuid: str, amounts: Mapping[str, int]
    ) -> frozenset[str]:
        """Return the consumers that have these amounts there, nothing else.

        All that one has there goes together: the units of a server are units
        of one domain.
        """
        given: dict[str, dict[str, int]] = {}
        for name, holders in self._client.list_holders(rp_uuid).items():
            for uuid, amount in holders.items():
                given.setdefault(uuid, {})[name] = amount
        return frozenset(u for u, one in given.items() if one == amounts)

    def _ask_nova(self, consumer_uuids: Set[str]) -> frozenset[str]:
        """Return those that are being built and have claimed nothing."""
        unknown = frozenset(consumer_uuids - self._host.entries.keys())
        if not unknown:
            return unknown
        try:
            return unknown & frozenset(self._compute.find_building(unknown))
        # Nova and its message bus fail in many ways.
        except Exception as err:
            LOG.warning(
                'Host %(host)s: cannot read from Nova which servers are being '
                'built on this host; no allocations are exchanged between '
                'these servers: %(err)s',
                {'host': self._host.host, 'err': plugins.describe(err)},
            )
            return frozenset()

    def _can_leave(
        self,
        uuid: str,
        rp_uuid: str,
        building: Set[str],
        settled: Set[str],
    ) -> bool:
        """Return whether a server uses nothing of what it has there.

        Never with a move: until its guest is off, a server that moves to its
        own host has in placement what its move has in the ledger, or is to
        claim. Nor after a build that has failed here: Nova deletes its
        allocations, whoever has changed them meanwhile.
        """
        consumers = self._host.list_consumers(uuid)
        if not consumers:
            return uuid in building and uuid not in self._host.gone
        entry = self._host.find_entry(uuid)
        return (
            (uuid in settled or self._host.is_starting(uuid))
            and consumers == [uuid]
            and entry is not None
            and entry.purpose is assignment.Purpose.OWN
            and entry.state in _CERTAIN
            and all(one.rp_uuid != rp_uuid for one in entry.assignments)
        )
