# SPDX-License-Identifier: Apache-2.0

"""Finds servers that have an entry with less than their flavors request.

Nova gives a server its former flavor back when its guest does not start after
a resize, and leaves what is allocated. An alarm tells; nothing is repaired.
"""

import collections
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeAlias

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.host import resources as host_mod
from nova_ext_resources.objects import alarm as alarm_mod
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import requirement as requirement_obj
from nova_ext_resources.objects import view as view_obj

LOG = logging.getLogger(__name__)

#: States of entries that do not go by themselves.
CERTAIN = (assignment.State.APPLIED, assignment.State.HELD)

#: An entry, and resource class -> in words how much of it is there.
_Short: TypeAlias = tuple[assignment.Entry, Mapping[str, str]]


class ShortEntries:
    """Compares entries with requests. Used by one thread at a time.

    :param read_allocations: returns all that placement has allocated to a
        server
    :param list_doubled: returns the resource classes that the compute node
        itself still offers: a server may have these there; None while that is
        not known: then nothing is compared
    """

    def __init__(
        self,
        host: host_mod.HostResources,
        *,
        read_allocations: Callable[[str], view_obj.Amounts],
        list_doubled: Callable[[], Collection[str] | None],
    ) -> None:
        self._host = host
        self._read_allocations = read_allocations
        self._list_doubled = list_doubled
        # As last compared, and those of which it was so the time before too.
        self._last: list[_Short] = []
        self._lasting: list[_Short] = []

    def compare(self, requests: Mapping[str, assignment.ClaimRequest]) -> None:
        """Compare all entries with what Nova's servers request.

        :param requests: by server uuid; without those with which Nova is at
            work just now: of these, the last answer counts
        """
        named = [*self._list_short(requests)]
        # One that was resized since Nova was asked is short for once.
        lasting = [one for one in named if one in self._last]
        self._last = [*named, *self._list_unnamed(self._last, requests)]
        self._lasting = [
            *lasting,
            *self._list_unnamed(self._lasting, requests),
        ]

    def _list_unnamed(
        self, known: list[_Short], names: Collection[str]
    ) -> list[_Short]:
        """Return those of which Nova says nothing, and that are the same."""
        return [
            one
            for one in known
            if one[0].consumer_uuid not in names and self._is_held(one[0])
        ]

    def list_problems(self) -> Iterator[alarm_mod.Problem]:
        """Yield an alarm for each; where one has none of a class, do I/O."""
        for entry, missing in self._lasting:
            if not self._is_held(entry):
                continue
            elsewhere = self._list_elsewhere(entry, missing.keys())
            left = [text for n, text in missing.items() if n not in elsewhere]
            if left:
                yield self._make_problem(entry.consumer_uuid, left)

    def _is_held(self, entry: assignment.Entry) -> bool:
        return self._host.find_entry(entry.consumer_uuid) == entry

    def _list_short(
        self, requests: Mapping[str, assignment.ClaimRequest]
    ) -> Iterator[_Short]:
        doubled = self._list_doubled()
        if doubled is None:
            return
        own = self._host.view.resource_classes.difference(doubled)
        for uuid, request in requests.items():
            entry = self._host.find_entry(uuid)
            if entry is None or entry.state not in CERTAIN:
                continue
            held = self._count(entry, request.requirement)
            missing = {
                name: f'{held[name]} of {wanted} {name}'
                for name, wanted in sorted(
                    request.requirement.resources.items()
                )
                if name in own and held[name] < wanted
            }
            if missing:
                yield entry, missing

    def _count(
        self, entry: assignment.Entry, requirement: requirement_obj.Requirement
    ) -> Mapping[str, int]:
        """Return resource class -> how much of the request an entry has.

        A host that spreads gives the whole amount in each domain of the CPUs.
        """
        spreads = self._host.view.constraints.spreads_pins
        held = collections.Counter[str]()
        for one in entry.assignments:
            name = one.resource_class
            if name in held and spreads and requirement.is_in_one_group(name):
                held[name] = min(held[name], one.amount)
            else:
                held[name] += one.amount
        return held

    def _list_elsewhere(
        self, entry: assignment.Entry, names: Collection[str]
    ) -> frozenset[str]:
        """Return what a server has of providers of other software instead.

        It was built when this host did not offer that. While placement does
        not answer, the server counts as having nothing elsewhere.
        """
        held = {one.resource_class for one in entry.assignments}
        if held.issuperset(names):
            return frozenset()
        uuid, host = entry.consumer_uuid, self._host
        try:
            found = self._read_allocations(uuid)
        except exception.PlacementError as err:
            LOG.debug('Not known what %s has elsewhere: %s', uuid, err)
            return frozenset()
        own = {*host.view.keys, host.node.uuid}
        others = (one for rp_uuid, one in found.items() if rp_uuid not in own)
        return frozenset[str]().union(*others) - held

    def _make_problem(
        self, uuid: str, missing: list[str]
    ) -> alarm_mod.Problem:
        return alarm_mod.Problem(
            alarm=alarm_mod.NOT_RECORDED,
            subject=uuid,
            text=f'server {uuid} has {" and ".join(missing)} that its flavor '
            f'requests on host {self._host.host}, as after a resize in which '
            'its guest did not start: Nova has given it its former flavor '
            'back. Resize it to another flavor',
        )
