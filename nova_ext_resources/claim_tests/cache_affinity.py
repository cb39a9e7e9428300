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

"""Ways lie in the cache that the server's CPUs use.

A class of service restricts what CPUs may fill in their own cache; ways of
another cache domain do nothing for them. Nova pins by NUMA cell and is
blind to L3, so a cell with several domains can yield CPUs of more than one.
"""

from collections.abc import Iterable

from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import view as view_obj
from nova_ext_resources.plugins import base


class CacheAffinityTest(base.ClaimTest):
    """Reports floating servers, and CPUs without a guarantee.

    Every CPU of the server must be in a domain where it holds ways, and
    every domain where it holds ways must have a CPU of it. So it is with
    memory bandwidth; either is looked at by itself.

    A host may enforce by threads (``Tracked.follows_tasks``). A floating
    server then has its units whenever it runs in a domain where it holds
    some, and no promise elsewhere.
    """

    def shortfalls(
        self, view: view_obj.HostView, request: assignment.ClaimRequest
    ) -> Iterable[exception.Shortfall]:
        domains = _list_domains(view, request)
        for (rp_uuid, resource_class), cpus in domains.items():
            tracked = view.tracked[rp_uuid, resource_class]
            if tracked.follows_tasks and not request.cpus:
                continue
            covered = frozenset[int]().union(
                *(
                    one
                    for (_, c), one in domains.items()
                    if c == resource_class
                )
            )
            reason = _find_reason(request.cpus, cpus, covered)
            if reason:
                yield exception.Shortfall(
                    rp_uuid=rp_uuid,
                    resource_class=resource_class,
                    requested=request.allocations[rp_uuid][resource_class],
                    available=0,
                    reason=reason,
                    is_permanent=not request.cpus,
                )


def _list_domains(
    view: view_obj.HostView, request: assignment.ClaimRequest
) -> dict[tuple[str, str], frozenset[int]]:
    domains = {}
    for rp_uuid, resources in request.allocations.items():
        for resource_class in resources:
            cpus = view.tracked[rp_uuid, resource_class].cpus
            if cpus is not None:
                domains[rp_uuid, resource_class] = bitmask.parse_list(cpus)
    return domains


def _find_reason(
    cpus: frozenset[int] | None,
    domain: frozenset[int],
    covered: frozenset[int],
) -> str | None:
    if not cpus:
        return (
            'its CPUs float over the host; set hw:cpu_policy=dedicated on '
            'the flavor'
        )
    if not cpus & domain:
        return (
            f'its CPUs {bitmask.format_list(cpus)} are not among '
            f'{bitmask.format_list(domain)}, which this cache serves'
        )
    if not cpus <= covered:
        return (
            f'its CPUs {bitmask.format_list(cpus - covered)} are in another '
            'cache domain, where nothing is guaranteed; smaller servers, or '
            "the firmware's L3 cache as NUMA domain, keep them in one"
        )
    return None
