# SPDX-License-Identifier: Apache-2.0

"""What the Resource Management Daemon of this host manages."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, TypeAlias

from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources.conf.drivers import rmd
from nova_ext_resources.drivers import base
from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.rmd.api import client
from nova_ext_resources.drivers.rmd.api import errors
from nova_ext_resources.drivers.rmd.api import values
from nova_ext_resources.drivers.rmd import grants
from nova_ext_resources.drivers.rmd import loading
from nova_ext_resources.drivers.rmd import workload
from nova_ext_resources import exception
from nova_ext_resources import log_on_change
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import reserved_units
from nova_ext_resources.objects import resource

LOG = logging.getLogger(__name__)

#: RMD's plugin for P-states is loaded, which ``resource:rmd:pstate_*`` needs.
PSTATE_TRAIT = 'CUSTOM_RMD_PSTATE'

MAX_PERCENT = 100

#: Whose ways are not those of the resource class of guaranteed ways.
_POOLS = (values.BESTEFFORT, values.SHARED)

#: Resource class of a cache -> its inventory, and facts for its tracker.
Offers: TypeAlias = dict[
    str, tuple[class_inventory.Inventory, Mapping[str, Any]]
]


class RmdInventory(base.InventoryProvider):
    """Classes of service, and each last-level cache with its memory."""

    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = rmd.OPTS

    def __init__(
        self,
        options: cfg.ConfigOpts.GroupAttr,
        host: str,
        entries: base.EntriesReader = dict,
    ) -> None:
        super().__init__(options, host, entries)
        self._client = loading.from_options(options)
        self._logged = log_on_change.LogOnChange()

    def definitions(self) -> tuple[resource.ResourceDefinition, ...]:
        return classes.define(
            classes.CLOS,
            classes.WAYS,
            classes.BURST,
            classes.SHARED,
            classes.PERCENT,
            classes.MBPS,
        )

    def discover(self) -> tuple[host_provider.HostProvider, ...]:
        # A server that comes or goes in between is in one of both.
        before = self.list_entries()
        try:
            # The lock: both pages must show the same state of RMD.
            with self._client.writing():
                caches = self._client.list_caches()
                workloads = self._client.list_workloads()
            bandwidth = self._find_bandwidth()
            traits = self._find_traits()
        except errors.RmdError as err:
            raise _fail(str(err)) from err
        if any(cache.has_infra_group for cache in caches.values()):
            raise _fail(
                'RMD has an [InfraGroup] and therefore reports no free ways '
                'at all; remove [InfraGroup] from rmd.toml'
            )
        left = self._client.count_classes(workloads)
        entries = {**before, **self.list_entries()}
        common = {**self._find_places(workloads, left > 0), **bandwidth}
        return (
            make_rdt(
                self._client.num_closids,
                left,
                traits,
                pools=_count_pools(workloads),
            ),
            *(
                make_cache(
                    cache_id,
                    cache.cpus,
                    {**self._find_ways(cache), **common},
                    traits,
                    _find_reserved(cache, entries.values()),
                )
                for cache_id, cache in sorted(caches.items())
            ),
        )

    def _find_ways(self, cache: values.RmdCache) -> Offers:
        free = bitmask.format_mask(cache.free.get(values.GUARANTEED, 0))
        offers: Offers = {
            classes.WAYS: (
                class_inventory.Inventory(total=cache.ways),
                {'free': free},
            )
        }
        total = self.options.burst_ways
        if total:
            count = self._count_free(
                'burst_ways', cache, values.BESTEFFORT, total
            )
            offers[classes.BURST] = (
                class_inventory.Inventory(total=total),
                {'free': count},
            )
        if self.options.shared_servers:
            self._count_free(
                'shared_servers', cache, values.SHARED, cache.ways
            )
        return offers

    def _count_free(
        self, option: str, cache: values.RmdCache, pool: str, total: int
    ) -> int:
        """Count the free ways of a pool that an option refers to.

        :raises DiscoveryFailed: rmd.toml contradicts the option
        """
        free = cache.free.get(pool)
        if free is not None and free.bit_count() <= total:
            return free.bit_count()
        ways = 'no ways' if free is None else f'{free.bit_count()} free ways'
        raise _fail(
            f'[ext_resources_rmd] {option} is {self.options[option]}, but RMD '
            f'has {ways} in its pool {pool}; make this option agree with '
            f'[CachePool] {pool} of rmd.toml'
        )

    def _find_places(
        self, workloads: Iterable[values.RmdWorkload], has_class: bool
    ) -> Offers:
        """Return the places of the shared pool.

        :param has_class: whether a class of service is left for the pool
        """
        total = self.options.shared_servers
        if not total:
            return {}
        in_pool = {one.workload_id for one in workloads if one.is_shared}
        # A second shared workload keeps RMD from starting again.
        is_closed = bool(in_pool - {values.SHARED_ID})
        if not in_pool and not has_class:
            is_closed = True
            self._warn(
                'no place in the shared pool is offered',
                'RMD has no class of service left for the pool; delete a '
                'server that has ways of its own, or restart RMD if the alarm '
                'restart_needed is raised',
            )
        return {
            classes.SHARED: (
                class_inventory.Inventory(total=total, max_unit=1),
                {'free': 0} if is_closed else {},
            )
        }

    def _find_bandwidth(self) -> Offers:
        mode = self._client.mba_mode
        if mode is None:
            return {}
        try:
            mba = self._client.get_mba()
        except errors.NotPermitted as err:
            self._warn(
                'no memory bandwidth is published (if you want none, set '
                '[ext_resources_rmd] mba_mode to none)',
                f'RMD refused to report its memory bandwidth: {err}',
            )
            return {}
        if mba is None:
            return {}
        total, least, step = self.options.memory_bandwidth, 1, 1
        if mode == 'percentage':
            step = max(mba.step, 1)
            total, least = MAX_PERCENT, -(-max(mba.minimum, 1) // step) * step
        if total < least:
            return {}
        if not self._client.list_groups():
            reason = 'the control groups of RMD in resctrl cannot be read'
            self._warn('no limit of memory bandwidth is verified', reason)
        inventory = class_inventory.Inventory(
            total=total, min_unit=least, step_size=step
        )
        return {workload.CLASSES[mode]: (inventory, {'step': step})}

    def _find_traits(self) -> frozenset[str]:
        try:
            if self._client.has_plugin(workload.PSTATE):
                return frozenset({PSTATE_TRAIT})
        except errors.NotPermitted as err:
            self._warn(
                f'no resource provider gets trait {PSTATE_TRAIT}',
                f'RMD refused to report its plugins: {err}',
            )
        return frozenset()

    def _warn(self, effect: str, reason: str) -> None:
        """Log it once."""
        if self._logged.note(effect, effect):
            LOG.warning(
                'Host %(host)s: %(effect)s, because %(reason)s',
                {'host': self.host, 'effect': effect, 'reason': reason},
            )


def _fail(reason: str) -> exception.DiscoveryFailed:
    return exception.DiscoveryFailed(plugin='rmd', reason=reason)


def _count_pools(workloads: Iterable[values.RmdWorkload]) -> int:
    """Count the classes of service of the shared pool: one, or none."""
    return len({one.cos_name for one in workloads if one.is_shared} - {''})


def _find_reserved(
    cache: values.RmdCache, entries: Iterable[assignment.Entry]
) -> reserved_units.Reserved:
    """Return what has reserved ways, as far as RMD reports it.

    It reports the ways of each pool that no control group uses. Of the others,
    only the ledger has those of burst servers.
    """
    burst = (
        grants.read(entry, classes.BURST).get(cache.cache_id, 0)
        for entry in entries
    )
    pools = (cache.free.get(one, 0) for one in _POOLS)
    return reserved_units.Reserved(
        host=cache.free.get(values.OS, 0),
        pools=bitmask.unite((*burst, *pools)),
    )


def make_rdt(
    total: int,
    free: int | None = None,
    traits: frozenset[str] = frozenset(),
    pools: int = 0,
) -> host_provider.HostProvider:
    """Return the provider of classes of service.

    :param free: classes that neither servers have, nor RMD has lost; None:
        all that RMD does not keep
    :param pools: those of the shared pool among the others
    """
    if free is None:
        free = total - client.KEPT_CLOSIDS
    inventory = class_inventory.Inventory(
        total=total, reserved=client.KEPT_CLOSIDS, max_unit=1
    )
    return host_provider.HostProvider(
        key=classes.RDT,
        inventories={classes.CLOS: inventory},
        units={classes.CLOS: {'free': free}},
        traits=traits,
        reserved={
            classes.CLOS: reserved_units.Reserved(
                host=client.KEPT_CLOSIDS, pools=pools
            )
        },
    )


def make_cache(
    cache_id: int,
    cpus: Iterable[int],
    offers: Offers,
    traits: frozenset[str] = frozenset(),
    reserved: reserved_units.Reserved | None = None,
) -> host_provider.HostProvider:
    """Return the provider of one last-level cache and its memory.

    :param reserved: what has the ways that servers cannot have
    """
    return host_provider.HostProvider(
        key=classes.make_l3_key(cache_id),
        parent_key=classes.RDT,
        inventories={name: one for name, (one, _facts) in offers.items()},
        trackers={name: classes.DEFINITIONS[name].type for name in offers},
        units={name: facts for name, (_one, facts) in offers.items() if facts},
        # All servers of the shared pool use one class of service.
        implied={
            name: classes.CLOS for name in offers if name != classes.SHARED
        },
        cpus=bitmask.format_list(cpus),
        traits=traits | {classes.CAT_TRAIT},
        reserved={classes.WAYS: reserved} if reserved else {},
    )
