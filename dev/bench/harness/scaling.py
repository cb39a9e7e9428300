# SPDX-License-Identifier: Apache-2.0

"""Many hosts in one placement, each published by a process of its own.

Here all of these are in one process, one after the other.
"""

from collections.abc import Iterable, Iterator
from concurrent import futures
import time
from typing import Any
import uuid

from dev.bench.harness import placements
from dev.bench.harness import publishing
from nova_ext_resources.cmd.osc import nova
from nova_ext_resources.cmd.osc.resource import explain
from nova_ext_resources.cmd.osc.resource import simulate
from nova_ext_resources.inspection import aggregates
from nova_ext_resources.inspection.audit import cloud
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.api import responses
from nova_ext_resources.reservation import flavor as flavor_mod

#: Classes of service, two network cards, two L3 domains.
PROVIDERS = 5
WAYS = 11

#: What Nova publishes of a host itself.
NOVA = {'VCPU': 64, 'MEMORY_MB': 262144}

#: What the only server of a host has.
SERVER = {'VCPU': 4, 'MEMORY_MB': 8192}
HELD_WAYS = 4

#: Hosts that are added at the same time, where nothing is measured.
THREADS = 4


class Hosts:
    """Publishes hosts; used by one thread, but for :meth:`fill`.

    :param folder: where they remember what they have published
    """

    def __init__(self, placement: placements.Placement, folder: str) -> None:
        self._placement = placement
        self._folder = folder
        self._side = publishing.Publisher(placement, folder)
        self._client = placement_client.Client(
            placement.connect(placements.Counter())
        )

    def fill(self, count: int) -> None:
        """Add hosts, of which nothing is measured."""

        def add(number: int) -> None:
            others = Hosts(self._placement, self._folder)
            for _ in range(number, count, THREADS):
                others.add()

        with futures.ThreadPoolExecutor(THREADS) as pool:
            for _done in pool.map(add, range(THREADS)):
                pass

    def add(self) -> tuple[publishing.Cost, publishing.Cost]:
        """Add a host with a server.

        :returns: what it took to publish it, and again without changes
        """
        node = self._side.add_node()
        self._client.set_inventories(
            node.uuid,
            {
                name: class_inventory.Inventory(total=n)
                for name, n in NOVA.items()
            },
            0,
        )
        wanted = publishing.make_providers(node, PROVIDERS, WAYS)
        first = self._side.publish(node, wanted)
        again = self._side.publish(node, wanted)
        self._client.put_allocations(
            responses.Allocations(
                consumer_uuid=str(uuid.uuid4()),
                resources={
                    node.uuid: SERVER,
                    wanted[-1].rp_uuid: {publishing.WAYS: HELD_WAYS},
                },
                project_id='project',
                user_id='user',
            )
        )
        return first, again


class _Nova(nova.Nova):
    """Has one flavor, and no host that is down.

    :param hosts: hypervisors
    """

    def __init__(
        self, flavor: flavor_mod.Flavor, hosts: Iterable[cloud.Hypervisor]
    ) -> None:
        self._flavor = flavor
        self._hosts = [*hosts]

    def find_flavor(self, name: str) -> flavor_mod.Flavor:
        return self._flavor

    def list_nodes(self) -> Iterator[cloud.Hypervisor]:
        return iter(self._hosts)

    def list_aggregates(self) -> list[aggregates.Aggregate]:
        return []


def time_command(
    kind: type[explain.Explain | simulate.Simulate],
    placement: placements.Placement,
    ways: int,
) -> tuple[float, dict[str, Any]]:
    """Run a command for a flavor; return milliseconds and its data.

    With the time that all its answers take to be printed, but not that to
    import the client.

    :param ways: which the flavor requests
    """
    command = kind(None, None)  # type: ignore[arg-type]
    command.placement = placement_client.Client(
        placement.connect(placements.Counter())
    )
    command.nova = _Nova(
        flavor_mod.Flavor(
            name='it',
            vcpus=4,
            memory_mb=8192,
            extra_specs={f'resources:{publishing.WAYS}': str(ways)},
        ),
        _list_nodes(command.placement),
    )
    arguments = command.get_parser('it').parse_args(['--flavor', 'it'])
    start = time.perf_counter()
    columns, values = command.take_action(arguments)
    data = dict(zip(columns, values, strict=True))
    for _line in command.draw(data):
        pass
    return (time.perf_counter() - start) * 1000, data


def _list_nodes(client: placement_client.Client) -> Iterator[cloud.Hypervisor]:
    """Return a hypervisor for each root provider."""
    for one in client.list_providers():
        if not one.parent_uuid:
            yield cloud.Hypervisor(
                name=one.name, uuid=one.rp_uuid, host=one.name
            )
