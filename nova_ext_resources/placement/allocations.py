# SPDX-License-Identifier: Apache-2.0

"""Change the allocations of a server."""

import dataclasses

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.placement import client as placement_client
from nova_ext_resources.placement import responses
from nova_ext_resources.placement import retry

LOG = logging.getLogger(__name__)


def move_allocation(
    client: placement_client.Client,
    consumer_uuid: str,
    *,
    from_rp_uuid: str,
    to_rp_uuid: str,
    resource_class: str,
) -> None:
    """Move all units of a class from one provider to another.

    For a claim that goes to another cache domain of the same host. It is one
    write with the consumer's generation, so that the server never holds both
    or neither, and keeps everything else. To call it again changes nothing.

    :raises NotFound: the server holds none of it on either provider
    :raises AllocationRejected: it does not fit on the other provider
    :raises ConcurrentUpdate: its allocations kept changing meanwhile
    :raises PlacementUnavailable: placement does not answer
    """

    def move() -> None:
        held = client.get_allocations(consumer_uuid)
        amount = held.resources.get(from_rp_uuid, {}).get(resource_class)
        if amount is not None:
            client.put_allocations(
                _with_moved(held, from_rp_uuid, to_rp_uuid, resource_class)
            )
        elif resource_class not in held.resources.get(to_rp_uuid, {}):
            raise exception.NotFound(
                action=f'move {resource_class} of server {consumer_uuid} '
                f'from provider {from_rp_uuid} to {to_rp_uuid}',
                detail='the server holds none of it there',
            )

    retry.call(move)
    LOG.info(
        'Moved %(class)s of server %(server)s from resource provider '
        '%(from)s to %(to)s',
        {
            'class': resource_class,
            'server': consumer_uuid,
            'from': from_rp_uuid,
            'to': to_rp_uuid,
        },
    )


def _with_moved(
    held: responses.Allocations,
    from_rp_uuid: str,
    to_rp_uuid: str,
    resource_class: str,
) -> responses.Allocations:
    resources = {
        rp_uuid: dict(amounts) for rp_uuid, amounts in held.resources.items()
    }
    amount = resources[from_rp_uuid].pop(resource_class)
    there = resources.setdefault(to_rp_uuid, {})
    there[resource_class] = there.get(resource_class, 0) + amount
    return dataclasses.replace(
        held, resources={k: v for k, v in resources.items() if v}
    )
