# SPDX-License-Identifier: Apache-2.0

"""Change the allocations of a server."""

from collections.abc import Callable, Container, Mapping, Set
import dataclasses
from typing import TypeAlias

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.api import responses
from nova_ext_resources.placement.api import retry

#: Gets resource class -> amount. Returns what one holds who has just that on
#: the full provider, and does as well with the other; None: there is none.
FindPartner: TypeAlias = Callable[
    [Mapping[str, int]], responses.Allocations | None
]

LOG = logging.getLogger(__name__)


def move_allocations(
    client: placement_client.Client,
    consumer_uuid: str,
    *,
    from_rp_uuid: str,
    to_rp_uuid: str,
    resource_classes: Set[str],
    find_partner: FindPartner = lambda _amounts: None,
) -> None:
    """Move all units of some classes from one provider to another.

    For a claim that goes to another cache domain of the same host. It is one
    write with the consumer's generation, so that the server never holds both
    or neither, and keeps everything else. To call it again changes nothing.

    Where the other provider is full, they are exchanged with those of a
    partner, also in one write.

    :raises NotFound: the server holds none of a class on either provider
    :raises AllocationRejected: it does not fit on the other provider
    :raises ConcurrentUpdate: allocations kept changing meanwhile
    :raises PlacementUnavailable: placement does not answer
    """

    def move() -> str | None:
        current = client.get_allocations(consumer_uuid)
        amounts = _find_amounts(
            current, from_rp_uuid, to_rp_uuid, resource_classes
        )
        if not amounts:
            return None
        moved = _with_moved(current, from_rp_uuid, to_rp_uuid, amounts)
        try:
            client.put_allocations(moved)
        except exception.AllocationRejected:
            partner = find_partner(amounts)
            if partner is None:
                # Others may have made room meanwhile, or exchanged it.
                client.put_allocations(moved)
                return ''
            other = _with_moved(partner, to_rp_uuid, from_rp_uuid, amounts)
            client.post_allocations([moved, other])
            return partner.consumer_uuid
        return ''

    partner_uuid = retry.call(move)
    if partner_uuid is None:
        return
    LOG.info(
        'Moved %(classes)s of server %(server)s from resource provider '
        '%(from)s to %(to)s%(exchanged)s',
        {
            'classes': ' and '.join(sorted(resource_classes)),
            'server': consumer_uuid,
            'from': from_rp_uuid,
            'to': to_rp_uuid,
            'exchanged': partner_uuid
            and f', in exchange with server {partner_uuid}',
        },
    )


def set_allocations(
    client: placement_client.Client,
    consumer_uuid: str,
    wanted: Mapping[tuple[str, str], int],
    own: Container[str],
) -> None:
    """Have a server hold classes on these providers of a host, and no others.

    For a claim of units of several cache domains, of which placement has
    allocated one. It is one write with the consumer's generation: all of it or
    nothing. What the server has of other classes, and of other hosts, stays.
    To call it again changes nothing.

    :param wanted: (rp_uuid, resource class) -> amount, one for each class
    :param own: uuids of the host's providers
    :raises NotFound: the server has none of a class there, or another amount
    :raises AllocationRejected: it does not fit on one of the providers
    :raises ConcurrentUpdate: allocations kept changing meanwhile
    :raises PlacementUnavailable: placement does not answer
    """

    def write() -> bool:
        current = client.get_allocations(consumer_uuid)
        resources = _with_amounts(current, wanted, own)
        if resources == current.resources:
            return False
        client.put_allocations(
            dataclasses.replace(current, resources=resources)
        )
        return True

    if retry.call(write):
        LOG.info(
            'Allocated %(classes)s of %(count)d resource providers to server '
            '%(server)s',
            {
                'server': consumer_uuid,
                'classes': ' and '.join(sorted({name for _, name in wanted})),
                'count': len({rp_uuid for rp_uuid, _ in wanted}),
            },
        )


def confirm_allocations(
    client: placement_client.Client, consumer_uuid: str
) -> responses.Allocations:
    """Write what a consumer holds as it is, and return it.

    Nothing changes but the consumer's generation: whoever has read before
    can no longer write.

    :raises ConcurrentUpdate: its allocations kept changing meanwhile
    :raises AllocationRejected: a provider no longer has room for them
    :raises PlacementUnavailable: placement does not answer
    """

    def confirm() -> responses.Allocations:
        current = client.get_allocations(consumer_uuid)
        if current.resources:
            client.put_allocations(current)
        return current

    return retry.call(confirm)


def add(
    client: placement_client.Client,
    current: responses.Allocations,
    amounts: Mapping[tuple[str, str], int],
) -> responses.Allocations:
    """Change how much a consumer holds, unless that has changed.

    It is one write with the generation of the reading, and is not repeated.

    :param current: as it was read
    :param amounts: (rp_uuid, resource class) -> how much more; less than 0 for
        less
    :returns: what it holds then, with the generation of the reading
    :raises ConcurrentUpdate: its allocations have changed since
    :raises AllocationRejected: a provider has no room for what it holds then
    :raises PlacementUnavailable: placement does not answer
    """
    resources = {
        rp_uuid: dict(given) for rp_uuid, given in current.resources.items()
    }
    for (rp_uuid, name), more in amounts.items():
        given = resources.setdefault(rp_uuid, {})
        given[name] = given.get(name, 0) + more
    left = {
        rp_uuid: {name: amount for name, amount in given.items() if amount}
        for rp_uuid, given in resources.items()
    }
    written = dataclasses.replace(
        current, resources={k: v for k, v in left.items() if v}
    )
    client.put_allocations(written)
    return written


def _find_amounts(
    current: responses.Allocations,
    from_rp_uuid: str,
    to_rp_uuid: str,
    resource_classes: Set[str],
) -> dict[str, int]:
    """Return the amount of each class that is still to be moved.

    :raises NotFound: one is on neither provider
    """
    here = current.resources.get(from_rp_uuid, {})
    there = current.resources.get(to_rp_uuid, {})
    missing = resource_classes - here.keys() - there.keys()
    if missing:
        raise exception.NotFound(
            action=f'move {" and ".join(sorted(missing))} of server '
            f'{current.consumer_uuid} from provider {from_rp_uuid} to '
            f'{to_rp_uuid}',
            detail='the server has no allocation of them on either provider',
        )
    return {name: here[name] for name in resource_classes & here.keys()}


def _with_moved(
    current: responses.Allocations,
    from_rp_uuid: str,
    to_rp_uuid: str,
    amounts: Mapping[str, int],
) -> responses.Allocations:
    resources = {
        rp_uuid: dict(given) for rp_uuid, given in current.resources.items()
    }
    there = resources.setdefault(to_rp_uuid, {})
    for name, amount in amounts.items():
        del resources[from_rp_uuid][name]
        there[name] = there.get(name, 0) + amount
    return dataclasses.replace(
        current, resources={k: v for k, v in resources.items() if v}
    )


def _with_amounts(
    current: responses.Allocations,
    wanted: Mapping[tuple[str, str], int],
    own: Container[str],
) -> dict[str, dict[str, int]]:
    """Return what a server is to hold.

    :raises NotFound: Nova has deleted its allocations meanwhile, or has given
        it those of another flavor
    """
    resources = {
        rp_uuid: dict(given) for rp_uuid, given in current.resources.items()
    }
    for name in sorted({name for _, name in wanted}):
        here = [u for u in resources if u in own and name in resources[u]]
        amounts = {n for (_, other), n in wanted.items() if other == name}
        if {resources[rp_uuid][name] for rp_uuid in here} != amounts:
            raise exception.NotFound(
                action=f'allocate {name} of further providers to server '
                f'{current.consumer_uuid}',
                detail='the server has no allocation of this amount on a '
                'provider of this host',
            )
        for rp_uuid in here:
            del resources[rp_uuid][name]
    for (rp_uuid, name), amount in wanted.items():
        resources.setdefault(rp_uuid, {})[name] = amount
    return {rp_uuid: given for rp_uuid, given in resources.items() if given}
