# SPDX-License-Identifier: Apache-2.0

"""A thin client of the Placement API: one method per endpoint.

Nothing here repeats a call, remembers an answer or decides anything; see
``retry``, ``publish/tree_writer`` and ``publish/diff``. Nothing else in the
package builds a URL.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
import contextlib
import dataclasses
from typing import Any
import uuid

from keystoneauth1 import adapter as ks_adapter
from oslo_config import cfg

from nova_ext_resources import exception
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import adapter as adapter_mod
from nova_ext_resources.placement.api import consumers
from nova_ext_resources.placement.api import endpoint
from nova_ext_resources.placement.api import responses

_FORBIDDEN = 403


class Client(consumers.Consumers):
    """Speaks to one placement; safe to be used by several threads.

    Every method raises :class:`~nova_ext_resources.exception.PlacementError`
    and nothing else: ``PlacementUnavailable`` when there is no sensible
    answer, ``PlacementRefused`` for a request that placement finds wrong,
    and those that a method names.
    """

    def __init__(self, adapter: ks_adapter.Adapter) -> None:
        super().__init__(endpoint.Endpoint(adapter))

    # Providers

    def list_providers(
        self,
        *,
        in_tree: str | None = None,
        required: str | None = None,
        name: str | None = None,
        member_of: str | None = None,
    ) -> tuple[host_provider.Provider, ...]:
        """List the providers of a tree, or all, with their generations.

        Inventories, traits and aggregates are left empty, see
        :meth:`read_provider`. A tree that does not exist is empty.

        :param in_tree: uuid of any provider of the tree; None lists all
        :param required: only those that have this trait, which must exist
        :param name: only the one with this name
        :param member_of: only those in the aggregate with this uuid, or of
            ``in:<uuid>,<uuid>`` in any of these
        """
        params = {
            'in_tree': in_tree,
            'required': required,
            'name': name,
            'member_of': member_of,
        }
        tree = f'the provider tree of {in_tree}' if in_tree else 'providers'
        return self._endpoint.ask(
            'GET',
            '/resource_providers',
            f'list {tree}',
            lambda body: tuple(
                map(responses.parse_provider, body['resource_providers'])
            ),
            params={k: v for k, v in params.items() if v is not None},
        )

    def get_provider(self, rp_uuid: str) -> host_provider.Provider:
        """Read one provider with all that belongs to it.

        :raises NotFound: there is none
        """
        return self.read_provider(
            self._endpoint.ask(
                'GET',
                endpoint.path('resource_providers', rp_uuid),
                f'show provider {rp_uuid}',
                responses.parse_provider,
            )
        )

    def read_provider(
        self, listed: host_provider.Provider
    ) -> host_provider.Provider:
        """Read inventories, traits and aggregates of a listed provider.

        It keeps the generation of the listing. If the provider is written in
        between, that generation is too old, so that a later write conflicts
        and nothing is decided from a mixture of two states.

        :raises NotFound: it has gone meanwhile
        """

        def read(noun: str, parse: Callable[[Any], Any]) -> Any:
            return self._endpoint.ask(
                'GET',
                endpoint.path('resource_providers', listed.rp_uuid, noun),
                f'show {noun} of provider {listed.name}',
                lambda body: parse(body[noun]),
            )

        return dataclasses.replace(
            listed,
            inventories=read('inventories', responses.parse_inventories),
            traits=read('traits', frozenset),
            aggregates=read('aggregates', frozenset),
        )

    def ensure_provider(
        self, rp_uuid: str, name: str, parent_uuid: str | None
    ) -> host_provider.Provider:
        """Create a provider, or return the existing one as it is.

        :raises DuplicateName: another provider has that name
        """
        action = f'create provider {name} ({rp_uuid})'
        body = {
            'uuid': rp_uuid,
            'name': name,
            'parent_provider_uuid': parent_uuid,
        }
        try:
            return self._endpoint.ask(
                'POST',
                '/resource_providers',
                action,
                responses.parse_provider,
                json=body,
            )
        except exception.DuplicateName as err:
            try:
                return self.get_provider(rp_uuid)
            except exception.NotFound:
                raise err from None

    def update_provider(
        self, rp_uuid: str, name: str, parent_uuid: str
    ) -> host_provider.Provider:
        """Rename a provider, or move it below another one.

        The answer has no inventories, traits and aggregates.

        :raises NotFound: it is not there
        :raises DuplicateName: another provider has that name
        """
        return self._endpoint.ask(
            'PUT',
            endpoint.path('resource_providers', rp_uuid),
            f'rename or move provider {name} ({rp_uuid})',
            responses.parse_provider,
            json={'name': name, 'parent_provider_uuid': parent_uuid},
        )

    def delete_provider(self, rp_uuid: str) -> None:
        """Delete a provider; succeed if it does not exist.

        :raises ProviderInUse: allocations or children hold it
        """
        try:
            self._endpoint.request(
                'DELETE',
                endpoint.path('resource_providers', rp_uuid),
                f'delete provider {rp_uuid}',
            )
        except exception.NotFound:
            return

    def set_inventories(
        self,
        rp_uuid: str,
        inventories: Mapping[str, class_inventory.Inventory],
        generation: int,
    ) -> int:
        """Replace all inventories; return the provider's new generation.

        :raises NotFound: the provider is not there
        :raises ConcurrentUpdate: ``generation`` has passed
        :raises InventoryInUse: allocations hold one that is left out
        """
        return self._replace(
            rp_uuid,
            'inventories',
            {name: inv.to_dict() for name, inv in inventories.items()},
            generation,
        )

    def set_traits(
        self, rp_uuid: str, traits: Iterable[str], generation: int
    ) -> int:
        """Replace all traits; return the provider's new generation.

        :raises NotFound: the provider is not there
        :raises ConcurrentUpdate: ``generation`` has passed
        """
        return self._replace(rp_uuid, 'traits', sorted(traits), generation)

    def set_aggregates(
        self, rp_uuid: str, aggregates: Iterable[str], generation: int
    ) -> int:
        """Replace all aggregates; return the provider's new generation.

        :raises NotFound: the provider is not there
        :raises ConcurrentUpdate: ``generation`` has passed
        """
        return self._replace(
            rp_uuid, 'aggregates', sorted(aggregates), generation
        )

    def reshape(
        self,
        inventories: Mapping[
            str, tuple[int, Mapping[str, class_inventory.Inventory]]
        ],
        allocations: Sequence[responses.Allocations] = (),
    ) -> None:
        """Replace all inventories of several providers, in one transaction.

        And all that some consumers hold.

        The answer does not say which generations they have then.

        :param inventories: rp_uuid -> generation, and inventories by class
        :param allocations: with the generations of the consumers
        :raises PlacementRefused: the user lacks the role ``service``, or a
            provider is not there
        :raises ConcurrentUpdate: one ``generation`` has passed
        :raises InventoryInUse: allocations hold one that is left out
        :raises AllocationRejected: more than a capacity, or against the
            unit rules of an inventory
        """
        self._endpoint.request(
            'POST',
            '/reshaper',
            f'set inventories of {len(inventories)} providers',
            json={
                'inventories': {
                    rp_uuid: {
                        'resource_provider_generation': generation,
                        'inventories': {
                            name: inv.to_dict() for name, inv in own.items()
                        },
                    }
                    for rp_uuid, (generation, own) in inventories.items()
                },
                'allocations': responses.make_allocations(allocations),
            },
            version=responses.find_version(allocations),
            rejected=exception.AllocationRejected
            if allocations
            else exception.ConcurrentUpdate,
        )

    def _replace(
        self, rp_uuid: str, noun: str, content: Any, generation: int
    ) -> int:
        return self._endpoint.ask(
            'PUT',
            endpoint.path('resource_providers', rp_uuid, noun),
            f'set {noun} {", ".join(content) or "none"} of provider {rp_uuid}',
            responses.parse_generation,
            json={'resource_provider_generation': generation, noun: content},
        )

    def check_access(self) -> None:
        """Make sure that placement answers, and accepts what we write.

        Nothing is changed: placement looks at the role of the user, and then
        finds no such provider.

        :raises PlacementRefused: the user lacks the role
        :raises NotFound: the endpoint has another path than placement
        """
        action = 'let this user read and change inventories'
        rp_uuid = str(uuid.uuid4())
        self._endpoint.ask(
            'GET',
            '/resource_providers',
            action,
            lambda body: body['resource_providers'],
            params={'in_tree': rp_uuid},
        )
        with contextlib.suppress(exception.NotFound):
            self._endpoint.request(
                'PUT',
                endpoint.path('resource_providers', rp_uuid, 'inventories'),
                action,
                json={'resource_provider_generation': 0, 'inventories': {}},
            )

    def may_reshape(self) -> bool:
        """Return whether this user may use ``POST /reshaper``.

        Nothing is changed: placement looks at the role of the user, and then
        finds the request malformed.

        :raises PlacementUnavailable: there is no sensible answer
        """
        try:
            self._endpoint.request(
                'POST', '/reshaper', 'let this user reshape', json={}
            )
        except exception.PlacementRefused as err:
            return err.status != _FORBIDDEN
        return True

    # Names

    def ensure_resource_class(self, name: str) -> None:
        """Create a ``CUSTOM_`` resource class unless it is there."""
        self._endpoint.request(
            'PUT',
            endpoint.path('resource_classes', name),
            f'create resource class {name}',
        )

    def ensure_trait(self, name: str) -> None:
        """Create a ``CUSTOM_`` trait unless it is there."""
        self._endpoint.request(
            'PUT', endpoint.path('traits', name), f'create trait {name}'
        )

    def has_trait(self, name: str) -> bool:
        """Return whether placement knows a trait."""
        try:
            self._endpoint.request(
                'GET', endpoint.path('traits', name), f'show trait {name}'
            )
        except exception.NotFound:
            return False
        return True

    # Candidates, and what a provider has

    def list_candidates(
        self, query: Sequence[tuple[str, str]]
    ) -> responses.Candidates:
        """Return which providers could serve a request, as Nova asks.

        With all that is left in their trees: of any number of hosts, by one
        request.

        :param query: as of ``GET /allocation_candidates``
        :raises PlacementRefused: it names a resource class or a trait that
            placement does not have, or makes no sense
        """
        return self._endpoint.ask(
            'GET',
            '/allocation_candidates',
            'list allocation candidates',
            responses.parse_candidates,
            params=list(query),
        )

    def list_inventories(
        self, rp_uuid: str
    ) -> Mapping[str, class_inventory.Inventory]:
        """Return resource class -> inventory of a provider.

        :raises NotFound: there is no such provider
        """
        return self._endpoint.ask(
            'GET',
            endpoint.path('resource_providers', rp_uuid, 'inventories'),
            f'show inventories of provider {rp_uuid}',
            lambda body: responses.parse_inventories(body['inventories']),
        )

    def list_traits(self, rp_uuid: str) -> frozenset[str]:
        """Return the traits of a provider.

        :raises NotFound: there is no such provider
        """
        return self._endpoint.ask(
            'GET',
            endpoint.path('resource_providers', rp_uuid, 'traits'),
            f'show traits of provider {rp_uuid}',
            lambda body: frozenset(body['traits']),
        )

    def list_aggregates(self, rp_uuid: str) -> frozenset[str]:
        """Return the uuids of a provider's aggregates; none if it is gone."""
        try:
            return self._endpoint.ask(
                'GET',
                endpoint.path('resource_providers', rp_uuid, 'aggregates'),
                f'show aggregates of provider {rp_uuid}',
                lambda body: frozenset(body['aggregates']),
            )
        except exception.NotFound:
            return frozenset()

    def list_usages(self, rp_uuid: str) -> Mapping[str, int]:
        """Return resource class -> how much of a provider is allocated.

        :raises NotFound: there is no such provider
        """
        return self._endpoint.ask(
            'GET',
            endpoint.path('resource_providers', rp_uuid, 'usages'),
            f'show usages of provider {rp_uuid}',
            lambda body: responses.parse_usages(body['usages']),
        )

    def list_holders(self, rp_uuid: str) -> Mapping[str, Mapping[str, int]]:
        """Return the consumers that hold units of a provider.

        :returns: resource class -> consumer uuid -> amount, sorted
        :raises NotFound: there is no such provider
        """
        return self._endpoint.ask(
            'GET',
            endpoint.path('resource_providers', rp_uuid, 'allocations'),
            f'show allocations of provider {rp_uuid}',
            lambda body: responses.parse_holders(body['allocations']),
        )


def from_conf(conf: cfg.ConfigOpts) -> Client:
    """Make a client of the options of ``[ext_resources_placement]``.

    :raises InvalidConfiguration: as of :func:`.adapter.load_adapter`
    """
    return Client(adapter_mod.load_adapter(conf))
