# SPDX-License-Identifier: Apache-2.0

import errno
import os

from nova_ext_resources.drivers.resctrl.kernel import errors
from tests import base


def explain(status: str) -> str:
    failed = OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    return str(errors.from_os_error('write schemata', failed, status))


class FromOsErrorTest(base.TestCase):
    def test_the_reason_of_the_kernel_is_quoted(self) -> None:
        text = explain('Mask f0f is not contiguous\n')

        self.assertIn('the kernel says: Mask f0f is not contiguous', text)

    def test_a_status_that_is_no_reason_is_left_out(self) -> None:
        for status in ('', '\n', 'ok\n'):
            with self.subTest(status=status):
                self.assertNotIn('the kernel says', explain(status))
