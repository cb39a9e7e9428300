# SPDX-License-Identifier: Apache-2.0

"""Writes the sharing providers of pools that belong to no host.

All hosts that reach a pool do so, none of them leads. The uuid is that of the
pool's name, so that the first one creates it for all, and the generation lets
each write only what it has decided on the present state. What ties a host to
the pool is a provider in the host's own tree: no host writes another's.
"""

from collections.abc import Callable, Iterable
import dataclasses
import time
from typing import TypeAlias

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import inventory as inventory_obj
from nova_ext_resources.objects import pool as pool_obj
from nova_ext_resources.objects import provider as provider_obj
from nova_ext_resources.placement import changes
from nova_ext_resources.placement import client as placement_client
from nova_ext_resources.placement import fields
from nova_ext_resources.placement import pool_target
from nova_ext_resources.placement import retry
from nova_ext_resources.placement import tree

LOG = logging.getLogger(__name__)

_Written: TypeAlias = tuple[pool_obj.SharedPool, inventory_obj.Inventory]


class PoolWriter:
    """Publishes pools; used by one thread at a time.

    :param sleep: waits between attempts; may be cut short
    """

    def __init__(
        self,
        client: placement_client.Client,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._fields = fields.FieldWriter(client)
        self._call = retry.make_strategy(sleep)
        self._seen: dict[str, provider_obj.Provider] = {}
        #: Each pool as this host last wrote it: entry and inventory.
        self._written: dict[str, _Written] = {}

    def publish(self, pools: Iterable[pool_obj.SharedPool]) -> tree.Published:
        """Have placement show what has been read of the pools.

        What cannot be read now stays as it is: another host may have read it
        since.

        :raises PlacementUnavailable: placement went away
        """
        done = tree.Published()
        for pool in pools:
            if pool.reading is None or pool.is_failing:
                continue
            try:
                done = done.add(self._call(self._settle, pool, pool.reading))
            except exception.PlacementUnavailable:
                raise
            except exception.PlacementError as err:
                self._fields.forget_names()
                done = done.add(tree.Published(errors=(err,)))
        return done

    def _settle(
        self, pool: pool_obj.SharedPool, reading: pool_obj.Reading
    ) -> tree.Published:
        """Bring one sharing provider to what it shall be.

        :raises ConcurrentUpdate: another host, or an allocation, was faster
        """
        seen = self._find(pool.rp_uuid)
        is_new = seen is None
        if seen is None:
            seen = self._client.ensure_provider(
                pool.rp_uuid, pool.rp_name, None
            )
        with fields.as_conflict(pool.rp_name):
            used = self._client.list_usages(pool.rp_uuid)
        problems = [
            self._find_conflict(pool, seen),
            pool_target.find_problem(
                pool, reading, used.get(pool.resource_class, 0)
            ),
        ]
        target = pool_target.make_target(pool, reading, seen, used)
        pending = changes.list_replacements(target, seen)
        for change in pending:
            LOG.debug('Placement: %(change)s', {'change': change})
            seen = self._fields.write(change, seen)
        self._seen[pool.rp_uuid] = seen
        self._written[pool.rp_uuid] = (
            _get_entry(pool),
            seen.inventories[pool.resource_class],
        )
        return tree.Published(
            written=int(is_new or bool(pending)),
            problems=tuple(filter(None, problems)),
        )

    def _find_conflict(
        self, pool: pool_obj.SharedPool, seen: provider_obj.Provider
    ) -> alarm.Problem | None:
        """Report that other hosts have another entry for a pool."""
        entry, inventory = self._written.get(pool.rp_uuid, (None, None))
        # One that another host has just made again has no inventory at all.
        if (
            inventory is None
            or entry != _get_entry(pool)
            or not seen.inventories
        ):
            return None
        return pool_target.find_conflict(
            pool, inventory, seen.inventories.get(pool.resource_class)
        )

    def _find(self, rp_uuid: str) -> provider_obj.Provider | None:
        """Read a provider, unless it is as it was seen last."""
        known = self._seen.pop(rp_uuid, None)
        for listed in self._client.list_providers(in_tree=rp_uuid):
            if known is not None and known.generation == listed.generation:
                return known
            with fields.as_conflict(listed.name):
                return self._client.read_provider(listed)
        return None


def _get_entry(pool: pool_obj.SharedPool) -> pool_obj.SharedPool:
    """Return a pool without what was read of it."""
    return dataclasses.replace(pool, reading=None, is_failing=False)
