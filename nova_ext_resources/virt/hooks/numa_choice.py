# SPDX-License-Identifier: Apache-2.0

"""Has Nova choose CPUs near the units that placement has allocated.

Nova takes any NUMA cell with enough of everything, and knows nothing of
caches. It does keep a server near the network card of its physical network:
each cell of a host names the physical networks at it, and the scheduler's
limits for a claim name those of the server. So the cells of this host also
name, as if these were networks, the CPUs that units of ours serve, and a claim
for a server with a NUMA topology asks for those of its allocations. Where its
cell has no room, Nova chooses as ever: then the host takes the units that are
near the CPUs, or refuses.

Servers of several NUMA cells stay where Nova puts them: Nova remembers which
of their cells fits where, and returns CPUs of another cell when it tries one a
second time (``fit_cache`` of ``numa_fit_instance_to_host``). Without networks
it hardly ever does.

Read in and tried with Nova 34.
"""

from collections.abc import Callable, Mapping, Set
import functools
import inspect
import json
from typing import Any

from nova import exception as nova_exc
from nova import objects
from nova.virt import hardware
from oslo_log import log as logging

from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import requirements

LOG = logging.getLogger(__name__)

#: What begins the name of what is no physical network. CPUs follow.
PREFIX = 'ext-resources:'

#: The claims of Nova that choose CPUs, and the argument of each that has the
#: allocations.
_CLAIMS = {
    'instance_claim': 'allocations',
    'live_migration_claim': 'allocs',
    'rebuild_claim': 'allocations',
    'resize_claim': 'allocations',
}


def mark(topology: str, view: host_view.HostView) -> str:
    """Name in each cell of a host the CPUs that units serve, if it has any.

    :param topology: a ``nova.objects.NUMATopology``, as JSON
    """
    served = {
        cpus
        for one in view.tracked.values()
        for cpus in (one.cpus, one.near)
        if cpus
    }
    if not served:
        return topology
    marked = objects.NUMATopology.obj_from_db_obj(topology)
    for cell in marked.cells:
        cpus = frozenset(cell.cpuset | cell.pcpuset)
        near = {
            PREFIX + one
            for one in served
            if not cpus.isdisjoint(bitmask.parse_list(one))
        }
        _add(cell, near)
    return write(marked)


def write(topology: Any) -> str:
    """Return a ``nova.objects.NUMATopology`` as Nova's database has it."""
    return json.dumps(topology.obj_to_primitive())


def watch(tracker: Any, find_view: Callable[[], host_view.HostView]) -> None:
    """Steer all claims of a tracker.

    :param tracker: a ``nova.compute.resource_tracker.ResourceTracker``
    :param find_view: returns what the host has now
    """
    for name, argument in _CLAIMS.items():
        original = getattr(tracker, name)
        setattr(tracker, name, _make_claim(original, argument, find_view))


def _make_claim(
    original: Callable[..., Any],
    argument: str,
    find_view: Callable[[], host_view.HostView],
) -> Callable[..., Any]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def claim(*args: Any, **kwargs: Any) -> Any:
        found = signature.bind(*args, **kwargs)
        limits = _find_limits(found.arguments, argument, find_view)
        if limits is None:
            return original(*args, **kwargs)
        found.arguments['limits'] = limits
        try:
            return original(*found.args, **found.kwargs)
        # Nova tests CPUs before it takes anything. Where it raises this later,
        # for persistent memory, it does so again.
        except nova_exc.ComputeResourcesUnavailable:
            LOG.info(
                'The NUMA cell of the allocated resources has no room for the '
                'server. Nova chooses among all cells.',
                instance=found.arguments['instance'],
            )
        return original(*args, **kwargs)

    return claim


def _find_limits(
    arguments: Mapping[str, Any],
    name: str,
    find_view: Callable[[], host_view.HostView],
) -> dict[str, Any] | None:
    """Return limits for a claim; None if it stays as it is.

    :param arguments: of the claim
    :param name: of the one that has the allocations
    """
    try:
        names = _find_names(arguments, name, find_view())
        if names and _count_cells(arguments) == 1:
            return _add_to_limits(arguments.get('limits'), names)
    # Whatever it is, the server can be where Nova chooses.
    except Exception:
        LOG.exception(
            'Nova chooses CPUs without regard to caches. Please report this '
            'bug',
            instance=arguments.get('instance'),
        )
    return None


def _count_cells(arguments: Mapping[str, Any]) -> int:
    """Return how many NUMA cells the server is to have, as Nova's claims do.

    :param arguments: of the claim
    """
    instance = arguments['instance']
    if 'migration' not in arguments:
        topology = instance.numa_topology
    else:
        topology = hardware.numa_get_constraints(
            arguments.get('flavor') or instance.flavor, instance.image_meta
        )
    return len(topology.cells) if topology else 0


def _find_names(
    arguments: Mapping[str, Any], name: str, view: host_view.HostView
) -> set[str]:
    """Return the names of the CPUs that allocated units serve.

    Of units that serve all, and some best, where the flavor says so.
    """
    amounts = {
        rp_uuid: one['resources']
        for rp_uuid, one in (arguments.get(name) or {}).items()
    }
    found = set()
    for place in view.list_places(amounts):
        tracked = view.tracked[place]
        found.add(tracked.cpus)
        if tracked.near and _has_affinity(arguments, place[1]):
            found.add(tracked.near)
    return {PREFIX + cpus for cpus in found if cpus}


def _has_affinity(arguments: Mapping[str, Any], resource_class: str) -> bool:
    """Return whether the flavor has any affinity of a resource class.

    :param arguments: of the claim
    """
    flavor = arguments.get('flavor') or arguments['instance'].flavor
    key = f'resource:{resource_class}:{requirements.AFFINITY}'
    return key in flavor.extra_specs


def _add_to_limits(limits: Any, names: Set[str]) -> dict[str, Any] | None:
    """Return limits that ask for the names, too; None if they cannot.

    :param limits: a ``nova.objects.SchedulerLimits``, or it as a mapping;
        without any of a NUMA topology where the scheduler was told the host
    """
    if isinstance(limits, objects.SchedulerLimits):
        limits = limits.to_dict()
    numa = (limits or {}).get('numa_topology')
    if numa is None:
        return None
    numa = numa.obj_clone()
    _add(numa, names)
    return {**limits, 'numa_topology': numa}


def _add(subject: Any, names: Set[str]) -> None:
    """Add names of physical networks to a cell, or to limits."""
    if 'network_metadata' not in subject:
        subject.network_metadata = objects.NetworkMetadata(
            physnets=set(), tunneled=False
        )
    metadata = subject.network_metadata
    metadata.physnets = metadata.physnets | names
