# SPDX-License-Identifier: Apache-2.0

"""Names the PCI functions of a guest, and makes sure that they are there.

The virt driver writes them into the domain of the guest, and libvirt takes
them from the host and gives them back (``managed='yes'``). So there is nothing
to apply or to release here.
"""

from collections.abc import Iterator
from typing import ClassVar

from oslo_config import cfg

from nova_ext_resources.conf import hostdev as conf
from nova_ext_resources.drivers import base
from nova_ext_resources.drivers.devices import files
from nova_ext_resources.drivers.devices import functions
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment

_NO_IOMMU = (
    'the kernel has no IOMMU group, so that no guest can have a device of '
    'this host. Switch the IOMMU on in the firmware and, with an Intel '
    'processor, by intel_iommu=on on the command line of the kernel'
)


class HostdevEnforcer(base.Enforcer):
    """Serves devices whose names are PCI addresses."""

    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = conf.OPTS

    def serves(self, resource_class: str) -> bool:
        return resource_class in self.options.resource_classes

    def check_ready(self) -> None:
        if reason := self.find_obstacle():
            raise self._make_error('', reason)

    def find_obstacle(self) -> str:
        return '' if functions.has_iommu(self.options.path) else _NO_IOMMU

    def list_pci_functions(self, entry: assignment.Entry) -> tuple[str, ...]:
        return tuple(sorted(address for _one, address in self._list(entry)))

    def apply(
        self, entry: assignment.Entry
    ) -> tuple[assignment.Assignment, ...]:
        for one, address in self._list(entry):
            reason = functions.find_fault(self.options.path, address)
            if reason:
                raise self._make_error(
                    entry.consumer_uuid,
                    f'{address} of {one.rp_key} ({one.resource_class}) is '
                    f'gone: {reason}. The guest is not started without it. '
                    'Bring the device back, or shelve and unshelve the '
                    'server, which gets it another one',
                )
        return entry.assignments

    def release(self, entry: assignment.Entry) -> None:
        return None

    def list_applied(self) -> frozenset[str] | None:
        return None

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
