# SPDX-License-Identifier: Apache-2.0

"""SR-IOV functions, as the kernel shows them in sysfs. Only reads.

Files vanish while they are read: a card is unplugged, or its virtual functions
are made anew. What was read of such a card is not used at all. A single
function that was unplugged is not there, and its card is.

Sources: kernel documentation, *ABI/testing/sysfs-bus-pci* and
*sysfs-class-net*; *netdevice(7)*; in the kernel, *net/ipv6/addrconf.c* and
*net/ipv6/route.c*.
"""

from collections.abc import Container, Iterator
import contextlib
import dataclasses
import fcntl
import os
import re
import socket
import struct

from nova_ext_resources.drivers.devices import files

#: The name of an interface: 15 letters at most (*IFNAMSIZ*).
_INTERFACE = re.compile(r'[A-Za-z0-9_.-]{1,15}')

#: First byte of the class code of network controllers.
_NETWORK = '0x02'

#: Of the port of a card that stands for a virtual or a sub-function of it.
_REPRESENTOR = re.compile(r'(c[0-9]+)?pf[0-9]+(vf|sf)[0-9]+')

#: What the kernel adds to an interface that others of the host are made of:
#: bonds, bridges, VLANs, macvlans.
_UPPER = ('master', 'upper_')

#: File -> where each line has an interface, and an address of it or behind it.
_NETWORK_FILES = (('route', 0, 1), ('if_inet6', -1, 0), ('ipv6_route', -1, 0))

#: Begins the IPv6 addresses that each interface has when it is up.
_OF_THE_LINK = ('fe80', 'ff')

#: Asks for an IPv4 address of an interface (*SIOCGIFADDR*). It may have one
#: and no route in the main table, which is all that the file has.
_GET_ADDRESS = 0x8915


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VirtualFunction:
    """One virtual function.

    :ivar product_id: four hexadecimal digits, as is ``vendor_id``
    :ivar driver: of the kernel, such as ``vfio-pci``; '' without one
    :ivar interfaces: names of its network interfaces on the host
    :ivar is_used: whether the host itself uses one of them
    """

    address: str
    vendor_id: str
    product_id: str
    driver: str = ''
    interfaces: frozenset[str] = frozenset()
    is_used: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A network interface of a physical function itself.

    :ivar speed: Mbit/s; None while that is not known, as without a link
    """

    name: str
    speed: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalFunction:
    """One physical function, and its virtual ones.

    :ivar cpus: CPUs of its NUMA node; empty when it is not known
    :ivar interfaces: names of all interfaces, also those that stand for
        virtual functions
    :ivar is_switchdev: whether its switch has a port for each of them
    :ivar is_dead: whether the card does not answer any more
    """

    address: str
    driver: str = ''
    cpus: frozenset[int] = frozenset()
    ports: tuple[Port, ...] = ()
    interfaces: frozenset[str] = frozenset()
    functions: tuple[VirtualFunction, ...] = ()
    is_switchdev: bool = False
    has_rdma: bool = False
    is_dead: bool = False

    @property
    def names(self) -> frozenset[str]:
        """Addresses and interfaces of it and of its virtual functions."""
        return frozenset({self.address, *self.interfaces}).union(
            *({one.address, *one.interfaces} for one in self.functions)
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SriovScan:
    """All that was read.

    :ivar functions: by address
    :ivar others: interfaces of PCI devices without SR-IOV
    :ivar unsteady: address of what could not be read this time -> why
    """

    functions: tuple[PhysicalFunction, ...] = ()
    others: frozenset[str] = frozenset()
    unsteady: dict[str, str] = dataclasses.field(default_factory=dict)


def parse_device(text: str) -> str:
    """Return a PCI address as sysfs has it, or the name of an interface.

    :raises ValueError: the text is neither
    """
    if address := files.parse_address(text):
        return address
    if _INTERFACE.fullmatch(text):
        return text
    raise ValueError(
        f'{text!r} is neither a PCI address, such as 0000:3b:00.0, nor the '
        'name of an interface'
    )


def read(root: str) -> SriovScan:
    """Read all network cards with SR-IOV.

    :param root: ``/sys``
    :raises OSError: there is no list of devices, or nothing is in it
    """
    folder = f'{root}/bus/pci/devices'
    names = sorted(os.listdir(folder))
    if not names:
        raise FileNotFoundError(f'{folder} is empty')
    functions, others, unsteady = [], set[str](), {}
    routed = _list_routed(f'{root}/../proc/net')
    for name in names:
        if not files.ADDRESS.fullmatch(name):
            shown = files.show(name)
            unsteady[shown] = (
                f'{folder} contains {shown}, which is not a PCI address'
            )
            continue
        path = f'{folder}/{name}'
        try:
            if _is_physical(path):
                functions.append(_read_physical(root, path, name, routed))
            elif not files.read_link(path, 'physfn'):
                others.update(files.list_folder(f'{path}/net'))
        except (OSError, ValueError, files.Unsteady) as err:
            # Unplugged meanwhile: it is as if it had never been there.
            if os.path.lexists(path):
                unsteady[name] = str(err)
    return SriovScan(
        functions=tuple(functions),
        others=frozenset(others),
        unsteady=unsteady,
    )


def _is_physical(path: str) -> bool:
    return os.path.exists(f'{path}/sriov_totalvfs') and files.read(
        path, 'class'
    ).startswith(_NETWORK)


def _list_routed(folder: str) -> frozenset[str]:
    """Return the interfaces with an IPv6 address, or with a route.

    :param folder: ``/proc/net``
    :raises OSError: they cannot be read
    """
    found = set()
    for name, interface, address in _NETWORK_FILES:
        # Without IPv6, the kernel has the first file only.
        with (
            contextlib.suppress(FileNotFoundError),
            open(f'{folder}/{name}', errors='surrogateescape') as file,
        ):
            found |= {
                words[interface]
                for words in map(str.split, file)
                if words[address:]
                and not words[address].startswith(_OF_THE_LINK)
            }
    return frozenset(found)


def _read_physical(
    root: str, path: str, address: str, routed: Container[str]
) -> PhysicalFunction:
    """Read a card, and make sure that it has not changed meanwhile.

    :param routed: interfaces that the host has a route by
    :raises (OSError, ValueError, files.Unsteady): it has
    """
    is_dead = files.is_dead(path)
    before = int(files.read(path, 'sriov_numvfs'))
    found = (
        () if is_dead else tuple(_read_virtual(root, path, address, routed))
    )
    after = int(files.read(path, 'sriov_numvfs'))
    if not is_dead and not before == after == len(found):
        raise files.Unsteady(
            f'{path}: sriov_numvfs was {before} and is now {after}, but the '
            f'device has {len(found)} virtual functions'
        )
    node = int(files.read_optional(path, 'numa_node', '-1'))
    names = files.list_folder(f'{path}/net')
    ports = [one for one in names if not _is_representor(path, one)]
    return PhysicalFunction(
        address=address,
        driver=files.read_link(path, 'driver'),
        cpus=files.read_cpus(root, node),
        ports=tuple(
            Port(name=one, speed=_read_speed(f'{path}/net/{one}'))
            for one in ports
        ),
        interfaces=frozenset(names),
        functions=tuple(filter(None, found)),
        is_switchdev=len(ports) < len(names),
        has_rdma=bool(files.list_folder(f'{path}/infiniband')),
        is_dead=is_dead,
    )


def _read_virtual(
    root: str, path: str, address: str, routed: Container[str]
) -> Iterator[VirtualFunction | None]:
    """Read the functions of a card; None for one that was unplugged."""
    for name in sorted(os.listdir(path)):
        if not re.fullmatch('virtfn[0-9]+', name):
            continue
        own = os.path.basename(os.readlink(f'{path}/{name}'))
        folder = f'{root}/bus/pci/devices/{own}'
        if not os.path.lexists(folder):
            yield None
            continue
        if not files.ADDRESS.fullmatch(own) or (
            files.read_link(folder, 'physfn') != address
        ):
            raise files.Unsteady(
                f'{path}/{name} does not link to a virtual function of this '
                'device'
            )
        interfaces = _list_interfaces(os.path.realpath(folder))
        yield VirtualFunction(
            address=own,
            vendor_id=files.read(folder, 'vendor').removeprefix('0x'),
            product_id=files.read(folder, 'device').removeprefix('0x'),
            driver=files.read_link(folder, 'driver'),
            interfaces=frozenset(map(os.path.basename, interfaces)),
            is_used=any(_is_used(one, routed) for one in interfaces),
        )


def _list_interfaces(folder: str) -> list[str]:
    """Return the folders of a function's interfaces.

    They are its own, or those of a device at a bus below it, as of virtio.
    """
    return [
        f'{path}/{one}'
        for path, names, _files in os.walk(folder)
        if os.path.basename(path) == 'net'
        for one in names
    ]


def _is_used(folder: str, routed: Container[str]) -> bool:
    """Return whether the host itself uses an interface."""
    name = os.path.basename(folder)
    shown = files.list_folder(folder)
    if name in routed or any(one.startswith(_UPPER) for one in shown):
        return True
    request = struct.pack('16s16x', os.fsencode(name)[:15])
    with contextlib.suppress(OSError), socket.socket() as asked:
        return bool(fcntl.ioctl(asked, _GET_ADDRESS, request))
    return False


def _is_representor(path: str, interface: str) -> bool:
    try:
        name = files.read(f'{path}/net/{interface}', 'phys_port_name')
    except OSError:
        # Drivers without such names refuse (EOPNOTSUPP), or have no file.
        return False
    return bool(_REPRESENTOR.fullmatch(name))


def _read_speed(path: str) -> int | None:
    try:
        speed = int(files.read(path, 'speed'))
    except (OSError, ValueError):
        # The interface is down.
        return None
    return speed if speed > 0 else None
