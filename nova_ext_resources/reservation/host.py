# SPDX-License-Identifier: Apache-2.0

"""One host, as it is without anything that is planned."""

from collections.abc import Callable, Mapping, Sequence, Set
import dataclasses
from typing import TypeAlias

from nova_ext_resources.claims import base
from nova_ext_resources.claims.trackers import count
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import host_view

#: Uuids of providers -> their inventories by class, of those that are there.
InventoryReader: TypeAlias = Callable[
    [Set[str]], Mapping[str, Mapping[str, class_inventory.Inventory]]
]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a server has of the slot that it has taken.

    It is not what was planned: the host has chosen the units, and Nova the
    CPUs.

    :ivar classes: the resource classes of which this is all that it has, in
        place of what was planned
    :ivar cpus: None where it floats, or that is not known
    """

    classes: frozenset[str] = frozenset()
    assignments: tuple[assignment.Assignment, ...] = ()
    cpus: frozenset[int] | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One host, without anything that is booked in the fleet.

    :ivar providers: its tree in placement, and the sharing providers that it
        uses; of each uuid, inventories and traits matter
    :ivar view: all classes of all providers with what is left of them; what
        a server outside of the fleet's bookings holds there, it is taken to
        hold for good
    :ivar zone: availability zone, '' for none
    :ivar cells: dedicated CPUs of each NUMA cell that no server outside of
        the bookings has; None where the host does not report them
    :ivar read_inventories: reads those of some providers, by class; here, a
        place without an inventory has one that is not known. None where there
        is nothing to read
    :ivar held: server of Nova -> what it has of its slot, as far as it is
        known which units these are; none of it is taken in the view
    """

    name: str
    providers: tuple[host_provider.Provider, ...]
    view: host_view.HostView
    zone: str = ''
    cells: tuple[frozenset[int], ...] | None = None
    held: Mapping[str, Held] = dataclasses.field(default_factory=dict)
    read_inventories: InventoryReader | None = None


def make_host(
    name: str,
    providers: Sequence[host_provider.Provider],
    published: host_view.HostView,
    *,
    zone: str = '',
    cells: tuple[frozenset[int], ...] | None = None,
) -> Host:
    """Make a host of its tree in placement and the view that it publishes.

    Classes that the view does not have, such as VCPU, are counted. Their
    capacity is the inventory's: allocation ratio and reserve are in it.
    """
    counted = {
        (one.rp_uuid, resource_class): host_view.Tracked(
            tracker='count',
            state=count.CountState(inventory.capacity),
            inventory=inventory,
        )
        for one in providers
        for resource_class, inventory in one.inventories.items()
        if (one.rp_uuid, resource_class) not in published.tracked
    }
    view = dataclasses.replace(
        published, tracked={**counted, **published.tracked}
    )
    return Host(
        name=name,
        providers=tuple(providers),
        view=view,
        zone=zone,
        cells=cells,
    )


def list_places(view: host_view.HostView) -> dict[str, list[host_view.Place]]:
    """Return resource class -> its places."""
    found: dict[str, list[host_view.Place]] = {}
    for place in view.tracked:
        found.setdefault(place[1], []).append(place)
    return found


def can_join(
    tracked: host_view.Tracked, trackers: Mapping[str, base.Tracker]
) -> bool:
    """Return whether a place can be foreseen for a later time.

    :param trackers: all that are installed, by name
    """
    try:
        trackers[tracked.tracker].join([tracked.state])
    except (KeyError, NotImplementedError):
        return False
    return True
