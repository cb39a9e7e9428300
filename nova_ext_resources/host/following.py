# SPDX-License-Identifier: Apache-2.0

"""Has placement follow what a host decides.

The host chooses, within what placement has allocated to a server, another
cache domain where the CPUs are. Placement also tells whether a server gets
back what a move has kept.
"""

from collections.abc import Callable, Iterable, Mapping

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.host import audit_allocations
from nova_ext_resources.host import kept as kept_mod
from nova_ext_resources.host import resources as host_mod
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import role as role_obj
from nova_ext_resources.placement import allocations
from nova_ext_resources.placement import client as placement_client

LOG = logging.getLogger(__name__)


class Follower:
    """Of one host. Safe to be used by several threads.

    :param client: of placement
    :param on_claimed: called after placement was asked to follow a claim
    """

    def __init__(
        self,
        host: host_mod.HostResources,
        client: placement_client.Client,
        *,
        on_claimed: Callable[[], None],
    ) -> None:
        self._host = host
        self._client = client
        self._on_claimed = on_claimed

    def follow(
        self, request: assignment.ClaimRequest, entry: assignment.Entry
    ) -> None:
        """Have placement follow a claim.

        :raises ExtResourcesError: nothing is held
        """
        try:
            moves = audit_allocations.list_moved(
                request.allocations, entry, self._host.view.keys
            )
            # Placement has by the server's uuid what it allocates for a move.
            self.move(request.server_uuid, moves)
        except exception.ExtResourcesError:
            self._host.undo(request.consumer_uuid)
            raise
        finally:
            self._on_claimed()

    def move(
        self,
        consumer_uuid: str,
        moves: Iterable[audit_allocations.Move],
    ) -> None:
        """Have placement allocate where the host has chosen.

        :param consumer_uuid: as placement knows it
        :raises ExtResourcesError: it does not, or not all of it
        """
        for resource_class, source, target in moves:
            LOG.info(
                'Host %(host)s: moving %(class)s of %(uuid)s to the domain of '
                'its CPUs',
                {
                    'host': self._host.host,
                    'class': resource_class,
                    'uuid': consumer_uuid,
                },
            )
            allocations.move_allocation(
                self._client,
                consumer_uuid,
                from_rp_uuid=source,
                to_rp_uuid=target,
                resource_class=resource_class,
            )

    def find_role(
        self,
        kept: assignment.Entry,
        request: assignment.ClaimRequest,
        consumer_uuid: str,
    ) -> role_obj.Role:
        """Return what a move's entry is to its server, see :mod:`.kept`.

        :param kept: of a move with which Nova does not go on
        :param request: of the server, which is on this host
        :param consumer_uuid: under which placement has what is allocated to
            the server here
        """
        uuid = kept.server_uuid
        own = self._host.find_entry(uuid) if self._host.holds(uuid) else None
        try:
            return kept_mod.find_role(
                kept,
                own,
                request,
                of_server=self._read_own(consumer_uuid, kept, own),
                of_migration=self._read_own(kept.consumer_uuid, kept, own),
            )
        except exception.PlacementError as err:
            LOG.warning(
                'Host %(host)s: what a move of server %(uuid)s has kept stays '
                'as it is until placement answers: %(err)s',
                {'host': self._host.host, 'uuid': uuid, 'err': err},
            )
            return role_obj.Role.IN_DOUBT

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
