# SPDX-License-Identifier: Apache-2.0

"""Writes the PCI functions of servers into the guests of libvirt.

Which of Nova's methods write a domain, and that a guest cannot be saved with a
device of the host, was read from Nova 34 (``_get_guest_xml``, ``suspend``,
``resume``): Nova detaches its own PCI devices before, and attaches them after.
"""

from collections.abc import Iterator
import contextlib
import dataclasses
from typing import Any

import nova.conf
from nova import exception as nova_exc
from nova import objects
from nova.virt.libvirt import config
from nova.virt.libvirt import driver
from oslo_utils import excutils

from nova_ext_resources.facts import guest as guest_obj
from nova_ext_resources.virt.driver import mixin
from nova_ext_resources.virt.guards import pci_functions

CONF = nova.conf.CONF


class HostdevsMixin(mixin.ExtResourcesMixin, driver.LibvirtDriver):
    """Nova's libvirt driver; its guests have what enforcers name.

    See :meth:`.Enforcer.list_pci_functions`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        #: Servers whose guests are being started without what they were
        #: saved without; they get it afterwards.
        self._ext_resuming: set[str] = set()

    def _get_guest_xml(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> Any:
        self._ext_claims.check_functions(context, instance)
        return super()._get_guest_xml(context, instance, *args, **kwargs)

    def _guest_add_pci_devices(self, guest: Any, instance: Any) -> None:
        super()._guest_add_pci_devices(guest, instance)
        found = self._list_devices(instance)
        # As Nova does for its own PCI devices.
        if found and CONF.libvirt.virt_type not in ('qemu', 'kvm'):
            raise nova_exc.PciDeviceUnsupportedHypervisor(
                type=CONF.libvirt.virt_type
            )
        for one in found:
            guest.add_device(self._get_guest_pci_device(one))

    def suspend(self, context: Any, instance: Any) -> None:
        """Save the guest without its devices, as libvirt demands."""
        guest = self._host.get_guest(instance)
        with self._attached_on_failure(instance):
            self._detach_pci_devices(
                guest, self._select(instance, guest, is_there=True)
            )
            super().suspend(context, instance)

    def resume(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        self._ext_resuming.add(instance.uuid)
        try:
            super().resume(context, instance, *args, **kwargs)
        finally:
            self._ext_resuming.discard(instance.uuid)

    def _create_guest_with_network(
        self, context: Any, xml: str, instance: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Attach at once, before anything else of Nova's resume may fail."""
        guest = super()._create_guest_with_network(
            context, xml, instance, *args, **kwargs
        )
        if instance.uuid in self._ext_resuming:
            with self._paused_on_failure(instance):
                self._attach_devices(instance)
        return guest

    def _attach_devices(self, instance: Any) -> None:
        """Attach what a guest was saved without."""
        guest = self._host.get_guest(instance)
        self._attach_pci_devices(
            guest, self._select(instance, guest, is_there=False)
        )

    def _select(
        self, instance: Any, guest: Any, *, is_there: bool
    ) -> list[objects.PciDevice]:
        """Return the devices of a server that its guest has, or lacks."""
        has = guest.get_all_devices(config.LibvirtConfigGuestHostdevPCI)
        return [
            one
            for one in self._list_devices(instance)
            if (self._get_guest_pci_device(one) in has) == is_there
        ]

    def _list_guests(self) -> dict[str, guest_obj.Guest]:
        found = super()._list_guests()
        if not self._ext.host.enforcement.has_pci_functions:
            return found
        return {
            one.uuid: dataclasses.replace(
                found[one.uuid], pci_functions=pci_functions.find(xml)
            )
            for one in self._host.list_guests(only_running=True)
            if one.uuid in found and (xml := _read_xml(one))
        }

    def _list_devices(self, instance: Any) -> list[objects.PciDevice]:
        return [
            objects.PciDevice(address=address, extra_info={})
            for address in self._ext_claims.list_functions(instance)
        ]

    @contextlib.contextmanager
    def _attached_on_failure(self, instance: Any) -> Iterator[None]:
        """Do not let a guest that was not saved run on without its devices."""
        try:
            yield
        except BaseException:
            with (
                excutils.save_and_reraise_exception(),
                self._paused_on_failure(instance),
            ):
                self._attach_devices(instance)

    @contextlib.contextmanager
    def _paused_on_failure(self, instance: Any) -> Iterator[None]:
        """Do not let a guest run on without its resources.

        Its memory is worth keeping.
        """
        try:
            yield
        except BaseException:
            with excutils.save_and_reraise_exception():
                self.pause(instance)


def _read_xml(guest: Any) -> str:
    """Return the domain of a guest; '' for one that is gone by now."""
    libvirt = driver.libvirt
    try:
        xml: str = guest.get_xml_desc()
    except libvirt.libvirtError as err:
        if err.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return ''
        raise
    return xml
