# SPDX-License-Identifier: Apache-2.0

"""Reads all that the audit compares, and what seems wrong a second time.

Placement first, and Nova then, both times: Nova has a server before placement
allocates anything to it, and a migration before it holds anything.
"""

from collections.abc import Collection, Iterable
import dataclasses
import itertools

from osc_lib import exceptions

from nova_ext_resources.cmd.osc import nova as nova_mod
from nova_ext_resources import exception
from nova_ext_resources.inspection.audit import cloud as cloud_mod
from nova_ext_resources.inspection.audit import finding
from nova_ext_resources.inspection.audit import providers
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import planned_hold
from nova_ext_resources.objects import pool
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.api import retry
from nova_ext_resources.placement import cloud_snapshot
from nova_ext_resources.reservation import nova_server


#: Of how many projects, and of each how many servers at most, Nova is asked
#: whether it shows them.
_MOST_PROJECTS = 2
_MOST_SERVERS = 3


class AuditReader:
    """Reads with the credentials of the user of the client."""

    def __init__(
        self, placement: placement_client.Client, nova: nova_mod.Nova
    ) -> None:
        self._placement = placement
        self._nova = nova

    def read(self) -> cloud_mod.AuditedCloud:
        """Return the whole cloud.

        :raises CommandError: Nova shows none of the hosts of placement, or
            does not reach a cell
        :raises ComputeUnavailable: Nova does not answer
        :raises PlacementError: placement cannot be read
        """
        listed = self._list_providers()
        owned = self._read_owned(listed, self._find_owned(listed))
        cloud = cloud_mod.AuditedCloud(
            listed=listed,
            owned=owned,
            reached=self._find_reached(listed, owned),
            nodes={},
            servers={},
        )
        cloud = dataclasses.replace(
            cloud,
            servers={one.uuid: one for one in self._nova.list_servers()},
            moves=cloud_mod.index_moves(self._nova.list_open_migrations()),
        )
        self._check_rights(cloud)
        cloud = self._add_unknown(self._add_nodes(cloud))
        _check(cloud)
        return cloud

    def _check_rights(self, cloud: cloud_mod.AuditedCloud) -> None:
        """Make sure that Nova shows servers one by one, as it lists them.

        It hides those of other projects from a user who is no administrator
        by ``context_is_admin``, whatever other policies allow.

        :raises CommandError: it shows none of some that it has listed
        """
        by_project: dict[str, list[str]] = {}
        for one in cloud.servers.values():
            by_project.setdefault(one.project, []).append(one.uuid)
        for uuids in itertools.islice(by_project.values(), _MOST_PROJECTS):
            # Any of them may be deleted just now.
            some = uuids[:_MOST_SERVERS]
            if all(self._nova.find_server(one) is None for one in some):
                raise exceptions.CommandError(
                    f'Nova lists server {some[0]}, but does not show the '
                    'server to this user, so nothing was compared. Use a user '
                    'who is an administrator by the policy "context_is_admin".'
                )

    def read_again(
        self, cloud: cloud_mod.AuditedCloud, found: Iterable[finding.Finding]
    ) -> cloud_mod.AuditedCloud:
        """Return the cloud with all anew that seems to be wrong.

        :raises CommandError: Nova does not reach a cell
        :raises ComputeUnavailable: Nova does not answer
        :raises PlacementError: placement cannot be read
        """
        found = tuple(found)
        listed = self._list_providers()
        suspects = {one.rp_uuid for one in found} & cloud.owned.keys()
        owned = {
            **{k: v for k, v in cloud.owned.items() if k not in suspects},
            **self._read_owned(listed, suspects & listed.keys()),
        }
        servers = {one.server for one in found} - {''}
        consumers = sorted({one.consumer for one in found} - {''} | servers)
        fresh = cloud_snapshot.run_all(
            lambda one: retry.call(self._placement.get_allocations, one),
            consumers,
        )
        cloud = dataclasses.replace(
            cloud,
            listed=listed,
            owned=owned,
            reached=self._find_reached(listed, owned),
            fresh=dict(zip(consumers, fresh, strict=True)),
        )
        return self._ask_again(cloud, servers)

    def _ask_again(
        self, cloud: cloud_mod.AuditedCloud, servers: set[str]
    ) -> cloud_mod.AuditedCloud:
        """Ask Nova for some servers, and for what is still unknown."""
        moves = cloud_snapshot.run_all(
            lambda one: [*self._nova.list_migrations(instance_uuid=one)],
            sorted(servers),
        )
        cloud = dataclasses.replace(
            cloud,
            servers={
                k: v for k, v in cloud.servers.items() if k not in servers
            },
            absent=frozenset(),
            moves={
                **{
                    k: v
                    for k, v in cloud.moves.items()
                    if v.server_uuid not in servers
                },
                **cloud_mod.index_moves(one for each in moves for one in each),
            },
        )
        cloud = self._add_unknown(cloud, servers)
        return self._add_nodes(cloud)

    def _add_nodes(
        self, cloud: cloud_mod.AuditedCloud
    ) -> cloud_mod.AuditedCloud:
        """Add the hypervisors, after all else that is read of Nova.

        :raises CommandError: a cell does not answer
        """
        nodes = [*self._nova.list_nodes()]
        services = self._nova.list_compute_services()
        if None in services.values():
            raise exceptions.CommandError(
                'A cell of Nova does not answer ("openstack compute service '
                'list" shows its hosts as UNKNOWN), so Nova does not show the '
                'servers of the cell, and nothing was compared. Audit again '
                'when the cell answers.'
            )
        return dataclasses.replace(
            cloud,
            nodes={one.name: one.uuid for one in nodes},
            unmapped=frozenset(services.keys() - {one.host for one in nodes}),
        )

    def _list_providers(self) -> dict[str, host_provider.Provider]:
        found = retry.call(self._placement.list_providers)
        return {one.rp_uuid: one for one in found}

    def _find_owned(
        self, listed: dict[str, host_provider.Provider]
    ) -> set[str]:
        """Return the providers of this package, also those without its trait.

        Never the root of a host, whatever traits it has: that is Nova's.
        """
        try:
            marked = retry.call(
                self._placement.list_providers,
                required=host_provider.OWNER_TRAIT,
            )
        except exception.PlacementRefused:
            # Placement has no such trait.
            marked = ()
        made = {
            one.rp_uuid
            for one in listed.values()
            if pool.is_pool(one)
            or providers.is_made_by_us(
                one, listed[cloud_snapshot.find_root(one.rp_uuid, listed)]
            )
        }
        return (made | {one.rp_uuid for one in marked}) & listed.keys()

    def _read_owned(
        self,
        listed: dict[str, host_provider.Provider],
        rp_uuids: Collection[str],
    ) -> dict[str, cloud_mod.Owned]:
        """Return providers; those that have gone meanwhile are left out."""
        found = cloud_snapshot.run_all(
            self._read_one, [listed[one] for one in sorted(rp_uuids)]
        )
        return {one.provider.rp_uuid: one for one in found if one is not None}

    def _read_one(
        self, listed: host_provider.Provider
    ) -> cloud_mod.Owned | None:
        try:
            provider = retry.call(self._placement.read_provider, listed)
            if listed.parent_uuid is None and not pool.is_pool(listed):
                # What it has may be Nova's.
                return cloud_mod.Owned(
                    provider=dataclasses.replace(provider, inventories={})
                )
            holders = retry.call(self._placement.list_holders, listed.rp_uuid)
        except exception.NotFound:
            return None
        return cloud_mod.Owned(provider=provider, holders=holders)

    def _find_reached(
        self,
        listed: dict[str, host_provider.Provider],
        owned: dict[str, cloud_mod.Owned],
    ) -> dict[str, frozenset[str]]:
        roots = {one: cloud_snapshot.find_root(one, listed) for one in listed}
        return {
            rp_uuid: frozenset(
                cloud_snapshot.find_reaching(self._placement, rp_uuid, roots)
            )
            for rp_uuid, one in owned.items()
            if one.is_pool
        }

    def _add_unknown(
        self,
        cloud: cloud_mod.AuditedCloud,
        servers: Collection[str] = (),
    ) -> cloud_mod.AuditedCloud:
        """Add the servers and migrations that hold something.

        Nova lists no server that is deleted but can be restored.

        :param servers: more of them
        """
        unknown = {
            one
            for one in cloud.allocations.keys()
            - cloud.servers.keys()
            - cloud.moves.keys()
            if not _is_hold(cloud, one)
        }
        moves = {**cloud.moves, **self._find_migrations(unknown - {*servers})}
        wanted = (unknown - moves.keys()) | {*servers}
        known, absent = self._find_servers(wanted - cloud.servers.keys())
        return dataclasses.replace(
            cloud,
            servers={**cloud.servers, **known},
            absent=absent,
            moves=moves,
        )

    def _find_migrations(
        self, wanted: set[str]
    ) -> dict[str, cloud_mod.NovaMigration]:
        """Return those of some uuids, of any status.

        All are listed at once: one that goes on while statuses are asked for
        one after the other could be missed.
        """
        found: dict[str, cloud_mod.NovaMigration] = {}
        if wanted:
            for one in self._nova.list_migrations():
                if one.uuid in wanted:
                    found[one.uuid] = one
                if wanted <= found.keys():
                    break
        return found

    def _find_servers(
        self, uuids: set[str]
    ) -> tuple[dict[str, nova_server.NovaServer], frozenset[str]]:
        """Return those that Nova has, and the uuids of others."""
        wanted = sorted(uuids)
        found = zip(
            wanted,
            cloud_snapshot.run_all(self._nova.find_server, wanted),
            strict=True,
        )
        known = {uuid: one for uuid, one in found if one is not None}
        return known, frozenset(uuids - known.keys())


def _is_hold(cloud: cloud_mod.AuditedCloud, consumer: str) -> bool:
    """Return whether a consumer holds room for reserved servers.

    They are many. Before each is read for itself, its uuid tells it apart.
    """
    fresh = cloud.fresh.get(consumer)
    if fresh is None:
        return planned_hold.may_be_hold(consumer)
    return fresh.consumer_type == planned_hold.CONSUMER_TYPE


def _check(cloud: cloud_mod.AuditedCloud) -> None:
    """Make sure that both services are of the same cloud.

    :raises CommandError: Nova shows none of the hosts of placement
    """
    roots = {cloud.find_root(one) for one in cloud.owned}
    hosts = {one for one in roots if one not in cloud.owned}
    if hosts and not hosts & cloud.roots:
        raise exceptions.CommandError(
            f'Nova shows none of the {len(hosts)} hosts that have extended '
            'resources in placement, so nothing was compared. Check the '
            'region and the endpoints that the client uses, and whether this '
            'user may list hypervisors.'
        )
