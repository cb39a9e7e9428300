# SPDX-License-Identifier: Apache-2.0

"""Ways lie in the cache that the server's CPUs use.

A class of service restricts what CPUs may fill in their own cache; ways of
another cache domain do nothing for them. Nova pins by NUMA cell and is
blind to L3, so a cell with several domains can yield CPUs of more than one.
"""

from collections.abc import Iterable, Mapping, Sequence, Set

from nova_ext_resources.claims import base
from nova_ext_resources.claims import spread
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import host_view


class CacheAffinityTest(base.ClaimTest):
    """Reports floating servers, and CPUs without a guarantee.

    Every CPU of the server must be in a domain where it holds ways, and
    every domain where it holds ways must have a CPU of it. So it is with
    memory bandwidth; each resource class is checked by itself.

    A host may enforce by threads (``Tracked.follows_tasks``). A floating
    server then has its units whenever it runs in a domain where it holds
    some, and no promise elsewhere. Where Nova confines it to NUMA cells, it
    must be able to run in every domain where it holds some.

    Before Nova has chosen CPUs, it reports only what no choice can meet. Where
    the host spreads pinned servers, they may be in all domains that have the
    amount free.
    """

    def shortfalls(
        self, view: host_view.HostView, request: assignment.ClaimRequest
    ) -> Iterable[exception.Shortfall]:
        domains = list_domains(view, request)
        if request.pinning is not None:
            wide = domains
            if view.constraints.spreads_pins:
                wide = spread.widen(view, request, domains, self.trackers)
            reasons = _explain_pinning(wide, request.pinning, domains)
        else:
            reasons = _explain_cpus(view, request, domains)
        if request.is_floating and request.float_cpus:
            reasons |= _explain_cells(view, request, request.float_cpus)
        for (rp_uuid, resource_class), reason in reasons.items():
            yield exception.Shortfall(
                rp_uuid=rp_uuid,
                resource_class=resource_class,
                requested=request.allocations[rp_uuid][resource_class],
                reason=reason,
                is_permanent=request.is_floating,
            )


def list_domains(
    view: host_view.HostView, request: assignment.ClaimRequest
) -> dict[host_view.Place, frozenset[int]]:
    """Return place -> the CPUs that its units serve, where that matters."""
    return {
        place: cpus
        for place, cpus in _list_served(view, request).items()
        if not (view.tracked[place].follows_tasks and request.is_floating)
    }


def _list_served(
    view: host_view.HostView, request: assignment.ClaimRequest
) -> dict[host_view.Place, frozenset[int]]:
    """Return place -> the CPUs that its units serve, but for all CPUs."""
    return {
        place: bitmask.parse_list(cpus)
        for place in view.list_places(request.allocations)
        if (cpus := view.tracked[place].cpus) is not None
    }


def can_pin(
    domains: Mapping[host_view.Place, frozenset[int]],
    pinning: assignment.Pinning,
) -> bool:
    """Return whether Nova could choose CPUs with which the server fits.

    Each guest cell goes to a host cell of its own (Nova's rule). With
    several guest cells, or with domains inside of one another, True stands
    for "perhaps"; False is certain.

    :param domains: place -> the CPUs that its units serve
    """
    sizes, free = pinning.sizes, pinning.free
    if free is None or not sizes or not domains:
        return True
    if len(domains) == len(sizes) == 1:
        # By far the most of all requests, asked of every host.
        (domain,) = domains.values()
        return any(len(cell & domain) >= sizes[0] for cell in free)
    covered = _find_covered(domains)
    served = set(domains.values())
    usable = [cell & covered for cell in free]
    if len(sizes) == 1:
        return any(
            len(cell) >= sizes[0] and _serve_all(served, cell, sizes)
            for cell in usable
        )
    rooms = sorted(map(len, usable), reverse=True)
    return (
        len(sizes) <= len(rooms)
        and all(
            size <= room
            for size, room in zip(sorted(sizes)[::-1], rooms, strict=False)
        )
        and _serve_all(served, frozenset[int]().union(*usable), sizes)
    )


def _serve_all(
    domains: Set[frozenset[int]], cpus: Set[int], sizes: Sequence[int]
) -> bool:
    """Return whether some of the CPUs could be in every domain."""
    is_disjoint = len(frozenset[int]().union(*domains)) == sum(
        map(len, domains)
    )
    if is_disjoint and sum(sizes) < len(domains):
        return False
    return all(not cpus.isdisjoint(domain) for domain in domains)


def _find_covered(
    domains: Mapping[host_view.Place, frozenset[int]],
) -> frozenset[int]:
    """Return the CPUs for which the server has units of every class."""
    by_class: dict[str, frozenset[int]] = {}
    for (_rp_uuid, name), cpus in domains.items():
        by_class[name] = by_class.get(name, frozenset()) | cpus
    return frozenset.intersection(*by_class.values())


def _explain_pinning(
    domains: Mapping[host_view.Place, frozenset[int]],
    pinning: assignment.Pinning,
    own: Mapping[host_view.Place, frozenset[int]],
) -> dict[host_view.Place, str]:
    """Explain of each domain why the server cannot have its CPUs there.

    :param own: place -> the CPUs of that domain alone
    """
    if can_pin(domains, pinning):
        return {}
    sizes = pinning.sizes
    wanted = '+'.join(map(str, sizes))
    cells = 'one NUMA cell' if len(sizes) == 1 else f'{len(sizes)} NUMA cells'
    free = frozenset[int]().union(*(pinning.free or ()))
    return {
        place: f'the server needs {wanted} dedicated CPUs of {cells} in '
        f'{"this cache" if cpus == own[place] else "these caches"}; free '
        f'CPUs: {bitmask.format_list(free & cpus) or "none"} of '
        f'{bitmask.format_list(cpus)}'
        for place, cpus in domains.items()
    }


def _explain_cpus(
    view: host_view.HostView,
    request: assignment.ClaimRequest,
    domains: Mapping[host_view.Place, frozenset[int]],
) -> dict[host_view.Place, str]:
    reasons = {}
    for place, domain in domains.items():
        of_class = {p: one for p, one in domains.items() if p[1] == place[1]}
        reason = _find_reason(
            request.cpus,
            domain,
            _find_covered(of_class),
            _advise(view, request, place[1]),
        )
        if reason:
            reasons[place] = reason
    return reasons


def _advise(
    view: host_view.HostView, request: assignment.ClaimRequest, name: str
) -> str:
    if view.constraints.spreads_pins and not (
        request.requirement.is_in_one_group(name)
    ):
        return (
            f'request {name} in one request group only, so that this host '
            'gives the server the same amount in each cache'
        )
    return (
        'to keep the CPUs of the server in one domain, use a smaller flavor '
        'or the firmware option "L3 cache as NUMA domain"'
    )


def _explain_cells(
    view: host_view.HostView,
    request: assignment.ClaimRequest,
    cpus: frozenset[int],
) -> dict[host_view.Place, str]:
    """Explain of each domain why a floating server never runs in it."""
    return {
        place: (
            'the CPUs of the server float over host CPUs '
            f'{bitmask.format_list(cpus)} (its NUMA cells), but this cache '
            f'serves host CPUs {bitmask.format_list(domain)}'
        )
        for place, domain in _list_served(view, request).items()
        if view.tracked[place].follows_tasks and not cpus & domain
    }


def _find_reason(
    cpus: frozenset[int] | None,
    domain: frozenset[int],
    covered: frozenset[int],
    advice: str,
) -> str | None:
    if not cpus:
        return (
            'the CPUs of the server float over the host; set '
            'hw:cpu_policy=dedicated on the flavor'
        )
    if not cpus & domain:
        return (
            f'the CPUs of the server ({bitmask.format_list(cpus)}) are not '
            f'among the CPUs of this cache ({bitmask.format_list(domain)})'
        )
    if not cpus <= covered:
        return (
            f'CPUs {bitmask.format_list(cpus - covered)} of the server are in '
            'another cache domain, where the server has no guarantee; '
            f'{advice}'
        )
    return None
