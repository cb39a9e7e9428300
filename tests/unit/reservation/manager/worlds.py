# SPDX-License-Identifier: Apache-2.0

"""A cloud in which much happens, for tests of a manager that runs long.

Its hosts have one class, VCPU, and one provider each, which is named as they
are.
"""

from collections.abc import Iterable, Mapping
import dataclasses
from typing import Any

from nova_ext_resources.claims.trackers import count
from nova_ext_resources import exception
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import host as host_mod
from nova_ext_resources.reservation import lending
from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation.store import admission
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import slots
from tests.unit.reservation import hosts as hosts_mod
from tests.unit.reservation.manager import breaking
from tests.unit.reservation.manager import clouds
from tests.unit.reservation.manager import managers

HOSTS = ('a', 'b', 'c')

#: VCPU of each host, unless it has less.
CPUS = 8


class World(clouds.FakeCloud):
    """Placement and Nova, which agree on what each server holds.

    A host that placement does not have shows nothing that is held there.

    :param time: by which it is planned
    :param steps: are counted, one for each question
    :ivar keeps_room: whether the scheduler knows what is promised
    :ivar resized: hosts whose capacity has changed beside all plans
    """

    def __init__(
        self,
        time: managers.Time,
        steps: breaking.Steps,
        *,
        keeps_room: bool,
    ) -> None:
        super().__init__([hosts_mod.make_host(one) for one in HOSTS])
        self._time = time
        self._steps = steps
        self._acts: list[tuple[nova_server.NovaServer, int]] = []
        self.keeps_room = keeps_room
        self.resized: set[str] = set()

    # What a manager asks

    def check_placement(self) -> None:
        self._steps.take()
        super().check_placement()

    def check_nova(self) -> None:
        self._steps.take()
        super().check_nova()

    def list_held(self, consumer: str) -> set[str]:
        self.check_placement()
        places = self.held.get(consumer, {})
        return {place[0] for place in places if place[0] in self.enabled}

    def has_allocations(self, consumer: str) -> bool:
        return bool(self.list_held(consumer))

    def read_uses(
        self, rp_uuids: Iterable[str]
    ) -> dict[host_view.Place, lending.Use]:
        return super().read_uses(self.enabled.keys() & {*rp_uuids})

    def take_hold(
        self,
        consumer: str,
        project: str,
        places: Mapping[host_view.Place, int],
    ) -> None:
        if any(place[0] not in self.enabled for place in places):
            self.check_placement()
            raise exception.AllocationRejected(
                action='hold', detail='there is no such provider'
            )
        super().take_hold(consumer, project, places)

    def list_holds(self) -> set[str]:
        self.check_placement()
        return {
            consumer
            for consumer in self.holds
            if any(place[0] in self.enabled for place in self.held[consumer])
        }

    def count_holds(self) -> int:
        return len(self.list_holds())

    def act(self, uuid: str, action: nova_server.Action) -> None:
        if uuid not in self.servers:
            self.check_nova()
            return
        before = self.servers[uuid]
        super().act(uuid, action)
        self._acts.append((before, int(self._time.clock)))
        if uuid not in self.holders:
            self.held.pop(uuid, None)
            if uuid in self.servers:
                self.change(uuid, host='')

    def set_metadata(self, uuid: str, metadata: Mapping[str, str]) -> None:
        if uuid in self.servers:
            super().set_metadata(uuid, metadata)

    def unshelve(self, uuid: str, node: str) -> None:
        """Claim at once if there is room, or fail without a word."""
        self.check_nova()
        server = self.servers.get(uuid)
        if server is None or server.status != 'SHELVED_OFFLOADED':
            raise exception.ComputeUnavailable(
                action='unshelve', reason='not in this status', status=409
            )
        if self.count_free(node) >= server.flavor.vcpus and self.is_up(node):
            self.change(uuid, status='ACTIVE', host=node)
            self.occupy(uuid, node, server.flavor.vcpus)

    def make_admission(
        self, database: databases.Database
    ) -> admission.Admission:
        """Plan beside what servers hold beyond the slots that they have."""
        self.check_placement()
        self.check_nova()
        taken = slots.list_places(database, int(self._time.clock))
        found = [
            self._make_host(name, taken) for name in HOSTS if self.is_up(name)
        ]
        return admission.Admission(database, hosts_mod.make_planner(*found))

    def _make_host(
        self, name: str, taken: Mapping[str, Mapping[host_view.Place, int]]
    ) -> host_mod.Host:
        place, capacity = (name, 'VCPU'), self.get_capacity(name)
        used = sum(
            max(amounts[place] - taken.get(uuid, {}).get(place, 0), 0)
            for uuid, amounts in self.held.items()
            if place in amounts
        )
        made = hosts_mod.make_host(name, VCPU=capacity)
        tracked = dataclasses.replace(
            made.view.tracked[place], state=count.CountState(capacity, used)
        )
        view = dataclasses.replace(made.view, tracked={place: tracked})
        return dataclasses.replace(made, view=view)

    # What a test asks

    def is_up(self, host: str) -> bool:
        """Return whether a server can be created on a host."""
        return self.enabled.get(host, False) and host not in self.down

    def get_capacity(self, host: str) -> int:
        return self.capacities[host, 'VCPU']

    def count_held(
        self, host: str, without: Iterable[str] = frozenset()
    ) -> int:
        """Return how much is held of a host by whom it is."""
        return sum(
            amounts.get((host, 'VCPU'), 0)
            for uuid, amounts in self.held.items()
            if uuid not in without
        )

    def count_free(self, host: str) -> int:
        return self.get_capacity(host) - self.count_held(host)

    def is_gone(self, uuid: str) -> bool:
        """Return whether no server has anything any more."""
        server = self.servers.get(uuid)
        is_off = nova_server.holds_nothing(server)
        return is_off and uuid not in self.held

    @property
    def waiting(self) -> set[str]:
        """The servers that are shelved and offloaded."""
        return {
            uuid
            for uuid, one in self.servers.items()
            if one.status == 'SHELVED_OFFLOADED'
        }

    def take_acts(self) -> list[tuple[nova_server.NovaServer, int]]:
        """Return which servers Nova was asked to remove since, and when."""
        found, self._acts = self._acts, []
        return found

    # What a test does

    def occupy(self, uuid: str, host: str, amount: int) -> None:
        """Let a server hold just that."""
        self.holders.add(uuid)
        self.held[uuid] = {(host, 'VCPU'): amount}

    def resize(self, host: str, capacity: int) -> None:
        self.resized.add(host)
        self.capacities[host, 'VCPU'] = capacity

    def change(self, uuid: str, **fields: Any) -> None:
        self.servers[uuid] = dataclasses.replace(self.servers[uuid], **fields)

    def leave(self, uuid: str) -> None:
        """Let a server hold nothing."""
        self.holders.discard(uuid)
        self.held.pop(uuid, None)
        if uuid in self.servers:
            self.change(uuid, host='')

    def delete(self, uuid: str) -> None:
        self.leave(uuid)
        self.servers.pop(uuid, None)

    def move(self, uuid: str, host: str) -> None:
        """Have a server moved by force, if there is room."""
        amount = sum(self.held.get(uuid, {}).values())
        if amount and self.is_up(host) and self.count_free(host) >= amount:
            self.occupy(uuid, host, amount)
            self.change(uuid, host=host)

    def turn_host(self, host: str, how: str) -> None:
        """Have a host disabled, lost, down or back."""
        self.down.discard(host)
        self.enabled[host] = how != 'disable'
        if how == 'lose':
            del self.enabled[host]
        elif how == 'down':
            self.down.add(host)
