# SPDX-License-Identifier: Apache-2.0

"""Placement's JSON as values, and allocations as JSON.

Unexpected content raises one of ``foreign_data.UNREADABLE``; see
``endpoint.understood``.
"""

from collections.abc import Mapping, Sequence
import dataclasses
from typing import Any

from nova_ext_resources import exception
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects.documents import foreign_data
from nova_ext_resources.objects.documents import host_tree
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import endpoint

#: How placement shows consumers that were written below 1.38, as Nova does.
UNKNOWN_CONSUMER_TYPE = 'unknown'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Allocations:
    """All that one consumer holds.

    :ivar resources: rp_uuid -> resource class -> amount
    :ivar generation: the consumer's; None where placement does not know it
    """

    consumer_uuid: str
    resources: Mapping[str, Mapping[str, int]]
    project_id: str = ''
    user_id: str = ''
    consumer_type: str = UNKNOWN_CONSUMER_TYPE
    generation: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """What placement offers for a request.

    :ivar allocations: one for each candidate, rp_uuid -> resource class ->
        amount
    :ivar providers: all providers of all trees that have a candidate, rp_uuid
        -> provider; without names, inventories and holders
    """

    allocations: tuple[Mapping[str, Mapping[str, int]], ...]
    providers: Mapping[str, host_tree.TreeProvider]


def parse_provider(body: Mapping[str, Any]) -> host_provider.Provider:
    return host_provider.Provider(
        rp_uuid=body['uuid'],
        name=body['name'],
        parent_uuid=body['parent_provider_uuid'],
        generation=foreign_data.read_whole(body['generation']),
    )


def parse_generation(body: Mapping[str, Any]) -> int:
    return foreign_data.read_whole(body['resource_provider_generation'])


def parse_inventories(
    body: Mapping[str, Any],
) -> Mapping[str, class_inventory.Inventory]:
    inventories = {}
    for name, data in body.items():
        try:
            inventories[name] = class_inventory.Inventory.from_dict(data)
        except exception.InvalidResource:
            # Placement accepts more than makes sense, such as a ratio of 0.
            # An unusable inventory is as good as absent.
            continue
    return inventories


def parse_holders(body: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    holders: dict[str, dict[str, int]] = {}
    for consumer_uuid, held in sorted(body.items()):
        for resource_class, amount in held['resources'].items():
            amounts = holders.setdefault(resource_class, {})
            amounts[consumer_uuid] = foreign_data.read_whole(amount)
    return holders


def parse_allocations(
    consumer_uuid: str, body: Mapping[str, Any]
) -> Allocations:
    if not body['allocations']:
        return Allocations(consumer_uuid=consumer_uuid, resources={})
    return Allocations(
        consumer_uuid=consumer_uuid,
        resources={
            rp_uuid: dict(held['resources'])
            for rp_uuid, held in body['allocations'].items()
        },
        project_id=body['project_id'],
        user_id=body['user_id'],
        consumer_type=body['consumer_type'],
        generation=body['consumer_generation'],
    )


def parse_usages(body: Mapping[str, Any]) -> dict[str, int]:
    return {name: int(used) for name, used in body.items()}


def parse_candidates(body: Mapping[str, Any]) -> Candidates:
    return Candidates(
        allocations=tuple(
            {
                rp_uuid: dict(held['resources'])
                for rp_uuid, held in one['allocations'].items()
            }
            for one in body['allocation_requests']
        ),
        providers={
            rp_uuid: _parse_summary(rp_uuid, one)
            for rp_uuid, one in body['provider_summaries'].items()
        },
    )


def _parse_summary(
    rp_uuid: str, body: Mapping[str, Any]
) -> host_tree.TreeProvider:
    return host_tree.TreeProvider(
        rp_uuid=rp_uuid,
        name='',
        parent_uuid=body['parent_provider_uuid'],
        traits=frozenset(body['traits']),
        amounts={
            name: host_tree.Amount(
                capacity=int(one['capacity']), used=int(one['used'])
            )
            for name, one in body['resources'].items()
        },
    )


#: The newest that does not ask for a consumer type: a consumer of unknown
#: type, as Nova's are, keeps it so.
_WITHOUT_CONSUMER_TYPE = '1.37'


def find_version(allocations: Sequence[Allocations]) -> str:
    """Return the microversion of a request that sets these."""
    if _are_typed(allocations):
        return endpoint.MICROVERSION
    return _WITHOUT_CONSUMER_TYPE


def make_allocations(
    allocations: Sequence[Allocations],
) -> dict[str, dict[str, Any]]:
    """Return consumer -> all that it is to hold."""
    is_typed = _are_typed(allocations)
    return {
        one.consumer_uuid: _make_body(one, is_typed=is_typed)
        for one in allocations
    }


def _are_typed(allocations: Sequence[Allocations]) -> bool:
    types = {one.consumer_type for one in allocations}
    return UNKNOWN_CONSUMER_TYPE not in types


def _make_body(allocations: Allocations, *, is_typed: bool) -> dict[str, Any]:
    body: dict[str, Any] = {
        'allocations': {
            rp_uuid: {'resources': dict(resources)}
            for rp_uuid, resources in allocations.resources.items()
        },
        'project_id': allocations.project_id,
        'user_id': allocations.user_id,
        'consumer_generation': allocations.generation,
    }
    if is_typed:
        body['consumer_type'] = allocations.consumer_type
    return body
