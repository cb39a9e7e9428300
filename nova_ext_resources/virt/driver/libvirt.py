# SPDX-License-Identifier: Apache-2.0

"""Nova's libvirt driver with extended resources.

Which of Nova's methods start a guest, and which of them go through
``_create_guest``, was read from and tried with Nova 34.
"""

from collections.abc import Iterator
import contextlib
import importlib
from typing import Any

import nova.conf
from nova import exception as nova_exc
from nova.virt import event as virtevent
from nova.virt.libvirt import driver
from oslo_config import cfg
from oslo_log import log as logging
from oslo_utils import excutils

from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources.drivers.resctrl.kernel import topology
from nova_ext_resources import exception
from nova_ext_resources.facts import guest as guest_obj
from nova_ext_resources.host.service import loading
from nova_ext_resources.host.service import wiring
from nova_ext_resources.virt.driver import hostdevs
from nova_ext_resources.virt.driver import incoming_guests
from nova_ext_resources.virt.driver import live_migration
from nova_ext_resources.virt.driver import moves
from nova_ext_resources.virt.guards import cpu_power

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)


class LibvirtDriver(
    live_migration.LiveMigrationsMixin,
    moves.MovesMixin,
    hostdevs.HostdevsMixin,
):
    """Starts guests paused, applies their resources, and resumes them.

    A guest without its resources is not left running. Before a guest is
    stopped in order to be started again, its resources are applied; when
    that fails, it runs on. (Not for a rescue: Nova powers the server off
    before it calls the driver.)

    Servers that request nothing of ours are left to Nova's driver.
    """

    plain_driver = driver.LibvirtDriver

    _ext_incoming: incoming_guests.IncomingGuests

    @classmethod
    def check_start(cls) -> None:
        # As in Nova's constructor.
        try:
            importlib.import_module('libvirt')
        except ImportError as err:
            raise ImportError(
                f'{err}: the missing package is libvirt-python, or '
                'python3-libvirt of the distribution'
            ) from err
        try:
            # Part of Nova's init_host; it reads options only.
            cls._check_cpu_set_configuration(object.__new__(cls))
        except nova_exc.NovaException as err:
            cpus = CONF.compute
            raise exception.InvalidConfiguration(
                option='[compute] cpu_dedicated_set',
                value=f'{cpus.cpu_dedicated_set}, cpu_shared_set = '
                f'{cpus.cpu_shared_set}',
                reason=f'Nova refuses to start: {err.format_message()}',
            ) from err

    def _check_conf(self, conf: cfg.ConfigOpts) -> None:
        # Nova's start switches CPUs off, also those of servers that run.
        cpu_power.check(conf.ext_resources, CONF.libvirt)

    def _make_service(
        self, conf: cfg.ConfigOpts, host: str
    ) -> wiring.HostService:
        made = super()._make_service(conf, host)
        # libvirt's events come in before Nova's own start has ended.
        self._ext_incoming = incoming_guests.IncomingGuests(made.host)
        made.health.watch(self._ext_incoming)
        return made

    def init_host(self, host: str) -> None:
        super().init_host(host)
        self._ext_incoming.start()

    def cleanup_host(self, host: str) -> None:
        # Nova also cleans up a host that failed to start.
        if hasattr(self, '_ext_incoming'):
            self._ext_incoming.stop()
        super().cleanup_host(host)

    def _init_host_topology(self) -> None:
        """Read the caches of all CPUs while they are online.

        With ``[libvirt] cpu_power_management`` Nova switches off the CPUs
        that no server uses at the end of ``init_host``, and then the kernel
        does not show their caches.
        """
        super()._init_host_topology()
        # The one plugin for which these count.
        if 'resctrl' not in loading.list_enabled(self._ext.conf):
            return
        try:
            topology.read_known(topology.PATH, topology.LEVELS)
        except errors.ResctrlError as err:
            LOG.debug('The caches of all CPUs cannot be read: %s', err)

    def _list_running(self) -> dict[str, guest_obj.Guest]:
        """Return libvirt's active domains; those that are paused are."""
        return {
            one.uuid: guest_obj.Guest(name=one.name, number=one.id)
            for one in self._host.list_guests(only_running=True)
        }

    # -- every start but those of the next section goes through here ----

    def _create_guest(
        self,
        context: Any,
        xml: str,
        instance: Any,
        power_on: bool = True,
        pause: bool = False,
        post_xml_callback: Any = None,
    ) -> Any:
        starts = power_on or pause
        with contextlib.ExitStack() as stack:
            if starts:
                stack.enter_context(self._ext.host.starting(instance.uuid))
                self._ext_claims.restore(context, instance)
            if not starts or not self._ext_claims.holds(instance):
                return super()._create_guest(
                    context, xml, instance, power_on, pause, post_xml_callback
                )
            self._ext_claims.check_guest(
                context,
                instance,
                xml,
                is_resumed=instance.uuid in self._ext_resuming,
            )
            stack.enter_context(self._powered_off_on_failure(instance))
            guest = super()._create_guest(
                context,
                xml,
                instance,
                power_on=power_on,
                pause=True,
                post_xml_callback=post_xml_callback,
            )
            self._ext_claims.apply(context, instance, must_hold=True)
            if not pause:
                guest.resume()
        return guest

    @contextlib.contextmanager
    def _building(self, context: Any, instance: Any) -> Iterator[None]:
        # A failure after the start would leave the guest running while its
        # claim is released.
        with self._powered_off_on_failure(instance):
            yield

    def _hard_reboot(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        """Serve hard reboot, power on and the boot of the host."""
        self._ext_claims.restore_and_apply(context, instance)
        super()._hard_reboot(context, instance, *args, **kwargs)

    # -- starts of a new process past ``_create_guest`` ----------------

    def reboot(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        reboot_type: str,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        is_soft = reboot_type == 'SOFT'
        if is_soft:
            # Nova boots one that is off as in a hard reboot.
            self._ext_claims.restore_and_apply(
                context,
                instance,
                keeps_cpus=not self._ext.is_off(instance.uuid),
            )
        super().reboot(
            context, instance, network_info, reboot_type, *args, **kwargs
        )
        if is_soft:
            with self._powered_off_on_failure(instance):
                self._ext_claims.apply(context, instance)

    def _suspend_guest_for_snapshot(
        self,
        context: Any,
        live_snapshot: Any,
        current_power_state: Any,
        instance: Any,
    ) -> None:
        if self._needs_suspend_resume_for_snapshot(
            live_snapshot, current_power_state
        ):
            self._ext_claims.restore_and_apply(
                context, instance, keeps_cpus=True
            )
        super()._suspend_guest_for_snapshot(
            context, live_snapshot, current_power_state, instance
        )

    def _resume_guest_after_snapshot(
        self,
        context: Any,
        live_snapshot: Any,
        original_power_state: Any,
        instance: Any,
        guest: Any,
    ) -> None:
        try:
            super()._resume_guest_after_snapshot(
                context, live_snapshot, original_power_state, instance, guest
            )
        finally:
            # Also of a guest that runs although the rest has failed.
            if self._needs_suspend_resume_for_snapshot(
                live_snapshot, original_power_state
            ):
                with self._paused_on_failure(instance):
                    self._ext_claims.apply(context, instance)
                    self._attach_devices(instance)

    # -- the process of a guest that is migrated live to here ----------

    def emit_event(self, event: Any) -> None:
        """Have it applied when the process of a guest that comes has started.

        It waits for the guest's memory then. Nova calls nothing here between
        that and the guest's first instruction.
        """
        if isinstance(event, virtevent.LifecycleEvent) and (
            event.get_transition() == virtevent.EVENT_LIFECYCLE_STARTED
        ):
            self._ext_incoming.notice(event.get_instance_uuid())
        super().emit_event(event)

    # -- claims --------------------------------------------------------

    def _find_host_topology(self) -> Any:
        return self._get_host_numa_topology()

    @contextlib.contextmanager
    def _powered_off_on_failure(self, instance: Any) -> Iterator[None]:
        """Do not leave a guest running without its resources."""
        try:
            yield
        except BaseException:
            with excutils.save_and_reraise_exception():
                self._destroy(instance)
