# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Nova's libvirt driver with extended resources.

Which of Nova's methods start a guest, and which of them go through
``_create_guest``, was read from and tried with Nova 34.
"""

from collections.abc import Iterator
import contextlib
from typing import Any

from nova import exception as nova_exc
from nova.virt.libvirt import driver
from oslo_log import log as logging
from oslo_utils import excutils

from nova_ext_resources.resctrl import errors
from nova_ext_resources.resctrl import topology
from nova_ext_resources.virt import mixin

LOG = logging.getLogger(__name__)


class LibvirtDriver(mixin.ExtResourcesMixin, driver.LibvirtDriver):
    """Guests start paused, get what they were promised, and then run.

    A guest that cannot have it is not left running. Before a running guest
    is taken down to be started anew, the host is asked whether the new one
    will get its own: when not, the old one goes on. (Not so for a rescue,
    for which Nova powers it off before the driver is asked.)

    Servers that ask for nothing are left to Nova's driver alone.
    """

    def _init_host_topology(self) -> None:
        """Learn the caches of all CPUs while Nova has them switched on.

        With ``[libvirt] cpu_power_management`` it switches off those that no
        server uses at the end of ``init_host``, and the kernel tells nothing
        of these.
        """
        super()._init_host_topology()
        try:
            topology.read_known(topology.PATH, topology.LEVELS)
        except errors.ResctrlError as err:
            LOG.debug('What can be given out is told without: %s', err)

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
        if starts:
            self._restore_claim(context, instance)
        if not starts or not self._holds(instance):
            return super()._create_guest(
                context, xml, instance, power_on, pause, post_xml_callback
            )
        with self._off_on_failure(instance):
            guest = super()._create_guest(
                context,
                xml,
                instance,
                power_on=power_on,
                pause=True,
                post_xml_callback=post_xml_callback,
            )
            self._apply(context, instance, must_hold=True)
            if not pause:
                guest.resume()
        return guest

    def _spawn_claimed(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        # What fails after the start would leave the guest running, and its
        # claim is given back.
        with self._off_on_failure(instance):
            super()._spawn_claimed(context, instance, *args, **kwargs)

    def _hard_reboot(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        """Serve hard reboot, power on and the boot of the host.

        Nova calls ``destroy`` in it.
        """
        self._put_into_force(context, instance)
        with self._keeping(instance):
            super()._hard_reboot(context, instance, *args, **kwargs)

    def resume(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        try:
            self._put_into_force(context, instance)
        except nova_exc.NovaException as err:
            # Starting it would use up the memory that was saved.
            raise nova_exc.InstanceFaultRollback(inner_exception=err) from err
        super().resume(context, instance, *args, **kwargs)

    def unrescue(self, context: Any, instance: Any) -> None:
        self._put_into_force(context, instance)
        super().unrescue(context, instance)

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
            self._put_into_force(context, instance)
        super().reboot(
            context, instance, network_info, reboot_type, *args, **kwargs
        )
        if is_soft:
            with self._off_on_failure(instance):
                self._apply(context, instance)

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
            self._put_into_force(context, instance)
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
        super()._resume_guest_after_snapshot(
            context, live_snapshot, original_power_state, instance, guest
        )
        if not self._needs_suspend_resume_for_snapshot(
            live_snapshot, original_power_state
        ):
            return
        try:
            self._apply(context, instance)
        except BaseException:
            # Its memory is worth keeping.
            with excutils.save_and_reraise_exception():
                self.pause(instance)

    # -- claims --------------------------------------------------------

    def _holds(self, instance: Any) -> bool:
        return self._ext.host.holds(instance.uuid)

    def _put_into_force(self, context: Any, instance: Any) -> None:
        self._restore_claim(context, instance)
        self._apply(context, instance)

    def _restore_claim(self, context: Any, instance: Any) -> None:
        """Claim again for a server that should hold something, and does not.

        The ledger was lost, or giving back was under way when Nova started
        the server again.

        :raises HostRefused: not to be had any more
        """
        if self._holds(instance) or not self._asks(instance, instance.flavor):
            return
        allocations = self.virtapi.reportclient.get_allocations_for_consumer(
            context, instance.uuid
        )
        self._claim(context, instance, allocations)

    @contextlib.contextmanager
    def _off_on_failure(self, instance: Any) -> Iterator[None]:
        """Do not leave a guest running without its resources."""
        try:
            yield
        except BaseException:
            with excutils.save_and_reraise_exception():
                self._destroy(instance)
