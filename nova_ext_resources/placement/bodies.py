# SPDX-License-Identifier: Apache-2.0

"""Allocations as the JSON that placement takes."""

from collections.abc import Sequence
from typing import Any

from nova_ext_resources.placement import endpoint
from nova_ext_resources.placement import responses

#: The newest that does not ask for a consumer type: a consumer of unknown
#: type, as Nova's are, keeps it so.
_WITHOUT_CONSUMER_TYPE = '1.37'


def find_version(allocations: Sequence[responses.Allocations]) -> str:
    """Return the microversion of a request that sets these."""
    if _are_typed(allocations):
        return endpoint.MICROVERSION
    return _WITHOUT_CONSUMER_TYPE


def make_allocations(
    allocations: Sequence[responses.Allocations],
) -> dict[str, dict[str, Any]]:
    """Return consumer -> all that it is to hold."""
    is_typed = _are_typed(allocations)
    return {
        one.consumer_uuid: _make_body(one, is_typed=is_typed)
        for one in allocations
    }


def _are_typed(allocations: Sequence[responses.Allocations]) -> bool:
    types = {one.consumer_type for one in allocations}
    return responses.UNKNOWN_CONSUMER_TYPE not in types


def _make_body(
    allocations: responses.Allocations, *, is_typed: bool
) -> dict[str, Any]:
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
