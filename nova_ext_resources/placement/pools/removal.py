# SPDX-License-Identifier: Apache-2.0

"""Deletes the sharing providers of pools that no host reaches any longer.

Only a host that reaches pools, or has just left one, looks for them: all
others send nothing.
"""

from collections.abc import Callable, Iterable
import dataclasses
import math

from oslo_log import log as logging

from nova_ext_resources import clocks
from nova_ext_resources import exception
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import pool
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.api import retry
from nova_ext_resources.placement.publish import diff
from nova_ext_resources.placement.publish import provider_writer
from nova_ext_resources.placement.publish import tree_writer

LOG = logging.getLogger(__name__)

#: Seconds until the next try, after one that has failed or while servers hold
#: some of a pool that this host has left.
INTERVAL = 600.0

#: What all sharing providers of this package have, and no other has.
_OWN_TRAITS = (host_provider.OWNER_TRAIT, host_provider.SHARING_TRAIT)


class PoolSweeper:
    """Sweeps when there may be something to do; used by one thread at a time.

    :param clock: sleeps between attempts; may be cut short
    :param on_deleted: called when a sharing provider was deleted
    """

    def __init__(
        self,
        client: placement_client.Client,
        *,
        clock: clocks.Clock = clocks.MACHINE,
        on_deleted: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._fields = provider_writer.FieldWriter(client)
        self._clock = clock
        self._call = retry.make_strategy(clock)
        self._on_deleted = on_deleted
        self._due_at = math.inf
        self._has_begun = False
        #: Aggregates of pools that this host has left.
        self._left: frozenset[str] = frozenset()
        self._undeleted: tuple[diff.UndeletedProvider, ...] = ()

    def note(
        self, pools: Iterable[pool.SharedPool], left: frozenset[str]
    ) -> None:
        """Note what the host reaches, and what it has just left.

        :param left: aggregates
        """
        pools = tuple(pools)
        own = {one.rp_uuid for one in pools}
        self._left = (self._left | left) - {p.aggregate_uuid for p in pools}
        self._undeleted = tuple(
            h for h in self._undeleted if h.rp_uuid not in own
        )
        if left or (pools and not self._has_begun):
            self._has_begun = True
            self._due_at = self._clock.monotonic()

    def sweep(
        self, pools: Iterable[pool.SharedPool]
    ) -> tree_writer.PublishResult:
        """Delete the sharing providers that no host reaches, if it is time.

        Of any host: the last one that has left a pool may be gone. One that
        servers hold stays, closed to others; it is reported by hosts that
        have left it. An error is logged only: it is no fault of the host.

        :param pools: those of this host, which are not looked at
        """
        if self._clock.monotonic() < self._due_at:
            return tree_writer.PublishResult(undeleted=self._undeleted)
        self._due_at = self._clock.monotonic() + INTERVAL
        own = {one.rp_uuid for one in pools}
        try:
            done = self._sweep_all(own)
        except exception.ExtResourcesError as err:
            LOG.warning(
                'Could not look for pools that no host reaches any longer; '
                'the next try is in %(seconds)d seconds: %(err)s',
                {'seconds': INTERVAL, 'err': err},
            )
            return tree_writer.PublishResult(undeleted=self._undeleted)
        self._undeleted = done.undeleted
        self._left = frozenset(
            pool.make_aggregate_uuid(one.rp_uuid) for one in done.undeleted
        )
        if not done.undeleted:
            self._due_at = math.inf
        return done

    def _sweep_all(self, own: set[str]) -> tree_writer.PublishResult:
        """Sweep all pools but some.

        :raises PlacementError: placement could not be read, or went away
        """
        done = tree_writer.PublishResult()
        for listed in self._call(self._list_owned):
            if not pool.is_pool(listed) or listed.rp_uuid in own:
                continue
            try:
                done = done.add(self._call(self._remove_unreached, listed))
            except exception.NotFound:
                # Another host has deleted it.
                continue
        return done

    def _list_owned(self) -> tuple[host_provider.Provider, ...]:
        try:
            return self._client.list_providers(required=','.join(_OWN_TRAITS))
        except exception.PlacementRefused:
            # It does not know the owner trait yet.
            return ()

    def _remove_unreached(
        self, listed: host_provider.Provider
    ) -> tree_writer.PublishResult:
        """Delete a provider, or close it, if no host is tied to it.

        :raises NotFound: another host has deleted it
        :raises ConcurrentUpdate: something has changed meanwhile
        """
        rp_uuid = listed.rp_uuid
        members = self._client.list_providers(
            member_of=pool.make_aggregate_uuid(rp_uuid)
        )
        if any(one.rp_uuid != rp_uuid for one in members):
            return tree_writer.PublishResult()
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
        return tree_writer.PublishResult(written=1)

    def _close(
        self, listed: host_provider.Provider
    ) -> tree_writer.PublishResult:
        # As it is now: its generation may be newer than that of the list.
        seen = self._client.get_provider(listed.rp_uuid)
        target = dataclasses.replace(
            seen,
            inventories={
                name: dataclasses.replace(one, reserved=one.total)
                for name, one in seen.inventories.items()
            },
        )
        pending = diff.list_replacements(target, seen)
        for change in pending:
            seen = self._fields.write(change, seen)
        return tree_writer.PublishResult(
            written=int(bool(pending)), undeleted=self._list_undeleted(listed)
        )

    def _list_undeleted(
        self, listed: host_provider.Provider
    ) -> tuple[diff.UndeletedProvider, ...]:
        """Return who has some of a pool that this host has left.

        :raises ConcurrentUpdate: nobody has any more
        """
        if pool.make_aggregate_uuid(listed.rp_uuid) not in self._left:
            return ()
        holders = self._client.list_holders(listed.rp_uuid)
        if not any(holders.values()):
            # Of the last one that was deleted after that.
            raise exception.ConcurrentUpdate(
                action=f'delete provider {listed.name}',
                detail='placement reported the provider as in use, but it has '
                'no allocations; delete the providers below it, if there are '
                'any',
            )
        return tuple(
            diff.UndeletedProvider(
                name=listed.name,
                rp_uuid=listed.rp_uuid,
                resource_class=name,
                consumers=tuple(sorted(amounts)),
            )
            for name, amounts in sorted(holders.items())
        )
