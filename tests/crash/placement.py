# SPDX-License-Identifier: Apache-2.0

"""What placement says of providers and consumers."""

from typing import Any, TYPE_CHECKING

import requests

from dev.cloud.lite import config

if TYPE_CHECKING:
    from tests.crash import site as site_mod


def find_node(site: 'site_mod.Site', host: str) -> str:
    """Return the provider of Nova's own resources of a host."""
    found = _get(site, f'/resource_providers?name={host}')
    return str(found['resource_providers'][0]['uuid'])


def read_provider(site: 'site_mod.Site', rp_uuid: str) -> dict[str, Any]:
    """Return what each consumer has of a provider."""
    path = f'/resource_providers/{rp_uuid}/allocations'
    found: dict[str, Any] = _get(site, path).get('allocations', {})
    return found


def count_capacity(
    site: 'site_mod.Site', rp_uuid: str, resource_class: str
) -> int:
    found = _get(site, f'/resource_providers/{rp_uuid}/inventories')
    one = found.get('inventories', {}).get(resource_class)
    return one['total'] - one['reserved'] if one else 0


def read_allocations(site: 'site_mod.Site', uuid: str) -> dict[str, Any]:
    """Return the resources of each provider that a consumer has."""
    found = _get(site, f'/allocations/{uuid}').get('allocations', {})
    return {rp_uuid: one['resources'] for rp_uuid, one in found.items()}


def _get(site: 'site_mod.Site', path: str) -> Any:
    answer = requests.get(site.urls.placement + path, **_options())
    return answer.json()


def remove_allocations(site: 'site_mod.Site', uuid: str) -> None:
    """Delete all of a consumer, of Nova and ours.

    As ``nova-manage placement audit --delete`` and ``openstack extended
    resource audit --repair`` do together.
    """
    requests.delete(f'{site.urls.placement}/allocations/{uuid}', **_options())


def _options() -> dict[str, Any]:
    return {
        'headers': {
            'X-Auth-Token': config.TOKEN,
            'OpenStack-API-Version': 'placement 1.39',
        },
        'timeout': 30,
    }
