# SPDX-License-Identifier: Apache-2.0

"""Which PCI functions of the host the domain of a guest has.

Without those of Neutron's ports, which are interfaces
(https://libvirt.org/formatdomain.html#host-device-assignment).
"""

from xml.etree import ElementTree

_ADDRESSES = "./devices/hostdev[@type='pci']/source/address"


def find(xml: str) -> frozenset[str]:
    """Return the addresses, as sysfs has them.

    :param xml: of the domain
    :raises (KeyError, ValueError): an address is none
    :raises ElementTree.ParseError: it is no XML
    """
    # Nova or libvirt has written it.
    tree = ElementTree.fromstring(xml)  # noqa: S314
    return frozenset(
        '{:04x}:{:02x}:{:02x}.{:x}'.format(
            *(
                int(one.attrib[name], 16)
                for name in ('domain', 'bus', 'slot', 'function')
            )
        )
        for one in tree.findall(_ADDRESSES)
    )
