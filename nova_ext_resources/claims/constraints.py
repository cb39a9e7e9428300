# SPDX-License-Identifier: Apache-2.0

"""Compares a request with what the host can never do, or not now. Pure."""

from collections.abc import Iterable, Mapping
import re
from typing import TypeAlias

from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_constraints
from nova_ext_resources.objects import host_view

_Places: TypeAlias = Mapping[host_view.Place, int]


def find_violations(
    view: host_view.HostView, request: assignment.ClaimRequest
) -> Iterable[exception.Shortfall]:
    """Report what is impossible here, whichever server leaves this host."""
    yield from _list_unknown_enforcers(view, request)
    yield from _list_refused(view, request)
    places = view.list_places(request.allocations)
    asked = frozenset(name for _rp_uuid, name in places) | frozenset(
        f'{enforcer}:{key}'
        for enforcer, wishes in request.requirement.enforcers.items()
        for key in wishes
    )
    for place, amount in places.items():
        rules = view.constraints.classes.get(place[1])
        if rules is None:
            continue
        attributes = request.requirement.attributes.get(place[1], {})
        for reason in (
            *_check_attributes(rules, place[1], amount, attributes),
            *_check_server(rules, place[1], places, asked),
            *_check_place(rules, place, places),
            *_check_cores(rules, place[1], request),
        ):
            yield _make_shortfall(*place, amount, reason)


def _list_unknown_enforcers(
    view: host_view.HostView, request: assignment.ClaimRequest
) -> Iterable[exception.Shortfall]:
    known = view.constraints.enforcers
    for name, wishes in request.requirement.enforcers.items():
        if known is not None and name not in known:
            keys = ', '.join(
                f'resource:{name}:{key}' for key in sorted(wishes)
            )
            yield _make_shortfall(
                '',
                f'enforcer {name}',
                1,
                f'{keys} needs the enforcer {name}, which is not enabled on '
                'this host ([ext_resources] enforcers: '
                f'{", ".join(sorted(known)) or "none"})',
            )


def _list_refused(
    view: host_view.HostView, request: assignment.ClaimRequest
) -> Iterable[exception.Shortfall]:
    for name, alarm in view.constraints.refused.items():
        if amount := request.requirement.resources.get(name):
            reason = (
                f'this host accepts no claim of {name} now, because of the '
                f'alarm {alarm}'
            )
            yield _make_shortfall('', name, amount, reason)


def _make_shortfall(
    rp_uuid: str, resource_class: str, requested: int, reason: str
) -> exception.Shortfall:
    return exception.Shortfall(
        rp_uuid=rp_uuid,
        resource_class=resource_class,
        requested=requested,
        reason=reason,
        is_permanent=True,
    )


def _check_attributes(
    rules: host_constraints.ClassConstraints,
    name: str,
    amount: int,
    attributes: Mapping[str, str],
) -> Iterable[str]:
    for attribute, value in sorted(attributes.items()):
        if rules.attributes is None:
            continue
        margin = rules.attributes.get(attribute)
        if margin is None:
            known = ', '.join(sorted(rules.attributes)) or 'none'
            yield (
                f'this host cannot apply attribute {attribute} of {name}; '
                f'supported attributes: {known}'
            )
        elif margin and not _has_margin(value, amount, margin):
            yield (
                f'attribute {attribute} is {value}; on this host it must be '
                f'{margin} or more, and differ from the amount ({amount}) '
                f'by {margin} or more'
            )


def _has_margin(value: str, amount: int, margin: int) -> bool:
    # What is no number is refused by the tracker.
    if not re.fullmatch('[0-9]{1,10}', value):
        return True
    return int(value) >= margin and abs(amount - int(value)) >= margin


def _check_server(
    rules: host_constraints.ClassConstraints,
    name: str,
    places: _Places,
    asked: frozenset[str],
) -> Iterable[str]:
    for needed in (rules.needs, rules.needs_beside):
        if needed and not needed & asked:
            yield (
                f'this host gives {name} only to servers that also request '
                f'{_list_or(needed)}; add this class to the flavor'
            )
    for other in sorted(rules.excludes & asked):
        yield (
            f'this host cannot give one server both {name} and {other}; let '
            'the flavor request one of them'
        )
    amounts = {places[one] for one in places if one[1] == name}
    if rules.is_uniform and len(amounts) > 1:
        yield (
            f'this host gives a server the same amount of {name} from each '
            f'provider, not {", ".join(map(str, sorted(amounts)))}; make the '
            'amounts of the request groups equal'
        )


def _check_place(
    rules: host_constraints.ClassConstraints,
    place: host_view.Place,
    places: _Places,
) -> Iterable[str]:
    rp_uuid, name = place
    for other in sorted(rules.excludes_beside):
        if (rp_uuid, other) in places:
            yield (
                f'this host cannot give one server both {name} and {other} '
                'of one provider; let the flavor request one of them, or '
                'both in request groups with group_policy=isolate'
            )
    used = {one[0] for one in places if one[1] == name}
    required = {one[0] for one in places if one[1] in rules.needs_beside}
    if required and used != required:
        yield (
            f'this host gives {name} only together with '
            f'{_list_or(rules.needs_beside)} of the same provider; request '
            'both in each request group'
        )


def _check_cores(
    rules: host_constraints.ClassConstraints,
    name: str,
    request: assignment.ClaimRequest,
) -> Iterable[str]:
    """Report a server to which Nova does not give whole cores.

    It does so with "require" where no thread of a core is left over: cores
    have two; and with "isolate", which brings no server to cores with several
    threads of ``cpu_dedicated_set``. Without either it may, but does not
    promise it.
    """
    policy = request.requirement.thread_policy
    cells = assignment.Pinning(sizes=(len(request.cpus or ()),))
    is_even = not any(one % 2 for one in (request.pinning or cells).sizes)
    is_whole = policy == 'isolate' or (policy == 'require' and is_even)
    is_known = rules.needs_cores and policy is not None
    if is_known and (request.is_floating or not is_whole):
        yield (
            f'this host gives {name} only to servers with whole cores: the '
            'threads of a core share one limit; set hw:cpu_policy=dedicated '
            'and hw:cpu_thread_policy=require on the flavor, with an even '
            'number of vCPUs in each NUMA cell (on hosts without SMT, use '
            'hw:cpu_thread_policy=isolate)'
        )


def _list_or(names: Iterable[str]) -> str:
    return ' or '.join(sorted(names))
