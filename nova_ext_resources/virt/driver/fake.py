# SPDX-License-Identifier: Apache-2.0

"""Nova's fake driver with extended resources and CPUs that can be pinned.

For demonstrations and tests: everything but the guest is real.
"""

from collections.abc import Iterator
import contextlib
from typing import Any
import uuid

from nova import exception as nova_exc
from nova import objects
from nova.virt import fake
from nova.virt import hardware
from nova.virt import node

from nova_ext_resources.conf.drivers import fake as fake_conf
from nova_ext_resources.virt.driver import live_migration
from nova_ext_resources.virt.driver import moves
from nova_ext_resources.virt.hooks import numa_choice

#: Enough for many servers, little enough to run out of.
MEMORY_MB = 65536

_NAMESPACE = uuid.UUID('3c2ba3bd-4be1-4b54-9a3f-3d8e2a3b9e2b')


class _Guests(fake.FakeDriver):
    """Does with guests what Nova's libvirt driver does, and its fake not."""

    def _remember(self, context: Any, instance: Any) -> None:
        """Make the guest of a former process anew; it keeps its claim."""
        fake.FakeDriver.spawn(
            self, context, instance, instance.image_meta, None, None, None
        )

    def check_can_live_migrate_destination(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> Any:
        data = super().check_can_live_migrate_destination(
            context, instance, *args, **kwargs
        )
        # Nova claims CPUs here only then.
        if instance.numa_topology:
            data.dst_supports_numa_live_migration = True
        return data

    def check_can_live_migrate_source(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> Any:
        data = super().check_can_live_migrate_source(
            context, instance, *args, **kwargs
        )
        if instance.numa_topology:
            data.src_supports_numa_live_migration = True
        return data

    def post_claim_migrate_data(
        self, context: Any, instance: Any, migrate_data: Any, claim: Any
    ) -> Any:
        return migrate_data

    def post_live_migration(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        # The original leaves it on both hosts.
        self.instances.pop(instance.uuid, None)

    def post_live_migration_at_destination(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        # The original spawns the guest, which would claim anew.
        self._remember(context, instance)


class FakeDriver(
    live_migration.LiveMigrationsMixin, moves.MovesMixin, _Guests
):
    """Its host has the cache domains of ``[ext_resources_fake]``.

    Each domain is a NUMA cell. Unless ``[compute] cpu_dedicated_set`` and
    ``cpu_shared_set`` say otherwise, the first core of each is shared, and
    the rest is for pinned servers.
    """

    capabilities = {  # noqa: RUF012
        **fake.FakeDriver.capabilities,
        'supports_pcpus': True,
    }
    memory_mb = MEMORY_MB

    def init_host(self, host: str) -> None:
        super().init_host(host)
        # Without the file of its identity, Nova refuses every start but the
        # first one: it takes it for lost.
        if node.read_local_node_uuid() is None:
            (node_uuid,) = self.get_nodenames_by_uuid()
            node.write_local_node_uuid(node_uuid)

    def get_nodenames_by_uuid(self, refresh: bool = False) -> dict[str, str]:
        # The original makes up new uuids in every process.
        return {_make_node_uuid(n): n for n in self.get_available_nodes()}

    def get_available_resource(self, nodename: str) -> dict[str, Any]:
        data = super().get_available_resource(nodename)
        if data:
            topology = self._find_host_topology()
            data['uuid'] = _make_node_uuid(nodename)
            data['numa_topology'] = numa_choice.mark(
                numa_choice.write(topology), self._ext.host.view
            )
            data['vcpus'] = sum(len(c.cpuset) for c in topology.cells)
        return data

    def update_provider_tree(
        self, provider_tree: Any, nodename: str, *args: Any, **kwargs: Any
    ) -> None:
        super().update_provider_tree(provider_tree, nodename, *args, **kwargs)
        topology = self._find_host_topology()
        inventory = dict(provider_tree.data(nodename).inventory)
        shared = sum(len(cell.cpuset) for cell in topology.cells)
        pinned = sum(len(cell.pcpuset) for cell in topology.cells)
        vcpu = inventory.pop('VCPU')
        if shared:
            inventory['VCPU'] = {**vcpu, 'total': shared, 'max_unit': shared}
        if pinned:
            inventory['PCPU'] = {
                **vcpu,
                'total': pinned,
                'max_unit': pinned,
                'reserved': 0,
                'allocation_ratio': 1.0,
            }
        provider_tree.update_inventory(nodename, inventory)

    # -- as Nova's libvirt driver does ---------------------------------

    def power_on(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        with self._ext.host.starting(instance.uuid):
            self._ext_claims.restore_and_apply(context, instance)
            if instance.uuid not in self.instances:
                self._remember(context, instance)
            super().power_on(context, instance, *args, **kwargs)

    def reboot(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        reboot_type: str,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        self.power_on(context, instance, network_info)

    def resume_state_on_host_boot(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        self.power_on(context, instance, network_info)

    def power_off(self, instance: Any, *args: Any, **kwargs: Any) -> None:
        # Where a rebuild has failed, there is none. Nova would take the error
        # for a server that was deleted, and leave the next rebuild unfinished.
        with contextlib.suppress(nova_exc.InstanceNotFound):
            super().power_off(instance, *args, **kwargs)

    @contextlib.contextmanager
    def _building(self, context: Any, instance: Any) -> Iterator[None]:
        self._ext_claims.apply(context, instance)
        yield

    def _find_host_topology(self) -> Any:
        domains = fake_conf.list_domains(self._ext.conf.ext_resources_fake)
        cells = [
            _make_cell(number, domain, MEMORY_MB // len(domains))
            for number, domain in enumerate(domains)
        ]
        return objects.NUMATopology(cells=cells)


def _make_cell(
    number: int, cores: tuple[frozenset[int], ...], memory_mb: int
) -> Any:
    """Make a cell of cores, each of which is the set of its threads."""
    dedicated = hardware.get_cpu_dedicated_set()
    shared = hardware.get_cpu_shared_set()
    cpus = frozenset().union(*cores)
    if dedicated is None and shared is None:
        shared, dedicated = cores[0], cpus - cores[0]
    return objects.NUMACell(
        id=number,
        socket=number,
        cpuset=set(cpus & (shared or frozenset())),
        pcpuset=set(cpus & (dedicated or frozenset())),
        pinned_cpus=set(),
        siblings=[set(core) for core in cores],
        memory=memory_mb,
        memory_usage=0,
        cpu_usage=0,
        mempages=[
            objects.NUMAPagesTopology(size_kb=4, total=memory_mb * 256, used=0)
        ],
        network_metadata=objects.NetworkMetadata(
            physnets=set(), tunneled=False
        ),
    )


def _make_node_uuid(nodename: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, nodename))
