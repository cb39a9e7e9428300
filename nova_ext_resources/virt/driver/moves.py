# SPDX-License-Identifier: Apache-2.0

"""What a virt driver does for servers that are resized or migrated cold.

See the page "Moves" of the contributors, and there "A move to another cell",
of which Nova's method names tell nothing.
"""

from collections.abc import Mapping
from typing import Any

from nova.compute import power_state
from nova import exception as nova_exc
from nova import objects
from oslo_log import log as logging

from nova_ext_resources.objects import assignment
from nova_ext_resources import plugins
from nova_ext_resources.virt.driver import errors
from nova_ext_resources.virt.driver import events
from nova_ext_resources.virt.driver import live_migration_checks
from nova_ext_resources.virt.driver import mixin
from nova_ext_resources.virt.driver import operations
from nova_ext_resources.virt.hooks import numa_choice
from nova_ext_resources.virt.hooks import resource_tracker

LOG = logging.getLogger(__name__)


class MovesMixin(mixin.ExtResourcesMixin):
    """Comes before a ``ComputeDriver`` in the bases of a driver class."""

    def init_host(self, host: str) -> None:
        super().init_host(host)
        found = self._find_tracker()
        if found is None:
            LOG.error(
                'Host %(host)s: the driver finds no resource tracker of Nova. '
                'Servers that are resized or migrated to this host claim only '
                'after their guests are powered off, and Nova tries no other '
                'host if the claim fails. Nova also chooses CPUs without '
                'regard to caches. Please report this bug',
                {'host': host},
            )
            return
        numa_choice.watch(found, lambda: self._ext.host.view)
        resource_tracker.watch(found, self._claim_move, self._release_move)

    # -- the destination ------------------------------------------------

    def _claim_move(
        self,
        context: Any,
        moved: Any,
        instance: Any,
        migration: Any,
        allocations: Mapping[str, Any] | None,
    ) -> None:
        """Claim for a server that is about to be resized or migrated here.

        :param moved: the server as it will be
        :param instance: the server as it is
        :raises InstanceFaultRollback: the server stays as it is, and Nova
            tries another host; none after ``MoveAborted``
        """
        is_here = instance.host == self._ext.host.host
        with errors.refusing_move(instance, self._ext.host.host):
            if is_here:
                # The claim would replace it.
                self._ext_claims.end_moves(instance, migration.uuid)
            else:
                self._check_guest(instance)
            self._ext_claims.claim(
                context,
                moved,
                allocations,
                operations.Operation.MOVE_IN,
                migration_uuid=migration.uuid,
                is_here=is_here,
            )

    def _check_guest(self, instance: Any) -> None:
        """Refuse a server whose guest would lose its units to the claim.

        :raises MigrationPreCheckError: it runs here, and Nova has lost that
        """
        if not self._ext_claims.holds(instance):
            return
        try:
            state = self.get_info(instance, use_cache=False).state
        except nova_exc.InstanceNotFound:
            return
        if state in (power_state.RUNNING, power_state.PAUSED):
            live_migration_checks.check_guests(instance, {instance.uuid})

    def _release_move(self, migration: Any) -> None:
        is_here = migration.source_compute == migration.dest_compute
        self._ext_claims.release(
            migration.uuid if is_here else migration.instance_uuid,
            operations.Operation.REVERT_OUT,
        )

    def finish_migration(
        self,
        context: Any,
        migration: Any,
        instance: Any,
        disk_info: Any,
        network_info: Any,
        image_meta: Any,
        resize_instance: bool,
        allocations: Mapping[str, Any] | None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        operation = operations.find_operation(
            'finish_migration', instance, self._ext.host.host
        )
        with self._ext.host.starting(instance.uuid):
            if migration.source_compute == migration.dest_compute:
                # Where that failed, the guest would get what it had before.
                self._exchange(instance, migration)
            self._ext_claims.claim(context, instance, allocations, operation)
            self._ext_claims.apply(context, instance)
            # When it fails, Nova leaves server and allocations here.
            super().finish_migration(
                context,
                migration,
                instance,
                disk_info,
                network_info,
                image_meta,
                resize_instance,
                allocations,
                *args,
                **kwargs,
            )

    def _claim_guest(
        self,
        context: Any,
        instance: Any,
        allocations: Mapping[str, Any] | None,
        operation: operations.Operation,
    ) -> None:
        is_from_cell = operations.is_from_cell(
            operation, instance, self._ext.host.host
        ) and self._ext_claims.requests_resources(instance, instance.flavor)
        if is_from_cell:
            _apply_context(context, instance)
        elif operation is operations.Operation.REBUILD:
            # Else it would have that, and what it claims now.
            self._ext_claims.end_moves(instance)
        super()._claim_guest(context, instance, allocations, operation)
        if is_from_cell:
            # The guest of a server that was stopped is not started.
            self._ext_claims.apply(context, instance)

    # -- the source -----------------------------------------------------

    def migrate_disk_and_power_off(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> Any:
        disk_info = super().migrate_disk_and_power_off(
            context, instance, *args, **kwargs
        )
        self._hold(context, instance)
        return disk_info

    def _release_destroyed(
        self,
        context: Any,
        instance: Any,
        operation: operations.Operation,
    ) -> None:
        # For a move to another cell, Nova destroys the guest and not its
        # disks, and may want it back.
        if operation is operations.Operation.MOVE_OUT:
            self._hold(context, instance)
            return
        if operation is operations.Operation.REBUILD:
            self._drop_context(instance)
        super()._release_destroyed(context, instance, operation)

    def _drop_context(self, instance: Any) -> None:
        """Let a server be rebuilt on the CPUs that it has.

        Nova leaves the context of a move that has failed on the source, and
        would spawn the guest with the CPUs of the other host
        (``ComputeManager._rebuild_default_impl``). No server that is rebuilt
        in its place is on its way.
        """
        if self._ext_claims.requests_resources(instance, instance.flavor):
            instance.drop_migration_context()

    def _hold(self, context: Any, instance: Any) -> None:
        """Keep what the server holds; never stop the move, its guest is off.

        Where the server stays on its host, this is tried once more before
        its guest starts. On another host the entry stays the server's: a
        revert finds it, and a confirmation releases it.
        """
        if not self._ext.host.list_consumers(instance.uuid):
            return
        try:
            migration = objects.Migration.get_by_id(
                context.elevated(), instance.migration_context.migration_id
            )
            self._ext_claims.end_moves(instance, migration.uuid)
            self._ext.park(instance.uuid, migration.uuid)
        # Nova's conductor or its message bus may be away as well.
        except Exception as err:
            LOG.error(
                'Host %(host)s: could not keep the resources of server '
                '%(uuid)s for a revert: %(err)s',
                {
                    'host': self._ext.host.host,
                    'uuid': instance.uuid,
                    'err': plugins.describe(err),
                },
            )

    def _exchange(self, instance: Any, migration: Any) -> None:
        """Do what is left to do of :meth:`_hold` on the server's own host.

        :raises ComputeResourcesUnavailable: the server is in ERROR, and
            keeps what it had
        """
        with errors.translated(instance, self._ext.host.host):
            self._ext.park(instance.uuid, migration.uuid, is_retry=True)

    def confirm_migration(
        self,
        context: Any,
        migration: Any,
        instance: Any,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        operation = operations.find_operation(
            'confirm_migration', instance, self._ext.host.host
        )
        try:
            super().confirm_migration(
                context, migration, instance, *args, **kwargs
            )
        finally:
            # Whatever happens, Nova deletes the allocations of the migration.
            self._ext_claims.release(migration.uuid, operation)
            # Nova may have moved it back here since, and confirms the first
            # of two moves.
            if instance.host != self._ext.host.host:
                self._release(instance, operation)

    def cleanup(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        """Delete the disks, which confirms a move to another cell."""
        is_confirmed = operations.is_confirmed_to_cell(
            instance, self._ext.host.host
        )
        try:
            super().cleanup(context, instance, *args, **kwargs)
        finally:
            # As above.
            if is_confirmed:
                for uuid in self._ext.host.list_consumers(instance.uuid):
                    self._ext_claims.release(
                        uuid, operations.Operation.CONFIRM
                    )

    def finish_revert_migration(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        migration: Any,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        with self._ext.host.starting(instance.uuid):
            self._take_back(context, instance, migration)
            super().finish_revert_migration(
                context, instance, network_info, migration, *args, **kwargs
            )

    def _take_back(self, context: Any, instance: Any, migration: Any) -> None:
        """Give the server back what the move has kept.

        Nova also calls this after a crash on the way: then the server has it
        still, and where it was to stay on its host, the move has what the
        server was to get.
        """
        host = self._ext.host
        kept = host.find_entry(migration.uuid)
        if (
            kept is not None
            and kept.purpose is assignment.Purpose.MIGRATION_SOURCE
        ):
            with (
                self._ext_claims.reported(
                    context, events.APPLY, 'kept', instance
                ),
                errors.translated(instance, host.host),
            ):
                self._ext.unpark(instance.uuid, migration.uuid)
            return
        self._ext_claims.restore(context, instance)
        self._ext_claims.apply(context, instance)


def _apply_context(context: Any, instance: Any) -> None:
    """Give a server from another cell the CPUs that Nova has claimed here.

    Nova's conductor has copied the server before this host claimed, and passes
    that copy: with the CPUs of its former host, or without any (Nova 34,
    CrossCellMigrationTask ``_prep_resize_at_dest``). Nova's compute manager
    saves the server after its guest was spawned.

    :raises MigrationContextNotFound: nothing says which these are
    """
    found = objects.MigrationContext.get_by_instance_uuid(
        context, instance.uuid
    )
    if found is None:
        raise nova_exc.MigrationContextNotFound(instance_uuid=instance.uuid)
    instance.migration_context = found
    instance.apply_migration_context()
