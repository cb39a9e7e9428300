# SPDX-License-Identifier: Apache-2.0

"""What one of Nova's instances requests."""

from collections.abc import Mapping
from typing import Any

from nova_ext_resources.claims import extra_specs
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import requirements


def make_requirement(
    flavor: Any, grammar: extra_specs.Grammar
) -> requirements.Requirement:
    """Read a ``nova.objects.Flavor``.

    :raises InvalidExtraSpec: an extra spec of ours is malformed
    """
    return extra_specs.parse(flavor.get('extra_specs') or {}, grammar)


def make_request(
    instance: Any,
    allocations: Mapping[str, Mapping[str, Any]] | None,
    grammar: extra_specs.Grammar | None,
    host_topology: Any = None,
    *,
    consumer_uuid: str = '',
) -> assignment.ClaimRequest:
    """Read a ``nova.objects.Instance`` as ``spawn`` gets it.

    The flavor is the instance's own copy: the request of the boot stays
    valid after the flavor was changed or deleted.

    :param allocations: ``{rp_uuid: {'resources': {class: amount}}}``; None
        where Nova passes none
    :param grammar: None where nothing is enabled: then extra specs that look
        like ours are ignored, as without this package
    :param host_topology: the host's ``nova.objects.NUMATopology``; None
        where it has none
    :param consumer_uuid: under which the host records it; by default the
        server's
    :raises InvalidExtraSpec: an extra spec of ours is malformed
    """
    return assignment.ClaimRequest(
        consumer_uuid=consumer_uuid or instance.uuid,
        server_uuid=instance.uuid,
        project_id=instance.project_id,
        flavor=instance.flavor.name,
        allocations={
            rp_uuid: dict(held['resources'])
            for rp_uuid, held in (allocations or {}).items()
        },
        requirement=(
            requirements.Requirement()
            if grammar is None
            else make_requirement(instance.flavor, grammar)
        ),
        cpus=find_cpus(instance),
        float_cpus=find_float_cpus(instance, host_topology),
    )


def find_keys(instance: Any) -> list[str]:
    """Return the extra specs of its flavor that look like ours."""
    specs = instance.flavor.get('extra_specs') or {}
    return [key for key in specs if extra_specs.is_ours(key)]


def find_cpus(instance: Any) -> frozenset[int] | None:
    """Return the host CPUs that Nova has pinned the instance to.

    They are in ``numa_topology``, which Nova sets in its claim, before there
    is a process.

    :return: None when any of its vCPUs floats
    """
    topology = instance.numa_topology
    if topology is None:
        return None
    cpus: set[int] = set()
    for cell in topology.cells:
        if cell.cpuset or not cell.cpu_pinning:
            return None
        cpus.update(cell.cpu_pinning.values())
        cpus.update(cell.cpuset_reserved or ())
    return frozenset(cpus)


def find_float_cpus(
    instance: Any, host_topology: Any
) -> frozenset[int] | None:
    """Return the host CPUs that a floating instance runs on.

    Nova puts each of its NUMA cells into one of the host's, and lets vCPUs
    float over the shared CPUs there (``hw:numa_nodes``,
    ``hw:cpu_policy=mixed``).

    :param host_topology: the host's ``nova.objects.NUMATopology``, or None
    :return: None when it is pinned, or may run on all shared CPUs
    """
    topology = instance.numa_topology
    if topology is None or host_topology is None or find_cpus(instance):
        return None
    shared = {cell.id: cell.cpuset for cell in host_topology.cells}
    cpus: set[int] = set()
    for cell in topology.cells:
        cpus.update((cell.cpu_pinning or {}).values())
        if cell.cpuset:
            cpus.update(shared.get(cell.id, ()))
    return frozenset(cpus) or None
