# SPDX-License-Identifier: Apache-2.0

"""Seats of the floating licences that are bound to this host.

The licence daemon writes one file for each product, such as
``solver.json`` with ``{"seats": 12, "free": 9}``.
"""

import json
import pathlib

from nova_ext_resources.drivers import base
from nova_ext_resources import exception
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import resource
import os_traits
from oslo_config import cfg

SEAT = 'CUSTOM_ACME_SEAT'


class LicenceInventory(base.InventoryProvider):
    """Reports the seats of each product as a provider of its own."""

    OPTIONS = (
        cfg.StrOpt(
            'folder',
            default='/var/lib/acme/licences',
            help='Folder with one file for each product, <product>.json.',
        ),
    )

    def definitions(self) -> tuple[resource.ResourceDefinition, ...]:
        return (
            resource.ResourceDefinition(
                name=SEAT,
                units='seats',
                description='Seats of the licence of an Acme product.',
            ),
        )

    def discover(self) -> tuple[host_provider.HostProvider, ...]:
        folder = pathlib.Path(self.options.folder)
        try:
            # glob() would take a folder that is gone for an empty one.
            paths = sorted(p for p in folder.iterdir() if p.suffix == '.json')
            return tuple(map(_read, paths))
        except OSError as err:
            raise self._fail(f'{err}; is the licence daemon running?') from err
        except (ValueError, exception.InvalidResource) as err:
            raise self._fail(f'{err}; see the licence daemon') from err

    def _fail(self, reason: str) -> exception.DiscoveryFailed:
        return exception.DiscoveryFailed(plugin='acme_licences', reason=reason)


def _read(path: pathlib.Path) -> host_provider.HostProvider:
    trait = os_traits.normalize_name(f'ACME_{path.stem}')
    try:
        data = json.loads(path.read_text(encoding='utf-8'))
        seats, free = data['seats'], int(data['free'])
    except (ValueError, KeyError, TypeError) as err:
        raise ValueError(f'{path} has no seats and free: {err!r}') from err
    return host_provider.HostProvider(
        key=trait.removeprefix('CUSTOM_'),
        inventories={SEAT: class_inventory.Inventory(total=seats)},
        # What others use is found by comparing this with what servers hold.
        units={SEAT: {'free': free}},
        traits=frozenset({trait}),
    )
