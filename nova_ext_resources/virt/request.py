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

"""What one of Nova's instances asks for."""

from collections.abc import Mapping
from typing import Any

from nova_ext_resources import extra_specs
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import requirement


def make_requirement(
    flavor: Any, grammar: extra_specs.Grammar
) -> requirement.Requirement:
    """Read a ``nova.objects.Flavor``.

    :raises InvalidExtraSpec: an extra spec of ours is malformed
    """
    return extra_specs.parse(flavor.get('extra_specs') or {}, grammar)


def make_request(
    instance: Any,
    allocations: Mapping[str, Mapping[str, Any]] | None,
    grammar: extra_specs.Grammar | None,
) -> assignment.ClaimRequest:
    """Read a ``nova.objects.Instance`` as ``spawn`` gets it.

    The flavor is the one that the instance carries: what was asked at boot
    stays in force after the flavor was changed or deleted.

    :param allocations: ``{rp_uuid: {'resources': {class: amount}}}``
    :param grammar: None where nothing is enabled: extra specs that look like
        ours then mean nothing, as without this package
    :raises InvalidExtraSpec: an extra spec of ours is malformed
    """
    return assignment.ClaimRequest(
        consumer_uuid=instance.uuid,
        allocations={
            rp_uuid: dict(held['resources'])
            for rp_uuid, held in (allocations or {}).items()
        },
        requirement=(
            requirement.Requirement()
            if grammar is None
            else make_requirement(instance.flavor, grammar)
        ),
        cpus=find_cpus(instance),
    )


def find_keys(instance: Any) -> list[str]:
    """Give the extra specs of its flavor that look like ours."""
    specs = instance.flavor.get('extra_specs') or {}
    return [key for key in specs if extra_specs.is_ours(key)]


def find_cpus(instance: Any) -> frozenset[int] | None:
    """Give the host CPUs that Nova has pinned the instance to.

    They come from ``numa_topology``, which Nova fills in its claim: a look
    at the process would see what the host shows, not what was decided.

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
