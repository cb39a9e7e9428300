# SPDX-License-Identifier: Apache-2.0

"""Names the PCI functions of a guest, and makes sure that they are there.

The virt driver writes them into the domain of the guest, and libvirt takes
them from the host and gives them back (``managed='yes'``). So there is nothing
to apply or to release here.

Which function is whose, nothing on the host keeps: the kernel shows no more of
it than the driver of a function, which may be bound to ``vfio-pci`` although
no guest has it. The hypervisor knows it of guests that run.
"""

from collections.abc import Iterator, Mapping
import dataclasses
from typing import ClassVar

from oslo_config import cfg

from nova_ext_resources.conf.drivers import hostdev
from nova_ext_resources.drivers import base
from nova_ext_resources.drivers.devices import files
from nova_ext_resources.drivers.devices import functions
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment

_NO_IOMMU = (
    'the kernel has no IOMMU group, so no guest can get a device of this '
    'host. Enable the IOMMU in the firmware; with an Intel processor, also '
    'add intel_iommu=on to the kernel command line'
)


class HostdevEnforcer(base.Enforcer):
    """Serves devices whose names are PCI addresses."""

    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = hostdev.OPTS

    #: Server -> functions in its guest -> the cards that these are of; as
    #: :meth:`list_in_guests` has found them.
    _in_guests: Mapping[str, Mapping[str, str]] = {}

    def serves(self, resource_class: str) -> bool:
        return resource_class in self.options.resource_classes

    def check_ready(self) -> None:
        if reason := self.find_host_problem():
            raise self._make_error('', reason)

    def find_host_problem(self) -> str:
        return '' if functions.has_iommu(self.options.path) else _NO_IOMMU

    def list_pci_functions(self, entry: assignment.Entry) -> tuple[str, ...]:
        return tuple(sorted(address for _one, address in self._list(entry)))

    def apply(
        self, entry: assignment.Entry
    ) -> tuple[assignment.Assignment, ...]:
        for one, address in self._list(entry):
            reason = functions.find_problem(self.options.path, address)
            if reason:
                raise self._make_error(
                    entry.consumer_uuid,
                    f'{address} of {one.rp_key} ({one.resource_class}) is '
                    f'gone: {reason}. The guest is not started without the '
                    'device. Bring the device back, or shelve and unshelve '
                    'the server to give it another device',
                )
        self._check_unused(entry)
        return entry.assignments

    def _check_unused(self, entry: assignment.Entry) -> None:
        """Make sure that no other guest has any of the functions.

        While the hypervisor does not answer, that is unknown, and libvirt
        refuses to start a guest with what another one has.

        :raises EnforcementFailed: one has
        """
        own = self.list_pci_functions(entry)
        guests = self.list_guests() if own else None
        for uuid, guest in (guests or {}).items():
            both = guest.pci_functions.intersection(own)
            if both and uuid != entry.server_uuid:
                raise self._make_error(
                    entry.consumer_uuid,
                    f'{min(both)} is in the guest of server {uuid}; perhaps a '
                    'ledger was lost, or Nova no longer knows this guest. '
                    f'Hard reboot server {uuid} if Nova has it on this host; '
                    'otherwise remove its guest from the hypervisor',
                )

    def release(self, entry: assignment.Entry) -> None:
        return None

    def list_applied(self) -> frozenset[str] | None:
        return None

    def list_in_guests(self) -> frozenset[str]:
        guests = self.list_guests()
        if guests is None:
            raise self._make_error(
                '',
                'the hypervisor does not report the running guests, so their '
                'devices are unknown',
            )
        self._in_guests = {
            uuid: {
                one: functions.find_card(self.options.path, one)
                for one in guest.pci_functions
            }
            for uuid, guest in guests.items()
            if guest.pci_functions
        }
        return frozenset(self._in_guests)

    def recover_units(
        self, entry: assignment.Entry
    ) -> tuple[assignment.Assignment, ...] | None:
        """Return what the guest of a server has of each provider.

        Nova and Neutron may have handed it others of the same card: then
        these are too many, and in doubt.
        """
        in_guest = self._in_guests.get(entry.server_uuid, {})
        others = {
            name
            for one in self.list_entries().values()
            if one.server_uuid != entry.server_uuid
            for name in self.list_pci_functions(one)
        }
        found = []
        for one in entry.assignments:
            if self.serves(one.resource_class):
                # The provider is a card, or the function itself.
                names = sorted(
                    name
                    for name, card in in_guest.items()
                    if one.rp_key.endswith((f'_{name}', f'_{card}'))
                )
                if len(names) != one.amount or others.intersection(names):
                    return None
                one = dataclasses.replace(one, units={'names': names})
            found.append(one)
        return tuple(found)

    def _list(
        self, entry: assignment.Entry
    ) -> Iterator[tuple[assignment.Assignment, str]]:
        """Yield each function of a server, with what it is a part of."""
        for one in entry.assignments:
            if self.serves(one.resource_class):
                for name in one.units.get('names', ()):
                    if files.ADDRESS.fullmatch(name):
                        yield one, name

    def _make_error(
        self, consumer_uuid: str, reason: str
    ) -> exception.EnforcementFailed:
        return exception.EnforcementFailed(
            enforcer='hostdev',
            host=self.host,
            consumer_uuid=consumer_uuid,
            reason=reason,
        )
