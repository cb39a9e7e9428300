# SPDX-License-Identifier: Apache-2.0

"""A refusal in words: what is short, and what could be had instead."""

from collections.abc import Iterator

from nova_ext_resources import exception
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planner
from nova_ext_resources.reservation import shortfalls as shortfalls_mod

#: Hosts of which it is said what is short.
MAX_HOSTS = 3


def check_planned(
    request: plan_request.Request,
    answer: planner.Plan | planner.Refusal,
) -> None:
    """Check that a request was planned.

    :raises ReservationRefused: it was not
    """
    if isinstance(answer, planner.Refusal):
        raise exception.ReservationRefused(
            key=request.key,
            refusal=answer,
            reasons='\n'.join(explain(request, answer)),
            offers='\n'.join(explain_offers(request, answer)),
        )


def explain(
    request: plan_request.Request, refusal: planner.Refusal
) -> Iterator[str]:
    """Return sentences: the offers first, then what is short where."""
    yield from explain_offers(request, refusal)
    yield from _explain_hosts(refusal.shortfalls)


def explain_offers(
    request: plan_request.Request, refusal: planner.Refusal
) -> Iterator[str]:
    """Return sentences that name no host, for whoever may not know them."""
    largest, earliest = refusal.largest, refusal.earliest
    yield f'{request.least} requested from {refusal.during}.'
    fitting = len(largest.servers) if largest else 0
    yield f'{fitting or "None"} can be had in that time.'
    if earliest:
        yield f'{request.least} can be had from {earliest.during}.'
    elif not request.delay:
        yield 'No other time can be offered.'


def _explain_hosts(shortfalls: shortfalls_mod.Shortfalls) -> Iterator[str]:
    """Explain the hosts where least is short, and then the others."""
    near = shortfalls.nearest
    names = [*near, *sorted(shortfalls.keys() - set(near))]
    for name in names[:MAX_HOSTS]:
        reasons = '; '.join(str(one) for one in shortfalls[name])
        yield f'Host {name}: {reasons}.'
    if len(names) > MAX_HOSTS:
        yield f'{len(names) - MAX_HOSTS} more hosts lack resources, too.'
