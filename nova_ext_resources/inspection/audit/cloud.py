# SPDX-License-Identifier: Apache-2.0

"""What placement and Nova show, as values."""

from collections.abc import Iterable, Mapping
import dataclasses
import functools
from typing import TypeAlias

from nova_ext_resources.facts import consumer_role
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import pool
from nova_ext_resources.placement.api import responses
from nova_ext_resources.reservation import nova_server

_Phase = consumer_role.MigrationPhase

#: rp_uuid -> resource class -> amount, of one consumer.
Allocated: TypeAlias = Mapping[str, Mapping[str, int]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Hypervisor:
    """A hypervisor of Nova.

    :ivar uuid: which is that of its root provider
    :ivar host: of its nova-compute
    :ivar is_up: whether that reports, and was not forced down
    """

    name: str
    uuid: str
    host: str
    is_up: bool = True


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NovaMigration:
    """A migration of Nova, of any type.

    :ivar kind: such as ``live-migration``
    :ivar source: the hypervisor that the server leaves
    :ivar is_old: whether it has not changed for longer than Nova needs
    """

    uuid: str
    server_uuid: str
    status: str
    kind: str = ''
    source: str = ''
    is_old: bool = False


def index_moves(moves: Iterable[NovaMigration]) -> dict[str, NovaMigration]:
    """Return uuid -> migration.

    A migration to another cell has a record in each of them, both with its
    uuid; of two in one answer Nova shows the one that was changed last. Of
    two that it does show, the one that goes on is taken.
    """
    found: dict[str, NovaMigration] = {}
    for one in moves:
        if one.uuid not in found or (
            consumer_role.find_phase(one.kind, one.status) is not _Phase.ENDED
        ):
            found[one.uuid] = one
    return found


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """A provider of this package.

    :ivar holders: resource class -> consumer -> amount
    """

    provider: host_provider.Provider
    holders: Mapping[str, Mapping[str, int]] = dataclasses.field(
        default_factory=dict
    )

    @property
    def is_pool(self) -> bool:
        """Whether all hosts that reach it share it."""
        return pool.is_pool(self.provider)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AuditedCloud:
    """All that is compared.

    Placement was read first, and Nova then: what a server has been given
    meanwhile is missing here, and not the server.

    :ivar listed: all providers, by uuid, without what belongs to them
    :ivar owned: those of this package
    :ivar reached: sharing provider -> the roots of the hosts that reach it
    :ivar nodes: name of a hypervisor -> its uuid, which is that of its root
    :ivar unmapped: hosts of nova-computes whose hypervisors Nova does not
        list, as those of a host that is in no cell yet
    :ivar servers: uuid -> server
    :ivar absent: uuids that are no server's, as Nova was asked for each
    :ivar moves: uuid -> migration
    :ivar fresh: consumer -> all that it holds, where that was read for itself
    """

    listed: Mapping[str, host_provider.Provider]
    owned: Mapping[str, Owned]
    reached: Mapping[str, frozenset[str]]
    nodes: Mapping[str, str]
    servers: Mapping[str, nova_server.NovaServer]
    unmapped: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    moves: Mapping[str, NovaMigration] = dataclasses.field(
        default_factory=dict
    )
    fresh: Mapping[str, responses.Allocations] = dataclasses.field(
        default_factory=dict
    )

    @functools.cached_property
    def allocations(self) -> Mapping[str, Allocated]:
        """Consumer -> what it holds: of our providers, or all if fresh."""
        found: dict[str, dict[str, dict[str, int]]] = {}
        for rp_uuid, one in self.owned.items():
            for name, amounts in one.holders.items():
                for consumer, amount in amounts.items():
                    allocated = found.setdefault(consumer, {})
                    allocated.setdefault(rp_uuid, {})[name] = amount
        return {
            **found,
            **{uuid: one.resources for uuid, one in self.fresh.items()},
        }

    @functools.cached_property
    def classes(self) -> frozenset[str]:
        """The resource classes of this package that any host has."""
        return frozenset(
            name
            for one in self.owned.values()
            for name in (*one.provider.inventories, *one.holders)
        )

    @functools.cached_property
    def roots(self) -> frozenset[str]:
        """The roots of the hosts that Nova has."""
        return frozenset(self.nodes.values())

    @functools.cached_property
    def moves_of(self) -> Mapping[str, tuple[NovaMigration, ...]]:
        """Server -> its migrations."""
        found: dict[str, tuple[NovaMigration, ...]] = {}
        for one in self.moves.values():
            found[one.server_uuid] = (*found.get(one.server_uuid, ()), one)
        return found

    def find_root(self, rp_uuid: str) -> str:
        """Return the root of a provider, which may be itself."""
        seen = {rp_uuid}
        while one := self.listed.get(rp_uuid):
            if one.parent_uuid is None or one.parent_uuid in seen:
                break
            rp_uuid = one.parent_uuid
            seen.add(rp_uuid)
        return rp_uuid

    def find_depth(self, rp_uuid: str) -> int:
        """Return how many providers are above one."""
        root, depth = self.find_root(rp_uuid), 0
        while rp_uuid != root:
            rp_uuid = self.listed[rp_uuid].parent_uuid or root
            depth += 1
        return depth

    def describe(self, consumer: str) -> str:
        """Return what a consumer is, for people."""
        if consumer in self.moves:
            move = self.moves[consumer]
            return f'migration {consumer} of {self.describe(move.server_uuid)}'
        server = self.servers.get(consumer)
        return f'{server.name} ({consumer})' if server else consumer

    def name_provider(self, rp_uuid: str) -> tuple[str, str]:
        """Return the name of a host, '' for none, and that of a provider."""
        name = self.listed[rp_uuid].name if rp_uuid in self.listed else rp_uuid
        root = self.listed.get(self.find_root(rp_uuid))
        if root is None or root.rp_uuid == rp_uuid:
            return '', name
        return root.name, name.removeprefix(f'{root.name}_')

    def is_known(self, rp_uuid: str) -> bool:
        """Return whether a provider is of a host that Nova has, or shared."""
        owned = self.owned.get(rp_uuid)
        is_shared = owned is not None and owned.is_pool
        return is_shared or self.find_root(rp_uuid) in self.roots

    def find_home(self, server: nova_server.NovaServer) -> str:
        """Return the root of a server's host; '' for none, or none known."""
        return self.nodes.get(server.host, '')

    def is_at(self, home: str, rp_uuid: str) -> bool:
        """Return whether a host has a provider, or may reach it."""
        root = self.find_root(rp_uuid)
        owned = self.owned.get(rp_uuid)
        if owned is not None and owned.is_pool:
            return home in self.reached.get(rp_uuid, ())
        # A sharing provider of others.
        is_others = owned is None and root not in self.roots
        return is_others or root == home

    def find_phase(self, move: NovaMigration) -> _Phase:
        """Return whether Nova goes on with a migration, as far as it shows.

        With an evacuation, when nova-compute of the former host starts again:
        unless that host is certainly gone.
        """
        server = self.servers.get(move.server_uuid)
        phase = consumer_role.find_phase(
            move.kind,
            move.status,
            has_task=not server or bool(server.task_state),
            is_resized=not server or server.status == 'VERIFY_RESIZE',
        )
        if phase is _Phase.EVACUATED:
            is_gone = move.source and move.source not in self.nodes
            return _Phase.ENDED if is_gone and not self.unmapped else phase
        is_left = phase in (_Phase.ABANDONED, _Phase.STUCK)
        return _Phase.OPEN if is_left and not move.is_old else phase
