# SPDX-License-Identifier: Apache-2.0

"""Which regions are not this package's to allocate. Pure."""

from collections.abc import Iterable
import dataclasses
import re

from nova_ext_resources.drivers.devices import device_spec
from nova_ext_resources.drivers.devices import files
from nova_ext_resources.drivers.fpga import sysfs

_NAME = re.compile('[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}')


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Parent:
    address: str
    interfaces: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RegionOwners:
    """Who else has regions of this host.

    :ivar excluded: names of regions and of cards that the operator keeps for
        the host
    """

    nova: tuple[device_spec.DeviceSpec, ...] = ()
    excluded: frozenset[str] = frozenset()

    def find(self, region: sysfs.Region, card: sysfs.Card) -> str:
        """Explain why a region is left out; '' if it is not."""
        names = {region.name, card.name, *card.inside}
        if card.pci:
            parent = _Parent(address=card.pci.parent)
            names.add(parent.address)
            if any(one.matches(card.pci, parent) for one in self.nova):
                return f'Nova allocates {card.name} ([pci] device_spec)'
        if names & self.excluded:
            return '[ext_resources_fpga] excluded_devices names it'
        return ''

    def list_unknown(self, cards: Iterable[sysfs.Card]) -> list[str]:
        """Return what the option names and no card has."""
        known: set[str] = set()
        for card in cards:
            known |= {card.name, *card.inside}
            known |= {one.name for one in card.regions}
            known |= {card.pci.parent} if card.pci else set()
        return sorted(self.excluded - known)


def parse(names: Iterable[str]) -> frozenset[str]:
    """Read names of cards and regions.

    :raises ValueError: one is none
    """
    found = set()
    for one in names:
        if not _NAME.fullmatch(one):
            raise ValueError(
                f'{one!r} is neither a PCI address, such as 0000:3b:00.0, nor '
                'the name of a region, such as 0000:3b:00.0-port0'
            )
        # Of a port, the part before its number is an address.
        card, dash, port = one.partition('-port')
        found.add(f'{files.parse_address(card) or card}{dash}{port}')
    return frozenset(found)
