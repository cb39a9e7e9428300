# SPDX-License-Identifier: Apache-2.0

"""libvirt takes what the driver writes for a guest with a device.

No machine of the tests has the device. So none of these guests ever runs.
"""

import pathlib
import types
from typing import Any
from xml.etree import ElementTree

from nova import objects
from nova.virt.libvirt import config
from oslo_utils.fixture import uuidsentinel
import testtools

from nova_ext_resources.virt.driver import hostdevs
from tests import base
from tests.functional.libvirt import daemon

_OBSTACLE = daemon.find_obstacle()

#: Of no machine: libvirt would take it from that.
_FUNCTION = 'fffe:ff:1f.7'


@testtools.skipIf(bool(_OBSTACLE), _OBSTACLE)
class HostdevTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        libvirtd = daemon.Libvirtd(pathlib.Path(self.make_folder()), 'lvh1')
        libvirtd.start()
        self.addCleanup(libvirtd.stop)
        connection = libvirtd.connect()
        self.addCleanup(connection.close)
        self.domain: Any = connection.defineXML(self.write())

    def write(self) -> str:
        objects.register_all()
        guest = config.LibvirtConfigGuest()
        guest.virt_type = 'qemu'
        guest.name, guest.uuid = 'guest', uuidsentinel.server
        guest.memory, guest.vcpus = 65536, 1
        guest.os_type = 'hvm'
        driver: Any = object.__new__(hostdevs.HostdevsMixin)
        driver._ext_claims = types.SimpleNamespace(
            list_functions=lambda _instance: (_FUNCTION,)
        )
        # Nova has allocated none itself.
        instance = types.SimpleNamespace(get_pci_devices=lambda source: [])
        driver._guest_add_pci_devices(guest, instance)
        return str(guest.to_xml())

    def test_the_domain_has_the_device(self) -> None:
        # As libvirt has read it.
        found = ElementTree.fromstring(self.domain.XMLDesc())
        [made] = found.findall('./devices/hostdev')

        self.assertEqual(
            {'mode': 'subsystem', 'type': 'pci', 'managed': 'yes'}, made.attrib
        )
        address = made.find('./source/address')
        assert address is not None
        self.assertEqual(
            {
                'domain': '0xfffe',
                'bus': '0xff',
                'slot': '0x1f',
                'function': '0x7',
            },
            address.attrib,
        )

    def test_no_guest_runs_without_it(self) -> None:
        import libvirt

        # Without an IOMMU, libvirt says that the host has none.
        self.assertRaises(libvirt.libvirtError, self.domain.create)

        self.assertEqual(0, self.domain.isActive())
