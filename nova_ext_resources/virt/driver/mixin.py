# SPDX-License-Identifier: Apache-2.0

"""What a virt driver does for extended resources; the base of ours.

Composition root: the one place where Nova's global options are read. The
package's own options come from the same files, through a private parser,
because Nova has already registered some of the names with other types.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar
import contextlib
import functools
import os

import nova.conf
from nova import exception as nova_exc
from nova.virt import driver
from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources.conf import reader
from nova_ext_resources import exception
from nova_ext_resources.facts import guest
from nova_ext_resources.host import nova_compute
from nova_ext_resources.host.service import loading
from nova_ext_resources.host.service import paths
from nova_ext_resources.host.service import wiring
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.virt.compat import startup_checks
from nova_ext_resources.virt.driver import claims
from nova_ext_resources.virt.driver import compute_node as node
from nova_ext_resources.virt.driver import errors
from nova_ext_resources.virt.driver import operations
from nova_ext_resources.virt.driver import request
from nova_ext_resources.virt.facts import consumer_roles
from nova_ext_resources.virt.facts import deletion_proof
from nova_ext_resources.virt.facts import migrations
from nova_ext_resources.virt.facts import servers
from nova_ext_resources.virt.hooks import numa_choice
from nova_ext_resources.virt.provider_config import collisions
from nova_ext_resources.virt.provider_config import nova_tree
from nova_ext_resources.virt.provider_config import old_inventory

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)


class ExtResourcesMixin(driver.ComputeDriver):
    """Comes before a ``ComputeDriver`` in the bases of a driver class."""

    #: The driver of Nova that our driver replaces. Nova gets an instance of it
    #: where neither plugins nor metrics are enabled and no former start has
    #: left files. It is not inherited: each driver class names its own.
    plain_driver: ClassVar[type[driver.ComputeDriver] | None] = None

    _ext: wiring.HostService
    _ext_claims: claims.Claims
    _ext_old: old_inventory.OldInventoryUpdates
    _ext_collisions: collisions.Collisions

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        plain = vars(cls).get('plain_driver')
        if plain is None or cls._is_needed():
            return super().__new__(cls)
        LOG.info(
            'No inventory provider, enforcer or metrics of nova-ext-resources '
            'are enabled, and no folder %(folder)s is left from an earlier '
            "use: Nova's own %(driver)s runs",
            {'folder': _find_state_path(), 'driver': plain.__name__},
        )
        return plain(*args, **kwargs)

    @classmethod
    def _is_needed(cls) -> bool:
        """Return whether this host has anything to do, also from before.

        What was enabled once has left a folder or a ledger, and perhaps
        providers in placement and settings on the host, which are removed.
        """
        try:
            conf = cls._read_conf(CONF.host)
        except exception.InvalidConfiguration:
            # init_host reports the error.
            return True
        folder = _find_state_path()
        ledger = paths.find_ledger_path(conf.ext_resources, folder, CONF.host)
        return (
            bool(loading.list_enabled(conf))
            or conf.ext_resources_metrics.port > 0
            or os.path.exists(folder)
            or os.path.exists(ledger)
        )

    @classmethod
    def check_start(cls) -> None:
        """Find what Nova's own start would fail with, without a start.

        Reads Nova's options.

        :raises ImportError: a library is not installed
        :raises InvalidConfiguration: Nova refuses an option
        """

    def init_host(self, host: str) -> None:
        with exception.naming_host(host), contextlib.ExitStack() as stack:
            # What can fail here does so before Nova's own. Of libvirt's
            # threads, which that starts, one keeps the process of a start
            # that fails later, and the service manager sees it running.
            conf = self._read_conf(host)
            startup_checks.check_nova(
                allow_untested=conf.ext_resources.allow_untested_nova
            )
            self._check_conf(conf)
            self._ext = self._make_service(conf, host)
            stack.callback(self._ext.stop)
            self._ext_claims = claims.Claims(
                self._ext,
                find_topology=self._find_host_topology,
                read_allocations=self._read_allocations,
            )
            self._ext_old = self._make_old()
            self._ext_collisions = collisions.Collisions(
                self._ext,
                tracker=self._find_tracker(),
                location=CONF.compute.provider_config_location,
            )
            self._ext.metrics.prepare()
            super().init_host(host)
            if (compute := self._find_compute()) is not None:
                node.check(compute, host)
            self._ext.describe(servers.describe(host))
            self._ext_old.prepare()
            self._ext.start()
            stack.pop_all()

    def cleanup_host(self, host: str) -> None:
        # Nova also cleans up a host that failed to start.
        if hasattr(self, '_ext'):
            self._ext.stop()
        super().cleanup_host(host)

    def _check_conf(self, conf: cfg.ConfigOpts) -> None:
        """Make sure that Nova's options go with ours.

        :param conf: of ours, parsed
        :raises ExtResourcesError: they do not
        """

    def _make_service(
        self, conf: cfg.ConfigOpts, host: str
    ) -> wiring.HostService:
        state_path = _find_state_path()
        # Also where ledger_path names another folder: this one tells the next
        # start that there is something to remove, see _is_needed.
        paths.make_folder(state_path)
        return wiring.HostService(
            conf,
            host=host,
            node=node.LateNode(self.get_nodenames_by_uuid),
            state_path=state_path,
            compute=self._make_nova_compute(host),
        )

    def _make_old(self) -> old_inventory.OldInventoryUpdates:
        return old_inventory.OldInventoryUpdates(
            self._ext,
            tracker=self._find_tracker(),
            location=CONF.compute.provider_config_location,
            make_request=self._ext_claims.make_request,
        )

    def _make_nova_compute(self, host: str) -> nova_compute.NovaCompute:
        """Return what answers the host's questions, in any thread."""
        return nova_compute.NovaCompute(
            on_deleted=lambda: nova_tree.forget(self._find_tracker()),
            list_roles=lambda entries: consumer_roles.list_roles(
                host,
                self._ext.host.node.hypervisor_hostname,
                self.list_instance_uuids(),
                entries,
                self._ext_claims.find_source_role,
                self._ext.allocation_writer.is_allocated,
                self._list_running(),
                # For all that may take long in a resize.
                CONF.long_rpc_timeout,
            ),
            find_migrations=functools.partial(
                consumer_roles.find_migrations, host
            ),
            explain=functools.partial(consumer_roles.explain, host),
            examine=lambda entry: deletion_proof.find(
                host,
                entry,
                {*self.list_instance_uuids(), *self._list_running()},
            ),
            list_known=lambda: consumer_roles.list_known(
                host, self._ext.host.node.hypervisor_hostname
            ),
            find_hosts=servers.find_hosts,
            list_requests=lambda: self._list_requests(host),
            list_servers=lambda: servers.describe(host),
            list_guests=self._list_guests,
            find_building=lambda uuids: servers.find_building(host, uuids),
            list_problems=lambda: self._ext_collisions.problems,
            long_call_timeout=CONF.long_rpc_timeout,
        )

    @staticmethod
    def _read_conf(host: str) -> cfg.ConfigOpts:
        return reader.read_conf(
            CONF.config_file or (), CONF.config_dir or (), host
        )

    def _list_requests(self, host: str) -> dict[str, assignment.ClaimRequest]:
        """Return what servers request that Nova and the hypervisor have here.

        Without those that Nova does something with now. Their own allocations
        are not among it, only those that Nova has left with a migration.
        """
        known = frozenset(self.list_instance_uuids())
        topology = self._find_host_topology()
        found = {}
        for one in servers.list_instances(host, 'numa_topology'):
            if one.uuid in known and one.task_state is None:
                # Built before there were extra specs of ours, if malformed.
                with contextlib.suppress(exception.InvalidExtraSpec):
                    found[one.uuid] = request.make_request(
                        one,
                        self._read_left(host, one.uuid),
                        self._ext.grammar,
                        topology,
                    )
        return found

    def _read_left(self, host: str, server_uuid: str) -> Any:
        """Return what moves given up still have of a server without entry.

        :raises PlacementError: it does not answer
        """
        if self._ext.host.list_consumers(server_uuid):
            return None
        moves = migrations.list_left(host, server_uuid)
        return next(filter(None, map(self._read_allocations, moves)), {})

    def _list_running(self) -> dict[str, guest.Guest]:
        """Return the guests that have processes here now, by server.

        Of none that is missing here a process is expected. A driver whose
        guests are processes returns them; Nova's fake driver has none.
        """
        return {}

    def _list_guests(self) -> dict[str, guest.Guest]:
        """Return these guests with all that enforcers ask about them."""
        return self._list_running()

    def _read_allocations(self, consumer_uuid: str) -> dict[str, Any]:
        """Return what placement has allocated, as Nova passes it to us.

        Not with Nova's get_allocations_for_consumer, for which a placement
        that does not answer has allocated nothing.

        :raises PlacementError: it does not answer
        """
        return {
            rp_uuid: {'resources': amounts}
            for rp_uuid, amounts in self._ext.read_allocations(
                consumer_uuid
            ).items()
        }

    def _find_tracker(self) -> Any:
        """Return Nova's resource tracker; None where there is none (yet)."""
        return getattr(self._find_compute(), 'rt', None)

    def _find_compute(self) -> Any:
        """Return Nova's compute manager; None where there is none."""
        return getattr(self.virtapi, '_compute', None)

    # -- what the host reports ------------------------------------------

    def get_available_resource(self, nodename: str) -> dict[str, Any]:
        # Nova calls it first after its checks of host name and cell.
        self._ext.periodic.accept_host()
        data: dict[str, Any] = super().get_available_resource(nodename)
        if data:
            own = {**self._ext.host.list_stats(), stats.LIVE_KEY: '1'}
            data['stats'] = {**(data.get('stats') or {}), **own}
            if data.get('numa_topology'):
                data['numa_topology'] = numa_choice.mark(
                    data['numa_topology'], self._ext.host.view
                )
        return data

    def update_provider_tree(
        self,
        provider_tree: Any,
        nodename: str,
        allocations: dict[str, Any] | None = None,
    ) -> None:
        # As Nova calls it: drivers of others may know no allocations.
        given = {} if allocations is None else {'allocations': allocations}
        with self._ext_old.updating(provider_tree, nodename, allocations):
            super().update_provider_tree(provider_tree, nodename, **given)
        self._ext_collisions.refuse(provider_tree, nodename)
        self._show_stats(nodename)
        # Of its own provider, Nova is the only writer.
        traits = self._ext.host.node_traits
        provider_tree.add_traits(nodename, *traits.added)
        provider_tree.remove_traits(nodename, *traits.removed)
        # Nova is about to create its node if this is the first time.
        self._ext.notice_node()

    # -- the life of a server ------------------------------------------

    def spawn(
        self,
        context: Any,
        instance: Any,
        image_meta: Any,
        injected_files: Any,
        admin_password: Any,
        allocations: Mapping[str, Any] | None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        operation = operations.find_operation(
            'spawn', instance, self._ext.host.host
        )
        with (
            errors.rebuild_shown(operation, instance.uuid),
            self._ext.host.starting(instance.uuid),
        ):
            try:
                self._claim_guest(context, instance, allocations, operation)
                with self._building(context, instance):
                    super().spawn(
                        context,
                        instance,
                        image_meta,
                        injected_files,
                        admin_password,
                        allocations,
                        *args,
                        **kwargs,
                    )
            # Whatever it was.
            except BaseException:
                self._release_failed(
                    instance,
                    operations.find_end(
                        operation, instance, self._ext.host.host
                    ),
                )
                raise

    def _release_failed(
        self, instance: Any, operation: operations.Operation
    ) -> None:
        """Release what a server has that was not spawned.

        Unless its guest may run: the hypervisor could not end it, or does not
        answer. After an unshelve or an evacuation, Nova does not try that
        again. The comparison with Nova releases once there is no guest.
        """
        if self._ext.is_off(instance.uuid):
            self._release(instance, operation)
        elif self._ext_claims.holds(instance):
            LOG.error(
                'Host %(host)s: could not start server %(uuid)s '
                '(%(operation)s), but the hypervisor still has the guest, or '
                'does not answer. The server keeps its resources here until '
                'the guest has ended: see guest_here_server_elsewhere in the '
                'documentation',
                {
                    'host': self._ext.host.host,
                    'uuid': instance.uuid,
                    'operation': operation,
                },
            )

    def _claim_guest(
        self,
        context: Any,
        instance: Any,
        allocations: Mapping[str, Any] | None,
        operation: operations.Operation,
    ) -> None:
        """Claim for a guest that is about to be spawned."""
        self._ext_claims.claim(context, instance, allocations, operation)

    @contextlib.contextmanager
    def _building(self, context: Any, instance: Any) -> Iterator[None]:
        """Surround Nova's own ``spawn`` of a server that has its claim."""
        yield

    def resume(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        try:
            self._ext_claims.restore_and_apply(
                context, instance, keeps_cpus=True
            )
        except nova_exc.NovaException as err:
            # Starting it would use up the memory that was saved.
            raise nova_exc.InstanceFaultRollback(inner_exception=err) from err
        super().resume(context, instance, *args, **kwargs)

    def rescue(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        self._ext_claims.restore_and_apply(context, instance)
        super().rescue(context, instance, *args, **kwargs)

    def unrescue(self, context: Any, instance: Any) -> None:
        self._ext_claims.restore_and_apply(context, instance)
        super().unrescue(context, instance)

    def destroy(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        # Before the state of the server changes.
        operation = operations.find_operation(
            'destroy',
            instance,
            self._ext.host.host,
            destroy_secrets=kwargs.get('destroy_secrets', True),
            is_evacuated=functools.partial(
                servers.is_evacuated, context, self._ext.host.host
            ),
        )
        super().destroy(context, instance, *args, **kwargs)
        self._release_destroyed(context, instance, operation)

    def _release_destroyed(
        self,
        context: Any,
        instance: Any,
        operation: operations.Operation,
    ) -> None:
        """Release what a server has whose guest was destroyed."""
        self._release(instance, operation)

    def _find_host_topology(self) -> Any:
        """Return the host's NUMA topology; None where it has none."""
        return None

    def _show_stats(self, nodename: str) -> None:
        """Put the present view into what Nova is about to write.

        Nova asks for it by ``get_available_resource``, in a periodic only and
        before it takes its semaphore, and writes the compute node whenever a
        server comes, goes or moves. Without this, a boot right after a delete
        on a full host would be refused.
        """
        tracker = self._find_tracker()
        node = tracker and tracker.compute_nodes.get(nodename)
        if node is None:
            return
        try:
            node.stats = {**(node.stats or {}), **self._ext.host.list_stats()}
        # Of a plugin: it is no reason to stop what Nova does.
        except Exception:
            LOG.exception(
                'Host %(host)s: could not report the free resources to the '
                'scheduler. Please report this bug',
                {'host': self._ext.host.host},
            )

    def _release(self, instance: Any, operation: operations.Operation) -> None:
        self._ext_claims.release(instance.uuid, operation)


def _find_state_path() -> str:
    """Return the folder of files that no option names."""
    return os.path.join(CONF.state_path, 'ext_resources')
