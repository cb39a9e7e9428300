# SPDX-License-Identifier: Apache-2.0

"""What a virt driver does for servers that are migrated live.

See "Live migration" in the page "Moves" of the contributors. Which method
Nova calls on which host was read from and tried with Nova 34 (ComputeManager
``check_can_live_migrate_destination``, ``pre_live_migration``,
``_post_live_migration`` and ``_rollback_live_migration``).
"""

from collections.abc import Callable, Iterator, Mapping
import contextlib
from typing import Any

from nova import objects
from oslo_log import log as logging
from oslo_utils import excutils

from nova_ext_resources import exception
from nova_ext_resources.objects.documents import stats
from nova_ext_resources import plugins
from nova_ext_resources.virt.driver import errors
from nova_ext_resources.virt.driver import events
from nova_ext_resources.virt.driver import live_migration_checks
from nova_ext_resources.virt.driver import mixin
from nova_ext_resources.virt.driver import operations
from nova_ext_resources.virt.driver import request
from nova_ext_resources.virt.hooks import resource_tracker

LOG = logging.getLogger(__name__)


class LiveMigrationsMixin(mixin.ExtResourcesMixin):
    """Comes before a ``ComputeDriver`` in the bases of a driver class."""

    _ext_attempts: live_migration_checks.MigrationAttempts

    def init_host(self, host: str) -> None:
        self._ext_attempts = live_migration_checks.MigrationAttempts()
        super().init_host(host)

    # -- the destination ------------------------------------------------

    def check_can_live_migrate_destination(
        self,
        context: Any,
        instance: Any,
        src_compute_info: Mapping[str, Any],
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Refuse a server before anything is claimed for it.

        :raises MigrationPreCheckError: its host has an older release of this
            package
        """
        with live_migration_checks.translated():
            if self._ext_claims.requests_resources(instance, instance.flavor):
                known = src_compute_info.get('stats') or {}
                live_migration_checks.check_source(instance, known)
        return super().check_can_live_migrate_destination(
            context, instance, src_compute_info, *args, **kwargs
        )

    def check_source_migrate_data_at_dest(
        self,
        ctxt: Any,
        instance: Any,
        migrate_data: Any,
        migration: Any,
        limits: Any,
        allocs: Mapping[str, Any] | None,
    ) -> Any:
        """Claim: this is the last check, and comes after Nova's own claim.

        :param migration: None from a conductor whose RPC is pinned to a
            release that did not pass it, which Nova still accepts
        :raises MigrationPreCheckError: the server stays as it is, and Nova
            tries another host
        :raises NoValidHost: an extra spec is malformed; Nova tries none
        """
        with self._taken_back_on_failure(ctxt, instance, migration):
            self._claim_live(ctxt, instance, migration, allocs)
            return super().check_source_migrate_data_at_dest(
                ctxt, instance, migrate_data, migration, limits, allocs
            )

    def _claim_live(
        self,
        context: Any,
        instance: Any,
        migration: Any,
        allocations: Mapping[str, Any] | None,
    ) -> None:
        with live_migration_checks.translated():
            if self._has_nothing_here(instance, allocations):
                return
            if migration is None:
                self._check_unnamed(instance, allocations)
                return
            moved = self._make_moved(instance, migration)
            self._begin(instance, migration)
            self._ext_claims.claim(
                context,
                moved,
                allocations,
                operations.Operation.MOVE_IN,
                migration_uuid=migration.uuid,
            )

    def _check_unnamed(
        self, instance: Any, allocations: Mapping[str, Any] | None
    ) -> None:
        """Refuse a server of ours whose migration the conductor omits.

        :raises MigrationPreCheckError: it has extended resources
        :raises InvalidExtraSpec: one of its extra specs is malformed
        """
        self._ext_claims.make_request(instance, allocations)
        if self._ext_claims.requests_resources(instance, instance.flavor):
            raise live_migration_checks.make_no_migration(instance)

    def _begin(self, instance: Any, migration: Any) -> None:
        """Note that a migration is about to claim.

        Only now is it checked what a claim would take from the server: while
        the former host answered, Nova may have given this migration up, and
        the server may have come with the next one.

        :raises MigrationPreCheckError: that is so, or Nova has lost a guest
        """
        claimed = self._ext_attempts.find(instance.uuid)
        live_migration_checks.check_order(instance, migration.id, claimed)
        if self._ext_claims.requests_resources(instance, instance.flavor):
            live_migration_checks.check_guests(
                instance, self.list_instance_uuids()
            )
        self._ext_attempts.begin(instance.uuid, migration.id)

    def _has_nothing_here(
        self, instance: Any, allocations: Mapping[str, Any] | None
    ) -> bool:
        """Return whether a server has nothing of ours in spite of its flavor.

        Its extra specs are malformed, and were not ours when it was built.
        """
        host = self._ext.host
        try:
            self._ext_claims.make_request(instance, None)
        except exception.InvalidExtraSpec:
            asked = request.make_request(instance, allocations, None)
            return not (
                host.list_consumers(instance.uuid)
                or host.view.list_places(asked.allocations)
            )
        return False

    def _make_moved(self, instance: Any, migration: Any) -> Any:
        """Return the server as it will be on this host.

        :raises MigrationPreCheckError: it has no CPUs of this host
        """
        moved = instance.obj_clone()
        if resource_tracker.has_live_claim(instance, migration):
            found = instance.migration_context
            moved.numa_topology = found.new_numa_topology
        elif self._ext_claims.requests_resources(instance, instance.flavor):
            live_migration_checks.check_cpus(instance)
        return moved

    @contextlib.contextmanager
    def _taken_back_on_failure(
        self, context: Any, instance: Any, migration: Any
    ) -> Iterator[None]:
        """Leave no claim behind, ours or Nova's: Nova asks this host no more.

        Whatever has failed: Nova tries another host, or none.
        """
        try:
            yield
        except BaseException:
            with excutils.save_and_reraise_exception():
                resource_tracker.take_back(
                    instance,
                    lambda: self._give_up(
                        instance, migration.id if migration else None
                    ),
                    lambda: self._drop_claim(context, instance, migration),
                )

    def _drop_claim(self, context: Any, instance: Any, migration: Any) -> None:
        found = self._find_tracker()
        if found is not None:
            nodename = self._ext.host.node.hypervisor_hostname
            resource_tracker.drop_live_claim(
                found, context, instance, migration, nodename
            )

    def pre_live_migration(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Apply, so that the guest has its units from its first instruction.

        Comes after Nova's own part, which powers the server's CPUs on.

        :raises MigrationPreCheckError: the server runs on where it is
        """
        migration_id = self._ext_attempts.find(instance.uuid)
        with self._ext.host.starting(instance.uuid):
            try:
                data = super().pre_live_migration(
                    context, instance, *args, **kwargs
                )
                self._prepare(context, instance)
                return data
            except BaseException:
                self._give_up(instance, migration_id)
                raise

    def _prepare(self, context: Any, instance: Any) -> None:
        if not self._ext_claims.requests_resources(instance, instance.flavor):
            return
        with (
            live_migration_checks.translated(),
            self._ext_claims.reported(
                context, events.APPLY, 'incoming', instance
            ),
            errors.translated(instance, self._ext.host.host),
        ):
            self._ext.host.prepare(instance.uuid)

    def post_live_migration_at_destination(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        with self._ext.host.starting(instance.uuid):
            try:
                # First, since it brings the guest's network back.
                super().post_live_migration_at_destination(
                    context, instance, *args, **kwargs
                )
            finally:
                self._arrive(context, instance)

    def _arrive(self, context: Any, instance: Any) -> None:
        """Record that the server is here; never stop Nova, its guest runs.

        What was released on its way, as by Nova's message of a former attempt,
        is claimed anew. Repair tries again to apply what could not be.
        """
        # Whatever happens here, restoring its entry is tried again.
        self._ext.host.gone.discard(instance.uuid)
        self._ext_attempts.end(instance.uuid)
        try:
            # Nova makes these CPUs the server's own after this.
            with instance.mutated_migration_context():
                self._ext_claims.restore(context, instance)
            self._ext.host.apply(instance.uuid)
        # Whatever it was: Nova would set a server that runs to ERROR.
        except Exception as err:
            LOG.error(
                'Host %(host)s: could not apply the resources of server '
                '%(uuid)s, which has arrived by a live migration. This will '
                'be retried: %(err)s',
                {
                    'host': self._ext.host.host,
                    'uuid': instance.uuid,
                    'err': plugins.describe(err),
                },
            )

    def rollback_live_migration_at_destination(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        block_device_info: Any,
        destroy_disks: bool = True,
        migrate_data: Any = None,
    ) -> None:
        """Release what this migration has claimed.

        Where Nova's part fails, a process of the guest may be left here: the
        comparison with Nova releases once there is none.
        """
        migration_id = None
        if migrate_data is not None and 'migration' in migrate_data:
            migration_id = migrate_data.migration.id
        with self._ext_attempts.undoing(migration_id):
            super().rollback_live_migration_at_destination(
                context,
                instance,
                network_info,
                block_device_info,
                destroy_disks=destroy_disks,
                migrate_data=migrate_data,
            )
            self._release(instance, operations.Operation.REVERT_OUT)

    def _give_up(self, instance: Any, migration_id: int | None) -> None:
        with self._ext_attempts.undoing(migration_id):
            self._release(instance, operations.Operation.REVERT_OUT)

    def _release(self, instance: Any, operation: operations.Operation) -> None:
        # Nova's libvirt driver also rolls back by its own ``destroy``.
        if operation is operations.Operation.REVERT_OUT and (
            self._ext_attempts.keeps_claim(instance.uuid)
        ):
            self._log_unreleased(instance.uuid)
            return
        self._ext_attempts.end(instance.uuid)
        super()._release(instance, operation)

    def _log_unreleased(self, uuid: str) -> None:
        if self._ext.host.find_entry(uuid) is not None:
            LOG.warning(
                'Host %(host)s: Nova undoes a live migration of server '
                "%(uuid)s. The server's resources on this host may belong to "
                'another migration, and stay until a comparison with Nova '
                'finds that they are not needed',
                {'host': self._ext.host.host, 'uuid': uuid},
            )

    # -- the source -----------------------------------------------------

    def check_can_live_migrate_source(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Refuse a server whose guest has devices of this host.

        The destination asks before it claims.

        :raises MigrationPreCheckError: so it is, whatever the destination
        """
        with live_migration_checks.translated():
            functions = self._ext_claims.list_functions(instance)
        with self._ext_claims.reported(
            context, events.CLAIM, functions, instance
        ):
            live_migration_checks.check_functions(instance, functions)
        return super().check_can_live_migrate_source(
            context, instance, *args, **kwargs
        )

    def live_migration(
        self,
        context: Any,
        instance: Any,
        dest: str,
        post_method: Callable[..., Any],
        recover_method: Callable[..., Any],
        block_migration: bool = False,
        migrate_data: Any = None,
    ) -> None:
        """Transfer, unless the destination runs without this package.

        Only here does Nova name it. After an error Nova would set the server
        to ERROR; so the migration is reported as failed.
        """
        try:
            self._check_destination(context, instance, dest)
        # Whatever it was: nothing has happened to the guest.
        except Exception as err:
            LOG.error(
                'Host %(host)s: the server is not migrated live to host '
                '%(dest)s, and runs on here: %(err)s',
                {
                    'host': self._ext.host.host,
                    'dest': dest,
                    'err': plugins.describe(err),
                },
                instance=instance,
            )
            recover_method(context, instance, dest, migrate_data)
            return
        super().live_migration(
            context,
            instance,
            dest,
            post_method,
            recover_method,
            block_migration,
            migrate_data,
        )

    def _check_destination(
        self, context: Any, instance: Any, dest: str
    ) -> None:
        if not self._ext_claims.requests_resources(instance, instance.flavor):
            return
        node = objects.ComputeNode.get_first_node_by_host_for_old_compat(
            context.elevated(), dest
        )
        if stats.LIVE_KEY in (node.stats or {}):
            return
        with self._ext_claims.reported(context, events.CLAIM, dest, instance):
            raise live_migration_checks.make_no_package(instance)

    def post_live_migration_at_source(
        self, context: Any, instance: Any, network_info: Any
    ) -> None:
        """Release: the guest has left, and Nova does not go back."""
        try:
            super().post_live_migration_at_source(
                context, instance, network_info
            )
        finally:
            self._release(instance, operations.Operation.MOVE_OUT)
