# SPDX-License-Identifier: Apache-2.0

"""The part of the Placement API that is about consumers."""

from collections.abc import Sequence
import contextlib

from nova_ext_resources import exception
from nova_ext_resources.placement.api import endpoint
from nova_ext_resources.placement.api import responses


class Consumers:
    """One method per endpoint; errors are those of the whole client."""

    def __init__(self, asked: endpoint.Endpoint) -> None:
        self._endpoint = asked

    def get_allocations(self, consumer_uuid: str) -> responses.Allocations:
        """Return all that a consumer holds: nothing if it is not known."""
        return self._endpoint.ask(
            'GET',
            endpoint.path('allocations', consumer_uuid),
            f'show allocations of consumer {consumer_uuid}',
            lambda body: responses.parse_allocations(consumer_uuid, body),
        )

    def put_allocations(self, allocations: responses.Allocations) -> None:
        """Replace all that a consumer holds.

        A consumer of unknown type, as Nova's are, keeps it so.

        :raises ConcurrentUpdate: the consumer's generation has passed, or
            placement itself lost a race for a provider
        :raises AllocationRejected: more than a capacity, or against the
            unit rules of an inventory
        """
        uuid = allocations.consumer_uuid
        self._set_allocations(
            'PUT', endpoint.path('allocations', uuid), [allocations]
        )

    def delete_allocations(self, consumer_uuid: str) -> None:
        """Delete all that a consumer holds; succeed if that is nothing."""
        with contextlib.suppress(exception.NotFound):
            self._endpoint.request(
                'DELETE',
                endpoint.path('allocations', consumer_uuid),
                f'delete allocations of consumer {consumer_uuid}',
            )

    def count_consumers(self, project: str, consumer_type: str) -> int:
        """Return how many consumers of a project and a type hold anything.

        By one request, whatever their number is.
        """
        return self._endpoint.ask(
            'GET',
            '/usages',
            f'count consumers of type {consumer_type}',
            lambda body: int(
                body['usages'].get(consumer_type, {}).get('consumer_count', 0)
            ),
            params={'project_id': project, 'consumer_type': consumer_type},
        )

    def post_allocations(
        self, allocations: Sequence[responses.Allocations]
    ) -> None:
        """Replace all that several consumers hold, in one transaction.

        :raises ConcurrentUpdate: as :meth:`put_allocations`; nothing changes
        :raises AllocationRejected: so does this
        """
        self._set_allocations('POST', '/allocations', allocations)

    def _set_allocations(
        self,
        method: str,
        path: str,
        allocations: Sequence[responses.Allocations],
    ) -> None:
        made = responses.make_allocations(allocations)
        uuids = ' and '.join(made)
        self._endpoint.request(
            method,
            path,
            f'set allocations of consumer {uuids}',
            json=made if method == 'POST' else made[uuids],
            version=responses.find_version(allocations),
            rejected=exception.AllocationRejected,
        )
