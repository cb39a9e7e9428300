# SPDX-License-Identifier: Apache-2.0

import os

from dev.cloud import mounts
from tests import base

_TABLE = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:33 / /tmp rw - tmpfs tmpfs rw
41 40 0:34 / /tmp/cloud/a\\040b rw - fuse.resctrl resctrl rw
42 41 0:35 / /tmp/cloud/a\\040b/c rw - tmpfs tmpfs rw
43 40 0:36 / /tmp/cloudy rw - tmpfs tmpfs rw
44 40 0:37 / /tmp/cloud rw - tmpfs tmpfs rw
"""


class MountsTest(base.TestCase):
    def write(self, name: str, text: str) -> str:
        path = os.path.join(self.make_folder(), name)
        with open(path, 'w') as file:
            file.write(text)
        return path

    def test_what_is_below_is_listed_from_the_inside_out(self) -> None:
        table = self.write('mountinfo', _TABLE)

        found = mounts.list_below('/tmp/cloud', table)

        self.assertEqual(('/tmp/cloud/a b/c', '/tmp/cloud/a b'), found)

    def test_nothing_is_mounted_below_a_new_folder(self) -> None:
        self.assertEqual((), mounts.list_below(self.make_folder()))

    def test_a_folder_is_removed_with_what_is_in_it(self) -> None:
        path = self.write('file', 'text')

        mounts.remove(os.path.dirname(path))
        mounts.remove(os.path.dirname(path))

        self.assertFalse(os.path.exists(os.path.dirname(path)))
