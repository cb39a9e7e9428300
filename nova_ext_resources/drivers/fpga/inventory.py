# SPDX-License-Identifier: Apache-2.0

"""Regions of FPGAs that servers of this host may have.

One provider for each region, unlike virtual functions: what is programmed into
a region is a trait, traits are of providers, and the regions of a card differ
in it. A card has few.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, TypeAlias

from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources.conf.drivers import fpga
from nova_ext_resources.conf import values
from nova_ext_resources.drivers import base
from nova_ext_resources.drivers.devices import assignments
from nova_ext_resources.drivers.devices import counted
from nova_ext_resources.drivers.devices import device_spec
from nova_ext_resources.drivers.fpga import owners
from nova_ext_resources.drivers.fpga import sysfs
from nova_ext_resources.drivers.fpga import traits
from nova_ext_resources import log_on_change
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import resource

LOG = logging.getLogger(__name__)

#: Begins the keys of providers.
PREFIX = 'FPGA_'

#: A region, and the card that it is of.
Found: TypeAlias = tuple[sysfs.Region, sysfs.Card]


class FpgaInventory(base.InventoryProvider):
    """Regions of FPGAs.

    A card that changes while it is read is reported as it was before. A
    region that is gone is reported as long as a server holds it.

    :param nova: Nova's own options, by group
    """

    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = fpga.OPTS
    NOVA_OPTIONS: ClassVar[Mapping[str, tuple[cfg.Opt, ...]]] = fpga.NOVA_OPTS

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
        self._owners = _make_owners(
            nova['pci'].device_spec if nova else (), options.excluded_devices
        )
        #: Each card as it was when it last held still.
        self._cards: dict[str, sysfs.Card] = {}
        #: Name of a region -> of those that it is a part of, also when it is
        #: gone.
        self._inside: dict[str, frozenset[str]] = {}
        self._left_out: frozenset[str] = frozenset()
        prefix = f'Host {host}: inventory provider fpga: '
        self._faults = log_on_change.LogOnChange(prefix)
        self._notes = log_on_change.LogOnChange(prefix)

    @property
    def left_out(self) -> frozenset[str]:
        return self._left_out

    def definitions(self) -> tuple[resource.ResourceDefinition, ...]:
        return (
            resource.ResourceDefinition(
                name=self._class,
                type=counted.TRACKER,
                units='regions',
                description='Regions of an FPGA that can be programmed, each '
                'with its name.',
            ),
        )

    def discover(self) -> tuple[host_provider.HostProvider, ...]:
        # A server that comes or goes in between is in one of both.
        before = self.list_entries()
        seen = self._read()
        holders = assignments.DeviceAssignments(
            {**before, **self.list_entries()}, PREFIX, self._class
        )
        found = {card.name: card for card in seen.cards}
        for name in seen.unsteady.keys() & self._cards.keys():
            found[name] = self._cards[name]
        self._cards = found
        self._left_out = frozenset(
            f'{PREFIX}{one}'
            for one in (
                *seen.unsteady,
                *(one for one in holders.names if self._is_unread(one, seen)),
            )
        )
        regions = _index(found.values())
        self._inside.update(
            (name, card.inside) for name, (_region, card) in regions.items()
        )
        made = [
            self._make(name, regions.get(name), seen, holders)
            for name in sorted(regions.keys() | holders.names.keys())
        ]
        self._faults.log_new(
            LOG.warning, [*_list_faults(seen), *self._list_misnamed()]
        )
        self._notes.log_new(
            LOG.info,
            [*self._list_notes(regions.values()), *_list_others(seen)],
        )
        return tuple(one for one in made if one)

    def _read(self) -> sysfs.FpgaScan:
        """Read the host.

        :raises DiscoveryFailed: nothing can be reported this time
        """
        with base.discovering('fpga', OSError, ValueError):
            return sysfs.read(self.options.path)

    def _make(
        self,
        name: str,
        found: Found | None,
        seen: sysfs.FpgaScan,
        holders: assignments.DeviceAssignments,
    ) -> host_provider.HostProvider | None:
        """Return the provider of a region; None where it has none.

        :param found: the region and its card; None while the host has none
        """
        if found is None:
            # Nor is a region lost that others are in by now.
            is_there = (
                self._is_unread(name, seen)
                or name in seen.passed
                or any(name in card.inside for card in self._cards.values())
            )
            there = {name} if is_there else set[str]()
            return counted.make_provider(
                name, holders, ours=set(), there=there, is_unread=True
            )
        region, card = found
        ours = set() if self._owners.find(region, card) else {name}
        return counted.make_provider(
            name,
            holders,
            ours=ours,
            there={name},
            used=ours if self._is_shared(name, card, holders) else set(),
            cpus=bitmask.format_list(card.cpus),
            traits=traits.find(region, card, seen.managers),
        )

    def _is_unread(self, name: str, seen: sysfs.FpgaScan) -> bool:
        """Return whether a region is one of a card never read since the start.

        Of these, servers have what they hold.
        """
        return any(
            seen.is_of(name, one)
            for one in seen.unsteady.keys() - self._cards.keys()
        )

    def _is_shared(
        self,
        name: str,
        card: sysfs.Card,
        holders: assignments.DeviceAssignments,
    ) -> bool:
        """Return whether a server holds what a region is in, or a part of it.

        Parts that are gone since before the start are known by what the
        kernel calls them: ``OUTER:NODE``.
        """
        return any(
            one in card.inside
            or name in self._inside.get(one, ())
            or one.startswith(f'{name}:')
            for one in holders.names.keys() | holders.others.keys()
        )

    def _list_misnamed(self) -> list[str]:
        return [
            f'[ext_resources_fpga] excluded_devices names {name}, but no FPGA '
            'of this host has this name'
            for name in self._owners.list_unknown(self._cards.values())
        ]

    def _list_notes(self, regions: Iterable[Found]) -> Iterator[str]:
        """Return what regions are, or why they are left out."""
        for region, card in regions:
            if reason := self._owners.find(region, card):
                yield f'{region.name} is left out: {reason}'
            else:
                yield f'{region.name} is {region.node} in sysfs'
        for card in self._cards.values():
            missing = card.ports - len(card.regions)
            if missing > 0:
                yield (
                    f'{missing} more ports of {card.name} are not reported: '
                    'the ports are released for virtual functions, or the '
                    'card does not implement them'
                )


def _index(cards: Iterable[sysfs.Card]) -> dict[str, Found]:
    return {one.name: (one, card) for card in cards for one in card.regions}


def _list_faults(seen: sysfs.FpgaScan) -> Iterator[str]:
    for name, reason in seen.unsteady.items():
        yield (
            f'{name} cannot be read ({reason}); the last known state is '
            'still used'
        )
    for card in seen.cards:
        if card.is_dead:
            yield f'{card.name} does not answer: the card has failed'
    for one in seen.managers:
        if one.has_failed:
            yield (
                f'FPGA manager {one.key} ({one.name}) has failed to program '
                f'a region: its state is "{one.state}"'
            )


def _list_others(seen: sysfs.FpgaScan) -> Iterator[str]:
    """Explain why nothing is found, or not all."""
    if not seen.cards and not seen.unsteady:
        yield (
            'no FPGA region found: class/fpga_region of sysfs is empty, or '
            'does not exist'
        )
    for one in seen.others:
        yield (
            f'accelerator {one.address} ({one.vendor_id}:{one.product_id}) '
            f'has no FPGA region: its driver ({one.driver or "none"}) '
            'registers no region with the kernel. The accelerator is not '
            'reported; to offer it as a PCI device, use [pci] device_spec of '
            'Nova'
        )


def _make_owners(
    specs: Iterable[str], names: Iterable[str]
) -> owners.RegionOwners:
    """Read what options leave to others.

    :raises InvalidConfiguration: an option cannot be used
    """
    with values.checked('[pci] device_spec', specs):
        nova = device_spec.parse(specs)
    with values.checked('[ext_resources_fpga] excluded_devices', names):
        return owners.RegionOwners(nova=nova, excluded=owners.parse(names))
