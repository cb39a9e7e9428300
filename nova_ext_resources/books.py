# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""What a host has and gives out, in memory, under one lock and without I/O.

The ledger has the same entries on the disk; :mod:`.host` keeps the two in
step.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
import dataclasses
import threading

from nova_ext_resources import alarms
from nova_ext_resources import claims
from nova_ext_resources import discovery
from nova_ext_resources import exception
from nova_ext_resources import hostview
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import provider
from nova_ext_resources.objects import view as view_obj
from nova_ext_resources import placing
from nova_ext_resources.plugins import base


class Books:
    """The entries of all servers, and the view in which they are taken.

    :param entries: as the ledger has them, by consumer uuid
    :param found: what is known of the host so far
    :param resource_classes: what its plugins define
    """

    def __init__(
        self,
        *,
        host: str,
        node: provider.Node,
        trackers: Mapping[str, base.Tracker],
        entries: dict[str, assignment.Entry],
        found: discovery.Found,
        resource_classes: frozenset[str],
    ) -> None:
        self._host = host
        self._node = node
        self._trackers = trackers
        self._classes = resource_classes
        self._lock = threading.Lock()
        self._entries = entries
        # What is counted in other units than the ledger has, see hostview.
        self._on_paper: dict[str, tuple[assignment.Assignment, ...]] = {}
        self._found = found
        self._view = view_obj.HostView(resource_classes=resource_classes)

    @property
    def view(self) -> view_obj.HostView:
        return self._view

    @property
    def found(self) -> discovery.Found:
        return self._found

    def holds(self, consumer_uuid: str) -> bool:
        """Tell whether a server has a claim that is not being released."""
        entry = self.find_entry(consumer_uuid)
        return entry is not None and (
            entry.state is not assignment.State.RELEASING
        )

    def find_entry(self, consumer_uuid: str) -> assignment.Entry | None:
        with self._lock:
            return self._entries.get(consumer_uuid)

    @property
    def entries(self) -> dict[str, assignment.Entry]:
        """What each server holds, by its uuid."""
        with self._lock:
            return dict(self._entries)

    @property
    def booked(self) -> dict[str, assignment.Entry]:
        """The same with the units that count as taken, see ``hostview.book``.

        Only for counting: a server may really have others, which the ledger
        knows.
        """
        with self._lock:
            return self._list_booked()

    def _list_booked(self) -> dict[str, assignment.Entry]:
        return {
            uuid: dataclasses.replace(
                entry,
                assignments=self._on_paper.get(uuid, entry.assignments),
            )
            for uuid, entry in self._entries.items()
        }

    def _note_booked(self, booked: Mapping[str, assignment.Entry]) -> None:
        self._on_paper = {
            uuid: entry.assignments
            for uuid, entry in booked.items()
            if entry.assignments != self._entries[uuid].assignments
        }

    def make_providers(self) -> tuple[provider.Provider, ...]:
        """Give the tree that placement shall see."""
        with self._lock:
            return hostview.make_providers(
                self._found.providers,
                self._view,
                node=self._node,
                held=hostview.list_held(self._entries.values()),
            )

    def list_unbookable(self) -> list[alarms.Problem]:
        """Say whose units cannot be counted."""
        with self._lock:
            return hostview.list_unbookable(
                self._view, self._entries.values(), self._trackers
            )

    def take(
        self,
        request: assignment.ClaimRequest,
        *,
        tests: Sequence[base.ClaimTest],
        published: Collection[str],
    ) -> assignment.Entry:
        """Claim: everything or nothing.

        :param published: uuids of all providers that this host ever
            published
        :raises ClaimError: with every shortfall
        """
        with self._lock:
            view = self._view
            gone = claims.list_gone(view, request, published)
            request, found = placing.find_place(view, request, tests)
            found = (*found, *gone)
            if found:
                raise claims.make_error(self._host, request, found)
            try:
                view, taken = claims.take(view, request, self._trackers)
            except exception.ClaimError as err:
                # Only with a set of claim tests that lacks "capacity".
                raise claims.make_error(
                    self._host, request, err.shortfalls
                ) from err
            self._view = view
            entry = assignment.Entry(
                consumer_uuid=request.consumer_uuid,
                assignments=taken,
                cpus=request.cpus,
                enforcers=request.requirement.enforcers,
            )
            if taken:
                self._entries[entry.consumer_uuid] = entry
            return entry

    def mark_releasing(
        self, consumer_uuids: Iterable[str]
    ) -> list[assignment.Entry]:
        """Let nobody count on what these servers hold; give their entries."""
        with self._lock:
            entries = [
                dataclasses.replace(entry, state=assignment.State.RELEASING)
                for uuid in consumer_uuids
                if (entry := self._entries.get(uuid))
            ]
            self._entries.update((one.consumer_uuid, one) for one in entries)
        return entries

    def rebuild(
        self,
        found: discovery.Found,
        before: Mapping[str, assignment.Entry],
        *,
        may_refuse: bool,
    ) -> bool:
        """Make the view anew of what was found.

        :param before: the entries when the look at the host began
        :param may_refuse: whether to refuse when entries have changed since:
            what a server has just got would count as held and as foreign
            use, and too little would be published until the next round
        :return: whether it was made
        """
        with self._lock:
            if may_refuse and before != self._entries:
                return False
            self._rebuild(found, before)
            return True

    def _rebuild(
        self,
        found: discovery.Found,
        before: Mapping[str, assignment.Entry],
    ) -> None:
        settled = [
            entry
            for uuid, entry in self._entries.items()
            if entry.state is not assignment.State.CLAIMED
            and before.get(uuid) == entry
        ]
        view = hostview.make_view(
            found.providers,
            node=self._node,
            trackers=self._trackers,
            settled=hostview.list_held(settled),
            resource_classes=self._classes | found.resource_classes,
        )
        self._found = found
        self._view, booked = hostview.book(view, self._entries, self._trackers)
        self._note_booked(booked)

    def rebook(
        self,
        *,
        drop: Collection[str] = (),
        put: assignment.Entry | None = None,
    ) -> None:
        """Forget entries, or put one in place of the former.

        Its units are those that it really has, see ``hostview.rebook``.
        """
        with self._lock:
            self._view, booked = hostview.rebook(
                self._view,
                self._list_booked(),
                self._trackers,
                drop=drop,
                put=put,
            )
            if put is not None:
                self._entries[put.consumer_uuid] = put
            self._entries = {uuid: self._entries[uuid] for uuid in booked}
            self._note_booked(booked)
