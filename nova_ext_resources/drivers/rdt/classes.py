# SPDX-License-Identifier: Apache-2.0

"""Cache and memory bandwidth as resources: what every backend means by them.

RMD and the kernel's resctrl allocate the same things. A host keeps its place
in placement, and a flavor its meaning, whichever of them it has, for both take
names, keys and refusals from here.

Providers: ``RDT`` counts classes of service. Below it are ``L3_<id>``, a
last-level cache with the memory behind it, and ``L2_<id>``, where ids are
those of the kernel (``/sys/devices/system/cpu/cpu*/cache/index*/id``).
"""

from collections.abc import Iterable, Mapping

from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import resource

CLOS = 'CUSTOM_RDT_CLOS'
WAYS = 'CUSTOM_LLC_WAYS'
BURST = 'CUSTOM_LLC_WAYS_BURST'
SHARED = 'CUSTOM_LLC_WAYS_SHARED'
L2_WAYS = 'CUSTOM_L2_WAYS'
PERCENT = 'CUSTOM_MEMORY_BANDWIDTH_PERCENT'
MBPS = 'CUSTOM_MEMORY_BANDWIDTH_MBPS'

BANDWIDTHS = frozenset({PERCENT, MBPS})

#: os-traits has none for cache allocation; on the providers of ways, so that
#: a flavor's ``trait:CUSTOM_RDT_L3_CAT=required`` meets it there.
CAT_TRAIT = 'CUSTOM_RDT_L3_CAT'
CDP_TRAIT = 'CUSTOM_RDT_L3_CDP'
L2_CAT_TRAIT = 'CUSTOM_RDT_L2_CAT'
L2_CDP_TRAIT = 'CUSTOM_RDT_L2_CDP'

#: Key of the provider of classes of service.
RDT = 'RDT'

L3_PREFIX = 'L3_'

DEFINITIONS: Mapping[str, resource.ResourceDefinition] = {
    one.name: one
    for one in (
        resource.ResourceDefinition(
            name=CLOS,
            units='classes of service',
            description='Classes of service of the CPU (RDT): every server '
            'with cache ways or memory bandwidth of its own takes one class.',
        ),
        resource.ResourceDefinition(
            name=WAYS,
            type='cache_ways',
            units='ways',
            description='Ways of one last-level cache, side by side, for this '
            'server alone.',
        ),
        resource.ResourceDefinition(
            name=BURST,
            type='burst_ways',
            units='ways',
            description='Guaranteed ways of one last-level cache; the server '
            'uses more ways of the burst pool while no other server needs '
            'them.',
        ),
        resource.ResourceDefinition(
            name=SHARED,
            type='shared_ways',
            units='places',
            description='A place among the servers that share one pool of '
            'ways of a last-level cache.',
        ),
        resource.ResourceDefinition(
            name=L2_WAYS,
            type='cache_ways',
            units='ways',
            description='Ways of one level-2 cache, side by side, for this '
            'server alone.',
        ),
        resource.ResourceDefinition(
            name=PERCENT,
            type='bandwidth',
            units='percent',
            description='Memory bandwidth of the CPUs of one last-level '
            'cache, in percent of their maximum.',
        ),
        resource.ResourceDefinition(
            name=MBPS,
            type='bandwidth',
            units='MB/s',
            description='Memory bandwidth of the CPUs of one last-level '
            'cache.',
        ),
    )
}


def define(*names: str) -> tuple[resource.ResourceDefinition, ...]:
    """Return the definitions of resource classes, in this order."""
    return tuple(DEFINITIONS[name] for name in names)


def make_l3_key(domain: int) -> str:
    return f'{L3_PREFIX}{domain}'


def find_domain(one: assignment.Assignment) -> int:
    """Return the kernel's id of the last-level cache of an assignment.

    :raises ValueError: it is of no such cache
    """
    return int(one.rp_key.removeprefix(L3_PREFIX))


def get_limit(one: assignment.Assignment) -> int:
    """Return the allocated bandwidth, in the unit of the class.

    It is never below the amount, even if the ledger was damaged.
    """
    return max(int(one.units.get('limit', one.amount)), one.amount)


def pick(
    assignments: Iterable[assignment.Assignment], *names: str
) -> tuple[assignment.Assignment, ...]:
    """Return the assignments of these resource classes."""
    return tuple(one for one in assignments if one.resource_class in names)
