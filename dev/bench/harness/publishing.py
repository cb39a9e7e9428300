# SPDX-License-Identifier: Apache-2.0

"""One host's providers, published by this package and by Nova.

Nova's side is what nova-compute does each minute: it reads the tree of the
host, has its driver change a copy, and writes what differs.
"""

import abc
from collections.abc import Sequence
import dataclasses
import os
import time
from typing import TypeAlias
import uuid

import nova.conf
from nova import context
from nova.scheduler.client import report

from dev.bench.harness import placements
from dev.bench.harness import timing
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.publish import provider_tree_cache
from nova_ext_resources.placement.publish import tree_writer

#: Of every host: classes of service, and two network cards.
OTHERS = 3

CLOS = 'CUSTOM_RDT_CLOS'
WAYS = 'CUSTOM_LLC_WAYS'
BANDWIDTH = 'CUSTOM_MEMORY_BANDWIDTH_PERCENT'
VFS = 'CUSTOM_SRIOV_VF'
TRAITS = frozenset({host_provider.OWNER_TRAIT, 'CUSTOM_RDT_L3_CAT'})

Node: TypeAlias = host_provider.Node
Provider: TypeAlias = host_provider.Provider


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a publication took.

    :ivar ms: by the clock, because most of it is waiting for placement
    """

    requests: int
    ms: float


class Side(abc.ABC):
    """Publishes the providers of hosts."""

    def __init__(self, placement: placements.Placement) -> None:
        self._counter = placements.Counter()
        self._adapter = placement.connect(self._counter)
        self.start()

    def add_node(self) -> Node:
        """Create the provider of one more compute node, as Nova does."""
        name = str(uuid.uuid4())
        node = Node(uuid=name, hypervisor_hostname=f'host-{name[:13]}')
        body = {'uuid': node.uuid, 'name': node.hypervisor_hostname}
        self._adapter.post('/resource_providers', json=body)
        return node

    def publish(self, node: Node, wanted: Sequence[Provider]) -> Cost:
        """Make placement have these providers below a node."""
        before = self._counter.count
        ms = timing.time_once(
            lambda: self._publish(node, wanted), time.perf_counter
        )
        return Cost(requests=self._counter.count - before, ms=ms)

    @abc.abstractmethod
    def start(self) -> None:
        """Forget all that a process that ends forgets."""

    @abc.abstractmethod
    def let_pass(self) -> None:
        """Take it that five minutes have passed."""

    @abc.abstractmethod
    def _publish(self, node: Node, wanted: Sequence[Provider]) -> None:
        pass


class Publisher(Side):
    """This package.

    :param folder: where it remembers what it has published
    """

    def __init__(self, placement: placements.Placement, folder: str) -> None:
        self._folder = folder
        super().__init__(placement)

    def start(self) -> None:
        self._writers: dict[str, tree_writer.TreeWriter] = {}

    def let_pass(self) -> None:
        """Change nothing: it lists the tree in each round."""

    def _publish(self, node: Node, wanted: Sequence[Provider]) -> None:
        done = self._find_writer(node).publish(node, wanted)
        assert not done.errors, done

    def _find_writer(self, node: Node) -> tree_writer.TreeWriter:
        if node.uuid not in self._writers:
            path = os.path.join(self._folder, node.uuid)
            self._writers[node.uuid] = tree_writer.TreeWriter(
                placement_client.Client(self._adapter),
                memory=provider_tree_cache.Memory(path),
                # As the publisher of a host.
                closes_doubles=True,
            )
        return self._writers[node.uuid]


class Nova(Side):
    """Nova's own client."""

    def __init__(self, placement: placements.Placement) -> None:
        nova.conf.CONF([], project='nova', default_config_files=[])
        self._context = context.get_admin_context()
        super().__init__(placement)

    def start(self) -> None:
        self._report = report.SchedulerReportClient(self._adapter)

    def let_pass(self) -> None:
        times = self._report._association_refresh_time
        for one in times:
            times[one] -= 300

    def _publish(self, node: Node, wanted: Sequence[Provider]) -> None:
        found = self._report.get_provider_tree_and_ensure_root(
            self._context, node.uuid, name=node.hypervisor_hostname
        )
        for one in wanted:
            if not found.exists(one.rp_uuid):
                found.new_child(one.name, one.parent_uuid, uuid=one.rp_uuid)
            found.update_inventory(
                one.rp_uuid,
                {name: inv.to_dict() for name, inv in one.inventories.items()},
            )
            found.update_traits(one.rp_uuid, sorted(one.traits))
        self._report.update_from_provider_tree(self._context, found)


def make_providers(node: Node, count: int, ways: int) -> tuple[Provider, ...]:
    """Return the providers of a host.

    :param count: how many, at least four
    :param ways: of its first L3 domain
    """

    def make(key: str, parent: str, **totals: int) -> Provider:
        return Provider(
            rp_uuid=host_provider.make_rp_uuid(node.uuid, key),
            name=f'{node.hypervisor_hostname}_{key}',
            parent_uuid=parent,
            inventories={
                name: class_inventory.Inventory(total=total)
                for name, total in totals.items()
            },
            traits=TRAITS,
        )

    rdt = make('RDT', node.uuid, **{CLOS: 15})
    cards = [make(f'PF_{one}', node.uuid, **{VFS: 8}) for one in range(2)]
    domains = [
        make(
            f'L3_{one}',
            rdt.rp_uuid,
            **{WAYS: 11 if one else ways, BANDWIDTH: 100},
        )
        for one in range(count - OTHERS)
    ]
    return (rdt, *cards, *domains)
