# SPDX-License-Identifier: Apache-2.0

"""Which PCI functions of the host the domain of a guest has, or lacks.

Without those of Neutron's ports, which are interfaces
(https://libvirt.org/formatdomain.html#host-device-assignment).
"""

from collections.abc import Collection
from xml.etree import ElementTree

from nova_ext_resources import exception

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


def check(
    xml: str, wanted: Collection[str], *, host: str, server_uuid: str
) -> None:
    """Refuse a guest without all that its server holds.

    :param wanted: addresses of what it holds
    :raises EnforcementFailed: its domain lacks one
    """
    missing = sorted({*wanted} - find(xml)) if wanted else []
    if missing:
        raise exception.EnforcementFailed(
            enforcer='libvirt',
            host=host,
            consumer_uuid=server_uuid,
            reason='the domain of the server was written before the server '
            f'claimed {" and ".join(missing)}, so the guest is not started. '
            'Reboot the server hard, so that Nova writes its domain again',
        )
