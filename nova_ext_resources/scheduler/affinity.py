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

"""Whether a pinned server can have its CPUs in given cache domains.

Pure. The host's own test (``claim_tests.cache_affinity``) knows the CPUs
that Nova chose; the scheduler knows only how many there must be and which
are free. So this answers "surely not" or "perhaps".
"""

from collections.abc import Mapping, Sequence, Set
from typing import TypeAlias

from nova_ext_resources.objects import bitmask

#: Dedicated CPUs of each guest NUMA cell; empty when the server floats.
Sizes: TypeAlias = tuple[int, ...]

#: Free dedicated CPUs of each NUMA cell of the host.
FreeCpus: TypeAlias = Sequence[Set[int]]

Place: TypeAlias = tuple[str, str]


def fits(
    domains: Sequence[frozenset[int]], sizes: Sizes, free: FreeCpus
) -> bool:
    """Tell whether every CPU, and every domain, could get its part.

    Each guest cell goes to a host cell of its own (Nova's rule). Every CPU
    must be in one of the domains, every domain must serve one.
    """
    if len(domains) == len(sizes) == 1:
        # By far the most of all requests, asked of every host.
        return any(len(cell & domains[0]) >= sizes[0] for cell in free)
    domains = list(set(domains))
    covered = frozenset[int]().union(*domains)
    if len(covered) == sum(map(len, domains)) and sum(sizes) < len(domains):
        return False
    usable = [cell & covered for cell in free]
    if len(sizes) == 1:
        return any(
            len(cell) >= sizes[0] and _touches_all(domains, cell)
            for cell in usable
        )
    rest = sorted(map(len, usable), reverse=True)
    return (
        len(sizes) <= len(rest)
        and all(
            a <= b for a, b in zip(sorted(sizes)[::-1], rest, strict=False)
        )
        and _touches_all(domains, frozenset[int]().union(*usable))
    )


def find_reasons(
    domains: Mapping[Place, frozenset[int]], sizes: Sizes, free: FreeCpus
) -> dict[Place, str]:
    """Say of each domain why the server cannot have its CPUs there."""
    if fits(tuple(domains.values()), sizes, free):
        return {}
    wanted = '+'.join(map(str, sizes))
    cells = 'one NUMA cell' if len(sizes) == 1 else 'as many NUMA cells'
    return {
        place: f'the server needs {wanted} dedicated CPUs of {cells} in this '
        f'cache; free are {_list_free(cpus, free)} of '
        f'{bitmask.format_list(cpus)}'
        for place, cpus in domains.items()
    }


def _touches_all(domains: Sequence[frozenset[int]], cpus: Set[int]) -> bool:
    return all(not cpus.isdisjoint(domain) for domain in domains)


def _list_free(domain: frozenset[int], free: FreeCpus) -> str:
    cpus = domain & frozenset[int]().union(*free)
    return bitmask.format_list(cpus) or 'none'
