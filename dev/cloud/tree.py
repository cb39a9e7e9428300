# SPDX-License-Identifier: Apache-2.0

"""What placement knows of the hosts, read through its public API."""

from collections.abc import Mapping
import dataclasses
from typing import Any

from keystoneauth1 import adapter

from dev.cloud import told

#: The trait that every provider of this package carries.
OWNER_TRAIT = 'CUSTOM_OWNER_EXT_RESOURCES'

#: The query for those.
OURS = f'?required={OWNER_TRAIT}'

_PROVIDERS = '/resource_providers'

WAYS = 'CUSTOM_LLC_WAYS'
BURST = 'CUSTOM_LLC_WAYS_BURST'
CLOS = 'CUSTOM_RDT_CLOS'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """One resource class of a provider."""

    total: int
    reserved: int
    used: int
    max_unit: int
    allocation_ratio: float

    @property
    def available(self) -> int:
        """What placement would still give out."""
        capacity = int((self.total - self.reserved) * self.allocation_ratio)
        return capacity - self.used


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One resource provider with all that belongs to it.

    :ivar host: name of the root of its tree, which is the compute host
    """

    uuid: str
    name: str
    parent_uuid: str | None
    host: str
    amounts: Mapping[str, Amount]


def list_providers(placement: adapter.Adapter) -> tuple[Provider, ...]:
    """Return all providers, parents before their children."""
    return _read(placement, '')


def list_ours(placement: adapter.Adapter) -> tuple[Provider, ...]:
    """Return the providers that this package published."""
    return _read(placement, OURS)


def list_names(placement: adapter.Adapter) -> dict[str, str]:
    """Give rp_uuid -> name of the providers that this package published."""
    found = get(placement, f'{_PROVIDERS}{OURS}')['resource_providers']
    return {one['uuid']: one['name'] for one in found}


def list_hosts(placement: adapter.Adapter, query: str = '') -> dict[str, str]:
    """Give rp_uuid -> the host that it belongs to.

    :param query: which providers; all without it
    """
    hosts = _list_roots(placement)
    found = get(placement, f'{_PROVIDERS}{query}')['resource_providers']
    return {one['uuid']: hosts[one['root_provider_uuid']] for one in found}


def list_traits(placement: adapter.Adapter, rp_uuid: str) -> tuple[str, ...]:
    """Return the traits of one provider."""
    found = get(placement, f'/resource_providers/{rp_uuid}/traits')
    return tuple(found['traits'])


def list_allocations(
    placement: adapter.Adapter, consumer_uuid: str
) -> dict[str, dict[str, int]]:
    """Give rp_uuid -> resource class -> amount of one server."""
    found = get(placement, f'/allocations/{consumer_uuid}')['allocations']
    return {uuid: one['resources'] for uuid, one in found.items()}


def list_consumers(
    placement: adapter.Adapter, rp_uuid: str
) -> dict[str, dict[str, int]]:
    """Return consumer uuid -> resource class -> amount of one provider."""
    path = f'/resource_providers/{rp_uuid}/allocations'
    found = get(placement, path)['allocations']
    return {uuid: one['resources'] for uuid, one in found.items()}


def get(placement: adapter.Adapter, path: str) -> Any:
    """GET a path of placement.

    :raises NotAsTold: placement answers with an error
    """
    answer = placement.get(path)
    told.expect(
        answer.status_code == 200,
        f'placement answers GET {path}',
        f'{answer.status_code} {answer.text}',
    )
    return answer.json()


def _read(placement: adapter.Adapter, query: str) -> tuple[Provider, ...]:
    roots = _list_roots(placement)
    found = get(placement, f'{_PROVIDERS}{query}')['resource_providers']
    made = [
        _provider(placement, one, roots[one['root_provider_uuid']])
        for one in found
    ]
    return tuple(
        sorted(made, key=lambda p: (p.host, p.parent_uuid or '', p.name))
    )


def _list_roots(placement: adapter.Adapter) -> dict[str, str]:
    found = get(placement, _PROVIDERS)['resource_providers']
    return {one['uuid']: one['name'] for one in found}


def _provider(placement: adapter.Adapter, one: Any, host: str) -> Provider:
    base = f'/resource_providers/{one["uuid"]}'
    inventories = get(placement, f'{base}/inventories')['inventories']
    usages = get(placement, f'{base}/usages')['usages']
    return Provider(
        uuid=one['uuid'],
        name=one['name'],
        parent_uuid=one['parent_provider_uuid'],
        host=host,
        amounts={
            resource_class: Amount(
                total=inventory['total'],
                reserved=inventory['reserved'],
                used=usages.get(resource_class, 0),
                max_unit=inventory['max_unit'],
                allocation_ratio=inventory['allocation_ratio'],
            )
            for resource_class, inventory in sorted(inventories.items())
        },
    )
