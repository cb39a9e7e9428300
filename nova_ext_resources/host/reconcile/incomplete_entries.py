# SPDX-License-Identifier: Apache-2.0

"""Finds servers that have an entry with less than their flavors request.

Nova gives a server its former flavor back when its guest does not start after
a resize, and leaves what is allocated. An alarm tells; nothing is repaired.
"""

from collections.abc import Collection, Iterator, Mapping
import collections
from typing import TypeAlias

from oslo_log import log as logging

from nova_ext_resources import debounce
from nova_ext_resources import exception
from nova_ext_resources.host import manager
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import requirements
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.publish import publisher as publisher_mod

LOG = logging.getLogger(__name__)

#: States of entries that do not go by themselves.
CERTAIN = (assignment.State.APPLIED, assignment.State.PARKED)

#: An entry, and resource class -> in words how much of it is there.
_Incomplete: TypeAlias = tuple[assignment.Entry, Mapping[str, str]]


class IncompleteEntries:
    """Compares entries with requests. Used by one thread at a time.

    :param publisher: knows which resource classes the compute node itself
        still offers: a server may have these there. While that is not known,
        nothing is compared
    """

    def __init__(
        self,
        host: manager.HostManager,
        client: placement_client.Client,
        publisher: publisher_mod.Publisher,
    ) -> None:
        self._host = host
        self._client = client
        self._publisher = publisher
        # One that was resized since Nova was asked is short for once.
        self._debounce = debounce.Debounce[str, _Incomplete](confirmations=2)
        self._lasting: Mapping[str, _Incomplete] = {}

    def compare(self, requests: Mapping[str, assignment.ClaimRequest]) -> None:
        """Compare all entries with what Nova's servers request.

        :param requests: by server uuid; without those with which Nova is at
            work just now: of these, the last answer counts
        """
        self._lasting = self._debounce.observe(
            {
                one[0].consumer_uuid: one
                for one in self._list_incomplete(requests)
            },
            lambda uuid, one: uuid not in requests and self._has_all(one[0]),
        )

    def list_problems(self) -> Iterator[alarm.Problem]:
        """Yield an alarm for each; where one has none of a class, do I/O."""
        for entry, missing in self._lasting.values():
            if not self._has_all(entry):
                continue
            elsewhere = self._list_elsewhere(entry, missing.keys())
            left = [text for n, text in missing.items() if n not in elsewhere]
            if left:
                yield self._make_problem(entry.consumer_uuid, left)

    def _has_all(self, entry: assignment.Entry) -> bool:
        return self._host.find_entry(entry.consumer_uuid) == entry

    def _list_incomplete(
        self, requests: Mapping[str, assignment.ClaimRequest]
    ) -> Iterator[_Incomplete]:
        doubled = self._publisher.doubled
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
        self, entry: assignment.Entry, requirement: requirements.Requirement
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
            found = self._client.get_allocations(uuid).resources
        except exception.PlacementError as err:
            LOG.debug(
                'Allocations of server %s are not known: %s',
                uuid,
                err,
            )
            return frozenset()
        own = {*host.view.keys, host.node.uuid}
        others = (one for rp_uuid, one in found.items() if rp_uuid not in own)
        return frozenset[str]().union(*others) - held

    def _make_problem(self, uuid: str, missing: list[str]) -> alarm.Problem:
        return alarm.Problem(
            alarm=alarm.NOT_RECORDED,
            subject=uuid,
            text=f'server {uuid} on host {self._host.host} has only '
            f'{" and ".join(missing)} that its flavor requests. This happens '
            'after a resize, if the guest did not start and Nova restored the '
            'former flavor. Resize the server to another flavor',
        )
