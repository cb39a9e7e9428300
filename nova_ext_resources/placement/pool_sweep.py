# SPDX-License-Identifier: Apache-2.0

"""Deletes the sharing providers of pools that no host reaches any longer.

Only a host that reaches pools, or has just left one, looks for them: all
others send nothing.
"""

from collections.abc import Callable, Iterable
import dataclasses
import math
import time

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.objects import pool as pool_obj
from nova_ext_resources.objects import provider as provider_obj
from nova_ext_resources.placement import changes
from nova_ext_resources.placement import client as placement_client
from nova_ext_resources.placement import fields
from nova_ext_resources.placement import retry
from nova_ext_resources.placement import tree

LOG = logging.getLogger(__name__)

#: Seconds until the next try, after one that has failed or while servers hold
#: some of a pool that this host has left.
INTERVAL = 600.0

#: What all sharing providers of this package have, and no other has.
_OWN_TRAITS = (provider_obj.OWNER_TRAIT, provider_obj.SHARING_TRAIT)


class PoolSweeper:
    """Sweeps when there may be something to do; used by one thread at a time.

    :param sleep: waits between attempts; may be cut short
    :param on_deleted: called when a sharing provider was deleted
    """

    def __init__(
        self,
        client: placement_client.Client,
        *,
        sleep: Callable[[float], None] = time.sleep,
        on_deleted: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._fields = fields.FieldWriter(client)
        self._call = retry.make_strategy(sleep)
        self._on_deleted = on_deleted
        self._due_at = math.inf
        self._has_begun = False
        #: Aggregates of pools that this host has left.
        self._left: frozenset[str] = frozenset()
        self._held: tuple[changes.Held, ...] = ()

    def note(
        self, pools: Iterable[pool_obj.SharedPool], left: frozenset[str]
    ) -> None:
        """Note what the host reaches, and what it has just left.

        :param left: aggregates
        """
        pools = tuple(pools)
        own = {one.rp_uuid for one in pools}
        self._left = (self._left | left) - {p.aggregate_uuid for p in pools}
        self._held = tuple(h for h in self._held if h.rp_uuid not in own)
        if left or (pools and not self._has_begun):
            self._has_begun = True
            self._due_at = time.monotonic()

    def sweep(self, pools: Iterable[pool_obj.SharedPool]) -> tree.Published:
        """Delete the sharing providers that no host reaches, if it is time.

        Of any host: the last one that has left a pool may be gone. One that
        servers hold stays, closed to others; it is reported by hosts that
        have left it. An error is logged only: it is no fault of the host.

        :param pools: those of this host, which are not looked at
        """
        if time.monotonic() < self._due_at:
            return tree.Published(held=self._held)
        self._due_at = time.monotonic() + INTERVAL
        own = {one.rp_uuid for one in pools}
        try:
            done = self._sweep_all(own)
        except exception.ExtResourcesError as err:
            LOG.warning(
                'Could not look for pools that no host reaches any longer; '
                'the next try is in %(seconds)d seconds: %(err)s',
                {'seconds': INTERVAL, 'err': err},
            )
            return tree.Published(held=self._held)
        self._held = done.held
        self._left = frozenset(
            pool_obj.make_aggregate_uuid(one.rp_uuid) for one in done.held
        )
        if not done.held:
            self._due_at = math.inf
        return done

    def _sweep_all(self, own: set[str]) -> tree.Published:
        """Sweep all pools but some.

        :raises PlacementError: placement could not be read, or went away
        """
        done = tree.Published()
        for listed in self._call(self._list_owned):
            if not pool_obj.is_pool(listed) or listed.rp_uuid in own:
                continue
            try:
                done = done.add(self._call(self._remove_unreached, listed))
            except exception.NotFound:
                # Another host has deleted it.
                continue
        return done

    def _list_owned(self) -> tuple[provider_obj.Provider, ...]:
        try:
            return self._client.list_providers(required=','.join(_OWN_TRAITS))
        except exception.PlacementRefused:
            # It does not know the owner trait yet.
            return ()

    def _remove_unreached(
        self, listed: provider_obj.Provider
    ) -> tree.Published:
        """Delete a provider, or close it, if no host is tied to it.

        :raises NotFound: another host has deleted it
        :raises ConcurrentUpdate: something has changed meanwhile
        """
        rp_uuid = listed.rp_uuid
        members = self._client.list_providers(
            member_of=pool_obj.make_aggregate_uuid(rp_uuid)
        )
        if any(one.rp_uuid != rp_uuid for one in members):
            return tree.Published()
        try:
            self._client.delete_provider(rp_uuid)
        except exception.ProviderInUse:
            return self._close(listed)
        self._on_deleted()
        LOG.info(
            'Deleted resource provider %(name)s from placement: no host '
            'reaches this pool any longer',
            {'name': listed.name},
        )
        return tree.Published(written=1)

    def _close(self, listed: provider_obj.Provider) -> tree.Published:
        # As it is now: its generation may be newer than that of the list.
        seen = self._client.get_provider(listed.rp_uuid)
        target = dataclasses.replace(
            seen,
            inventories={
                name: dataclasses.replace(one, reserved=one.total)
                for name, one in seen.inventories.items()
            },
        )
        pending = changes.list_replacements(target, seen)
        for change in pending:
            seen = self._fields.write(change, seen)
        return tree.Published(
            written=int(bool(pending)), held=self._list_held(listed)
        )

    def _list_held(
        self, listed: provider_obj.Provider
    ) -> tuple[changes.Held, ...]:
        """Return who has some of a pool that this host has left.

        :raises ConcurrentUpdate: nobody has any more
        """
        if pool_obj.make_aggregate_uuid(listed.rp_uuid) not in self._left:
            return ()
        holders = self._client.list_holders(listed.rp_uuid)
        if not any(holders.values()):
            # Of the last one that was deleted after that.
            raise exception.ConcurrentUpdate(
                action=f'delete provider {listed.name}',
                detail='it was in use, and nobody holds any of it; delete '
                'what is below it, if anything is',
            )
        return tuple(
            changes.Held(
                name=listed.name,
                rp_uuid=listed.rp_uuid,
                resource_class=name,
                consumers=tuple(sorted(amounts)),
            )
            for name, amounts in sorted(holders.items())
        )
