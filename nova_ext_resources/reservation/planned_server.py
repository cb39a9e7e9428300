# SPDX-License-Identifier: Apache-2.0

"""One server that is planned.

It is the *slot* of a reservation that one server of Nova can take.
"""

from collections.abc import Iterable
import dataclasses

from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import interval


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlannedServer:
    """One server on one host for one interval.

    :ivar key: unique in the fleet
    :ivar assignments: what it takes, with the units
    :ivar cpus: host CPUs that are kept for it; None when it floats. Nova will
        choose its CPUs itself: these show that there is a way to choose
    :ivar consumer: uuid of the server of Nova that has taken it; None if it
        is free
    :ivar taken_at: since when, in seconds since the epoch
    """

    key: str
    host: str
    during: interval.Interval
    assignments: tuple[assignment.Assignment, ...]
    cpus: frozenset[int] | None = None
    consumer: str | None = None
    taken_at: int | None = None

    @property
    def places(self) -> dict[host_view.Place, int]:
        return list_places(self.assignments)

    @property
    def allocations(self) -> dict[host_view.Place, int]:
        """What placement is to allocate to its server."""
        return {
            (one.rp_uuid, one.resource_class): one.amount
            for one in self.assignments
            if one.is_allocated
        }


def list_places(
    assignments: Iterable[assignment.Assignment],
) -> dict[host_view.Place, int]:
    """Return what assignments take of each place."""
    return {
        (one.rp_uuid, one.resource_class): one.amount for one in assignments
    }
