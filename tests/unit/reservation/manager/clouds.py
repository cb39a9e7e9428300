# SPDX-License-Identifier: Apache-2.0

"""A cloud without services, for tests of the manager."""

from collections.abc import Iterable, Mapping, Sequence, Set
import dataclasses
from typing import Any

from nova_ext_resources import exception
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import host as host_mod
from nova_ext_resources.reservation import lending
from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation.store import admission
from nova_ext_resources.reservation.store import databases
from tests.unit.reservation import hosts as hosts_mod

Action = nova_server.Action

#: What a server is after what was asked for has been done.
_AFTER = {
    Action.UNRESCUE: 'ACTIVE',
    Action.CONFIRM: 'ACTIVE',
    Action.SHELVE: 'SHELVED',
    Action.OFFLOAD: 'SHELVED_OFFLOADED',
}


class FakeCloud:
    """Does at once what it is asked for.

    :ivar enabled: name of each host -> whether its compute is enabled
    :ivar hosts: what is read of them
    :ivar servers: those that Nova has
    :ivar holders: consumers with allocations
    :ivar held: what each of them holds
    :ivar capacities: of all places
    :ivar asked: what was asked of Nova, in order
    :ivar told: servers that got metadata, in order
    :ivar holds: consumer that holds room for a slot -> its project
    :ivar searched: how often these were searched
    :ivar gone: providers that placement does not have
    :ivar down: hosts whose compute does not report
    :ivar is_unshelved: whether Nova finds room for what it unshelves
    :ivar refusal: why Nova unshelves nothing; '' if it tries
    :ivar missing_right: which one the manager does not have
    :ivar is_nova_away: whether Nova does not answer
    :ivar is_placement_away: whether placement does not answer
    """

    def __init__(self, hosts: Sequence[host_mod.Host] | None = None) -> None:
        if hosts is None:
            hosts = [hosts_mod.make_host(one) for one in 'ab']
        self.hosts = [*hosts]
        self.enabled = {one.name: True for one in hosts}
        self.down: set[str] = set()
        self.gone: set[str] = set()
        self.servers: dict[str, nova_server.NovaServer] = {}
        self.holders: set[str] = set()
        self.asked: list[tuple[str, str]] = []
        self.is_nova_away = False
        self.is_placement_away = False
        self.looked = 0
        self.missing_right = ''
        self.told: list[str] = []
        self.holds: dict[str, str] = {}
        self.searched = 0
        self.is_unshelved = True
        self.refusal = ''
        self.held: dict[str, dict[host_view.Place, int]] = {}
        self.capacities = {(one.name, 'VCPU'): 8 for one in hosts}

    def add(self, uuid: str, **fields: Any) -> None:
        """Let a server be there, with allocations."""
        self.servers[uuid] = nova_server.NovaServer(uuid=uuid, **fields)
        self.holders.add(uuid)

    def check_placement(self) -> None:
        if self.is_placement_away:
            raise exception.PlacementUnavailable(action='list', detail='away')

    def check_nova(self) -> None:
        if self.is_nova_away:
            raise exception.ComputeUnavailable(
                action='ask', reason='away', is_away=True
            )

    def has_allocations(self, consumer: str) -> bool:
        self.check_placement()
        self.looked += 1
        return consumer in self.holders

    def list_held(self, consumer: str) -> set[str]:
        if not self.has_allocations(consumer):
            return set()
        places = self.held.get(consumer, self.capacities)
        return {place[0] for place in places}

    def list_enabled(self) -> Mapping[str, bool]:
        self.check_placement()
        return dict(self.enabled)

    def find_gone(self, rp_uuids: Set[str]) -> Set[str]:
        self.check_placement()
        return rp_uuids & self.gone

    def list_down(self) -> frozenset[str]:
        self.check_nova()
        return frozenset(self.down)

    def read_uses(
        self, rp_uuids: Iterable[str]
    ) -> dict[host_view.Place, lending.Use]:
        self.check_placement()
        return {
            place: lending.Use(
                capacity=capacity,
                is_shared=place[0] not in self.enabled,
                holders={
                    uuid: amounts[place]
                    for uuid, amounts in self.held.items()
                    if place in amounts and uuid in self.holders
                },
            )
            for place, capacity in self.capacities.items()
            if place[0] in rp_uuids
        }

    def hold(self, uuid: str, host: str, amount: int, **fields: Any) -> None:
        """Let a server on a host hold VCPU of it."""
        self.add(uuid, host=host, **fields)
        self.held[uuid] = {(host, 'VCPU'): amount}

    def find_server(self, uuid: str) -> nova_server.NovaServer | None:
        self.check_nova()
        return self.servers.get(uuid)

    def find_missing_right(self) -> str:
        self.check_nova()
        return self.missing_right

    def act(self, uuid: str, action: Action) -> None:
        self.check_nova()
        self.asked.append((uuid, action.value))
        if action in _AFTER:
            self.servers[uuid] = dataclasses.replace(
                self.servers[uuid], status=_AFTER[action]
            )
        else:
            del self.servers[uuid]
        if action is Action.OFFLOAD or action not in _AFTER:
            self.holders.discard(uuid)

    def set_metadata(self, uuid: str, metadata: Mapping[str, str]) -> None:
        self.check_nova()
        server = self.servers[uuid]
        self.servers[uuid] = dataclasses.replace(
            server, metadata={**server.metadata, **metadata}
        )
        self.told.append(uuid)

    def take_hold(
        self,
        consumer: str,
        project: str,
        places: Mapping[host_view.Place, int],
    ) -> None:
        self.check_placement()
        if self.held.get(consumer) == places and consumer in self.holders:
            return
        self.release_hold(consumer)
        for place, use in self.read_uses({one[0] for one in places}).items():
            if sum(use.holders.values()) + places.get(place, 0) > (
                use.capacity
            ):
                raise exception.AllocationRejected(
                    action=f'hold {place}', detail='it is full'
                )
        self.held[consumer] = dict(places)
        self.holders.add(consumer)
        self.holds[consumer] = project

    def release_hold(self, consumer: str) -> None:
        self.check_placement()
        self.holders.discard(consumer)
        self.held.pop(consumer, None)
        self.holds.pop(consumer, None)

    def count_holds(self) -> int:
        self.check_placement()
        return len(self.holds)

    def list_holds(self) -> set[str]:
        self.check_placement()
        self.searched += 1
        return set(self.holds)

    def list_servers(self, project: str) -> list[nova_server.NovaServer]:
        self.check_nova()
        return [one for one in self.servers.values() if one.project == project]

    def unshelve(self, uuid: str, node: str) -> None:
        """Claim at once, or fail as Nova does: without a word."""
        self.check_nova()
        self.asked.append((uuid, f'unshelve on {node}'))
        if self.refusal:
            raise exception.ComputeUnavailable(
                action='unshelve', reason=self.refusal, status=409
            )
        if self.is_unshelved:
            self.servers[uuid] = dataclasses.replace(
                self.servers[uuid], status='ACTIVE', host=node
            )
            self.holders.add(uuid)
            self.held[uuid] = {(node, 'VCPU'): 4}

    def make_admission(
        self, database: databases.Database
    ) -> admission.Admission:
        self.check_placement()
        enabled = [
            one
            for one in self.hosts
            if self.enabled.get(one.name) and one.name not in self.down
        ]
        return admission.Admission(database, hosts_mod.make_planner(*enabled))
