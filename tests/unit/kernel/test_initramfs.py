# SPDX-License-Identifier: Apache-2.0

"""The archive that a kernel starts from."""

from dev.kernel.boot import initramfs
from tests import base


class InitramfsTest(base.TestCase):
    def test_an_entry_is_as_the_kernel_reads_it(self) -> None:
        made = initramfs.pack('init', b'abcde', mode=0o755)

        fields = [
            int(made[6 + 8 * number : 14 + 8 * number], 16)
            for number in range(13)
        ]
        self.assertEqual(b'070701', made[:6])
        self.assertEqual(0o100755, fields[1])
        self.assertEqual((5, 5), (fields[6], fields[11]))
        # Head and data begin at multiples of four.
        self.assertEqual(b'init\0\0', made[110:116])
        self.assertEqual(b'abcde\0\0\0', made[116:])
