# SPDX-License-Identifier: Apache-2.0

"""Room that is held in placement for servers that are planned."""

from collections.abc import Mapping

from nova_ext_resources import exception
from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import planned_hold
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.api import responses
from nova_ext_resources.placement.api import retry


def take(
    client: placement_client.Client,
    consumer: str,
    project: str,
    places: Mapping[host_view.Place, int],
) -> None:
    """Have a consumer hold places, and nothing else.

    One that cannot have them loses what it has elsewhere: nobody is promised
    anything there.

    :param consumer: as of :func:`.planned_hold.make_consumer`
    :param project: that has reserved; '' for none
    :raises AllocationRejected: they do not fit
    :raises PlacementError: placement cannot be asked
    """
    wanted: dict[str, dict[str, int]] = {}
    for (rp_uuid, name), amount in places.items():
        wanted.setdefault(rp_uuid, {})[name] = amount

    def write() -> None:
        held = client.get_allocations(consumer)
        if held.resources == wanted:
            return
        try:
            client.put_allocations(
                responses.Allocations(
                    consumer_uuid=consumer,
                    resources=wanted,
                    project_id=planned_hold.PROJECT,
                    user_id=project or planned_hold.PROJECT,
                    consumer_type=planned_hold.CONSUMER_TYPE,
                    generation=held.generation,
                )
            )
        except exception.AllocationRejected:
            if held.resources:
                client.delete_allocations(consumer)
            raise

    retry.call(write)


def release(client: placement_client.Client, consumer: str) -> None:
    """Have a consumer hold nothing.

    :raises PlacementError: placement cannot be asked
    """
    retry.call(client.delete_allocations, consumer)


def count(client: placement_client.Client) -> int:
    """Return how many consumers hold room, by one request.

    :raises PlacementError: placement cannot be asked
    """
    return retry.call(
        client.count_consumers,
        planned_hold.PROJECT,
        planned_hold.CONSUMER_TYPE,
    )


def list_all(client: placement_client.Client) -> frozenset[str]:
    """Return the consumers that hold room, by a request for each provider.

    :raises PlacementError: placement cannot be read
    """
    suspects: set[str] = set()
    for listed in retry.call(client.list_providers):
        try:
            found = retry.call(client.list_holders, listed.rp_uuid)
        except exception.NotFound:
            continue  # It has gone meanwhile.
        suspects |= {
            uuid
            for amounts in found.values()
            for uuid in amounts
            if planned_hold.may_be_hold(uuid)
        }
    return frozenset(uuid for uuid in suspects if is_hold(client, uuid))


def is_hold(client: placement_client.Client, consumer: str) -> bool:
    """Return whether a consumer is no server, but holds room.

    :raises PlacementError: placement cannot be asked
    """
    found = retry.call(client.get_allocations, consumer)
    return found.consumer_type == planned_hold.CONSUMER_TYPE
