# SPDX-License-Identifier: Apache-2.0

"""What of Nova this package uses; Nova promises none of it.

Nova may rename or remove each of these in any release. A method that
overrides one of Nova's would then never be called, and servers would be
built without a claim.
"""

from collections.abc import Callable, Iterable, Iterator
import importlib
import inspect
import sys
from typing import Any

#: ``module:name``, and ``module:class.attribute``. Of a class, also what its
#: methods set. In brackets, the arguments that Nova passes by position to what
#: this package puts in place of a method; others may follow them.
NAMES = (
    'nova.api.validation.extra_specs.base:ExtraSpecValidator.validate',
    'nova.api.validation.extra_specs.resources:EXTRA_SPEC_VALIDATORS',
    'nova.cmd.compute:main',
    'nova.compute.claims:MoveClaim.abort',
    'nova.compute.claims:MoveClaim.claimed_numa_topology',
    'nova.compute.manager:ComputeManager._check_for_host_rename',
    'nova.compute.manager:ComputeManager._ensure_existing_node_identity',
    'nova.compute.manager:ComputeManager._get_nodes',
    'nova.compute.manager:ComputeManager._sanity_check_new_host',
    'nova.compute.manager:ComputeManager.rt',
    'nova.compute.manager:ComputeVirtAPI._compute',
    'nova.compute.power_state:PAUSED',
    'nova.compute.power_state:RUNNING',
    'nova.compute.provider_config:get_provider_configs',
    'nova.compute.provider_tree:ProviderTree.add_traits',
    'nova.compute.provider_tree:ProviderTree.data',
    'nova.compute.provider_tree:ProviderTree.exists',
    'nova.compute.provider_tree:ProviderTree.new_child',
    'nova.compute.provider_tree:ProviderTree.remove_traits',
    'nova.compute.provider_tree:ProviderTree.update_aggregates',
    'nova.compute.provider_tree:ProviderTree.update_inventory',
    'nova.compute.resource_tracker:COMPUTE_RESOURCE_SEMAPHORE',
    'nova.compute.resource_tracker:ResourceTracker.compute_nodes',
    'nova.compute.resource_tracker:ResourceTracker.drop_move_claim'
    '(context, instance, nodename, flavor)',
    'nova.compute.resource_tracker:'
    'ResourceTracker.free_pci_device_claims_for_instance(context, instance)',
    'nova.compute.resource_tracker:ResourceTracker.instance_claim'
    '(context, instance, nodename, allocations, limits)',
    'nova.compute.resource_tracker:ResourceTracker.live_migration_claim'
    '(context, instance, nodename, migration, limits, allocs)',
    'nova.compute.resource_tracker:ResourceTracker.provider_configs',
    'nova.compute.resource_tracker:ResourceTracker.rebuild_claim'
    '(context, instance, nodename, allocations, limits)',
    'nova.compute.resource_tracker:ResourceTracker.reportclient',
    'nova.compute.resource_tracker:ResourceTracker.resize_claim'
    '(context, instance, flavor, nodename, migration, allocations, '
    'image_meta, limits)',
    'nova.compute.resource_tracker:ResourceTracker.stats',
    'nova.compute.resource_tracker:'
    'ResourceTracker.update_available_resource(context, nodename)',
    'nova.compute.task_states:BLOCK_DEVICE_MAPPING',
    'nova.compute.task_states:DELETING',
    'nova.compute.task_states:MIGRATING',
    'nova.compute.task_states:NETWORKING',
    'nova.compute.task_states:RESIZE_FINISH',
    'nova.compute.task_states:RESIZE_MIGRATED',
    'nova.compute.task_states:RESIZE_MIGRATING',
    'nova.compute.task_states:RESIZE_REVERTING',
    'nova.compute.task_states:SCHEDULING',
    'nova.compute.task_states:SHELVING_OFFLOADING',
    'nova.compute.task_states:SPAWNING',
    'nova.compute.task_states:hard_reboot_states',
    'nova.compute.task_states:rebuild_states',
    'nova.compute.utils:EventReporter.__enter__',
    'nova.compute.utils:EventReporter.__exit__',
    'nova.compute.utils:EventReporter.context',
    'nova.compute.utils:EventReporter.event_name',
    'nova.compute.utils:EventReporter.instance_uuids',
    'nova.compute.vm_states:BUILDING',
    'nova.compute.vm_states:ERROR',
    'nova.compute.vm_states:RESIZED',
    'nova.compute.vm_states:SHELVED_OFFLOADED',
    'nova.conf:CONF',
    'nova.context:CELL_TIMEOUT',
    'nova.context:get_admin_context',
    'nova.context:is_cell_failure_sentinel',
    'nova.context:scatter_gather_cells',
    'nova.exception:BuildAbortException',
    'nova.exception:ComputeResourcesUnavailable',
    'nova.exception:ConsumerAllocationRetrievalFailed',
    'nova.exception:GroupAffinityViolation',
    'nova.exception:InstanceActionNotFound',
    'nova.exception:InstanceFaultRollback',
    'nova.exception:InstanceMappingNotFound',
    'nova.exception:InstanceNotFound',
    'nova.exception:MigrationContextNotFound',
    'nova.exception:MigrationNotFound',
    'nova.exception:MigrationPreCheckError',
    'nova.exception:NoValidHost',
    'nova.exception:NovaException',
    'nova.exception:NovaException.kwargs',
    'nova.exception:PciDeviceUnsupportedHypervisor',
    'nova.exception:PlacementReshapeConflict',
    'nova.exception:ReshapeFailed',
    'nova.exception:ReshapeNeeded',
    'nova.exception:ValidationError',
    'nova.objects:CellMapping.identity',
    'nova.objects:CellMapping.is_cell0',
    'nova.objects:CellMappingList.get_all',
    'nova.objects:ComputeNode.get_first_node_by_host_for_old_compat',
    'nova.objects:ComputeNodeList.get_by_pagination',
    'nova.objects:Instance.apply_migration_context',
    'nova.objects:Instance.drop_migration_context',
    'nova.objects:Instance.get_by_uuid',
    'nova.objects:Instance.mutated_migration_context',
    'nova.objects:InstanceAction.get_by_request_id',
    'nova.objects:InstanceActionEventList.get_by_action',
    'nova.objects:InstanceList.get_by_filters',
    'nova.objects:InstanceList.get_by_host',
    'nova.objects:InstanceList.get_uuids_by_host',
    'nova.objects:InstanceMapping.get_by_instance_uuid',
    'nova.objects:Migration.get_by_id',
    'nova.objects:Migration.get_by_uuid',
    'nova.objects:MigrationContext.get_by_instance_uuid',
    'nova.objects:MigrationList.get_by_filters',
    'nova.objects:MigrationList.get_in_progress_by_host_and_node',
    'nova.objects:NUMACell',
    'nova.objects:NUMAPagesTopology',
    'nova.objects:NUMATopology._to_json',
    'nova.objects:NUMATopology.obj_from_db_obj',
    'nova.objects:NetworkMetadata',
    'nova.objects:PciDevice.address',
    'nova.objects:PciDevice.extra_info',
    'nova.objects:SchedulerLimits.to_dict',
    'nova.objects:Service.get_by_host_and_binary',
    'nova.objects:register_all',
    'nova.scheduler.client.report:SchedulerReportClient.clear_provider_cache',
    'nova.scheduler.client.report:'
    'SchedulerReportClient.delete_allocation_for_instance',
    'nova.scheduler.client.report:SchedulerReportClient.get',
    'nova.scheduler.client.report:'
    'SchedulerReportClient.get_allocs_for_consumer',
    'nova.scheduler.client.report:report_client_singleton',
    'nova.scheduler.filters:BaseHostFilter.RUN_ON_REBUILD',
    'nova.scheduler.filters:BaseHostFilter.filter_all',
    'nova.scheduler.filters:BaseHostFilter.host_passes',
    'nova.scheduler.host_manager:HostState.aggregates',
    'nova.scheduler.host_manager:HostState.allocation_candidates',
    'nova.scheduler.host_manager:HostState.num_instances',
    'nova.scheduler.host_manager:HostState.numa_topology',
    'nova.scheduler.host_manager:HostState.stats',
    'nova.scheduler.host_manager:HostState.updated',
    'nova.scheduler.manager:SchedulerManager._get_all_host_states'
    '(context, spec_obj, provider_summaries)',
    'nova.scheduler.manager:SchedulerManager._get_alternate_hosts'
    '(selected_hosts, spec_obj, hosts, index, num_alts)',
    'nova.scheduler.manager:SchedulerManager._get_sorted_hosts'
    '(spec_obj, host_states, index)',
    'nova.scheduler.manager:SchedulerManager.periodic_tasks(context)',
    'nova.scheduler.utils:claim_resources',
    'nova.scheduler.utils:get_weight_multiplier',
    'nova.scheduler.utils:request_is_rebuild',
    'nova.scheduler.weights:BaseHostWeigher._weigh_object',
    'nova.scheduler.weights:BaseHostWeigher.weigh_objects',
    'nova.scheduler.weights:BaseHostWeigher.weight_multiplier',
    'nova.utils:generate_hostid',
    'nova.utils:synchronized',
    'nova.version:version_string',
    'nova.virt.driver:ComputeDriver.check_can_live_migrate_destination',
    'nova.virt.driver:ComputeDriver.check_can_live_migrate_source',
    'nova.virt.driver:ComputeDriver.check_source_migrate_data_at_dest'
    '(ctxt, instance, migrate_data, migration, limits, allocs)',
    'nova.virt.driver:ComputeDriver.cleanup',
    'nova.virt.driver:ComputeDriver.cleanup_host',
    'nova.virt.driver:ComputeDriver.confirm_migration',
    'nova.virt.driver:ComputeDriver.destroy',
    'nova.virt.driver:ComputeDriver.emit_event',
    'nova.virt.driver:ComputeDriver.finish_migration',
    'nova.virt.driver:ComputeDriver.finish_revert_migration',
    'nova.virt.driver:ComputeDriver.get_available_resource',
    'nova.virt.driver:ComputeDriver.get_nodenames_by_uuid',
    'nova.virt.driver:ComputeDriver.init_host',
    'nova.virt.driver:ComputeDriver.list_instance_uuids',
    'nova.virt.driver:ComputeDriver.live_migration'
    '(context, instance, dest, post_method, recover_method, '
    'block_migration, migrate_data)',
    'nova.virt.driver:ComputeDriver.migrate_disk_and_power_off',
    'nova.virt.driver:ComputeDriver.post_claim_migrate_data',
    'nova.virt.driver:ComputeDriver.post_live_migration',
    'nova.virt.driver:ComputeDriver.post_live_migration_at_destination',
    'nova.virt.driver:ComputeDriver.post_live_migration_at_source'
    '(context, instance, network_info)',
    'nova.virt.driver:ComputeDriver.power_off',
    'nova.virt.driver:ComputeDriver.power_on',
    'nova.virt.driver:ComputeDriver.pre_live_migration',
    'nova.virt.driver:ComputeDriver.reboot',
    'nova.virt.driver:ComputeDriver.rescue',
    'nova.virt.driver:ComputeDriver.resume',
    'nova.virt.driver:ComputeDriver.resume_state_on_host_boot',
    'nova.virt.driver:ComputeDriver.rollback_live_migration_at_destination',
    'nova.virt.driver:ComputeDriver.spawn',
    'nova.virt.driver:ComputeDriver.suspend',
    'nova.virt.driver:ComputeDriver.unrescue',
    'nova.virt.driver:ComputeDriver.update_provider_tree',
    'nova.virt.driver:ComputeDriver.virtapi',
    'nova.virt.event:EVENT_LIFECYCLE_STARTED',
    'nova.virt.event:LifecycleEvent.get_instance_uuid',
    'nova.virt.event:LifecycleEvent.get_transition',
    'nova.virt.fake:FakeDriver.capabilities',
    'nova.virt.fake:FakeDriver.get_available_nodes',
    'nova.virt.fake:FakeDriver.instances',
    'nova.virt.fake:FakeDriver.memory_mb',
    'nova.virt.fake:FakeDriver.spawn',
    'nova.virt.hardware:format_cpu_spec',
    'nova.virt.hardware:get_cpu_dedicated_set',
    'nova.virt.hardware:get_cpu_shared_set',
    'nova.virt.hardware:numa_get_constraints',
    'nova.virt.hardware:parse_cpu_spec',
    'nova.virt.libvirt.config:LibvirtConfigGuestHostdevPCI',
    'nova.virt.libvirt.driver:LibvirtDriver._attach_pci_devices',
    'nova.virt.libvirt.driver:LibvirtDriver._check_cpu_set_configuration',
    'nova.virt.libvirt.driver:LibvirtDriver._create_guest',
    'nova.virt.libvirt.driver:LibvirtDriver._create_guest_with_network'
    '(context, xml, instance)',
    'nova.virt.libvirt.driver:LibvirtDriver._destroy',
    'nova.virt.libvirt.driver:LibvirtDriver._detach_pci_devices',
    'nova.virt.libvirt.driver:LibvirtDriver._get_guest_pci_device',
    'nova.virt.libvirt.driver:LibvirtDriver._get_guest_xml(context, instance)',
    'nova.virt.libvirt.driver:LibvirtDriver._get_host_numa_topology',
    'nova.virt.libvirt.driver:LibvirtDriver._guest_add_pci_devices'
    '(guest, instance)',
    'nova.virt.libvirt.driver:LibvirtDriver._hard_reboot',
    'nova.virt.libvirt.driver:LibvirtDriver._host',
    'nova.virt.libvirt.driver:LibvirtDriver._init_host_topology',
    'nova.virt.libvirt.driver:'
    'LibvirtDriver._needs_suspend_resume_for_snapshot',
    'nova.virt.libvirt.driver:LibvirtDriver._resume_guest_after_snapshot',
    'nova.virt.libvirt.driver:LibvirtDriver._suspend_guest_for_snapshot',
    'nova.virt.libvirt.driver:LibvirtDriver.pause',
    'nova.virt.libvirt.driver:LibvirtDriver.reboot',
    'nova.virt.libvirt.driver:libvirt',
    'nova.virt.libvirt.guest:Guest.get_all_devices',
    'nova.virt.libvirt.guest:Guest.get_xml_desc',
    'nova.virt.libvirt.host:Host.get_guest',
    'nova.virt.libvirt.host:Host.list_guests',
    'nova.virt.node:read_local_node_uuid',
    'nova.virt.node:write_local_node_uuid',
)


def find_missing(names: Iterable[str] = NAMES) -> list[str]:
    """Return those that Nova does not have, of the modules in use here.

    A process of Nova imports what it needs: nova-compute has no filters.
    """
    return [
        name
        for name in names
        if name.partition(':')[0] in sys.modules and not exists(name)
    ]


def exists(name: str) -> bool:
    """Return whether the Nova that is installed has it.

    :raises ImportError: it has no such module
    """
    name, _bracket, arguments = name.rstrip(')').partition('(')
    module, _colon, path = name.partition(':')
    found: Any = importlib.import_module(module)
    for part in path.split('.'):
        if not hasattr(found, part):
            return inspect.isclass(found) and part in _list_set(found)
        found = getattr(found, part)
    return not arguments or _takes(found, arguments.split(', '))


def _takes(method: Callable[..., Any], arguments: list[str]) -> bool:
    """Return whether a method of a class takes these first, in this order."""
    names = list(inspect.signature(method).parameters)
    return names[1 : len(arguments) + 1] == arguments


def _list_set(cls: type) -> Iterator[str]:
    """Return the names that the methods of a class use, and so may set."""
    for base in inspect.getmro(cls):
        for method in vars(base).values():
            code = getattr(method, '__code__', None)
            yield from getattr(code, 'co_names', ())
