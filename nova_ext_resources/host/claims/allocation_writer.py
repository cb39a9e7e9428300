# SPDX-License-Identifier: Apache-2.0

"""Has placement follow what a host decides.

The host chooses, within what placement has allocated to a server, another
cache domain where the CPUs are, or takes as much of each domain where some of
them are. Placement also tells whether a server gets back what a move has kept.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
import contextlib
import dataclasses
import functools

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.facts import consumer_role
from nova_ext_resources.host import manager
from nova_ext_resources.host import nova_compute
from nova_ext_resources.host.reconcile import allocation_swap
from nova_ext_resources.host.reconcile.rules import allocations as rules
from nova_ext_resources.host.reconcile.rules import migrations
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import requirements
from nova_ext_resources.placement import allocations
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.api import retry
from nova_ext_resources import worker

LOG = logging.getLogger(__name__)


class AllocationWriter:
    """Of one host. Safe to be used by several threads.

    :param client: of placement
    :param loops: woken after placement was asked to follow a claim
    """

    def __init__(
        self,
        host: manager.HostManager,
        compute: nova_compute.NovaCompute,
        client: placement_client.Client,
        *,
        loops: worker.WorkerGroup,
    ) -> None:
        self._host = host
        self._client = client
        self._loops = loops
        self._swap = allocation_swap.AllocationSwap(host, compute, client)

    def read_anew(
        self, request: assignment.ClaimRequest
    ) -> assignment.ClaimRequest:
        """Return a request with what placement has allocated to it now.

        Nova has read that before a build, and another server may have
        exchanged it since.
        """
        uuid = request.server_uuid
        if self._swap.has_note(uuid):
            # Where it does not answer, the claim fails when it is followed.
            with contextlib.suppress(exception.PlacementError):
                return dataclasses.replace(
                    request,
                    allocations=self._client.get_allocations(uuid).resources,
                )
        return request

    def follow(
        self, request: assignment.ClaimRequest, entry: assignment.Entry
    ) -> None:
        """Have placement follow a claim.

        :param entry: as the host has returned it
        :raises ExtResourcesError: nothing is held but what a guest that may
            run had before, unless Nova has used the claim already
        """
        try:
            self._move_all(request, entry)
        except exception.ExtResourcesError:
            self._host.undo(entry)
            raise
        else:
            self._host.settle(entry)
        finally:
            self._loops.wake_soon()

    def restore(
        self, request: assignment.ClaimRequest, *, is_applied: bool
    ) -> assignment.Entry | None:
        """Make a lost entry again, and have placement follow a new claim.

        A guest keeps what it runs with, also where placement refuses that: the
        comparison has placement follow, or tells.

        :raises ExtResourcesError: see :meth:`.ClaimManager.restore` and
            :meth:`follow`
        """
        entry = self._host.restore(request, is_applied=is_applied)
        if entry is not None and is_applied:
            self._loops.wake_soon()
        elif entry is not None:
            self.follow(request, entry)
        return entry

    def forget(self, server_uuid: str) -> None:
        """Forget that its allocations may have been exchanged."""
        self._swap.take_note(server_uuid)

    def _move_all(
        self, request: assignment.ClaimRequest, entry: assignment.Entry
    ) -> None:
        # Placement has by the server's uuid what it allocates for a move.
        uuid = request.server_uuid
        allocated = self._confirm(uuid) or request.allocations
        for _attempt in range(retry.MAX_ATTEMPTS):
            moves = rules.list_moved(allocated, entry, self._host.view.keys)
            further = self._list_further(allocated, entry, request.requirement)
            spread = {name for _, name in further}
            try:
                # All domains of a class in one request, or none.
                self.move(uuid, (o for o in moves if o[0] not in spread))
                if further:
                    self.extend(uuid, further)
            except exception.NotFound:
                # Another server may have exchanged it since.
                allocated = self._client.get_allocations(uuid).resources
                if not allocated.keys() & self._host.view.keys.keys():
                    raise
            else:
                return
        raise exception.ConcurrentUpdate(
            action=f'move allocations of server {uuid}',
            detail='other servers keep exchanging the same allocations',
        )

    def _confirm(self, server_uuid: str) -> Mapping[str, Mapping[str, int]]:
        """Return what a server holds that may have been exchanged, or {}.

        Nobody else can exchange it from now on.

        :raises PlacementError: it may still be exchanged
        """
        if not self._swap.take_note(server_uuid):
            return {}
        try:
            return allocations.confirm_allocations(
                self._client, server_uuid
            ).resources
        except exception.PlacementError:
            self._swap.note(server_uuid)
            raise

    def move(
        self,
        consumer_uuid: str,
        moves: Iterable[rules.Move],
        settled: Set[str] = frozenset(),
    ) -> None:
        """Have placement allocate where the host has chosen.

        :param consumer_uuid: as placement knows it
        :param settled: servers that have started long ago, and that placement
            has elsewhere than the ledger, without a move of theirs
        :raises ExtResourcesError: it does not, or not all of it
        """
        places: dict[tuple[str, str], set[str]] = {}
        for resource_class, source, target in moves:
            places.setdefault((source, target), set()).add(resource_class)
        for (source, target), classes in places.items():
            LOG.info(
                'Host %(host)s: moving allocations of %(classes)s of server '
                '%(uuid)s to the domain of its CPUs',
                {
                    'host': self._host.host,
                    'classes': ' and '.join(sorted(classes)),
                    'uuid': consumer_uuid,
                },
            )
            allocations.move_allocations(
                self._client,
                consumer_uuid,
                from_rp_uuid=source,
                to_rp_uuid=target,
                resource_classes=classes,
                find_partner=functools.partial(
                    self._swap.find, source, target, settled
                ),
            )

    def _list_further(
        self,
        allocated: host_view.Amounts,
        entry: assignment.Entry,
        requirement: requirements.Requirement,
    ) -> Mapping[host_view.Place, int]:
        """Return all of an entry that has several domains, or had before.

        Nothing on a host that does not spread, and of several request groups:
        there, the server has the domains that placement has chosen, or as
        many others.
        """
        view = self._host.view
        if not view.constraints.spreads_pins:
            return {}
        own = view.keys
        found = rules.list_further(
            rules.count_allocated(
                {u: one for u, one in allocated.items() if u in own}
            ),
            rules.count_assigned(entry, own),
        )
        return {
            (rp_uuid, name): amount
            for (rp_uuid, name), amount in found.items()
            if requirement.is_in_one_group(name)
        }

    def extend(
        self, consumer_uuid: str, wanted: Mapping[host_view.Place, int]
    ) -> None:
        """Have placement allocate these, and no more of their classes here.

        :param wanted: all that a consumer holds of some classes on this host
        :raises CapacityExceeded: too much of it is allocated to others
        :raises PlacementError: it is not allocated
        """
        try:
            allocations.set_allocations(
                self._client, consumer_uuid, wanted, self._host.view.keys
            )
        except exception.AllocationRejected as err:
            shortfalls = tuple(self._list_shortfalls(consumer_uuid, wanted))
            if not shortfalls:
                # Others have made room since, or it is against a rule.
                raise
            raise exception.CapacityExceeded(
                host=self._host.host,
                consumer_uuid=consumer_uuid,
                shortfalls=shortfalls,
            ) from err

    def _list_shortfalls(
        self, consumer_uuid: str, wanted: Mapping[host_view.Place, int]
    ) -> Iterator[exception.Shortfall]:
        """Return what placement has not left for a consumer.

        :raises PlacementError: it does not answer
        """
        for (rp_uuid, name), amount in sorted(wanted.items()):
            found = self._client.get_provider(rp_uuid).inventories.get(name)
            holders = self._client.list_holders(rp_uuid).get(name, {})
            used = sum(n for u, n in holders.items() if u != consumer_uuid)
            left = max((found.capacity if found else 0) - used, 0)
            if left < amount:
                yield exception.Shortfall(
                    rp_uuid=rp_uuid,
                    rp_key=self._host.view.keys.get(rp_uuid, ''),
                    resource_class=name,
                    requested=amount,
                    available=left,
                    reason='the CPUs of the server use this cache, but '
                    'placement has allocated the cache to other servers',
                )

    def find_role(
        self,
        source: assignment.Entry,
        request: assignment.ClaimRequest,
        consumer_uuid: str,
    ) -> consumer_role.Role:
        """Return what the entry of a move is: see :mod:`.rules.migrations`.

        :param source: of a move with which Nova does not go on
        :param request: of the server, which is on this host
        :param consumer_uuid: under which placement has what is allocated to
            the server here
        """
        uuid = source.server_uuid
        own = self._host.find_entry(uuid) if self._host.holds(uuid) else None
        try:
            return migrations.find_role(
                source,
                own,
                request,
                of_server=self._read_own(consumer_uuid, source, own),
                of_migration=self._read_own(source.consumer_uuid, source, own),
                spreads=self._host.view.constraints.spreads_pins,
            )
        except exception.PlacementError as err:
            LOG.warning(
                'Host %(host)s: the resources kept for a move of server '
                '%(uuid)s do not change until placement answers: %(err)s',
                {'host': self._host.host, 'uuid': uuid, 'err': err},
            )
            return consumer_role.Role.IN_DOUBT

    def is_allocated(self, entry: assignment.Entry) -> bool:
        """Return whether placement has anything of this host for an entry.

        Also Nova's own resources; for its consumer or for its server. True
        while that cannot be told.
        """
        own = {self._host.node.uuid, *self._host.view.keys}
        own.update(one.rp_uuid for one in entry.assignments)
        try:
            return any(
                own & self._client.get_allocations(uuid).resources.keys()
                for uuid in (entry.consumer_uuid, entry.server_uuid)
            )
        except exception.PlacementError as err:
            LOG.debug(
                'Allocations of consumer %(uuid)s in placement are not known: '
                '%(err)s',
                {'uuid': entry.consumer_uuid, 'err': err},
            )
            return True

    def _read_own(
        self, consumer_uuid: str, *entries: assignment.Entry | None
    ) -> Mapping[str, Mapping[str, int]]:
        """Return what placement has allocated to a consumer on this host.

        :param entries: whose providers are this host's, also where the last
            discovery has not found them
        :raises PlacementError: it does not answer
        """
        uuids = set(self._host.view.keys)
        for entry in filter(None, entries):
            uuids.update(one.rp_uuid for one in entry.assignments)
        found = self._client.get_allocations(consumer_uuid).resources
        return {uuid: one for uuid, one in found.items() if uuid in uuids}
