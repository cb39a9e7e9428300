# SPDX-License-Identifier: Apache-2.0

"""Regions of FPGAs, as the kernel shows them in sysfs. Only reads.

Three shapes of ``class/fpga_region`` are known. ``regionN`` and the numbers of
platform devices change with every start and are no names::

    DFL: a card with a Device Feature List, such as Intel's PACs
        .../0000:3b:00.0/fpga_region/region0                     the card
            dfl-port.0/afu_id                                    one of ours
            dfl-fme.0/dfl-fme-region.0/fpga_region/region1/compat_id

    a plain region, of a device tree
        .../soc/soc:base-fpga-region/fpga_region/region0         one of ours

    a plain region with others in it
        .../fpga_region/region0                                  no unit: its
            region0:pr0/fpga_region/region1                      parts are

A port of a DFL card can be released from its physical function and then shows
below a virtual function. It is the same part of the card, and keeps its name.
Regions within a plain one come and go with overlays of the device tree; they
are parts of the fabric that a server may hold as a whole.

What of a DFL card is programmed is what is behind a port. The region below its
management engine (FME) is how, and the same part of the card.

Sources: kernel documentation, *fpga/dfl*, and in *ABI/testing* the pages
*sysfs-class-fpga-region*, *sysfs-platform-dfl-port* and
*sysfs-platform-dfl-fme*.
"""

from collections.abc import Iterable, Mapping
import dataclasses
import os
import re

from nova_ext_resources.drivers.devices import files
from nova_ext_resources.drivers.devices import functions as pci_functions
from nova_ext_resources.drivers.fpga import managers as managers_mod
from nova_ext_resources.drivers.fpga import pci as pci_mod

#: Cards in the package of a processor, by their ids; of these alone
#: ``socket_id`` means something.
_IN_PACKAGE = frozenset({('8086', 'bcbd'), ('8086', 'bcc0')})


def read_cpus(
    root: str, path: str, device: pci_mod.Pci | None, engines: Iterable[str]
) -> frozenset[int]:
    """Return the CPUs of a card's NUMA node; none when it is not known.

    :param path: of the card's own region
    :param engines: names of its management engines
    :raises (OSError, ValueError): they cannot be read
    """
    cpus = files.read_cpus(root, _read_node(root, path))
    if device and (device.vendor_id, device.product_id) in _IN_PACKAGE:
        for one in () if cpus else engines:
            # Kernels before 5.4 do not say.
            socket = int(
                files.read_optional(f'{path}/{one}', 'socket_id', '-1')
            )
            cpus = _read_package(root, socket)
    return cpus


def _read_node(root: str, path: str) -> int:
    """Return the NUMA node of the next device above; -1 if none says."""
    top = os.path.realpath(f'{root}/devices')
    folder = path
    while folder.startswith(top):
        if node := files.read_optional(folder, 'numa_node'):
            return int(node)
        folder = os.path.dirname(folder)
    return -1


def _read_package(root: str, number: int) -> frozenset[int]:
    """Return the CPUs of a processor that are online."""
    folder = f'{root}/devices/system/cpu'
    found = set()
    for one in os.listdir(folder):
        topology = f'{folder}/{one}/topology'
        if re.fullmatch('cpu[0-9]+', one) and os.path.isdir(topology):
            if int(files.read(topology, 'physical_package_id')) == number:
                found.add(int(one.removeprefix('cpu')))
    return frozenset(found)


#: Of devices of a device tree: letters of node names, and what the kernel
#: makes of them.
_DEVICE = re.compile(r'[A-Za-z0-9][A-Za-z0-9,._+@:-]{0,47}')

#: What the name of a resource provider cannot have.
_UNFIT = re.compile(r'[^A-Za-z0-9_.:-]')

_REGION = re.compile('region[0-9]+')
_PORT = re.compile('dfl-port[.][0-9]+')
_ENGINE = re.compile('dfl-fme[.][0-9]+')

#: Of cards with a Device Feature List.
_DFL_DRIVER = 'dfl-pci'

#: The id of a port among those of its card.
_NUMBER = re.compile('[0-9]{1,4}')

#: An id of 128 bits.
_ID = re.compile('[0-9a-f]{32}')


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """One region that a server can have.

    :ivar name: the same after every start
    :ivar node: what the kernel calls it now, such as ``dfl-port.0``
    :ivar function_id: of what is programmed into it, 32 hexadecimal digits;
        '' when it does not say
    """

    name: str
    node: str
    function_id: str = ''


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A device with regions: a PCI card, or a device of a device tree.

    :ivar name: its PCI address, or what the device tree calls it
    :ivar pci: None for a device that is no PCI device
    :ivar cpus: CPUs of its NUMA node; empty when it is not known
    :ivar region_ids: what an image for its regions must be made for, 32
        hexadecimal digits each
    :ivar inside: names of the regions that it is a part of
    :ivar ports: how many ports it has, those of virtual functions too; 0
        where it does not say
    :ivar is_dead: whether the card does not answer any more
    """

    name: str
    pci: pci_mod.Pci | None = None
    cpus: frozenset[int] = frozenset()
    regions: tuple[Region, ...] = ()
    region_ids: frozenset[str] = frozenset()
    inside: frozenset[str] = frozenset()
    ports: int = 0
    is_dead: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FpgaScan:
    """All that was read.

    :ivar unsteady: name of what could not be read this time -> why
    :ivar functions: name of that -> the physical function that it is of
    :ivar passed: PCI functions that guests have: their regions do not show
    :ivar others: accelerators without a region
    """

    cards: tuple[Card, ...] = ()
    unsteady: Mapping[str, str] = dataclasses.field(default_factory=dict)
    functions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    passed: frozenset[str] = frozenset()
    managers: tuple[managers_mod.Manager, ...] = ()
    others: tuple[pci_mod.Pci, ...] = ()

    def is_of(self, region: str, card: str) -> bool:
        """Return whether a region would be one of a card that is unsteady."""
        function = self.functions.get(card, card)
        return region == card or bool(
            re.fullmatch(f'{re.escape(function)}-port[0-9]+', region)
        )


def read(root: str) -> FpgaScan:
    """Read all cards with regions.

    :param root: ``/sys``
    :raises OSError: it cannot be read, or nothing is in it
    """
    if not os.listdir(f'{root}/class'):
        raise FileNotFoundError(f'{root}/class is empty')
    paths, unsteady = _find_paths(root)
    cards: dict[str, Card] = {}
    for path in _list_cards(paths.values()):
        name = _find_name(path)
        try:
            card = _read_card(root, path, name, paths.values())
            if name in cards or name in unsteady:
                raise files.Unsteady(
                    f'{path}: another card has the same name, {name}'
                )
            cards[name] = card
        except (OSError, ValueError, files.Unsteady) as err:
            # Unplugged meanwhile: it is as if it had never been there.
            if os.path.lexists(path):
                unsteady[name] = str(err)
                cards.pop(name, None)
    for name, reason in _find_doubles(cards.values()).items():
        unsteady[name] = reason
        del cards[name]
    return FpgaScan(
        cards=tuple(cards[name] for name in sorted(cards)),
        unsteady=unsteady,
        functions={
            one: pci_functions.find_card(root, one) for one in unsteady
        },
        passed=pci_functions.list_passed(root),
        managers=managers_mod.read(root),
        others=pci_mod.list_accelerators(
            root, {one.pci.address for one in cards.values() if one.pci}
        ),
    )


def _find_paths(root: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the folders of all regions by name, and what is none."""
    folder = f'{root}/class/fpga_region'
    devices = os.path.realpath(f'{root}/devices')
    paths, unsteady = {}, {}
    for name in files.list_folder(folder):
        path = os.path.realpath(f'{folder}/{name}')
        shown = files.show(name)
        if not os.path.lexists(f'{folder}/{name}'):
            # Unplugged meanwhile.
            continue
        if not _REGION.fullmatch(name):
            unsteady[shown] = (
                f'{folder} contains {shown}, which is not a region'
            )
        elif not path.startswith(f'{devices}/'):
            unsteady[name] = f'{folder}/{name} does not link to a device'
        elif not _DEVICE.fullmatch(_find_device(path)):
            device = files.show(_find_device(path))
            unsteady[name] = (
                f'{folder}/{name} links to {device}, which is not a valid name'
            )
        elif os.path.isdir(path):
            paths[name] = path
    return paths, unsteady


def _find_doubles(cards: Iterable[Card]) -> dict[str, str]:
    """Return the cards with a region that another has too, and why.

    A port is released, or given back, while the host is read.
    """
    by_region: dict[str, list[str]] = {}
    for card in cards:
        for one in card.regions:
            by_region.setdefault(one.name, []).append(card.name)
    return {
        name: f'{region} is a region of {" and ".join(names)}'
        for region, names in by_region.items()
        for name in names
        if len(names) > 1
    }


def _find_device(path: str) -> str:
    """Return the device of a region: ``DEVICE/fpga_region/region0``."""
    return os.path.basename(os.path.dirname(os.path.dirname(path)))


def _find_name(path: str) -> str:
    return _UNFIT.sub('_', _find_device(path))


def _list_cards(paths: Iterable[str]) -> list[str]:
    """Return the regions that are cards, or parts of none."""
    listed = sorted(set(paths))
    return [
        path
        for path in listed
        if not any(map(_ENGINE.fullmatch, path.split('/')))
        and (
            _list_nodes(path, _PORT)
            or _list_nodes(path, _ENGINE)
            or not any(one.startswith(f'{path}/') for one in listed)
        )
    ]


def _list_nodes(path: str, pattern: re.Pattern[str]) -> list[str]:
    return [one for one in files.list_folder(path) if pattern.fullmatch(one)]


def _read_card(root: str, path: str, name: str, paths: Iterable[str]) -> Card:
    """Read a card, and make sure that it has not changed meanwhile.

    :param path: of its own region
    :param paths: of all regions of the host
    :raises (OSError, ValueError, Unsteady): it has
    """
    device = pci_mod.find(root, path)
    if device and files.is_dead(f'{root}/bus/pci/devices/{device.parent}'):
        return Card(name=name, pci=device, is_dead=True)
    ports, engines = _list_nodes(path, _PORT), _list_nodes(path, _ENGINE)
    # The kernel makes the region of such a card first, and then the rest.
    has_list = ports or engines or (device and device.driver == _DFL_DRIVER)
    regions = (
        [
            _read_port(path, one, device.parent if device else name)
            for one in ports
        ]
        if has_list
        else [Region(name=name, node=os.path.basename(path))]
    )
    if len({one.name for one in regions}) < len(regions):
        raise ValueError(f'{path}: two ports have the same id')
    card = Card(
        name=name,
        pci=device,
        cpus=read_cpus(root, path, device, engines),
        regions=tuple(sorted(regions, key=lambda one: one.name)),
        region_ids=_read_region_ids(path, paths),
        inside=frozenset(
            _find_name(one) for one in paths if path.startswith(f'{one}/')
        ),
        ports=sum(
            int(files.read_optional(f'{path}/{one}', 'ports_num', '0'))
            for one in engines
        ),
    )
    if not os.path.isdir(path) or ports != _list_nodes(path, _PORT):
        raise files.Unsteady(f'{path}: its ports changed during the reading')
    return card


def _read_region_ids(path: str, paths: Iterable[str]) -> frozenset[str]:
    """Return the ids of a region and of those in it."""
    inner = [one for one in paths if f'{one}/'.startswith(f'{path}/')]
    found = (_read_id(one, 'compat_id') for one in inner)
    return frozenset(filter(None, found))


def _read_port(path: str, node: str, card: str) -> Region:
    folder = f'{path}/{node}'
    number = files.read(folder, 'id')
    if not _NUMBER.fullmatch(number):
        raise ValueError(f'{folder}/id: {files.show(number)} is not an id')
    return Region(
        name=f'{card}-port{number}',
        node=node,
        function_id=_read_id(folder, 'afu_id'),
    )


def _read_id(folder: str, name: str) -> str:
    """Return an id; '' where there is none.

    :raises (OSError, ValueError): it cannot be read, or is none
    """
    try:
        found = files.read(folder, name).lower()
    except FileNotFoundError:
        return ''
    if not _ID.fullmatch(found):
        raise ValueError(f'{folder}/{name}: {files.show(found)} is not an id')
    return found
