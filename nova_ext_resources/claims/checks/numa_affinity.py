# SPDX-License-Identifier: Apache-2.0

"""Devices are near the server's CPUs, if its flavor says so.

A device works with any CPU of the host, and best with those of its own NUMA
node. The flavor says whether that matters: ``resource:CLASS:numa_affinity``.
As with Nova's policy for PCI devices of the same name, one CPU of the server
in that node is enough.
"""

from collections.abc import Iterable, Mapping

from nova_ext_resources.claims import base
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import requirements

_UNKNOWN = (
    'the flavor requires a device on the NUMA node of the CPUs, but the host '
    'does not know the NUMA node of this device'
)


class NumaAffinityTest(base.ClaimTest):
    """Reports devices that have to be near the server's CPUs and are not.

    Before Nova has chosen CPUs, it reports only what no choice can meet.
    """

    def shortfalls(
        self, view: host_view.HostView, request: assignment.ClaimRequest
    ) -> Iterable[exception.Shortfall]:
        wanted = _list_near(view, request, requirements.Affinity.REQUIRED)
        for (rp_uuid, resource_class), near in wanted.items():
            reason = _find_reason(near, request)
            if reason:
                yield exception.Shortfall(
                    rp_uuid=rp_uuid,
                    resource_class=resource_class,
                    requested=request.allocations[rp_uuid][resource_class],
                    reason=reason,
                    is_permanent=request.is_floating or not near,
                )

    def count_unmet(
        self, view: host_view.HostView, request: assignment.ClaimRequest
    ) -> int:
        wanted = _list_near(view, request, requirements.Affinity.PREFERRED)
        return sum(
            bool(_find_reason(near, request)) for near in wanted.values()
        )


def list_required(
    view: host_view.HostView, request: assignment.ClaimRequest
) -> Mapping[host_view.Place, frozenset[int]]:
    """Return place -> the CPUs that it is near to, where that is required."""
    return _list_near(view, request, requirements.Affinity.REQUIRED)


def _list_near(
    view: host_view.HostView,
    request: assignment.ClaimRequest,
    affinity: requirements.Affinity,
) -> dict[host_view.Place, frozenset[int]]:
    return {
        place: bitmask.parse_list(near)
        for place in view.list_places(request.allocations)
        if request.requirement.find_affinity(place[1]) == affinity
        and (near := view.tracked[place].near) is not None
    }


def _find_reason(
    near: frozenset[int], request: assignment.ClaimRequest
) -> str:
    """Explain why a device is not near the server's CPUs; '' if it may be.

    :param near: CPUs of its node; empty when the host does not know it
    """
    if not near:
        return _UNKNOWN
    if request.pinning is not None:
        return _check_pinning(near, request.pinning)
    cpus = request.near_cpus
    if not cpus:
        return (
            'the CPUs of the server float over the host; set '
            'hw:cpu_policy=dedicated or hw:numa_nodes on the flavor'
        )
    if not cpus & near:
        return (
            f'the CPUs of the server ({bitmask.format_list(cpus)}) are not '
            f'among the CPUs near this device ({bitmask.format_list(near)})'
        )
    return ''


def _check_pinning(near: frozenset[int], pinning: assignment.Pinning) -> str:
    """Explain why no cell of the server can have CPUs near a device."""
    if pinning.free is None or not pinning.sizes:
        return ''
    least = min(pinning.sizes)
    if any(len(cell & near) >= least for cell in pinning.free):
        return ''
    free = frozenset[int]().union(*pinning.free)
    return (
        f'the server needs {least} dedicated CPUs near this device; free '
        f'CPUs: {bitmask.format_list(free & near) or "none"} of '
        f'{bitmask.format_list(near)}'
    )
