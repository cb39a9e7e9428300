# SPDX-License-Identifier: Apache-2.0

"""What Nova and placement say, for the rules of the crash harness."""

from collections.abc import Mapping
import dataclasses
import types
from typing import Any

import fixtures

from nova_ext_resources.objects import assignment
from tests.crash import seen as seen_mod

WAYS = seen_mod.WAYS

#: Host -> the provider of its cache, and of Nova's own resources.
CACHES = {'host1': 'cache1', 'host2': 'cache2'}
NODES = {'host1': 'node1', 'host2': 'node2'}

Purpose = assignment.Purpose


@dataclasses.dataclass(kw_only=True)
class Server:
    """As much of an instance of Nova as the rules look at."""

    uuid: str = 'server'
    host: str | None = 'host1'
    vm_state: str = 'active'
    task_state: str | None = None
    flavor: Any = None
    cpus: frozenset[int] = frozenset()


@dataclasses.dataclass(kw_only=True)
class Move:
    """As much of a migration of Nova as the rules look at.

    :ivar ways: of the flavor that the server is to get
    """

    uuid: str = 'move'
    id: int = 1
    instance_uuid: str = 'server'
    migration_type: str = 'resize'
    status: str = 'migrating'
    source_compute: str = 'host1'
    dest_compute: str | None = 'host2'
    ways: int = 2


def make_flavor(ways: int) -> Any:
    return types.SimpleNamespace(
        flavorid=f'ways-{ways}', extra_specs={f'resources:{WAYS}': f'{ways}'}
    )


def make_entry(
    ways: int, uuid: str = 'server', host: str = 'host1', **given: Any
) -> assignment.Entry:
    """Make the entry of a server, or of a move of it."""
    return assignment.Entry(
        consumer_uuid=uuid,
        server_uuid='server',
        state=assignment.State.APPLIED,
        assignments=(
            assignment.Assignment(
                rp_uuid=CACHES[host],
                rp_key='L3_0',
                resource_class=WAYS,
                amount=ways,
            ),
        ),
        **given,
    )


class Left(fixtures.Fixture):
    """Nova's records, and what placement has.

    :ivar allocations: consumer -> provider -> amount, of ways in caches and of
        CPUs in nodes
    :ivar others: other servers of Nova
    """

    def __init__(self) -> None:
        super().__init__()
        self.server = Server(flavor=make_flavor(2))
        self.others: list[Server] = []
        self.moves: list[Move] = []
        self.allocations: dict[str, dict[str, int]] = {}

    def _setUp(self) -> None:
        for name, method in (
            ('records.list_moves', self.list_moves),
            ('records.find_move', self.find_move),
            ('records.list_actions', lambda _uuid: []),
            ('records.count_ways', lambda move: move.ways),
            ('records.find_request', lambda _uuid: self.server),
            ('misallocations.find_cpus', lambda server: server.cpus),
            ('placement.find_node', lambda _site, host: NODES[host]),
            ('placement.read_allocations', self.read_allocations),
            ('placement.read_provider', self.read_provider),
            ('placement.count_capacity', lambda *_: 6),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(f'tests.crash.{name}', method)
            )

    def see(
        self,
        *entries: assignment.Entry,
        host: str = 'host1',
        problems: Any = (),
        killed: Any = ('host1',),
        guests: Mapping[str, int] | None = None,
    ) -> seen_mod.Seen:
        """Make what a host says, which holds these entries."""
        return seen_mod.Seen(
            site=types.SimpleNamespace(computes=NODES),  # type: ignore[arg-type]
            host=host,
            said={
                'entries': {one.consumer_uuid: one for one in entries},
                'problems': problems,
                'providers': {CACHES[host]: 'L3_0'},
                'guests': guests or {},
                'withheld': {},
            },
            found={one.uuid: one for one in (self.server, *self.others)},
            killed=frozenset(killed),
        )

    # -- what stands for Nova and placement ----------------------------------

    def list_moves(self, server_uuid: str) -> list[Move]:
        return [o for o in self.moves if o.instance_uuid == server_uuid]

    def find_move(self, uuid: str) -> Move | None:
        return next((one for one in self.moves if one.uuid == uuid), None)

    def read_allocations(self, _site: Any, uuid: str) -> dict[str, Any]:
        return {
            rp_uuid: {_name(rp_uuid): amount}
            for rp_uuid, amount in self.allocations.get(uuid, {}).items()
        }

    def read_provider(self, _site: Any, rp_uuid: str) -> dict[str, Any]:
        return {
            uuid: {'resources': {_name(rp_uuid): given[rp_uuid]}}
            for uuid, given in self.allocations.items()
            if rp_uuid in given
        }


def _name(rp_uuid: str) -> str:
    return WAYS if rp_uuid in CACHES.values() else 'PCPU'
