# SPDX-License-Identifier: Apache-2.0

"""Interfaces that options name, and that the host does not have now. Pure.

The interface of a function vanishes while the function is in use: DPDK binds
it to another driver, or a guest or a container has it. Until the interface is
back, its function looks like any other one without an interface.
"""

from collections.abc import Iterable
import dataclasses

from nova_ext_resources.drivers.devices import device_spec
from nova_ext_resources.drivers.devices import files
from nova_ext_resources.drivers.sriov import neutron
from nova_ext_resources.drivers.sriov import sysfs
from nova_ext_resources.objects import alarm

_EXCLUDED = '[ext_resources_sriov] excluded_devices'
_NOVA = '[pci] device_spec'
_AGENT = '[sriov_nic] physical_device_mappings'

#: Option -> how it names a function whose interface comes and goes.
_ADVICE = {
    _EXCLUDED: (
        'Write the PCI address of the function instead of the name, or '
        'remove the name'
    ),
    _NOVA: (
        'Write the "address" of the function instead of "devname", or remove '
        'the entry'
    ),
    _AGENT: 'Give the physical function its interface back, or remove the '
    'mapping',
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MissingInterface:
    """One interface.

    :ivar option: that names it
    :ivar spec: has the ids of the function
    :ivar is_physical: whether it is certainly one of a physical function
    :ivar excepted: addresses of functions that are not meant
    """

    option: str
    interface: str
    spec: device_spec.DeviceSpec = dataclasses.field(
        default_factory=device_spec.DeviceSpec
    )
    is_physical: bool = False
    excepted: frozenset[str] = frozenset()

    @property
    def named(self) -> str:
        return f'{self.option} names {self.interface}'

    def may_be_of(
        self, one: sysfs.VirtualFunction, parent: sysfs.PhysicalFunction
    ) -> bool:
        """Return whether it may be a function's own, or its card's."""
        if one.address in self.excepted or not self.spec.has_ids_of(one):
            return False
        if not parent.ports:
            return True
        return not self.is_physical and not one.interfaces

    def explain(self, functions: str) -> alarm.Problem:
        """Report functions, one of which may have it."""
        return alarm.Problem(
            alarm=alarm.RESOURCES_LEFT_OUT,
            subject=f'{self.option} {self.interface}',
            text=f'{self.named}, but this host does not have this interface '
            'now. The function of the interface may be in use and may be any '
            f'of {functions}, so servers get none of these functions. '
            f'{_ADVICE[self.option]}',
        )


def find(
    known: frozenset[str],
    *,
    excluded: Iterable[str],
    nova: Iterable[device_spec.DeviceSpec],
    agent: neutron.NeutronAgent,
) -> tuple[MissingInterface, ...]:
    """Return what is named and missing.

    :param known: all interfaces that the host has now
    """
    named = (
        *(
            MissingInterface(option=_EXCLUDED, interface=name)
            for name in sorted(excluded)
            if not files.parse_address(name)
        ),
        *(
            MissingInterface(option=_NOVA, interface=spec.interface, spec=spec)
            for spec in nova
            if spec.interface
        ),
        *(
            MissingInterface(
                option=_AGENT,
                interface=name,
                is_physical=True,
                excepted=agent.excluded,
            )
            for name in sorted(agent.interfaces)
        ),
    )
    return tuple(one for one in named if one.interface not in known)
