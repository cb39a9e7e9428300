# SPDX-License-Identifier: Apache-2.0

"""Claims, applies and releases for Nova's instances.

Reports what is refused to the owner of the server, and raises it as an error
of Nova.
"""

from collections.abc import Callable, Mapping
import contextlib
from typing import Any

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.facts import consumer_role
from nova_ext_resources.host.service import wiring
from nova_ext_resources.objects import assignment
from nova_ext_resources import plugins
from nova_ext_resources.virt.driver import errors
from nova_ext_resources.virt.driver import events
from nova_ext_resources.virt.driver import operations
from nova_ext_resources.virt.driver import request
from nova_ext_resources.virt.guards import cachetune
from nova_ext_resources.virt.guards import cpu_pinning
from nova_ext_resources.virt.guards import pci_functions

LOG = logging.getLogger(__name__)


class Claims:
    """Claims of the servers of one driver. Safe to share by threads.

    :param find_topology: returns the host's NUMA topology; None where it has
        none
    :param read_allocations: returns what placement has allocated to a
        consumer, in the form of Nova's report client; raises PlacementError
        where it does not answer
    """

    def __init__(
        self,
        service: wiring.HostService,
        *,
        find_topology: Callable[[], Any],
        read_allocations: Callable[[str], Mapping[str, Any]],
    ) -> None:
        self._service = service
        self._host = service.host
        self._grammar = service.grammar
        self._find_topology = find_topology
        self._read_allocations = read_allocations

    def claim(
        self,
        context: Any,
        instance: Any,
        allocations: Mapping[str, Any] | None,
        operation: operations.Operation,
        *,
        migration_uuid: str = '',
        is_here: bool = False,
    ) -> None:
        """Claim, unless the server has a claim that the operation keeps.

        :param migration_uuid: of the move for which this is Nova's claim on
            the destination
        :param is_here: whether the server moves to the host that it is on
        :raises NovaException: nothing is held, but see
            :meth:`.HostService.claim`
        """
        if not migration_uuid and (
            operation.keeps_claim
            and (
                self._is_claim_valid(instance)
                or self._is_old(instance, allocations)
            )
        ):
            return
        if not (migration_uuid or operation.keeps_claim):
            self._check_off(instance)
        with errors.translated(instance, self._host.host):
            asked = self.make_request(
                instance,
                allocations,
                consumer_uuid=migration_uuid if is_here else instance.uuid,
            )
        with (
            self.reported(
                context, events.CLAIM, request.find_keys(instance), instance
            ),
            errors.translated(instance, self._host.host),
        ):
            self._service.claim(asked, is_move=bool(migration_uuid))

    def _check_off(self, instance: Any) -> None:
        """Refuse a server whose former guest would lose its units.

        :raises HostRefused: it may run here, as Nova does not know
        """
        if self.holds(instance) and not self._service.is_off(instance.uuid):
            raise errors.HostRefused(
                reason=(
                    'this host may already have a guest of server '
                    f'{errors.find_name(instance)} (for example after a '
                    'failed unshelve or evacuation): end that guest with the '
                    'tools of the hypervisor'
                )
            )

    def make_request(
        self,
        instance: Any,
        allocations: Mapping[str, Any] | None,
        consumer_uuid: str = '',
    ) -> assignment.ClaimRequest:
        """Return what a server requests of this host.

        :raises InvalidExtraSpec: an extra spec of ours is malformed
        """
        return request.make_request(
            instance,
            allocations,
            self._grammar if self._service.is_enabled else None,
            self._find_topology() if instance.numa_topology else None,
            consumer_uuid=consumer_uuid,
        )

    def _is_claim_valid(self, instance: Any) -> bool:
        """Return whether the server has a claim, for the CPUs that it has.

        After a refused migration Nova may rebuild it on other CPUs.
        """
        entry = self._host.find_entry(instance.uuid)
        return (
            entry is not None
            and self.holds(instance)
            and entry.cpus == request.find_cpus(instance)
        )

    def _is_old(
        self, instance: Any, allocations: Mapping[str, Any] | None
    ) -> bool:
        """Return whether a server has its resources on the compute node."""
        held = request.make_request(instance, allocations, None).allocations
        return not self.holds(instance) and self._service.is_old(held)

    def apply(
        self, context: Any, instance: Any, *, must_hold: bool = False
    ) -> None:
        """Apply what a server has claimed; see :class:`.ClaimManager`.

        :raises NovaException: it is not applied
        """
        entry = self._host.find_entry(instance.uuid)
        with (
            self.reported(context, events.APPLY, entry, instance),
            errors.translated(instance, self._host.host),
        ):
            self._host.apply(instance.uuid, must_hold=must_hold)

    def check_guest(
        self, context: Any, instance: Any, xml: str, *, is_resumed: bool
    ) -> None:
        """Refuse to start a guest that would not have what its server holds.

        Or whose cache libvirt would control, too.

        :param xml: of its domain
        :param is_resumed: whether it gets its PCI functions after the start
        :raises NovaException: it must not start
        """
        wanted = () if is_resumed else self.list_functions(instance)
        with (
            self.reported(context, events.APPLY, xml, instance),
            errors.translated(instance, self._host.host),
        ):
            cachetune.check(
                xml, host=self._host.host, server_uuid=instance.uuid
            )
            pci_functions.check(
                xml, wanted, host=self._host.host, server_uuid=instance.uuid
            )
            entry = self._host.find_entry(instance.uuid)
            if entry is not None and self._host.enforcement.is_enforced(entry):
                cpu_pinning.check(xml, entry, host=self._host.host)

    def list_functions(self, instance: Any) -> tuple[str, ...]:
        """Return the PCI functions that the guest of a server must have.

        :raises NovaException: an enforcer cannot tell
        """
        entry = self._host.find_entry(instance.uuid)
        if entry is None or not self.holds(instance):
            return ()
        with errors.translated(instance, self._host.host):
            return self._host.enforcement.list_pci_functions(entry)

    def check_functions(self, context: Any, instance: Any) -> None:
        """Make sure of the PCI functions that a guest is about to get.

        :raises NovaException: one is not there
        """
        entry = self._host.find_entry(instance.uuid)
        if entry is None or not self.list_functions(instance):
            return
        with (
            self.reported(context, events.APPLY, entry, instance),
            errors.translated(instance, self._host.host),
        ):
            self._host.enforcement.check_pci_functions(entry)

    def restore_and_apply(
        self, context: Any, instance: Any, *, keeps_cpus: bool = False
    ) -> None:
        """Apply what a server has, claimed anew where its entry is missing.

        :param keeps_cpus: whether the guest starts again on the CPUs that it
            had, whatever CPUs Nova has for it by now
        :raises NovaException: it is not applied
        """
        if keeps_cpus and self._needs_others(instance):
            with self.reported(context, events.APPLY, instance, instance):
                raise errors.HostRefused(
                    reason=(
                        'the guest would start again on its former CPUs, but '
                        'Nova has other CPUs for the server (for example '
                        'after an interrupted move): reboot server '
                        f'{errors.find_name(instance)} hard'
                    )
                )
        self.restore(context, instance)
        self.apply(context, instance)

    def holds(self, instance: Any) -> bool:
        """Return whether a server has a claim; see :class:`.ClaimManager`."""
        return self._host.holds(instance.uuid)

    def reported(
        self, context: Any, name: str, subject: object, instance: Any
    ) -> contextlib.AbstractContextManager[None]:
        """Report an event, unless the server has nothing of ours."""
        if not subject:
            return contextlib.nullcontext()
        return events.reported(context, name, self._host.host, instance)

    def release(
        self, consumer_uuid: str, operation: operations.Operation
    ) -> None:
        """Release what a consumer holds; never stop Nova's operation.

        An entry that cannot be released stays, and is tried again.
        """
        try:
            self._service.release(consumer_uuid, operation)
        # Whatever it was: a guest may run, or be gone, in spite of it.
        except Exception as err:
            LOG.error(
                'Host %(host)s: could not release the resources of %(uuid)s '
                '(%(operation)s); this will be retried: %(err)s',
                {
                    'host': self._host.host,
                    'uuid': consumer_uuid,
                    'operation': operation,
                    'err': plugins.describe(err),
                },
            )

    def restore(self, context: Any, instance: Any) -> None:
        """Claim for a server whose entry is missing, or for other CPUs.

        The ledger was lost, or the entry was being released when Nova
        started the server again. What a move has kept is the server's again
        if Nova has given the server its former allocations back. A move that
        broke off may have left Nova other CPUs than were claimed.

        :raises HostRefused: the resources are no longer available
        :raises NovaException: placement does not say what is allocated
        """
        host = self._host
        has_cpus = self._has_cpus(instance)
        if (has_cpus and host.has_own(instance.uuid)) or not (
            self.requests_resources(instance, instance.flavor)
        ):
            return
        self.end_moves(instance)
        if has_cpus and self.holds(instance):
            return
        with errors.translated(instance, host.host):
            allocations = self._read_allocations(instance.uuid)
        if not has_cpus:
            self._check_allocated(instance, allocations)
        self.claim(
            context, instance, allocations, operations.Operation.RESTART
        )

    def _needs_others(self, instance: Any) -> bool:
        """Return whether Nova has CPUs for it where it would have nothing."""
        entry = self._host.find_entry(instance.uuid)
        return not self._has_cpus(instance) and (
            entry is not None and self._host.enforcement.is_enforced(entry)
        )

    def _has_cpus(self, instance: Any) -> bool:
        """Return whether a server has the CPUs that it has claimed, if any."""
        entry = self._host.find_entry(instance.uuid)
        claimed = entry.cpus if entry else None
        return claimed is None or claimed == request.find_cpus(instance)

    def _check_allocated(
        self, instance: Any, allocations: Mapping[str, Any]
    ) -> None:
        """Check that a new claim may take the place of a server's entry.

        :raises HostRefused: placement has allocated nothing of ours for it
        """
        if not self._host.view.keys.keys() & allocations.keys():
            raise errors.HostRefused(
                reason=(
                    f'the CPUs of server {errors.find_name(instance)} in Nova '
                    'differ from its claimed CPUs on this host, and placement '
                    'has no allocation of this host for the server (for '
                    'example after an interrupted move). The server is not '
                    'started without its resources: shelve and unshelve it'
                )
            )

    def end_moves(self, instance: Any, consumer_uuid: str = '') -> None:
        """Give a server back what former moves have kept, if it is its own.

        As the comparison with Nova does, for which there was no time yet.

        :param instance: is on this host; with its flavor and its NUMA
            topology
        :param consumer_uuid: under which placement has what the server has:
            the migration with which it leaves; by default its own
        :raises NovaException: the server cannot have it
        """
        host = self._host
        if host.has_own(instance.uuid):
            return
        with errors.translated(instance, host.host):
            for uuid in host.list_consumers(instance.uuid):
                if (entry := host.find_entry(uuid)) is None:
                    continue
                found = self.find_source_role(instance, entry, consumer_uuid)
                if found is consumer_role.Role.RETURNED:
                    self._service.unpark(instance.uuid, uuid)

    def find_source_role(
        self, instance: Any, entry: assignment.Entry, consumer_uuid: str = ''
    ) -> consumer_role.Role:
        """Return what an entry of a move is to its server, which is here.

        For the parameters see :meth:`end_moves`.
        """
        if entry.purpose is not assignment.Purpose.MIGRATION_SOURCE:
            return consumer_role.Role.LEFT
        try:
            asked = self.make_request(instance, None)
        except exception.InvalidExtraSpec:
            # What was valid when the server was built.
            asked = request.make_request(instance, None, None)
        return self._service.allocation_writer.find_role(
            entry, asked, consumer_uuid or instance.uuid
        )

    def requests_resources(self, instance: Any, flavor: Any) -> bool:
        """Return whether a server holds or requests resources of ours."""
        if self.holds(instance):
            return True
        try:
            asked = request.make_requirement(flavor, self._grammar)
        except exception.InvalidExtraSpec:
            # Refused when a server is built. One that runs was built before
            # this was enabled, and holds what the ledger says.
            return False
        return bool(self._host.view.resource_classes & asked.resources.keys())
