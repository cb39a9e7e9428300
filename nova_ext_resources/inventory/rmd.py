# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""What the Resource Management Daemon of this host manages."""

from typing import ClassVar

from oslo_config import cfg

from nova_ext_resources.conf import rmd as conf
from nova_ext_resources import exception
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import inventory as inventory_obj
from nova_ext_resources.objects import provider
from nova_ext_resources.objects import resource
from nova_ext_resources.plugins import base
from nova_ext_resources import rdt
from nova_ext_resources.rmd import client as rmd_client
from nova_ext_resources.rmd import errors
from nova_ext_resources.rmd import values

#: RMD keeps the default class and ``COS1``, even if it is not configured.
KEPT_CLOSIDS = 2


class RmdInventory(base.InventoryProvider):
    """Classes of service, and guaranteed ways of each last-level cache."""

    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = conf.OPTS

    def __init__(self, options: cfg.ConfigOpts.GroupAttr, host: str) -> None:
        super().__init__(options, host)
        self._client = rmd_client.from_options(options)

    def definitions(self) -> tuple[resource.ResourceDefinition, ...]:
        return rdt.define(rdt.CLOS, rdt.WAYS)

    def discover(self) -> tuple[provider.HostProvider, ...]:
        try:
            # Between two changes: the two pages are to tell the same story.
            with self._client.writing():
                caches = self._client.list_caches()
                workloads = self._client.list_workloads()
        except errors.RmdError as err:
            raise exception.DiscoveryFailed(
                plugin='rmd', reason=str(err)
            ) from err
        used = {one.cos_name for one in workloads if one.cos_name}
        return (
            self._make_rdt(len(used)),
            *(_make_cache(cache) for _id, cache in sorted(caches.items())),
        )

    def _make_rdt(self, used: int) -> provider.HostProvider:
        total = self._client.num_closids
        return provider.HostProvider(
            key=rdt.RDT,
            inventories={
                rdt.CLOS: inventory_obj.Inventory(
                    total=total, reserved=KEPT_CLOSIDS, max_unit=1
                )
            },
            units={rdt.CLOS: {'free': max(total - KEPT_CLOSIDS - used, 0)}},
        )


def _make_cache(cache: values.Cache) -> provider.HostProvider:
    if cache.has_infra_group:
        raise exception.DiscoveryFailed(
            plugin='rmd',
            reason='RMD has an [InfraGroup], with which it reports no free '
            'ways at all; remove it from rmd.toml',
        )
    free = cache.free.get(values.GUARANTEED, 0)
    return provider.HostProvider(
        key=rdt.make_l3_key(cache.cache_id),
        parent_key=rdt.RDT,
        inventories={rdt.WAYS: inventory_obj.Inventory(total=cache.ways)},
        trackers={rdt.WAYS: 'cache_ways'},
        units={rdt.WAYS: {'free': bitmask.format_mask(free)}},
        implied={rdt.WAYS: rdt.CLOS},
        cpus=bitmask.format_list(cache.cpus),
        traits=frozenset({rdt.CAT_TRAIT}),
    )
