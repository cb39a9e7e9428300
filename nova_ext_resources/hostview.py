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

"""From what was found and what is held to the host's view and its tree.

Pure: called under the host's lock.
"""

from collections.abc import Iterable, Mapping
import dataclasses

from nova_ext_resources import claims
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import inventory as inventory_obj
from nova_ext_resources.objects import provider
from nova_ext_resources.objects import view as view_obj
from nova_ext_resources.plugins import base

DEFAULT_TRACKER = 'count'


def make_view(
    found: Iterable[provider.HostProvider],
    *,
    node: provider.Node,
    trackers: Mapping[str, base.Tracker],
    held: Iterable[assignment.Assignment],
    settled: Iterable[assignment.Assignment],
    resource_classes: frozenset[str],
) -> view_obj.HostView:
    """Make the view in which exactly ``held`` is taken.

    :param settled: the part of ``held`` that was in force during the whole
        discovery, so that the host's own figures contain it
    :raises InvalidResource: a plugin reports what its tracker cannot track
    """
    uuids = {one.key: one.make_rp_uuid(node) for one in found}
    in_force = _by_place(settled)
    tracked = {
        (uuids[one.key], resource_class): _make_tracked(
            one, resource_class, uuids, trackers, in_force
        )
        for one in found
        for resource_class in one.inventories
    }
    view = view_obj.HostView(
        tracked=tracked,
        keys={rp_uuid: key for key, rp_uuid in uuids.items()},
        resource_classes=resource_classes,
    )
    return hold(view, held, trackers)


def hold(
    view: view_obj.HostView,
    held: Iterable[assignment.Assignment],
    trackers: Mapping[str, base.Tracker],
) -> view_obj.HostView:
    """Book units that servers hold already; opposite of ``claims.give``."""
    for place, assignments in _by_place(held).items():
        if place not in view.tracked:
            continue
        tracker = trackers[view.tracked[place].tracker]
        for one in assignments:
            state = view.tracked[place].state
            state, _ = tracker.take(state, one.amount, one.units)
            view = view.with_state(place, state)
    return view


def make_providers(
    found: Iterable[provider.HostProvider],
    view: view_obj.HostView,
    *,
    node: provider.Node,
    held: Iterable[assignment.Assignment],
) -> tuple[provider.Provider, ...]:
    """Make the tree that placement shall see below the compute node.

    What servers hold without an allocation is reserved, so that
    placement's count stays true whoever uses the host.
    """
    unallocated = _by_place(one for one in held if not one.is_allocated)
    return tuple(
        provider.Provider(
            rp_uuid=one.make_rp_uuid(node),
            name=f'{node.hypervisor_hostname}_{one.key}',
            parent_uuid=(
                node.uuid
                if one.parent_key is None
                else provider.make_rp_uuid(node.uuid, one.parent_key)
            ),
            inventories={
                name: _reserve(view, one.make_rp_uuid(node), name, unallocated)
                for name in one.inventories
            },
            traits=one.traits | {provider.OWNER_TRAIT},
        )
        for one in found
    )


def _make_tracked(
    one: provider.HostProvider,
    resource_class: str,
    uuids: Mapping[str, str],
    trackers: Mapping[str, base.Tracker],
    in_force: Mapping[claims.Place, list[assignment.Assignment]],
) -> view_obj.Tracked:
    name = one.trackers.get(resource_class, DEFAULT_TRACKER)
    tracker = trackers[name]
    units = one.units.get(resource_class, {})
    held = in_force.get((uuids[one.key], resource_class), [])
    inventory = tracker.observe(one.inventories[resource_class], units, held)
    implied = one.implied.get(resource_class)
    has_implied = implied is not None and one.parent_key is not None
    return view_obj.Tracked(
        tracker=name,
        state=tracker.initial(inventory, units),
        inventory=inventory,
        implied=(
            (uuids[str(one.parent_key)], str(implied)) if has_implied else None
        ),
        cpus=one.cpus if tracker.IS_CPU_LOCAL else None,
    )


def _reserve(
    view: view_obj.HostView,
    rp_uuid: str,
    resource_class: str,
    unallocated: Mapping[claims.Place, list[assignment.Assignment]],
) -> inventory_obj.Inventory:
    place = rp_uuid, resource_class
    inventory = view.tracked[place].inventory
    assert inventory is not None, 'a view of the host itself has them all'
    extra = sum(one.amount for one in unallocated.get(place, ()))
    reserved = min(inventory.reserved + extra, inventory.total)
    return dataclasses.replace(inventory, reserved=reserved)


def _by_place(
    held: Iterable[assignment.Assignment],
) -> dict[claims.Place, list[assignment.Assignment]]:
    places: dict[claims.Place, list[assignment.Assignment]] = {}
    for one in held:
        place = one.rp_uuid, one.resource_class
        places.setdefault(place, []).append(one)
    return places
