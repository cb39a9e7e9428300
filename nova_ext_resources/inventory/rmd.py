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

from collections.abc import Iterable, Mapping
import dataclasses
from typing import Any, ClassVar

from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources.conf import rmd as conf
from nova_ext_resources import exception
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import inventory as inventory_obj
from nova_ext_resources.objects import provider
from nova_ext_resources.objects import resource
from nova_ext_resources.plugins import base
from nova_ext_resources import rdt
from nova_ext_resources.rmd import demand
from nova_ext_resources.rmd import errors
from nova_ext_resources.rmd import loading
from nova_ext_resources.rmd import values

LOG = logging.getLogger(__name__)

#: RMD keeps the default class and ``COS1``, even if it is not configured.
KEPT_CLOSIDS = 2

#: RMD's plugin for P-states is loaded: ``resource:rmd:pstate_*`` can be had.
PSTATE_TRAIT = 'CUSTOM_RMD_PSTATE'

MAX_PERCENT = 100


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Offer:
    """One resource class of a cache."""

    name: str
    inventory: inventory_obj.Inventory
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    takes_class: bool = True


class RmdInventory(base.InventoryProvider):
    """Classes of service, and each last-level cache with its memory."""

    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = conf.OPTS

    def __init__(self, options: cfg.ConfigOpts.GroupAttr, host: str) -> None:
        super().__init__(options, host)
        self._client = loading.from_options(options)
        self._warned: set[str] = set()

    def definitions(self) -> tuple[resource.ResourceDefinition, ...]:
        return rdt.define(
            rdt.CLOS, rdt.WAYS, rdt.BURST, rdt.SHARED, rdt.PERCENT, rdt.MBPS
        )

    def discover(self) -> tuple[provider.HostProvider, ...]:
        try:
            # Between two changes: the pages are to tell the same story.
            with self._client.writing():
                caches = self._client.list_caches()
                workloads = self._client.list_workloads()
            bandwidth = self._find_bandwidth()
            traits = self._find_traits()
        except errors.RmdError as err:
            raise exception.DiscoveryFailed(
                plugin='rmd', reason=str(err)
            ) from err
        shared = self._find_places(workloads)
        return (
            self._make_rdt(workloads, traits),
            *(
                _make_cache(
                    cache,
                    (*self._list_ways(cache), *shared, *bandwidth),
                    traits,
                )
                for _id, cache in sorted(caches.items())
            ),
        )

    def _make_rdt(
        self, workloads: Iterable[values.Workload], traits: frozenset[str]
    ) -> provider.HostProvider:
        total = self._client.num_closids
        used = {one.cos_name for one in workloads if one.cos_name}
        free = max(total - KEPT_CLOSIDS - len(used), 0)
        return provider.HostProvider(
            key=rdt.RDT,
            inventories={
                rdt.CLOS: inventory_obj.Inventory(
                    total=total, reserved=KEPT_CLOSIDS, max_unit=1
                )
            },
            units={rdt.CLOS: {'free': free}},
            traits=traits,
        )

    def _list_ways(self, cache: values.Cache) -> Iterable[_Offer]:
        _check_readable(cache)
        free = cache.free.get(values.GUARANTEED, 0)
        yield _Offer(
            name=rdt.WAYS,
            inventory=inventory_obj.Inventory(total=cache.ways),
            facts={'free': bitmask.format_mask(free)},
        )
        total = self.options.burst_ways
        if total:
            count = self._count_free(
                'burst_ways', cache, values.BESTEFFORT, total
            )
            yield _Offer(
                name=rdt.BURST,
                inventory=inventory_obj.Inventory(total=total),
                facts={'free': count},
            )
        if self.options.shared_servers:
            self._count_free(
                'shared_servers', cache, values.SHARED, cache.ways
            )

    def _count_free(
        self, option: str, cache: values.Cache, pool: str, total: int
    ) -> int:
        """Count the free ways of a pool that an option tells to sell.

        :raises DiscoveryFailed: rmd.toml says otherwise
        """
        free = cache.free.get(pool)
        if free is not None and free.bit_count() <= total:
            return free.bit_count()
        ways = 'no ways' if free is None else f'{free.bit_count()} free ways'
        raise exception.DiscoveryFailed(
            plugin='rmd',
            reason=f'[ext_resources_rmd] {option} is '
            f'{getattr(self.options, option)}, but RMD has {ways} in its '
            f'pool {pool}; let it agree with [CachePool] {pool} of rmd.toml',
        )

    def _find_places(
        self, workloads: Iterable[values.Workload]
    ) -> tuple[_Offer, ...]:
        total = self.options.shared_servers
        if not total:
            return ()
        has_foreign = any(
            one.max_ways == one.min_ways == 0
            and one.workload_id != values.SHARED_ID
            for one in workloads
        )
        return (
            _Offer(
                name=rdt.SHARED,
                inventory=inventory_obj.Inventory(total=total, max_unit=1),
                # Beside one of others, RMD must not have one of ours.
                facts={'free': 0} if has_foreign else {},
                takes_class=False,
            ),
        )

    def _find_bandwidth(self) -> tuple[_Offer, ...]:
        mode = self._client.mba_mode
        if mode is None:
            return ()
        try:
            mba = self._client.get_mba()
        except errors.NotPermitted as err:
            self._warn(
                'no memory bandwidth is sold (set [ext_resources_rmd] '
                'mba_mode to none if none shall be)',
                err,
            )
            return ()
        if not (mba.is_supported and mba.is_enabled):
            return ()
        name = next(c for c, unit in demand.UNITS.items() if unit == mode)
        total, least, step = self.options.memory_bandwidth, 1, 1
        if mode == 'percentage':
            step = max(mba.step, 1)
            total, least = MAX_PERCENT, -(-max(mba.minimum, 1) // step) * step
        if total < least:
            return ()
        return (
            _Offer(
                name=name,
                inventory=inventory_obj.Inventory(
                    total=total, min_unit=least, step_size=step
                ),
                facts={'step': step},
            ),
        )

    def _find_traits(self) -> frozenset[str]:
        try:
            if self._client.has_plugin(demand.PSTATE):
                return frozenset({PSTATE_TRAIT})
        except errors.NotPermitted as err:
            self._warn(f'no provider gets the trait {PSTATE_TRAIT}', err)
        return frozenset()

    def _warn(self, effect: str, err: errors.RmdError) -> None:
        if effect in self._warned:
            return
        self._warned.add(effect)
        LOG.warning(
            'Host %(host)s: %(effect)s, because RMD does not tell: %(err)s',
            {'host': self.host, 'effect': effect, 'err': err},
        )


def _check_readable(cache: values.Cache) -> None:
    if cache.has_infra_group:
        raise exception.DiscoveryFailed(
            plugin='rmd',
            reason='RMD has an [InfraGroup], with which it reports no free '
            'ways at all; remove it from rmd.toml',
        )


def _make_cache(
    cache: values.Cache, offers: tuple[_Offer, ...], traits: frozenset[str]
) -> provider.HostProvider:
    return provider.HostProvider(
        key=rdt.make_l3_key(cache.cache_id),
        parent_key=rdt.RDT,
        inventories={one.name: one.inventory for one in offers},
        trackers={one.name: rdt.DEFINITIONS[one.name].type for one in offers},
        units={one.name: one.facts for one in offers if one.facts},
        implied={one.name: rdt.CLOS for one in offers if one.takes_class},
        cpus=bitmask.format_list(cache.cpus),
        traits=traits | {rdt.CAT_TRAIT},
    )
