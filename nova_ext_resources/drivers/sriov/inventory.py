# SPDX-License-Identifier: Apache-2.0

"""Virtual functions that servers of this host may have.

One provider for each physical function: with one for each virtual function,
placement would return a thousand candidates for what sixteen say as well.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources.conf.drivers import sriov
from nova_ext_resources.conf import values
from nova_ext_resources.drivers import base
from nova_ext_resources.drivers.devices import assignments
from nova_ext_resources.drivers.devices import counted
from nova_ext_resources.drivers.devices import device_spec
from nova_ext_resources.drivers.sriov import missing
from nova_ext_resources.drivers.sriov import neutron
from nova_ext_resources.drivers.sriov import owners
from nova_ext_resources.drivers.sriov import physnets
from nova_ext_resources.drivers.sriov import sysfs
from nova_ext_resources.drivers.sriov import traits
from nova_ext_resources import log_on_change
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import resource

LOG = logging.getLogger(__name__)

#: Begins the keys of providers. The address alone would make the name that
#: Nova gives to its own provider of the same card.
PREFIX = 'SRIOV_'

_NO_CARD = sysfs.PhysicalFunction(address='')


class SriovInventory(base.InventoryProvider):
    """Virtual functions of network cards, by physical function.

    A card that changes while it is read is reported as it was before. One that
    is gone is reported as long as servers hold functions of it.

    :param nova: Nova's own options, by group
    """

    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = sriov.OPTS
    NOVA_OPTIONS: ClassVar[Mapping[str, tuple[cfg.Opt, ...]]] = sriov.NOVA_OPTS

    def __init__(
        self,
        options: cfg.ConfigOpts.GroupAttr,
        host: str,
        entries: base.EntriesReader = dict,
        *,
        nova: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(options, host, entries)
        self._class: str = options.resource_class
        specs = nova['pci'].device_spec if nova else ()
        networks, excluded = (
            options.physical_networks,
            options.excluded_devices,
        )
        with values.checked(
            '[ext_resources_sriov] physical_networks', networks
        ):
            self._networks = physnets.parse(networks)
        with values.checked('[pci] device_spec', specs):
            self._specs = device_spec.parse(specs)
        with values.checked(
            '[ext_resources_sriov] excluded_devices', excluded
        ):
            self._excluded = frozenset(map(sysfs.parse_device, excluded))
        #: Each card as it was when it last held still.
        self._cards: dict[str, sysfs.PhysicalFunction] = {}
        self._left_out: frozenset[str] = frozenset()
        self._problems: tuple[alarm.Problem, ...] = ()
        prefix = f'Host {host}: inventory provider sriov: '
        self._faults = log_on_change.LogOnChange(prefix)
        self._notes = log_on_change.LogOnChange(prefix)

    @property
    def left_out(self) -> frozenset[str]:
        return self._left_out

    @property
    def problems(self) -> tuple[alarm.Problem, ...]:
        return self._problems

    def definitions(self) -> tuple[resource.ResourceDefinition, ...]:
        return (
            resource.ResourceDefinition(
                name=self._class,
                type=counted.TRACKER,
                units='virtual functions',
                description='Virtual functions of a network card (SR-IOV), '
                'each with its PCI address.',
            ),
        )

    def discover(self) -> tuple[host_provider.HostProvider, ...]:
        # A server that comes or goes in between is in one of both.
        before = self.list_entries()
        seen, agent = self._read()
        holders = assignments.DeviceAssignments(
            {**before, **self.list_entries()}, PREFIX, self._class
        )
        found = {card.address: card for card in seen.functions}
        for address in seen.unsteady.keys() & self._cards.keys():
            found[address] = self._cards[address]
        self._cards = found
        self._left_out = frozenset(f'{PREFIX}{one}' for one in seen.unsteady)
        own = self._find_owners(found.values(), seen.others, agent)
        self._problems = tuple(
            own.list_problems(found.values(), holders.all_names)
        )
        faults = [
            f'{one} cannot be read ({reason}); the last known state is still '
            'used'
            for one, reason in seen.unsteady.items()
        ] + [
            f'{one.address} does not answer: the card has failed'
            for one in seen.functions
            if one.is_dead
        ]
        faults += self._list_misnamed(found.values())
        faults += map(str, self._problems)
        made, left_out = [], []
        for address in sorted(found.keys() | holders.names.keys()):
            card = found.get(address, _NO_CARD)
            is_unknown = address in seen.unsteady and address not in found
            one, reasons = self._make(address, card, own, holders, is_unknown)
            left_out += reasons
            made += [one] if one else []
        self._faults.log_new(LOG.warning, faults)
        self._notes.log_new(LOG.info, left_out)
        return tuple(made)

    def _read(self) -> tuple[sysfs.SriovScan, neutron.NeutronAgent]:
        """Read the host.

        :raises DiscoveryFailed: nothing can be reported this time
        """
        with base.discovering('sriov', OSError, ValueError):
            agent = neutron.read(self.options.neutron_config_files)
            return sysfs.read(self.options.path), agent

    def _find_owners(
        self,
        cards: Iterable[sysfs.PhysicalFunction],
        others: frozenset[str],
        agent: neutron.NeutronAgent,
    ) -> owners.FunctionOwners:
        """Return who else has functions.

        :param others: interfaces of other devices
        """
        known = others.union(*(one.names for one in cards))
        return owners.FunctionOwners(
            nova=self._specs,
            agent=agent,
            excluded=self._excluded,
            absent=missing.find(
                known, excluded=self._excluded, nova=self._specs, agent=agent
            ),
        )

    def _list_misnamed(
        self, cards: Iterable[sysfs.PhysicalFunction]
    ) -> list[str]:
        """Return what options name and no card has."""
        known = frozenset[str]().union(*(one.names for one in cards))
        return [
            f'[ext_resources_sriov] {option} names {name}, but no card with '
            'SR-IOV has this name'
            for option, names in (
                ('physical_networks', self._networks.keys()),
                ('excluded_devices', self._excluded),
            )
            for name in sorted(names - known)
        ]

    def _make(
        self,
        address: str,
        card: sysfs.PhysicalFunction,
        own: owners.FunctionOwners,
        holders: assignments.DeviceAssignments,
        is_unknown: bool,
    ) -> tuple[host_provider.HostProvider | None, list[str]]:
        """Return a card's provider, and what is left out of it.

        :param is_unknown: whether the card is there, but could not be read
            since the start: then servers have what they hold
        """
        ours, left_out = owners.sort(own, card)
        there = {one.address for one in card.functions}
        if is_unknown:
            there = set(holders.names.get(address, ()))
        lines = [
            f'{owners.describe(some)} of {address} are left out: {reason}'
            for reason, some in left_out.items()
        ]
        made = counted.make_provider(
            address,
            holders,
            ours={one.address for one in ours},
            there=there,
            used={one.address for one in ours if one.is_used},
            cpus=bitmask.format_list(card.cpus),
            traits=traits.find(card, physnets.find(self._networks, card)),
            is_unread=is_unknown,
        )
        return made, lines
