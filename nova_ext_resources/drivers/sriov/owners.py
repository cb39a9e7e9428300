# SPDX-License-Identifier: Apache-2.0

"""Which virtual functions are not this package's to allocate. Pure."""

from collections.abc import Container, Iterable, Iterator
import dataclasses

from nova_ext_resources.drivers.devices import device_spec
from nova_ext_resources.drivers.sriov import missing
from nova_ext_resources.drivers.sriov import neutron
from nova_ext_resources.drivers.sriov import sysfs
from nova_ext_resources.objects import alarm


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FunctionOwners:
    """Who else has virtual functions of this host.

    :ivar excluded: addresses and interfaces of functions that the operator
        keeps for the host
    :ivar absent: interfaces that these options name, and nothing has
    """

    nova: tuple[device_spec.DeviceSpec, ...] = ()
    agent: neutron.NeutronAgent
    excluded: frozenset[str] = frozenset()
    absent: tuple[missing.MissingInterface, ...] = ()

    def find(
        self, one: sysfs.VirtualFunction, parent: sysfs.PhysicalFunction
    ) -> str:
        """Explain why a virtual function is left out; '' if it is not."""
        return self._find_certain(one, parent) or ', '.join(
            f'{absent.named}, which may be one of these functions'
            for absent in self.absent
            if absent.may_be_of(one, parent)
        )

    def _find_certain(
        self, one: sysfs.VirtualFunction, parent: sysfs.PhysicalFunction
    ) -> str:
        if any(spec.matches(one, parent) for spec in self.nova):
            return 'Nova allocates them ([pci] device_spec)'
        if self.agent.manages(one, parent):
            return (
                "Neutron's SR-IOV agent manages them ([sriov_nic] "
                'physical_device_mappings)'
            )
        names = {one.address, *one.interfaces, parent.address}
        names.update(port.name for port in parent.ports)
        if names & self.excluded:
            return '[ext_resources_sriov] excluded_devices names them'
        return ''

    def list_problems(
        self,
        cards: Iterable[sysfs.PhysicalFunction],
        used: Container[str],
    ) -> Iterator[alarm.Problem]:
        """Report what is left out because it may be what an option names.

        :param used: addresses of functions that servers hold: they are not
            left out
        """
        for absent in self.absent:
            addresses = [
                one.address
                for parent in cards
                for one in parent.functions
                if absent.may_be_of(one, parent)
                and one.address not in used
                and not self._find_certain(one, parent)
            ]
            if addresses:
                yield absent.explain(describe(addresses))


def sort(
    owners: FunctionOwners, parent: sysfs.PhysicalFunction
) -> tuple[list[sysfs.VirtualFunction], dict[str, list[str]]]:
    """Return what may be allocated, and reason -> what is left out."""
    ours: list[sysfs.VirtualFunction] = []
    left_out: dict[str, list[str]] = {}
    for one in parent.functions:
        reason = owners.find(one, parent)
        if reason:
            left_out.setdefault(reason, []).append(one.address)
        else:
            ours.append(one)
    return ours, left_out


def describe(addresses: Iterable[str]) -> str:
    """Return a few addresses, and how many there are."""
    listed = list(addresses)
    first = ', '.join(listed[:2])
    return first if len(listed) < 3 else f'{first}, ... ({len(listed)})'
