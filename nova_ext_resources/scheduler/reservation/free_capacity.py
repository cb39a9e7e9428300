# SPDX-License-Identifier: Apache-2.0

"""How much of a class of a provider is free now."""

from collections.abc import Mapping
from typing import Any

from nova_ext_resources.objects.documents import stats
from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import resource
from nova_ext_resources.scheduler import request


class Free:
    """Answers for one server of a request.

    Where this Nova does not show what placement says, what the host reports
    must do: late, and of its own provider and ours only.

    :param summaries: of placement; None where this Nova does not show them
    :param consumed: what servers of the same request have taken since
    :param trackers: all that are installed, by name
    :ivar host_state: whose report is read then
    """

    def __init__(
        self,
        summaries: Mapping[str, Any] | None,
        consumed: Mapping[host_view.Place, int],
        trackers: Mapping[str, host_view.StateReader],
    ) -> None:
        self.host_state: Any = None
        self._summaries = summaries
        self._consumed = consumed
        self._trackers = trackers

    def find(self, place: host_view.Place) -> int | None:
        """Return how many units are free, None if that is not known."""
        summaries = self._summaries
        if summaries is None:
            return self._report(place)
        try:
            found = summaries[place[0]]['resources'][place[1]]
            left: int = found['capacity'] - found['used']
        except KeyError:
            return None
        consumed = self._consumed
        return left - consumed.get(place, 0) if consumed else left

    def find_capacity(self, place: host_view.Place) -> int | None:
        """Return how many units placement shows, None if not known."""
        try:
            found = (self._summaries or {})[place[0]]['resources'][place[1]]
            return int(found['capacity'])
        except KeyError:
            return None

    def _report(self, place: host_view.Place) -> int | None:
        host_state = self.host_state
        if host_state is None:
            return None
        if place[0] == host_state.uuid and place[1] in resource.NOVA_CLASSES:
            return _report_own(host_state, place[1])
        document = stats.decode(request.find_text(host_state))
        if document is None:
            return None
        tracked = stats.make_view(document, self._trackers).tracked.get(place)
        if tracked is None:
            return None
        return tracked.state.free - self._consumed.get(place, 0)


def _report_own(host_state: Any, resource_class: str) -> int | None:
    """Return what is left of Nova's own classes.

    Nova itself counts servers of the same request there.
    """
    match resource_class:
        case 'VCPU':
            total = host_state.vcpus_total * host_state.cpu_allocation_ratio
            return int(total) - int(host_state.vcpus_used)
        case 'MEMORY_MB':
            total = host_state.total_usable_ram_mb
            used = total - host_state.free_ram_mb
            return int(total * host_state.ram_allocation_ratio) - int(used)
        case 'DISK_GB':
            return int(host_state.free_disk_mb) // 1024
        case _:
            return None
