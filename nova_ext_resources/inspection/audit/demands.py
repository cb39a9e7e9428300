# SPDX-License-Identifier: Apache-2.0

"""What a server requests, and has on its host."""

from collections.abc import Iterator, Mapping

from nova_ext_resources.claims import extra_specs
from nova_ext_resources import exception
from nova_ext_resources.inspection.audit import cloud as cloud_mod
from nova_ext_resources.objects import requirements
from nova_ext_resources.reservation import nova_server

#: A flavor has these without an extra spec, and hosts without this package.
_OF_NOVA = frozenset({'VCPU', 'PCPU', 'MEMORY_MB', 'DISK_GB'})


def find_demand(
    server: nova_server.NovaServer,
) -> requirements.Requirement | None:
    """Return what the flavor of a server requests.

    As it was when the server was created or resized. None where an extra
    spec is malformed: what Nova has made of it is not known.
    """
    amounts = {
        key: value
        for key, value in server.extra_specs.items()
        if not key.startswith('resource:')
    }
    try:
        return extra_specs.parse(amounts, extra_specs.Grammar())
    except exception.InvalidExtraSpec:
        return None


def list_differences(
    cloud: cloud_mod.AuditedCloud, server: nova_server.NovaServer
) -> Iterator[tuple[str, int, Mapping[str, int]]]:
    """Return the classes of which a server has another amount than requested.

    On its host, and of what that reaches.

    :returns: resource class, how much more than requested it has, and
        rp_uuid -> amount that it has
    """
    demand = find_demand(server)
    home = cloud.find_home(server)
    if demand is None or not home:
        return
    allocated = cloud.allocations.get(server.uuid, {})
    found: dict[str, dict[str, int]] = {name: {} for name in demand.resources}
    for rp_uuid, resources in allocated.items():
        for name, amount in resources.items():
            if cloud.is_at(home, rp_uuid):
                found.setdefault(name, {})[rp_uuid] = amount
    for name, amounts in sorted(found.items()):
        if name not in cloud.classes or name in _OF_NOVA:
            continue
        more = sum(amounts.values()) - demand.resources.get(name, 0)
        if more and not _is_spread(cloud, demand, name, amounts):
            yield name, more, amounts


def _is_spread(
    cloud: cloud_mod.AuditedCloud,
    demand: requirements.Requirement,
    name: str,
    amounts: Mapping[str, int],
) -> bool:
    """Return whether a server has as much in each of several caches.

    As one whose CPUs are pinned near them.
    """
    is_in_tree = all(
        rp_uuid in cloud.owned and not cloud.owned[rp_uuid].is_pool
        for rp_uuid in amounts
    )
    return is_in_tree and demand.is_met_by_each(name, [*amounts.values()])


def has_own(
    cloud: cloud_mod.AuditedCloud, server: nova_server.NovaServer
) -> bool:
    """Return whether a server certainly needs nothing beside what it has.

    It is on no host, or has just what it requests there. With more than that,
    Nova may have left a resize as it was.
    """
    if server.status == nova_server.OFFLOADED:
        return not server.host
    if find_demand(server) is None or not cloud.find_home(server):
        return False
    return not any(list_differences(cloud, server))
