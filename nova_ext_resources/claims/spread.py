# SPDX-License-Identifier: Apache-2.0

"""What a pinned server gets whose CPUs lie in several cache domains. Pure.

Nova chooses its CPUs and knows no caches; placement allocates units of one
domain. Where the host's options say so, the server has the amount that its
flavor requests in each domain of its CPUs. No choice is left then, and nothing
is searched: these domains, and no others.

A class that several request groups request is not among it: there, the flavor
itself says in how many domains the server has how much.
"""

from collections.abc import Iterator, Mapping
import dataclasses

from nova_ext_resources.claims import base
from nova_ext_resources.claims import siblings
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import host_view


def spread(
    view: host_view.HostView, request: assignment.ClaimRequest
) -> assignment.ClaimRequest:
    """Return the request with the amounts of each domain of its CPUs.

    As it is, where the CPUs are in one domain, and units of one domain are
    allocated; those may be of another domain, see :mod:`.siblings`. To spread
    it again changes nothing: what a server is claimed anew for, has its
    former domains among its allocations.
    """
    if not (view.constraints.spreads_pins and request.cpus):
        return request
    amounts = {rp: dict(one) for rp, one in request.allocations.items()}
    for name, held in _list_classes(view, request).items():
        near = [
            rp_uuid
            for rp_uuid, cpus in _list_domains(view, held[0], name)
            if cpus & request.cpus
        ]
        if near and len(near) + len(held) > 2:
            amount = request.requirement.resources[name]
            for rp_uuid in held:
                del amounts[rp_uuid][name]
            for rp_uuid in near:
                amounts.setdefault(rp_uuid, {})[name] = amount
    return dataclasses.replace(
        request, allocations={rp: one for rp, one in amounts.items() if one}
    )


def widen(
    view: host_view.HostView,
    request: assignment.ClaimRequest,
    domains: Mapping[host_view.Place, frozenset[int]],
    trackers: Mapping[str, base.Tracker],
) -> dict[host_view.Place, frozenset[int]]:
    """Return place -> the CPUs of all domains that could serve beside it.

    For a server whose CPUs are not chosen yet: where they are, the amount
    must be free.

    :param domains: place -> the CPUs that its units serve
    """
    wide = dict(domains)
    classes = _list_classes(view, request)
    for (rp_uuid, name), own in domains.items():
        if name in classes:
            amount = request.requirement.resources[name]
            wide[rp_uuid, name] = own.union(
                *(
                    cpus
                    for other, cpus in _list_domains(view, rp_uuid, name)
                    if _fits(view.tracked[other, name], amount, trackers)
                )
            )
    return wide


def _fits(
    tracked: host_view.Tracked,
    amount: int,
    trackers: Mapping[str, base.Tracker],
) -> bool:
    return trackers[tracked.tracker].fits(tracked.state, amount)


def _list_classes(
    view: host_view.HostView, request: assignment.ClaimRequest
) -> dict[str, list[str]]:
    """Return class -> where it is allocated, of those that may be spread."""
    held: dict[str, list[str]] = {}
    for (rp_uuid, name), amount in view.list_places(
        request.allocations
    ).items():
        if (
            view.tracked[rp_uuid, name].cpus is not None
            and request.requirement.is_in_one_group(name)
            and amount == request.requirement.resources[name]
        ):
            held.setdefault(name, []).append(rp_uuid)
    return held


def _list_domains(
    view: host_view.HostView, rp_uuid: str, name: str
) -> Iterator[tuple[str, frozenset[int]]]:
    """Return a domain and its siblings, with the CPUs that they serve."""
    for one in (rp_uuid, *siblings.list_siblings(view, rp_uuid, name)):
        cpus = view.tracked[one, name].cpus
        if cpus is not None:
            yield one, bitmask.parse_list(cpus)
