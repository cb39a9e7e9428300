# SPDX-License-Identifier: Apache-2.0

"""Tests of what Nova reports itself; functional ones compare with Nova's."""

from nova_ext_resources.drivers.devices import device_spec
from nova_ext_resources.drivers.sriov import sysfs
from tests import base

VF = sysfs.VirtualFunction(
    address='0000:3b:02.1',
    vendor_id='8086',
    product_id='10ed',
    interfaces=frozenset({'ens1f0v0'}),
)
CARD = sysfs.PhysicalFunction(
    address='0000:3b:00.0',
    interfaces=frozenset({'ens1f0'}),
    functions=(VF,),
)

#: Value of the option -> whether it has the function.
CASES = {
    '{}': True,
    '{"vendor_id": "8086"}': True,
    '{"vendor_id": "8086", "product_id": "10ed"}': True,
    '{"vendor_id": "8086", "product_id": "10EE"}': False,
    '{"vendor_id": "15b3"}': False,
    '{"address": "0000:3b:02.1"}': True,
    '{"address": "0000:3B:02.1"}': True,
    '{"address": "0000:3b:02.2"}': False,
    '{"address": "*:3b:*.*"}': True,
    '{"address": "3b:02.*"}': True,
    '{"address": "3b:2.1"}': True,
    '{"address": ":02."}': True,
    '{"address": ".1"}': True,
    '{"address": ".2"}': False,
    '{"address": "0000:3b:00.0"}': True,
    '{"address": "0000:3b:00.*"}': False,
    '{"address": "0000:3b:00.1"}': False,
    '{"address": {"bus": "3b", "slot": "0[0-2]"}}': True,
    '{"address": {"domain": ".*", "bus": "3b", "function": "[2-7]"}}': False,
    '{"address": {"domain": "0000", "bus": "3b", "slot": "00",'
    ' "function": "0"}}': True,
    '{"devname": "ens1f0", "physical_network": "physnet1"}': True,
    '{"devname": "ens1f0v0"}': True,
    '{"devname": "ens1f1"}': False,
    '[{"vendor_id": "15b3"}, {"address": "*:3b:02.*"}]': True,
    '[]': False,
}


class DeviceSpecTest(base.TestCase):
    def test_what_a_value_matches(self) -> None:
        for text, expected in CASES.items():
            with self.subTest(text=text):
                specs = device_spec.parse([text])
                found = any(one.matches(VF, CARD) for one in specs)
                self.assertEqual(expected, found)

    def test_values_are_added_up(self) -> None:
        specs = device_spec.parse(['{"vendor_id": "15b3"}', '{}'])

        self.assertEqual(2, len(specs))

    def test_what_is_not_valid_is_named(self) -> None:
        for text in (
            'x',
            '7',
            '[7]',
            '{"vendor_id": "zz"}',
            '{"address": "a:b:c:d.e"}',
            '{"address": {"bus": "["}}',
            '{"address": {"bus": 7}}',
            '{"address": "0000:3b:00.0", "devname": "ens1f0"}',
        ):
            with self.subTest(text=text):
                error = self.assertRaises(
                    ValueError, device_spec.parse, ['{}', text]
                )
                self.assertIn(text, str(error))
