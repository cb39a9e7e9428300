# SPDX-License-Identifier: Apache-2.0

"""Packages of kernels by their names."""

from tests import base
from tools.kernel import archive


class ArchiveTest(base.TestCase):
    def test_the_newest_kernel_of_each_series_is_taken(self) -> None:
        names = (
            'linux-image-6.1.0-9-amd64',
            'linux-image-6.1.0-50-amd64',
            'linux-image-6.1.0-60-cloud-amd64',
            'linux-image-6.1.0-60-rt-amd64',
            'linux-image-6.1.0-60-amd64-unsigned',
            'linux-image-6.12.9+deb12-amd64',
            'linux-image-6.12.95+deb13-amd64',
            'linux-image-amd64',
        )

        self.assertEqual(
            {
                '6.1': 'linux-image-6.1.0-50-amd64',
                '6.12': 'linux-image-6.12.95+deb13-amd64',
            },
            archive.choose(names),
        )
