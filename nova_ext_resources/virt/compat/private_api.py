# SPDX-License-Identifier: Apache-2.0

"""What of Nova this package uses, and whether the Nova that is here has it.

Nova promises none of it, and may rename or remove each name in any release. A
method that overrides one of Nova's would then never be called, and servers
would be built without a claim. So all of it is checked before a start.

A name is *public* where Nova keeps it the same for code of others:

* methods and attributes without an underscore of ``ComputeDriver``, and of the
  ``ProviderTree`` that it gets: every driver overrides and uses the same ones;
* classes of ``nova.objects``, with their methods and the values of their
  fields: Nova versions them, because services of two releases exchange them;
* the base classes of filters, weighers and validators, which Nova's manual
  tells others to derive from.

Everything else is *internal*, with or without an underscore. Of this, nothing
is used without a reason. A test limits how much it is.
"""

from collections.abc import Callable, Iterable, Iterator
import importlib
import inspect
import re
import sys
from typing import Any


def _read(table: str) -> dict[str, str]:
    """Return ``module:name`` or ``module:class.attribute`` -> reason."""
    found, owner = {}, ''
    for line in table.strip().splitlines():
        if line.startswith(' '):
            name, reason = line.split(maxsplit=1)
            found[_join(owner, name)] = reason
        else:
            owner = line
    return found


def _list(table: str) -> Iterator[str]:
    """Yield the same of a table without reasons."""
    for block in re.split(r'\n(?=\S)', table.strip()):
        owner, *names = block.split()
        yield from (_join(owner, name) for name in names)


def _join(owner: str, name: str) -> str:
    return f'{owner}.{name}' if ':' in owner else f'{owner}:{name}'


#: Internal functions that this package puts its own around, and internal data
#: that it exchanges; and why no public way will do.
REPLACED = _read("""
nova.compute.resource_tracker:ResourceTracker
  instance_claim             limits do not name the caches of an allocation
  live_migration_claim       as for instance_claim
  provider_configs           a class that a driver has, too, stops each update
  rebuild_claim              as for instance_claim
  resize_claim               no driver is asked before the source is told
  update_available_resource  a reshape that is refused would end the start
nova.scheduler.manager:SchedulerManager
  _get_all_host_states  filters do not get what placement says is free
  _get_alternate_hosts  the conductor claims on them, and asks no filter
  _get_sorted_hosts     filters get what they left for the former server
nova.scheduler.utils
  claim_resources  nothing else is called between a claim and the next host
""")

#: Other internal names, and what each is for. Those of LibvirtDriver that are
#: not called are overridden.
USED = _read("""
nova.api.validation.extra_specs.resources
  EXTRA_SPEC_VALIDATORS  has the names that ours must take the place of
nova.cmd.compute
  main  is what nova-compute-ext runs
nova.compute.claims:MoveClaim
  abort                  takes back what Nova claimed when ours is refused
  claimed_numa_topology  has the CPUs of this host
nova.compute.manager:ComputeManager
  _check_for_host_rename          must come before a driver names its node
  _ensure_existing_node_identity  must find a lost identity before that, too
  _get_nodes                      has what the check of the name takes
  _sanity_check_new_host          must find nodes of that name before that, too
  rt                              is the tracker whose claims are wrapped
nova.compute.manager:ComputeVirtAPI
  _compute  leads from a driver to the manager
nova.compute.power_state
  PAUSED   tells that a guest has its units
  RUNNING  tells that a guest uses its units
nova.compute.provider_config
  get_provider_configs  reads files, and refuses them, as Nova's start will
nova.compute.resource_tracker
  COMPUTE_RESOURCE_SEMAPHORE  protects the cache of providers
nova.compute.resource_tracker:ResourceTracker
  compute_nodes    gets what is free before the next periodic task
  drop_move_claim  takes a live claim back, which Nova leaves after an error
  free_pci_device_claims_for_instance  takes its devices back
  reportclient     has the cache of providers
nova.conf
  CONF  has the options of the service
nova.context
  CELL_TIMEOUT              is how long Nova waits for a cell
  get_admin_context         is what objects are read with
  is_cell_failure_sentinel  tells a cell that does not answer
  scatter_gather_cells      reads the hosts of all cells
nova.exception
  BuildAbortException             has Nova try no other host
  ComputeResourcesUnavailable     has Nova try another host
  GroupAffinityViolation          has it do so, and count no failed build
  InstanceActionNotFound          tells that a request is of no action
  InstanceFaultRollback           has a server stay as it is
  InstanceMappingNotFound         tells that no cell has a server
  InstanceNotFound                tells that a server or its guest is gone
  MigrationContextNotFound        tells that a server has no CPUs here
  MigrationNotFound               tells that a migration is gone
  MigrationPreCheckError          has a live migration try another host
  NoValidHost                     has a server refused with words of ours
  NovaException                   is what Nova raises, of any kind
  PciDeviceUnsupportedHypervisor  is what Nova raises for its own devices
  PlacementReshapeConflict        tells that others wrote during a reshape
  ReshapeFailed                   tells that placement refused a reshape
  ReshapeNeeded                   asks for a reshape at the start
  ValidationError                 has the API answer 400
nova.exception:NovaException
  kwargs  has the reason without the words around it
nova.objects
  register_all  loads the classes that are checked
nova.scheduler.client.report
  report_client_singleton  asks placement with the scheduler's credentials
nova.scheduler.client.report:SchedulerReportClient
  clear_provider_cache            forgets a deleted provider, or builds fail
  delete_allocation_for_instance  gives a claim back
  get                             tells who has what of a provider
  get_allocs_for_consumer         tells no answer from no allocations
nova.scheduler.host_manager:HostState
  aggregates             may set the multipliers of weighers
  allocation_candidates  is what filters narrow
  num_instances          tells whether Nova has chosen a host meanwhile
  numa_topology          has the free CPUs
  stats                  has what a host has published
  updated                tells when the host was read
nova.scheduler.manager:SchedulerManager
  _add_periodic_task  has Nova call without a request
nova.scheduler.utils
  get_weight_multiplier  reads what aggregates set
  request_is_rebuild     tells that there are no candidates
nova.utils
  generate_hostid  makes the name of a host that a project may read
  synchronized     takes the semaphore of the tracker
nova.version
  version_string  tells the release, each of which has its tests
nova.virt.event
  EVENT_LIFECYCLE_STARTED  tells that a guest has a process
nova.virt.event:LifecycleEvent
  get_instance_uuid  tells whose guest it is
  get_transition     tells what has happened to it
nova.virt.fake:FakeDriver
  instances  has no guests of a former process
  memory_mb  must be enough for a demonstration
nova.virt.hardware
  get_cpu_dedicated_set  has CPUs for the cells of the fake host
  get_cpu_shared_set     has the others
  numa_get_constraints   tells how many cells a server is to have
nova.virt.libvirt.config
  LibvirtConfigGuestHostdevPCI  selects devices of a guest
nova.virt.libvirt.driver
  libvirt  has the error of a guest that is gone
nova.virt.libvirt.driver:LibvirtDriver
  _attach_pci_devices           gives a guest what it was saved without
  _check_cpu_set_configuration  tells whether a start would fail
  _create_guest                 starts all guests but those of snapshots
  _create_guest_with_network    starts one that may lack its devices
  _destroy                      ends a guest that has no resources
  _detach_pci_devices           makes it possible to save a guest
  _get_guest_pci_device         describes a device to libvirt
  _get_guest_xml                writes a domain, whose devices must be there
  _get_host_numa_topology       has the CPUs over which guests float
  _guest_add_pci_devices        writes devices into a domain
  _hard_reboot                  starts a guest for three methods of a driver
  _host                         asks libvirt
  _init_host_topology           is when all CPUs are online
  _needs_suspend_resume_for_snapshot  tells whether a snapshot makes a process
  _resume_guest_after_snapshot  makes that process
  _suspend_guest_for_snapshot   ends the one before it
nova.virt.libvirt.guest:Guest
  get_all_devices  tells which devices a guest has
  get_xml_desc     tells which devices each guest has
nova.virt.libvirt.host:Host
  get_guest    finds the guest of a server
  list_guests  finds the processes of all guests
nova.virt.node
  read_local_node_uuid   tells whether the fake host was started before
  write_local_node_uuid  lets it be started again
""")

#: Public names, after the module or the class that has them.
PUBLIC = tuple(
    _list("""
nova.api.validation.extra_specs.base:ExtraSpecValidator validate
nova.compute.provider_tree:ProviderTree add_traits data exists new_child
  remove_traits update_aggregates update_inventory
nova.objects NUMACell NUMAPagesTopology NetworkMetadata
nova.objects.fields InstanceState InstanceTaskState
nova.objects:CellMapping identity is_cell0
nova.objects:CellMappingList get_all
nova.objects:ComputeNode get_first_node_by_host_for_old_compat
nova.objects:ComputeNodeList get_by_pagination
nova.objects:Instance apply_migration_context drop_migration_context
  get_by_uuid mutated_migration_context
nova.objects:InstanceAction get_by_request_id
nova.objects:InstanceActionEvent event_finish_with_failure event_start
nova.objects:InstanceActionEventList get_by_action
nova.objects:InstanceList get_by_filters get_by_host get_uuids_by_host
nova.objects:InstanceMapping get_by_instance_uuid
nova.objects:Migration get_by_id get_by_uuid
nova.objects:MigrationContext get_by_instance_uuid
nova.objects:MigrationList get_by_filters get_in_progress_by_host_and_node
nova.objects:NUMATopology obj_from_db_obj obj_to_primitive
nova.objects:PciDevice address extra_info
nova.objects:SchedulerLimits to_dict
nova.objects:Service get_by_host_and_binary
nova.scheduler.filters:BaseHostFilter RUN_ON_REBUILD filter_all host_passes
nova.scheduler.weights:BaseHostWeigher _weigh_object weigh_objects
  weight_multiplier
nova.virt.driver:ComputeDriver capabilities check_can_live_migrate_destination
  check_can_live_migrate_source check_source_migrate_data_at_dest cleanup
  cleanup_host confirm_migration destroy emit_event finish_migration
  finish_revert_migration get_available_nodes get_available_resource get_info
  get_nodenames_by_uuid init_host list_instance_uuids live_migration
  migrate_disk_and_power_off pause post_claim_migrate_data post_live_migration
  post_live_migration_at_destination post_live_migration_at_source power_off
  power_on pre_live_migration reboot rescue resume resume_state_on_host_boot
  rollback_live_migration_at_destination spawn suspend unrescue
  update_provider_tree virtapi
""")
)

#: What Nova passes by position to what this package puts in place of a method;
#: others may follow.
ARGUMENTS = {
    'ComputeDriver.check_source_migrate_data_at_dest': (
        'ctxt, instance, migrate_data, migration, limits, allocs'
    ),
    'ComputeDriver.live_migration': (
        'context, instance, dest, post_method, recover_method, '
        'block_migration, migrate_data'
    ),
    'ComputeDriver.post_live_migration_at_source': (
        'context, instance, network_info'
    ),
    'LibvirtDriver._create_guest_with_network': 'context, xml, instance',
    'LibvirtDriver._get_guest_xml': 'context, instance',
    'LibvirtDriver._guest_add_pci_devices': 'guest, instance',
    'ResourceTracker.drop_move_claim': 'context, instance, nodename, flavor',
    'ResourceTracker.free_pci_device_claims_for_instance': 'context, instance',
    'ResourceTracker.instance_claim': (
        'context, instance, nodename, allocations, limits'
    ),
    'ResourceTracker.live_migration_claim': (
        'context, instance, nodename, migration, limits, allocs'
    ),
    'ResourceTracker.rebuild_claim': (
        'context, instance, nodename, allocations, limits'
    ),
    'ResourceTracker.resize_claim': (
        'context, instance, flavor, nodename, migration, allocations, '
        'image_meta, limits'
    ),
    'ResourceTracker.update_available_resource': 'context, nodename',
}

#: All that is used of Nova: of a class, also what its methods set.
NAMES = (*REPLACED, *USED, *PUBLIC)


def find_missing(names: Iterable[str] = NAMES) -> list[str]:
    """Return those that Nova does not have, of the modules in use here.

    A process of Nova imports what it needs: nova-compute has no filters.
    """
    described = (
        f'{name}({ARGUMENTS[path]})' if path in ARGUMENTS else name
        for name in names
        for path in [name.partition(':')[2]]
    )
    return [
        name
        for name in described
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
