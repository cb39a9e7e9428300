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

"""Nova's libvirt driver with extended resources."""

from typing import Any

from nova.virt.libvirt import driver

from nova_ext_resources.virt import mixin


class LibvirtDriver(mixin.ExtResourcesMixin, driver.LibvirtDriver):
    """Guests start paused, get what they were promised, and then run.

    ``_create_guest`` is what spawn, power on, hard reboot, resume, rescue
    and all moves go through (libvirt driver of Nova 34).
    """

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
        guest = super()._create_guest(
            context,
            xml,
            instance,
            power_on=power_on,
            pause=starts,
            post_xml_callback=post_xml_callback,
        )
        if starts:
            try:
                self._apply(context, instance)
            except BaseException:
                # It has not run yet, and must not without its resources.
                guest.poweroff()
                raise
            if not pause:
                guest.resume()
        return guest

    def _hard_reboot(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        with self._keeping(instance):
            super()._hard_reboot(context, instance, *args, **kwargs)

    def reboot(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        super().reboot(context, instance, *args, **kwargs)
        # A soft reboot starts a new process past ``_create_guest``.
        self._apply(context, instance)
